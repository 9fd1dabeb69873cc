"""One variable in two slots of an operator is two copies of it.

Every pair of operands that can have one type, and all operands of a variadic slot, of each
example of each operator: one variable is both, where rows are padded in every way that there
is. Values and gradients are those of two variables with the same numbers, on an array of these
rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any, TypeAlias

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.errors import BracesError
from braces.extend.types import FLOAT64, Dim, Size, TensorType
from braces.target import TARGETS
from tests.ops.cases import Case, cases
from tests.ops.rows.test_row_sweep import ALWAYS, DRAWN, MASK, Item, Sheet, row_axes
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

EQUATIONS = (
    "bi,ci->b", "bi,ci->c", "bi,ci->i", "bi,ci->bc", "bi,ci->bi", "bi,ci->ci", "bi,ci->",
    "bi,ci,di->c", "bi,ci,di->i", "bi,ci,di->bd",
)  # fmt: skip
REST = [
    *(
        Case(
            "einsum",
            " ".join(
                [
                    *(f"xs=f64[{x[0]},i]" for x in e.partition("->")[0].split(",")),
                    f"equation={e}",
                ]
            ),
            FLOAT64,
        )
        for e in EQUATIONS
    ),
    Case("matmul", "x=f64[b,4,4] y=f64[b,4,4]", FLOAT64),
]
"""Products in which an axis of rows is kept in one operand and reduced in another."""


Found: TypeAlias = "Mapping[str, np.ndarray]"
"""Outputs and gradients by name."""
Compared: TypeAlias = "tuple[Twice, np.ndarray, np.ndarray]"


# ---- operands that are one variable ----------------------------------------------------------


@dataclass(frozen=True)
class Twice(Item):
    """An example of which some operands are one variable.

    Attributes:
        same: The positions of these operands.
        shared: Whether they are, or are copies with the same numbers.
    """

    same: tuple[int, ...] = ()
    shared: bool = True

    def __str__(self) -> str:
        return f"{super().__str__()} same {self.same}"

    def operand(self, at: int) -> int:
        """The position of the variable that is an operand."""
        return self.same[0] if self.shared and at in self.same else at

    def values(self, rows: int) -> list[np.ndarray]:
        """The inputs; of those that are the same, one that needs certain values decides."""
        found, makers = super().values(rows), self.case.reference.inputs
        slots = [slot for slot, types in self.case.types.items() for _ in types]
        chosen = max(self.same, key=lambda at: (slots[at] in makers, at))
        return [found[chosen] if at in self.same else x for at, x in enumerate(found)]


def merged(case: Case, same: Sequence[int]) -> Iterator[Case]:
    """The example with one type for some operands, in each way that there may be."""
    types = [type_ for types in case.types.values() for type_ in types]
    if len({type_.dtype for type_ in types if type_ in [types[at] for at in same]}) > 1:
        return
    names = _unified([types[at] for at in same])
    if names is not None:
        yield replace(case, example=_spelled(case, names, {}))
        return
    for at in same:
        yield replace(case, example=_spelled(case, {}, dict.fromkeys(same, str(types[at]))))


def _unified(types: Sequence[TensorType]) -> dict[str, str] | None:
    """What sizes are called where these types are one; `None` where they cannot be."""
    names: dict[str, str] = {}
    for left, right in pairwise(types):
        if left.rank != right.rank:
            return None
        for pair in zip(left.shape, right.shape, strict=True):
            a, b = (names.get(str(size), str(size)) for size in pair)
            gone, kept = (a, b) if a.isidentifier() else (b, a)
            if a != b and not gone.isidentifier():
                return None
            names = {n: kept if to == gone else to for n, to in names.items()} | {gone: kept}
    return names


def _spelled(case: Case, names: Mapping[str, str], types: Mapping[int, str]) -> str:
    """The example with other names of sizes, and other types of some operands."""
    kinds, at = {spec.name: spec.kind for spec in case.definition.attrs}, 0
    found = list[str]()
    for name, text in case.parts:
        if name in case.types:
            text, at = types.get(at, text), at + 1
        if name in case.types or kinds.get(name, "").startswith(("Shape", "Size")):
            text = re.sub(r"[a-z_]+\b", lambda m: names.get(m[0], m[0]), text)
        found.append(f"{name}={text}")
    return " ".join(found)


def chosen_operands(case: Case) -> Iterator[tuple[int, ...]]:
    """Each pair of operands, and all of a variadic slot."""
    at = 0
    for types in case.types.values():
        if len(types) > 2:
            yield tuple(range(at, at + len(types)))
        at += len(types)
    yield from combinations(range(at), 2)


@cache
def items(family: str) -> tuple[Twice, ...]:
    """What can be built of the examples of a module, by each size that leads an input."""
    found: dict[str, Twice] = {}
    for case in [*cases(FLOAT64), *REST]:
        if family_of(case) != family or case.op in {*DRAWN, *ALWAYS}:
            continue
        for same in chosen_operands(case):
            for one in merged(case, same):
                for name in one.symbols:
                    item = Twice(one, name, same)
                    if item.tells() and _is_built(item):
                        key = f"{one.op} {one.types} {one.attrs} {name} {same}"
                        found.setdefault(key, item)
    return tuple(found.values())


def _is_built(item: Twice) -> bool:
    try:
        Padded("branch", Dim.named("batch"), [item])
    except BracesError:
        return False
    return True


def family_of(case: Case) -> str:
    """The module that defines an operator."""
    return Item(case, "").family


# ---- programs --------------------------------------------------------------------------------


class Padded(Sheet):
    """Some items in one program, on rows that are padded in one way."""

    def add(self, chosen: Sequence[Item], flags: Var, rows: Size, row: Any) -> list[Var]:
        """The outputs of all items; the rows of each variable are taken once."""
        every, taken = dict(self.inputs), dict[str, Var]()

        def once(x: Var) -> Var:
            if x.name not in taken:
                taken[x.name] = row(x)
            return taken[x.name]

        self.inputs |= {name: every[other] for name, other in operands(chosen)}
        found = super().add(chosen, flags, rows, once)
        self.inputs = every
        return found

    def found(self, chosen: Sequence[Item], flags: Var) -> None:
        """Rows that a run finds: there is room for more."""

        def row(x: Var) -> Var:
            return br.compress(flags, x, axis=0, size="found")

        self.add(chosen, row(flags), Dim.named("found"), row)

    def collected(self, chosen: Sequence[Item], flags: Var) -> None:
        """Rows that a while collects: there is room for more."""
        used = dict(operands(chosen)).values()
        every = (f"{k}.{i}" for k, item in enumerate(chosen) for i in led_by_rows(item))
        sources = [flags, *(self.inputs[name] for name in every if name in used)]
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            body.set_condition(i < br.sum(br.cast(br.ones_like(flags), "int32")))
            body.add_output(*(br.take(x, i, axis=0) for x in sources))
            i.update(i + 1)
        made = as_tuple(loop())
        rows = {x.name: stacked for x, stacked in zip(sources, made, strict=True)}
        self.add(chosen, made[0], made[0].shape[0], lambda x: rows[x.name])


def operands(chosen: Sequence[Item]) -> list[tuple[str, str]]:
    """The names of all operands, and of the variables that are theirs."""
    return [
        (f"{k}.{i}", f"{k}.{item.operand(i) if isinstance(item, Twice) else i}")
        for k, item in enumerate(chosen)
        for i in range(len(item.types))
    ]


def led_by_rows(item: Item) -> list[int]:
    """The positions of the inputs that lead with the rows."""
    return [i for i, type_ in enumerate(item.types) if item.led(type_)]


def as_tuple(found: Any) -> tuple[Any, ...]:
    """Return the results of a construct, one variable or several."""
    return found if isinstance(found, tuple) else (found,)


def fed(chosen: Sequence[Item], only: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The values of all inputs; of those that have rows, the rows that are named alone."""
    values = {"flags": MASK if only is None else MASK[only]}
    for k, item in enumerate(chosen):
        led = led_by_rows(item)
        for i, x in enumerate(item.values(len(MASK))):
            values[f"{k}.{i}"] = x[only] if only is not None and i in led else x
    return values


def outputs(kind: str, chosen: Sequence[Twice], got: Found, want: Found) -> Iterator[Compared]:
    """The outputs of each item, and those of copies."""
    for k, item in enumerate(chosen):
        for n in range(len(row_axes(item))):
            name = f"out {k}.{n}"
            made = want[name]
            yield item, got[name], put_back(made) if kind in ("branch", "step") else made


def slopes(kind: str, chosen: Sequence[Twice], got: Found, want: Found) -> Iterator[Compared]:
    """The gradient of each variable, and the sum of those of copies."""
    for k, item in enumerate(chosen):
        for i in sorted({*map(item.operand, range(len(item.types)))}):
            every = item.same if i in item.same else (i,)
            found = [want[name] for at in every if (name := f"grad {k}.{at}") in want]
            assert bool(found) == (f"grad {k}.{i}" in got)
            if found:
                expected, given = sum(found[1:], found[0]), got[f"grad {k}.{i}"]
                led = item.led(item.types[i])
                if led and kind not in ("collected", "plain"):
                    expected = put_back(expected)
                yield item, given[0] if led and kind == "step" else given, expected


def put_back(found: np.ndarray) -> np.ndarray:
    """Rows as they are in the whole batch, zero where they did not run."""
    whole = np.zeros((len(MASK), *found.shape[1:]), found.dtype)
    whole[MASK] = found
    return whole


# ---- the sweep -------------------------------------------------------------------------------

KINDS = ("branch", "step", "found", "collected", "plain")
NONE = {
    "accuracy", "conv_gradients", "conv_transpose", "deformable_conv", "discrete",
    "error_check", "key_bits", "max_unpool", "non_max_suppression", "quantization", "roi_pool",
    "stateless", "static_slice", "symbolic_slice", "take",
}  # fmt: skip
"""The modules of which no operator has two operands that can be one variable led by rows."""
EVERY = {
    Item(case, "").family
    for case in cases(FLOAT64)
    if case.op not in {*DRAWN, *ALWAYS} and sum(map(len, case.types.values())) > 1
}
FAMILIES = sorted(EVERY - NONE)
WAYS = [
    way if way == ("found", "einsum") else thorough(way) for way in product(KINDS, FAMILIES)
]


@cache
def copies(kind: str, family: str) -> dict[str, np.ndarray]:
    """What two variables with the same numbers give on an array of the rows that run."""
    chosen = [replace(item, shared=False) for item in items(family)]
    only = np.ones_like(MASK) if kind in ("collected", "plain") else MASK
    with np.errstate(all="ignore"):
        return Sheet("plain", int(only.sum()), chosen).run("compile", fed(chosen, only))


@pytest.mark.parametrize(("kind", "family"), WAYS)
def test_one_variable_in_two_slots_is_two_copies_of_it(
    kind: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(TARGETS["cpu"], shares=(), little=0)  # fewer copies to compile
    monkeypatch.setitem(TARGETS, "cpu", few)
    chosen, want = items(family), copies(kind, family)
    sheet, values = Padded(kind, Dim.named("batch"), chosen), fed(chosen)
    if kind == "step":
        led = {f"{k}.{i}" for k, item in enumerate(chosen) for i in led_by_rows(item)}
        values = {n: x[None] if n in {*led, "flags"} else x for n, x in values.items()}
    for mode in ("compile", "interpret"):
        got = sheet.run(mode, values)
        compared = [*outputs(kind, chosen, got, want), *slopes(kind, chosen, got, want)]
        assert len({item for item, _, _ in compared}) == len(chosen)
        for item, found, expected in compared:
            np.testing.assert_allclose(found, expected, 1e-7, 1e-9, err_msg=f"{item} {mode}")


# ---- trips of loops --------------------------------------------------------------------------

TRIPS = 3


class Trips(Sheet):
    """Some items in the step of a recurrent net: the operands that are one variable are cut
    into steps and the others captured, or the other way round."""

    def __init__(self, kind: str, batch: Any, chosen: Sequence[Twice]) -> None:
        self.chosen = chosen
        super().__init__(kind, batch, chosen)

    def is_cut(self, name: str) -> bool:
        """If an input is cut into steps."""
        k, _, at = name.partition(".")
        return at != "" and (int(at) in self.chosen[int(k)].same) == (self.kind == "cut")

    def data(self, name: str, shape: Any, dtype: Any, led: bool) -> Var:
        """One input, with all its steps where it is cut."""
        return super().data(name, (TRIPS, *shape) if self.is_cut(name) else shape, dtype, led)

    def cut(self, chosen: Sequence[Twice], flags: Var) -> None:
        """The operators in a step."""
        every, taken, rnn = dict(self.inputs), dict[str, Var](), br.create_rnn(steps=TRIPS)
        with rnn.stepnet() as net:
            for name, other in operands(chosen):
                if self.is_cut(other) and other not in taken:
                    taken[other] = net.add_input(every[other])
                self.inputs[name] = taken.get(other, every[other])
            net.add_output(*self.add(chosen, flags, self.batch, lambda x: x))
        self.inputs = every
        self.take(rnn())

    captured = cut


def test_the_others_are_modules_of_operators() -> None:
    assert NONE < EVERY


@pytest.mark.thorough
def test_all_others_have_no_two_operands_that_can_be_one_variable() -> None:
    assert {family for family in EVERY if not items(family)} == NONE


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["cut", "captured"])
@pytest.mark.parametrize("family", FAMILIES)
def test_so_it_is_for_all_trips_of_a_loop_at_once(
    family: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = replace(TARGETS["cpu"], few_trips=0)  # passes move and join what they can
    monkeypatch.setitem(TARGETS, "cpu", eager)
    chosen = items(family)
    apart = Trips(kind, len(MASK), [replace(item, shared=False) for item in chosen])
    once, values = Trips(kind, len(MASK), chosen), fed(chosen)
    for name, x in values.items():
        if once.is_cut(name):
            steps = [x * 0.9**t if x.dtype.kind == "f" else x for t in range(TRIPS)]
            values[name] = np.stack(steps)
    want = apart.run("interpret", values)
    for mode in ("compile", "interpret"):
        got = once.run(mode, values)
        pairs = [*outputs("plain", chosen, got, want), *slopes("plain", chosen, got, want)]
        for item, found, expected in pairs:
            np.testing.assert_allclose(found, expected, 1e-7, 1e-9, err_msg=f"{item} {mode}")
