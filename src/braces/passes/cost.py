"""How many operations a program takes and how many bytes it moves, as its types tell.

Of each operator the definition tells the operations (`braces.define.counting`); its bytes are
those of what it reads and of what it binds, as if each were computed by itself. What owns
blocks takes what these take:

    a loop               its trips times a trip
    a switch             the case that takes most
    a row-wise branch    the case that takes most, as if all rows were its own

What is not known is a symbol: sizes by their names, and trips that only a run knows by the name
of the loop, as `loop_0.trips`. So nothing is an estimate but these: branches, sorting by sizes
that are not known, and what says nothing of its operations.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any, TypeAlias

from braces.builder.program import Builder
from braces.define.axes import shape_of
from braces.define.decorator import OPS
from braces.define.definition import SHAPE, OpDef, Types
from braces.dims import Dim, Size, amount, call, product, substitute
from braces.dtypes import bytes_of
from braces.errors import BracesError, ShapeError, UnknownNameError, suggest
from braces.ir.records import Body, Op, ProgramDef, VarInfo
from braces.ir.tables import columns
from braces.ir.views import CasesView, LoopView, PartitionView, view_of
from braces.ir.walk import all_bodies, all_ops, dimensions, resolve_body
from braces.passes.eliminate import ELIMINATE
from braces.passes.pipeline import Pass, as_passes, optimised, wanted
from braces.passes.prune import target_names

Vars: TypeAlias = "Mapping[str, VarInfo]"
Sizes: TypeAlias = "Mapping[str, Size]"
View: TypeAlias = "LoopView | CasesView | PartitionView | None"


@dataclass(frozen=True, slots=True)
class Cost:
    """What something takes; sizes that are not known are symbols.

    Attributes:
        operations: Sums, products, comparisons and functions of numbers: FLOPs. A product that
            is added to a sum is two.
        bytes_read: The bytes of all that operators read.
        bytes_written: The bytes of all that they bind.

    Example:
        >>> from braces.dims import Dim
        >>> cost = Cost(24 * Dim.named("b"), 8, 16)
        >>> print(cost + cost)
        48 FLOP·b, 48 B
        >>> cost.at({"b": 10}).operations
        240
    """

    operations: Size = 0
    bytes_read: Size = 0
    bytes_written: Size = 0

    @property
    def bytes(self) -> Size:
        """The bytes that are read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def parts(self) -> tuple[Size, Size, Size]:
        """Operations, bytes read, bytes written."""
        return self.operations, self.bytes_read, self.bytes_written

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def times(self, count: Size) -> Cost:
        """What so many of it take."""
        return self if count == 1 else Cost(*(part * count for part in self.parts))

    def at(self, sizes: Sizes) -> Cost:
        """The same with sizes in place of symbols."""
        return Cost(*(substitute(part, sizes) for part in self.parts)) if sizes else self

    def __str__(self) -> str:
        return f"{amount(self.operations, 'FLOP')}, {amount(self.bytes, 'B')}"


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one operator takes in a run of the program.

    Attributes:
        path: Of the operator, as `loop_0/body/matmul_0`.
        type: Its type.
        runs: How often it runs.
        cost: What all these runs take; of what owns blocks, all that is in them.
        owns_blocks: Whether it owns blocks.
        told: Whether its definition tells how many operations it takes; where it does not, one
            is counted for each number that it gives.
    """

    path: str
    type: str
    runs: Size
    cost: Cost
    owns_blocks: bool = False
    told: bool = True


@dataclass(frozen=True)
class ProgramCost:
    """What a program takes, and each operator in it; `print` shows it.

    Attributes:
        total: What a run of the program takes.
        ops: What each operator takes, those in blocks too, in program order.
    """

    total: Cost
    ops: tuple[OpCost, ...]

    @property
    def operations(self) -> Size:
        """The FLOPs of a run."""
        return self.total.operations

    @property
    def bytes(self) -> Size:
        """The bytes that operators read and write in a run."""
        return self.total.bytes

    @property
    def by_type(self) -> dict[str, Cost]:
        """What all operators of a type take; all cases of a branch count here."""
        found: dict[str, Cost] = {}
        for one in self.ops:
            if not one.owns_blocks:
                found[one.type] = found.get(one.type, Cost()) + one.cost
        return found

    @property
    def untold(self) -> tuple[str, ...]:
        """The types of operators that do not tell how many operations they take."""
        return tuple(sorted({one.type for one in self.ops if not one.told}))

    def __str__(self) -> str:
        total = self.total
        lines = [
            f"operations  {amount(total.operations, 'FLOP')}",
            f"read        {amount(total.bytes_read, 'B')}",
            f"written     {amount(total.bytes_written, 'B')}",
        ]
        counts, costs = Counter(one.type for one in self.ops), self.by_type
        ranked = sorted(costs, key=lambda name: _rank(costs[name]), reverse=True)
        cells = [
            [
                str(counts[type_]),
                type_,
                *map(amount, (one.operations, one.bytes), ("FLOP", "B")),
            ]
            for type_, one in ((type_, costs[type_]) for type_ in ranked)
            if one != Cost()
        ]
        lines += [f"  {line}" for line in columns(cells, right=(0,))]
        if self.untold:
            lines.append(f"  one operation for each number: {', '.join(self.untold)}")
        return "\n".join(lines)


def _rank(cost: Cost) -> tuple[int, int]:
    """In which order costs are listed, as if all that is not known were 100."""

    def number(size: Size) -> int:
        names = size.names() if isinstance(size, Dim) else ()
        found = substitute(size, dict.fromkeys(names, 100))
        assert isinstance(found, int)
        return found

    return number(cost.operations), number(cost.bytes)


# ---- one operator ----------------------------------------------------------------------------


def cost_of(op: Op, infos: Vars) -> tuple[Cost, bool]:
    """What an operator without blocks takes, and whether its definition tells the operations.

    Args:
        op: The operator.
        infos: The variables that it reads and binds.
    """
    definition = OPS.get(op.type)
    inputs, outputs = _types(op.inputs, infos), _types(op.outputs, infos)
    if _gives_its_input(definition, inputs, outputs):
        return Cost(), True
    written = _bytes(outputs)
    whole = {slot: given for slot, given in inputs.items() if slot not in definition.picks}
    read = _bytes(whole) + (written if len(whole) < len(inputs) else 0)
    try:
        operations = definition.count(inputs, outputs, op.attrs)
    except BracesError:  # a program that does not fit tells nothing
        operations = None
    told = operations is not None
    return Cost(operations if told else _numbers(outputs), read, written), told


def _types(slots: Mapping[str, Sequence[str]], infos: Vars) -> Types:
    return {slot: tuple(infos[n].type for n in names) for slot, names in slots.items() if names}


def _gives_its_input(definition: OpDef, inputs: Types, outputs: Types) -> bool:
    """Whether nothing moves, as numbers lie in memory."""
    same = list(inputs.values()) == list(outputs.values())
    return bool(definition.changes_only) and (same or definition.changes_only == SHAPE)


def _bytes(types: Types) -> Size:
    return _sum(map(bytes_of, chain.from_iterable(types.values())))


def _numbers(types: Types) -> Size:
    return _sum(product(shape_of(type_)) for type_ in chain.from_iterable(types.values()))


def _sum(sizes: Iterable[Size]) -> Size:
    total: Size = 0
    for size in sizes:
        total = size + total
    return total


# ---- blocks ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Around:
    """What a block stands in.

    Attributes:
        infos: The variables that it sees, those of the innermost block first.
        path: Its own.
        runs: How often it runs.
        sizes: What stands for the sizes of the cases around it.
    """

    infos: ChainMap[str, VarInfo]
    path: str = ""
    runs: Size = 1
    sizes: Sizes = field(default_factory=dict[str, Size])

    def inside(self, path: str, body: Body, runs: Size, sizes: Sizes) -> _Around:
        """What a block of an operator in it stands in, which runs so often each time."""
        infos = ChainMap({**body.vars}, *self.infos.maps)
        return _Around(infos, path, self.runs * runs, {**self.sizes, **sizes})


class _Counter:
    """Counts blocks within each other, and collects what is found of each operator."""

    def __init__(self) -> None:
        self.found: list[OpCost] = []

    def block(self, body: Body, around: _Around) -> Cost:
        """What one run of a block takes."""
        return sum((self._op(op, around) for op in body.ops), Cost())

    def _op(self, op: Op, around: _Around) -> Cost:
        place, path = len(self.found), f"{around.path}/{op.name}".lstrip("/")
        owns_blocks, told = bool(op.bodies()), True
        if owns_blocks:
            cost = self._blocks(op, path, around)
        else:
            cost, told = cost_of(op, around.infos)
            cost = cost.at(around.sizes)
        whole = cost.times(around.runs)
        entry = OpCost(path, op.type, around.runs, whole, owns_blocks, told)
        self.found.insert(place, entry)
        return cost

    def _blocks(self, op: Op, path: str, around: _Around) -> Cost:
        """What one run of an operator with blocks takes."""
        view, costs = view_of(op), list[Cost]()
        for at, (label, body) in enumerate(op.bodies().items()):
            runs, sizes = _run_of(view, at, body, around.infos)
            cost = self.block(body, around.inside(f"{path}/{label}", body, runs, sizes))
            costs.append(cost.times(runs))
        return reduce(_most, costs, Cost()) if _is_one_of(view) else sum(costs, Cost())


def _is_one_of(view: View) -> bool:
    """Whether one block runs, or each on its share of rows."""
    return isinstance(view, CasesView) or (isinstance(view, PartitionView) and view.compact)


def _run_of(view: View, at: int, body: Body, infos: Vars) -> tuple[Size, Sizes]:
    """How often a block runs each time, and what stands for sizes that are its own."""
    if isinstance(view, LoopView):
        trips = trips_of(view, infos)
        return (trips + 1 if body is view.condition else trips), {}
    if isinstance(view, PartitionView):
        case = view.cases[at]
        rows, own = infos[case.mask].shape[0], case.count
        return 1, {own.name: rows} if isinstance(own, Dim) and own.name else {}
    return 1, {}


def trips_of(view: LoopView, infos: Vars) -> Size:
    """How many trips a loop makes, at most; a symbol where only a run knows."""
    if view.length is not None:
        return view.length
    if view.slices:
        return infos[view.slices[0].source].shape[0]
    return Dim.named(re.sub(r"^(?=\d)|[^\w.]", "_", view.recorded) + ".trips")


def _most(left: Cost, right: Cost) -> Cost:
    return Cost(*(call("max", a, b) for a, b in zip(left.parts, right.parts, strict=True)))


# ---- whole programs --------------------------------------------------------------------------


def program_cost(program: ProgramDef) -> ProgramCost:
    """What a run of all operators of a program takes.

    Raises:
        ShapeError: It depends on so many sizes that no text holds it.
    """
    counter = _Counter()
    try:
        total = counter.block(program.main, _Around(ChainMap({**program.main.vars})))
    except ShapeError as error:
        raise ShapeError(
            "What the program takes depends on more than the text of a size holds.",
            given=error.what,
            fix="Say what its sizes are: prog.cost(sizes={'batch': 32}).",
        ) from None
    return ProgramCost(total, tuple(counter.found))


def cost(
    program: Builder,
    fetch: Any = (),
    *,
    sizes: Mapping[str, int] | None = None,
    passes: Sequence[Pass] = (ELIMINATE,),
) -> ProgramCost:
    """What a run of a program takes; see `Program.cost`."""
    names, whole = target_names(program.definition, fetch)
    made = optimised(wanted(whole, names), as_passes(passes))
    return cost_at(made, checked_sizes(made, sizes))


def cost_at(program: ProgramDef, sizes: Mapping[str, int]) -> ProgramCost:
    """As `program_cost`, with numbers in place of some symbols."""
    if not sizes:
        return program_cost(program)
    main = resolve_body(program.main, lambda size: substitute(size, sizes))
    found = program_cost(program.with_(main=main))
    ops = (
        replace(one, cost=one.cost.at(sizes), runs=substitute(one.runs, sizes))
        for one in found.ops
    )
    return ProgramCost(found.total.at(sizes), tuple(ops))


def checked_sizes(program: ProgramDef, given: Any) -> Mapping[str, int]:
    """The sizes that a user says, by name; `None` for none.

    Raises:
        UnknownNameError: No type and no number of trips has such a name.
        ShapeError: One is no number from 0.
    """
    sizes: Mapping[str, int] = given or {}
    for name, size in sizes.items():
        if type(size) is not int or size < 0:
            raise ShapeError(
                f"{size!r:.80} is no size of `{name}`.", fix="Say sizes={'batch': 32}."
            )
    known = _names(program) if sizes else set[str]()
    for name in sizes:
        if name not in known:
            raise UnknownNameError(
                f"The program has no dimension `{name}`.", fix=suggest(name, known)
            )
    return sizes


def _names(program: ProgramDef) -> set[str]:
    """What may be said of the sizes and trips of a program."""
    found, vars_ = set[str](), ChainMap[str, VarInfo]()
    for body, _ in all_bodies(program.main):
        vars_.maps.append({**body.vars})
        found = found.union(*(dimensions(shape_of(one.type)) for one in body.vars.values()))
    views = (view_of(op) for _, op in all_ops(program.main))
    trips = tuple(trips_of(view, vars_) for view in views if isinstance(view, LoopView))
    return found | dimensions(trips)
