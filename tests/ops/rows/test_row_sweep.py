"""Every operator on some of the rows is the operator on an array of these rows alone.

Each example of each operator, with each size that leads an input taken for the rows: in a
row-wise branch and in a step with lengths, with a batch that is a number or has a name, in both
modes, values and gradients. The operators of one module share one program, since programs are
what costs. What is refused is listed; rows that are left out are fed NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.errors import ProgramError
from braces.extend.building import apply
from braces.extend.types import FLOAT64, Dim, Size, TensorType
from braces.target import TARGETS
from tests.ops.cases import Case, cases, number
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

MASK = np.array([True, False, True])
"""The rows that run, of as many as other axes are long in many examples."""
MODES = {
    ("branch", "named"): "compile",
    ("branch", "fixed"): "interpret",
    ("step", "named"): "interpret",
    ("step", "fixed"): "compile",
}
"""What is run how: with a number and with a name the block is the same, so one mode will do."""

ALWAYS = {
    # They see all examples at once.
    "accuracy", "top_k_accuracy", "clip_by_global_norm", "scale_by_trust_ratio",
    # Their values are places on an axis.
    "diag", "nonzero",
    # They compare all slices.
    "unique_places",
}  # fmt: skip
"""The operators of which all examples are refused on purpose."""
DRAWN = {"dropout", "random_categorical"}
"""Operators that draw for rows, see `tests/control/partition/test_row_draws.py`."""
MIXING = {
    "batch_norm(x=f32[b,h,3] running_mean=f32[3] running_var=f32[3] axis=-1 momentum=0.5) by b",
    "batch_norm(x=f64[b,2,h,w] scale=f64[2] bias=f64[2] running_mean=f64[2] "
    "running_var=f64[2]) by b",
    "concat(xs=f32[b,4] xs=f32[t,4] xs=f32[1,4]) by b",
    "concat(xs=f32[b,4] xs=f32[t,4] xs=f32[1,4]) by t",
    "concat(xs=f32[b]) by b",
    "cumlogsumexp(x=f64[b,4] axis=0) by b",
    "cummax(x=f64[b,4] axis=0) by b",
    "cummin(x=f64[b,4] axis=0) by b",
    "cumprod(x=f64[b,4] axis=0) by b",
    "cumsum(x=f64[b,4] axis=0) by b",
    "flatten(x=f32[b,2,t] axis=0) by b",
    "flip(x=f32[b,4] axis=0) by b",
    "fftn(x=f64[b,t] norm=ortho) by b",
    "frame(x=f64[b,2] length=2 step=1 axis=0) by b",
    "gather_nd(x=f32[b,3,4] indices=i64[b,1] indices=i64[2]) by b",
    "getitem(x=f32[b,3] index=((None,None,-1),(-1,0,-2))) by b",
    "getitem(x=f32[b,4] index=((1,None),)) by b",
    "getitem(x=f32[b] index=((None,3),'new')) by b",
    "getitem(x=f64[b,t] index=((None,-1),(None,None,2))) by b",
    "getitem(x=f64[b] index=((-3,None),)) by b",
    "ifftn(x=f64[b,t] norm=ortho) by b",
    "pad(x=f64[b,2] widths=1) by b",
    "pad(x=f64[b] widths=((2,0),)) by b",
    "repeat(x=f64[b,t] repeats=2) by b",
    "repeat(x=f64[b] repeats=t axis=0) by b",
    "reshape(x=f32[b,8] shape=(-1,4)) by b",
    "roll(x=f32[b,4] shift=-1 axis=0) by b",
    "roll(x=f64[b,t] shift=(1,2) axis=(0,1)) by b",
    "scatter_nd(x=f32[b,3,4] updates=f32[b,2,4] indices=i64[b,1] indices=i64[2] "
    "reduction=mul) by b",
    "scatter_nd_add(x=f32[b,3,4] updates=f32[b,2,4] indices=i64[b,1] indices=i64[2]) by b",
    "searchsorted(sequence=f64[b] values=f64[] side=right) by b",
    "std(x=f32[b,4,t] axis=(0,-1)) by b",
    "tile(x=f64[b] reps=(2,2)) by b",
    "tril(x=f64[b,t] k=-1) by b",
    "triu(x=f64[b,t] k=-1) by b",
    "var(x=f32[b,4,t] axis=(0,-1)) by b",
    "window(x=f32[b,3] start=b size=b from_end=True) by b",
    "window(x=f32[t,9] start=0 size=t axis=1) by t",
    "window_add(x=f32[b,3] update=f32[b,3] start=b from_end=True) by b",
}
"""Examples that are refused on purpose, because they mix rows; besides those of `ALWAYS`."""


@dataclass(frozen=True)
class Item:
    """One example with one of its sizes taken for the rows."""

    case: Case
    rows: str

    def __str__(self) -> str:
        return f"{self.case} by {self.rows}"

    @property
    def family(self) -> str:
        """The module that defines the operator."""
        return self.case.definition.kernel.__module__.rpartition(".")[2]

    @property
    def types(self) -> list[TensorType]:
        """The types of the inputs, one after another."""
        return [type_ for types in self.case.types.values() for type_ in types]

    def led(self, type_: TensorType) -> bool:
        """Return whether an input leads with the rows."""
        return type_.shape[:1] == (Dim.named(self.rows),)

    def tells(self) -> bool:
        """Return whether some inputs lead with the rows, and no other axis is as long."""
        rows = Dim.named(self.rows)
        places = {i for t in self.types for i, size in enumerate(t.shape) if size == rows}
        return places == {0}

    def sizes(self, rows: Size) -> dict[str, Any]:
        """All symbolic sizes."""
        return {**self.case.sizes(), self.rows: rows}

    def values(self, rows: int) -> list[np.ndarray]:
        """The inputs, one after another."""
        made = self.case.values(self.sizes(rows))
        return [np.asarray(value) for values in made.values() for value in values]

    def shape(self, type_: TensorType, rows: Size) -> Any:
        """The shape of an input."""
        return number(type_.shape, self.sizes(rows))

    def apply(self, inputs: Sequence[Var], rows: Size) -> list[Var]:
        """The outputs, one after another."""
        given, rest = dict[str, tuple[Var, ...]](), list(inputs)
        for slot, types in self.case.types.items():
            given[slot], rest = tuple(rest[: len(types)]), rest[len(types) :]
        attrs = {name: number(v, self.sizes(rows)) for name, v in self.case.attrs.items()}
        made = apply(self.case.op, given, attrs)
        return [out for outs in made.values() for out in outs]

    def by_rows(self, inputs: Sequence[Var], flags: Var, rows: Size) -> list[Var]:
        """The outputs, led by their rows, repeated where they have none."""
        outs = self.apply(inputs, rows)
        return [_led(*pair, flags) for pair in zip(outs, row_axes(self), strict=True)]


def _led(out: Var, axes: Sequence[int], flags: Var) -> Var:
    if len(axes) == 1:
        return br.moveaxis(out, axes[0], 0) if axes[0] else out
    out = br.sum(out) if axes else out
    return br.where(br.reshape(flags, (-1, *[1] * out.ndim)), out, out)


@cache
def row_axes(item: Item) -> list[list[int]]:
    """The axes of each output that are rows, told by a name."""
    with br.Program():
        rows = Dim.named("the_rows")
        given = [
            br.data(f"x_{i}", item.shape(t, rows), t.dtype) for i, t in enumerate(item.types)
        ]
        outs = item.apply(given, rows)
        return [[i for i, size in enumerate(out.shape) if size == rows] for out in outs]


def items() -> list[Item]:
    """Examples that differ in more than the floats, by each size that leads an input."""
    found: dict[str, Item] = {}
    for case in cases(FLOAT64):
        for name in case.symbols:
            item = Item(case, name)
            if item.tells():
                found.setdefault(f"{case.op} {case.types} {case.attrs} {name}", item)
    return list(found.values())


# ---- programs --------------------------------------------------------------------------------


class Sheet:
    """Some items in one program: variables by names of the test's choice."""

    def __init__(self, kind: str, batch: Any, chosen: Sequence[Item]) -> None:
        self.kind, self.batch = kind, batch
        self.inputs: dict[str, Var] = {}
        self.outs: dict[str, Var] = {}
        with br.Program() as self.program:
            flags = self.data("flags", (batch,), "bool", True)
            for k, item in enumerate(chosen):
                for i, t in enumerate(item.types):
                    self.data(f"{k}.{i}", item.shape(t, batch), t.dtype, item.led(t))
            getattr(self, kind)(chosen, flags)
            self.grads = self.differentiated()

    def data(self, name: str, shape: Any, dtype: Any, led: bool) -> Var:
        """One input, which is one step of a sequence where it has rows."""
        shape = (1, *shape) if led and self.kind == "step" else shape
        self.inputs[name] = br.data(f"in_{name}", shape, dtype)
        return self.inputs[name]

    def add(self, chosen: Sequence[Item], flags: Var, rows: Size, row: Any) -> list[Var]:
        """The outputs of all items."""
        found: list[Var] = []
        for k, item in enumerate(chosen):
            pairs = [(self.inputs[f"{k}.{i}"], t) for i, t in enumerate(item.types)]
            given = [row(x) if item.led(t) else x for x, t in pairs]
            outs = item.by_rows(given, flags, rows)
            self.outs |= {f"{k}.{i}": out for i, out in enumerate(outs)}
            found += outs
        return found

    def plain(self, chosen: Sequence[Item], flags: Var) -> None:
        """All of the rows."""
        self.add(chosen, flags, self.batch, lambda x: x)

    def branch(self, chosen: Sequence[Item], flags: Var) -> None:
        """The rows that are flagged; zeros for the others."""
        choice = br.create_if_else(flags)
        with choice.true_block() as yes:
            assert yes.rows is not None
            found = self.add(chosen, yes.add_input(flags), yes.rows, yes.add_input)
            yes.add_output(*found)
        with choice.false_block() as no:
            assert no.rows is not None
            zeros = [br.zeros((no.rows, *out.shape[1:]), out.dtype) for out in found]
            no.add_output(*zeros)
        self.take(choice())

    def step(self, chosen: Sequence[Item], flags: Var) -> None:
        """The rows whose sequence has a step."""
        rnn = br.create_rnn(lengths=br.cast(flags[0], "int32"))
        with rnn.stepnet() as net:
            inner = net.add_input(flags)
            net.add_output(*self.add(chosen, inner, self.batch, net.add_input))
        stacked = rnn()
        self.take([one[0] for one in (stacked if isinstance(stacked, tuple) else (stacked,))])

    def take(self, found: Any) -> None:
        """Outer variables in place of the inner ones."""
        given = found if isinstance(found, tuple | list) else (found,)
        self.outs = dict(zip(self.outs, given, strict=True))

    def differentiated(self) -> dict[str, Var]:
        """The gradient of the squares of all outputs."""
        squares = [br.sum(out * out) for out in self.outs.values() if out.dtype.kind == "f"]
        wanted = {name: x for name, x in self.inputs.items() if x.dtype.kind == "f"}
        if not squares or not wanted:
            return {}
        found = br.gradients([sum(squares[1:], squares[0])], list(wanted.values()))
        return {n: g for n, g in zip(wanted, found, strict=True) if g is not None}

    def run(self, mode: str, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs and gradients."""
        fetch = {f"out {n}": x for n, x in self.outs.items()}
        fetch |= {f"grad {n}": x for n, x in self.grads.items()}
        feed = {self.inputs[name].name: value for name, value in values.items()}
        return br.Executor(mode=mode).run(self.program, br.Scope(), feed=feed, fetch=fetch)


ITEMS = [item for item in items() if item.case.op not in DRAWN]
SWEPT = [i for i in ITEMS if i.case.op not in ALWAYS and str(i) not in MIXING]
FAMILIES = sorted({item.family for item in SWEPT})
WAYS = [
    way if i % 2 == 0 and at == i // 2 % len(MODES) else thorough(way)
    for i, family in enumerate(FAMILIES)
    for at, way in enumerate((kind, batch, family) for kind, batch in MODES)
]
"""Each family in a branch and a step, with a name and a number: in `make check` one in
turn of every second."""


# ---- the sweep -------------------------------------------------------------------------------


def blanked(value: np.ndarray) -> np.ndarray:
    """Rows with NaN in place of those that are left out, where the dtype has it."""
    value = value.copy()
    if value.dtype.kind in "fc":
        value[~MASK] = np.nan
    return value


@cache
def alone(chosen: Sequence[Item]) -> dict[str, np.ndarray]:
    """What the operators give on an array of the rows that run."""
    values = {"flags": MASK[MASK]}
    for k, item in enumerate(chosen):
        for i, (x, t) in enumerate(zip(item.values(len(MASK)), item.types, strict=True)):
            values[f"{k}.{i}"] = x[MASK] if item.led(t) else x
    return Sheet("plain", int(MASK.sum()), chosen).run("compile", values)


@pytest.mark.parametrize(("kind", "batch", "family"), WAYS)
def test_some_rows_give_what_they_give_alone(
    kind: str, batch: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(TARGETS["cpu"], shares=(), little=0)  # fewer copies to compile
    monkeypatch.setitem(TARGETS, "cpu", few)
    size = len(MASK) if batch == "fixed" else Dim.named("batch")
    chosen = tuple(item for item in SWEPT if item.family == family)
    values, led = {"flags": MASK}, {"flags": True}
    for k, item in enumerate(chosen):
        for i, (x, t) in enumerate(zip(item.values(len(MASK)), item.types, strict=True)):
            led[f"{k}.{i}"] = item.led(t)
            values[f"{k}.{i}"] = blanked(x) if item.led(t) else x
    if kind == "step":
        values = {name: x[None] if led[name] else x for name, x in values.items()}
    want, got = alone(chosen), Sheet(kind, size, chosen).run(MODES[kind, batch], values)
    assert got.keys() == want.keys()
    compared = set[int]()
    for name, expected in want.items():
        what, _, key = name.partition(" ")
        k, found = int(key.split(".")[0]), got[name]
        if what == "grad" and led[key] and kind == "step":
            found = found[0]
        if what == "out" or led[key]:
            assert not found[~MASK].any(), chosen[k]
            found = found[MASK]
        np.testing.assert_allclose(found, expected, 1e-7, 1e-9, err_msg=f"{chosen[k]} {what}")
        compared.add(k)
    assert compared == set(range(len(chosen)))
    assert compared


@pytest.mark.parametrize("kind", ["branch", "step"])
def test_all_others_are_refused(kind: str) -> None:
    others = [item for item in ITEMS if item not in SWEPT]
    assert {str(i) for i in others if i.case.op not in ALWAYS} == MIXING
    for item in others:
        with pytest.raises(ProgramError, match=r"mix|data-dependent size"):
            Sheet(kind, Dim.named("batch"), [item])


def test_most_operators_are_swept() -> None:
    assert len({item.case.op for item in SWEPT}) > 130
