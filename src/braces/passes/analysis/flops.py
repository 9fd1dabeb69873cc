"""Cost model: FLOPs and bytes moved by a program, derived from its types.

The definition of an operator counts its operations (`braces.define.axes.flop_count`). Its bytes
are those of its operands and results, as if it were computed alone (no fusion). An operator
with blocks costs:

    a loop                  its trip count times one iteration
    a switch                the most expensive case
    a partitioned branch    the most expensive case, as if all batch elements took it

Unknown quantities are symbols: sizes by their names, and data-dependent trip counts by the name
of the loop, as `loop_0.trips`. Matrix products and all bytes are exact. Estimates are:
branches, loops that may stop early, pointwise operators and operators along an axis (operations
per element, from the definitions), and the gradient kernels of these.
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
from braces.keywords import hint_keywords
from braces.passes.analysis.cost import Cost, OpCost, ProgramCost, Sizes, trip_count_of
from braces.passes.analysis.peak_memory import peak_bytes
from braces.passes.autodiff.drop_custom_gradients import drop_custom_gradients
from braces.passes.cleanup.dead_code import DCE
from braces.passes.cleanup.prune import target_names
from braces.passes.core.context import planning
from braces.passes.core.pipeline import Pass, as_passes, run_passes, with_fetches

Vars: TypeAlias = "Mapping[str, VarInfo]"
View: TypeAlias = "LoopView | CasesView | PartitionView | CustomGradientView | None"


def cost_of(op: Op, infos: Vars) -> tuple[Cost, bool]:
    """Return the cost of an operator without blocks, and whether its FLOPs are defined.

    Args:
        op: The operator.
        infos: The variables that it reads and binds.
    """
    return _cost_of(op, *(_types(slots, infos) for slots in (op.inputs, op.outputs)))


def _cost_of(op: Op, inputs: Types, outputs: Types) -> tuple[Cost, bool]:
    definition = OPS.get(op.type)
    if _is_free(definition, inputs, outputs):
        return Cost(), True
    written = _bytes(outputs)
    read_inputs = {
        slot: types for slot, types in inputs.items() if slot not in definition.picks
    }
    read = _bytes(read_inputs) + (written if len(read_inputs) < len(inputs) else 0)
    try:
        operations = definition.count(inputs, outputs, op.attrs)
    except ShapeError:  # ill-typed: not counted
        operations = None
    is_counted = operations is not None
    return Cost(
        operations if is_counted else _element_count(outputs), read, written
    ), is_counted


def _types(slots: Mapping[str, Sequence[str]], infos: Vars) -> Types:
    return {slot: tuple(infos[n].type for n in names) for slot, names in slots.items() if names}


def _is_free(definition: OpDef, inputs: Types, outputs: Types) -> bool:
    """Return whether no element moves: the result has the memory layout of the operand."""
    same = list(inputs.values()) == list(outputs.values())
    return bool(definition.changes_only) and (same or definition.changes_only == SHAPE)


def _bytes(types: Types) -> Size:
    return sum_of(map(bytes_of, chain.from_iterable(types.values())))


def _element_count(types: Types) -> Size:
    return sum_of(product(shape_of(type_)) for type_ in chain.from_iterable(types.values()))


# ---- blocks ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Around:
    """Context of a block.

    Attributes:
        infos: The variables visible in it, those of the innermost block first.
        path: Path of the block.
        runs: Number of executions.
        sizes: Substitution of the sizes of the enclosing cases.
    """

    infos: ChainMap[str, VarInfo]
    path: str = ""
    runs: Size = 1
    sizes: Sizes = field(default_factory=dict[str, Size])

    def inside(self, path: str, body: Body, runs: Size, sizes: Sizes) -> _Around:
        """Return the context of a sub-block that is executed `runs` times per execution."""
        infos = ChainMap({**body.vars}, *self.infos.maps)
        return _Around(infos, path, self.runs * runs, {**self.sizes, **sizes})


class _Counter:
    """Counts nested blocks, and collects the cost of each operator."""

    def __init__(self) -> None:
        self.found: list[OpCost] = []
        self._known: dict[Any, tuple[Cost, bool]] = {}

    def block(self, body: Body, around: _Around) -> Cost:
        """Return the cost of one execution of a block."""
        return Cost.of(self._op(op, around) for op in body.ops)

    def _op(self, op: Op, around: _Around) -> Cost:
        position, path = len(self.found), f"{around.path}/{op.name}".lstrip("/")
        owns_blocks, is_counted = bool(op.bodies()), True
        if owns_blocks:
            cost = self._blocks(op, path, around)
        else:
            cost, is_counted = self._kernel(op, around.infos)
            cost = cost.at(around.sizes)
        total_cost = cost.times(around.runs)
        entry = OpCost(path, op.type, around.runs, total_cost, owns_blocks, is_counted)
        self.found.insert(position, entry)
        return cost

    def _kernel(self, op: Op, infos: Vars) -> tuple[Cost, bool]:
        """Memoized `cost_of`: once for all operators that differ in names only."""
        inputs, outputs = _types(op.inputs, infos), _types(op.outputs, infos)
        key = (op.type, *(tuple(mapping.items()) for mapping in (inputs, outputs, op.attrs)))
        if key not in self._known:
            self._known[key] = _cost_of(op, inputs, outputs)
        return self._known[key]

    def _blocks(self, op: Op, path: str, around: _Around) -> Cost:
        """Return the cost of one execution of an operator with blocks."""
        view, costs = view_of(op), list[Cost]()
        for at, (label, body) in enumerate(op.bodies().items()):
            runs, sizes = _executions_of(view, at, body, around.infos)
            cost = self.block(body, around.inside(f"{path}/{label}", body, runs, sizes))
            costs.append(cost.times(runs))
        return reduce(_maximum, costs, Cost()) if _is_branch(view) else Cost.of(costs)


def _is_branch(view: View) -> bool:
    """Return whether one block runs, or each block on its share of the batch elements."""
    return isinstance(view, CasesView) or (isinstance(view, PartitionView) and view.compact)


def _executions_of(view: View, at: int, body: Body, infos: Vars) -> tuple[Size, Sizes]:
    """Return the executions of a block per execution of its owner, and its own sizes."""
    if isinstance(view, LoopView):
        trips = trip_count_of(view, infos)
        return (trips + 1 if body is view.condition else trips), {}
    if isinstance(view, CustomGradientView):
        return 0, {}
    if isinstance(view, PartitionView):
        case = view.cases[at]
        batch_size, own = infos[case.mask].shape[0], case.count
        return 1, {own.name: batch_size} if isinstance(own, Dim) and own.name else {}
    return 1, {}


def _maximum(left: Cost, right: Cost) -> Cost:
    return Cost(*(call("max", a, b) for a, b in zip(left.parts, right.parts, strict=True)))


# ---- whole programs --------------------------------------------------------------------------


def program_cost(program: ProgramDef) -> ProgramCost:
    """Return the cost of a run of all operators of a program.

    Raises:
        ShapeError: If the cost depends on more sizes than the text of a size can represent.
    """
    counter = _Counter()
    try:
        total = counter.block(program.main, _Around(ChainMap({**program.main.vars})))
        peak = peak_bytes(program)
    except ShapeError as error:
        raise ShapeError(
            "the cost of the program is too complex as a symbolic size.",
            given=error.what,
            fix="Pass numbers for symbols: prog.cost(sizes={'batch': 32}).",
        ) from None
    return ProgramCost(total, tuple(counter.found), peak)


@hint_keywords
def cost(
    program: Builder,
    fetch: Any = (),
    *,
    sizes: Mapping[str, int] | None = None,
    passes: Sequence[Pass] = (DCE,),
) -> ProgramCost:
    """Return the cost of a run of a program; see `Program.cost`."""
    names, pruned = target_names(program.definition, fetch)
    targets_program = with_fetches(pruned, names)
    known_sizes = check_sizes(targets_program, sizes)
    with planning(None, known_sizes):
        optimized = run_passes(drop_custom_gradients(targets_program), as_passes(passes))
    return cost_at(optimized, known_sizes)


def cost_at(program: ProgramDef, sizes: Mapping[str, int]) -> ProgramCost:
    """Return `program_cost` with numbers for some symbols."""
    if not sizes:
        return program_cost(program)
    main = resolve_body(program.main, lambda size: substitute(size, sizes))
    symbolic_cost = program_cost(program.with_(main=main))
    ops = (
        replace(op_cost, cost=op_cost.cost.at(sizes), runs=substitute(op_cost.runs, sizes))
        for op_cost in symbolic_cost.ops
    )
    return ProgramCost(
        symbolic_cost.total.at(sizes), tuple(ops), substitute(symbolic_cost.peak_bytes, sizes)
    )


def check_sizes(program: ProgramDef, requested: Any) -> Mapping[str, int]:
    """Check the sizes of a user, by name; `None` for none.

    Raises:
        UnknownNameError: If no dimension and no trip count has this name.
        ShapeError: If a size is not a nonnegative integer.
    """
    sizes: Mapping[str, int] = requested or {}
    for name, size in sizes.items():
        if type(size) is not int or size < 0:
            raise ShapeError(
                f"expected an integer of at least 0 for the size `{name}`, got {size!r:.80}.",
                fix="Write sizes={'batch': 32}.",
            )
    known = _names(program) if sizes else set[str]()
    for name in sizes:
        if name not in known:
            raise UnknownNameError(
                f"the program has no dimension `{name}`.", fix=suggest(name, known)
            )
    return sizes


def _names(program: ProgramDef) -> set[str]:
    """Return the names of dimensions and trip counts of a program."""
    names, vars_ = set[str](), ChainMap[str, VarInfo]()
    for body, _ in all_bodies(program.main):
        vars_.maps.append({**body.vars})
        names = names.union(*(dimensions(shape_of(info.type)) for info in body.vars.values()))
    views = (view_of(op) for _, op in all_ops(program.main))
    trips = tuple(trip_count_of(view, vars_) for view in views if isinstance(view, LoopView))
    return names | dimensions(trips)
