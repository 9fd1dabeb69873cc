"""How many operations a program takes and how many bytes it moves, as its types tell.

Of each operator the definition tells the operations (`braces.define.axes.flop_count`); its
bytes are those of what it reads and of what it binds, as if each were computed by itself. What
owns blocks takes what these take:

    a loop               its trips times a trip
    a switch             the case that takes most
    a row-wise branch    the case that takes most, as if all rows were its own

What is not known is a symbol: sizes by their names, and trips that only a run knows by the name
of the loop, as `loop_0.trips`. Products, and all bytes, are exact so. Estimates are branches,
loops that may stop early, what works element by element or along an axis (a number for each
entry, which definitions say), and the gradient kernels of that.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.define.definition import SHAPE, OpDef, Types
from braces.dims import Dim, Size, call, product, substitute, sum_of
from braces.dtypes import bytes_of
from braces.errors import ShapeError, UnknownNameError, suggest
from braces.ir.records import Body, Op, ProgramDef, VarInfo
from braces.ir.views import CasesView, CustomGradientView, LoopView, PartitionView, view_of
from braces.ir.walk import all_bodies, all_ops, dimensions, resolve_body
from braces.passes.analysis.cost import Cost, OpCost, ProgramCost, Sizes, trips_of
from braces.passes.analysis.peak_memory import peak_bytes
from braces.passes.autodiff.drop_custom_gradients import without_gradients
from braces.passes.cleanup.dead_code import DCE
from braces.passes.cleanup.prune import target_names
from braces.passes.core.context import planning
from braces.passes.core.pipeline import Pass, as_passes, optimised, wanted

Vars: TypeAlias = "Mapping[str, VarInfo]"
View: TypeAlias = "LoopView | CasesView | PartitionView | CustomGradientView | None"


def cost_of(op: Op, infos: Vars) -> tuple[Cost, bool]:
    """What an operator without blocks takes, and whether its definition tells the operations.

    Args:
        op: The operator.
        infos: The variables that it reads and binds.
    """
    return _cost_of(op, *(_types(slots, infos) for slots in (op.inputs, op.outputs)))


def _cost_of(op: Op, inputs: Types, outputs: Types) -> tuple[Cost, bool]:
    definition = OPS.get(op.type)
    if _gives_its_input(definition, inputs, outputs):
        return Cost(), True
    written = _bytes(outputs)
    whole = {slot: given for slot, given in inputs.items() if slot not in definition.picks}
    read = _bytes(whole) + (written if len(whole) < len(inputs) else 0)
    try:
        operations = definition.count(inputs, outputs, op.attrs)
    except ShapeError:  # what does not fit tells nothing
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
    return sum_of(map(bytes_of, chain.from_iterable(types.values())))


def _numbers(types: Types) -> Size:
    return sum_of(product(shape_of(type_)) for type_ in chain.from_iterable(types.values()))


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
        self._known: dict[Any, tuple[Cost, bool]] = {}

    def block(self, body: Body, around: _Around) -> Cost:
        """What one run of a block takes."""
        return Cost.of(self._op(op, around) for op in body.ops)

    def _op(self, op: Op, around: _Around) -> Cost:
        place, path = len(self.found), f"{around.path}/{op.name}".lstrip("/")
        owns_blocks, told = bool(op.bodies()), True
        if owns_blocks:
            cost = self._blocks(op, path, around)
        else:
            cost, told = self._kernel(op, around.infos)
            cost = cost.at(around.sizes)
        whole = cost.times(around.runs)
        entry = OpCost(path, op.type, around.runs, whole, owns_blocks, told)
        self.found.insert(place, entry)
        return cost

    def _kernel(self, op: Op, infos: Vars) -> tuple[Cost, bool]:
        """As `cost_of`, once for all operators that differ in names alone."""
        inputs, outputs = _types(op.inputs, infos), _types(op.outputs, infos)
        key = (op.type, *(tuple(one.items()) for one in (inputs, outputs, op.attrs)))
        if key not in self._known:
            self._known[key] = _cost_of(op, inputs, outputs)
        return self._known[key]

    def _blocks(self, op: Op, path: str, around: _Around) -> Cost:
        """What one run of an operator with blocks takes."""
        view, costs = view_of(op), list[Cost]()
        for at, (label, body) in enumerate(op.bodies().items()):
            runs, sizes = _run_of(view, at, body, around.infos)
            cost = self.block(body, around.inside(f"{path}/{label}", body, runs, sizes))
            costs.append(cost.times(runs))
        return reduce(_most, costs, Cost()) if _is_one_of(view) else Cost.of(costs)


def _is_one_of(view: View) -> bool:
    """Whether one block runs, or each on its share of rows."""
    return isinstance(view, CasesView) or (isinstance(view, PartitionView) and view.compact)


def _run_of(view: View, at: int, body: Body, infos: Vars) -> tuple[Size, Sizes]:
    """How often a block runs each time, and what stands for sizes that are its own."""
    if isinstance(view, LoopView):
        trips = trips_of(view, infos)
        return (trips + 1 if body is view.condition else trips), {}
    if isinstance(view, CustomGradientView):
        return 0, {}
    if isinstance(view, PartitionView):
        case = view.cases[at]
        rows, own = infos[case.mask].shape[0], case.count
        return 1, {own.name: rows} if isinstance(own, Dim) and own.name else {}
    return 1, {}


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
        peak = peak_bytes(program)
    except ShapeError as error:
        raise ShapeError(
            "What the program takes depends on more than the text of a size holds.",
            given=error.what,
            fix="Say what its sizes are: prog.cost(sizes={'batch': 32}).",
        ) from None
    return ProgramCost(total, tuple(counter.found), peak)


def cost(
    program: Builder,
    fetch: Any = (),
    *,
    sizes: Mapping[str, int] | None = None,
    passes: Sequence[Pass] = (DCE,),
) -> ProgramCost:
    """What a run of a program takes; see `Program.cost`."""
    names, whole = target_names(program.definition, fetch)
    asked = wanted(whole, names)
    told = checked_sizes(asked, sizes)
    with planning(None, told):
        made = optimised(without_gradients(asked), as_passes(passes))
    return cost_at(made, told)


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
    return ProgramCost(found.total.at(sizes), tuple(ops), substitute(found.peak_bytes, sizes))


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
