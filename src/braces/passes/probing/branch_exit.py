"""Exit of values from a branch: as outputs that are zero where another case ran.

    y: f32[b,8] = partition(masks=[no, yes], …)   y, p.g = partition(masks=[no, yes], …)
      cases [                                       cases [
        (v: bool[m], a: f32[m,8]) {                   (v: bool[m], a: f32[m,8]) {
          return a                              ->      zero: f32[m,8] = full() …
        },                                              return a, zero
        (w: bool[n], c: f32[n,8]) {                   },
          g: f32[n,8] = exp(x=c)                      (w: bool[n], c: f32[n,8]) {
          return g                                      g: f32[n,8] = exp(x=c)
        },                                              return g, g
                                                      },

The mask `yes` has the batch elements of the case. If loops in the case added leading axes to a
value, its batch axis moves to the front and, outside, back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from braces.builder.append import apply
from braces.builder.var import Var, visible_var
from braces.dtypes import BOOL, DType, TensorType, is_integer
from braces.errors import ProgramError
from braces.ir.records import Body, VarInfo
from braces.ir.views import BlockView, Output, PartitionView, SwitchView
from braces.passes.core.rewrite import InsertionPoint
from braces.passes.probing.exposed import Exposed, check_sizes


@dataclass
class BranchExit:
    """Exit of values from one case of a branch.

    Attributes:
        view: The branch.
        case: The index of the case.
        place: The branch, in the enclosing block.
        contents: The content of each case.
        outs: The outputs, with those added so far.
        infos: The new variables of the enclosing block.
    """

    view: SwitchView | PartitionView | BlockView
    case: int
    place: InsertionPoint
    contents: list[Body] = field(init=False)
    outs: list[Output] = field(init=False)
    infos: list[VarInfo] = field(default_factory=list[VarInfo])

    def __post_init__(self) -> None:
        if isinstance(self.view, PartitionView):
            self.contents = [case.content for case in self.view.cases]
            self.outs = list(self.view.outs)
        else:
            self.contents = list(self.view.contents)
            self.outs = list(self.view.outputs)

    def output(self, item: Exposed, others: Sequence[TensorType], type_: TensorType) -> Exposed:
        """Give out a value.

        Args:
            item: The value in the case.
            others: The type of its zeros in each case; the entry of the case is not used.
            type_: Its type outside.
        """
        known = [out.name for out in self.outs if out.results == (item.name,)]
        if known:
            return replace(item, name=known[0], type=type_)
        results = [
            item.name if k == self.case else self._zeros(k, other)
            for k, other in enumerate(others)
        ]
        exposed = replace(item, name=self._outside(item.name), type=type_)
        self.outs.append(Output(exposed.name, tuple(results)))
        self.infos.append(exposed.info)
        return exposed

    def build(self, case: int, build: Callable[[Callable[[str], Var]], Var]) -> Var:
        """Append operators to a case.

        Args:
            case: The index of the case.
            build: Builds them; it receives a function from names to variables.
        """
        program, body = self.place.program, self.contents[case]
        table = self.place.table.within(self.view.origin)
        table.vars = dict(body.vars)
        with program.building(table), program.at(self.view.origin.source):
            var = build(lambda name: visible_var(program, table, name))
        self.contents[case] = body.with_(ops=(*body.ops, *table.ops), vars=dict(table.vars))
        return var

    def finish(self) -> None:
        """Insert the branch."""
        view, outs = self.view, tuple(self.outs)
        if isinstance(view, PartitionView):
            branch = replace(view.containing(self.contents), outs=outs).to_op()
        else:
            branch = replace(view, contents=tuple(self.contents), outputs=outs).to_op()
        self.place.keep(branch, self.infos)

    def _zeros(self, case: int, type_: TensorType) -> str:
        return self.build(case, lambda _: full(type_, zero_of(type_.dtype))).name

    def _outside(self, name: str) -> str:
        """Return a name for an output: that of a plain block's variable, where it is free."""
        table = self.place.table
        if isinstance(self.view, BlockView) and table.find_var(name) is None:
            return name
        return table.names.unique(f"{self.view.origin.name}.{name}")


def leave_block(
    view: BlockView, items: Sequence[Exposed], place: InsertionPoint
) -> list[Exposed]:
    """Give values out of a plain block."""
    leaving = BranchExit(view, 0, place)
    exposed = [leaving.output(item, [item.type], item.type) for item in items]
    leaving.finish()
    return exposed


def leave_switch(
    view: SwitchView, case: int, value: Exposed, ran: Exposed | None, place: InsertionPoint
) -> list[Exposed]:
    """Give a value and its mask out of a case of a switch."""
    leaving = BranchExit(view, case, place)
    if ran is None:
        true = leaving.build(case, lambda _: full(TensorType(BOOL, ()), 1))
        ran = Exposed(true.name, TensorType(BOOL, ()))
    exposed = list[Exposed]()
    for item in (value, ran):
        check_sizes(item, place, view.origin.name)
        exposed.append(leaving.output(item, [item.type] * len(view.contents), item.type))
    leaving.finish()
    return exposed


def leave_rows(
    view: PartitionView,
    case: int,
    value: Exposed,
    ran: Exposed | None,
    place: InsertionPoint,
) -> list[Exposed]:
    """Give a value and its mask out of a case of a row-wise branch."""
    axis, leaving = value.loops, BranchExit(view, case, place)
    check_rows(view, case, value)
    if ran is None and axis == 0:
        mask = place.info(view.cases[case].mask)
        exposed, ran = [value], Exposed(mask.name, TensorType(BOOL, mask.shape))
    else:
        exposed, ran = [value, _mask_inside(leaving, value, ran)], None
    exposed = [_output_rows(leaving, view, item, axis) for item in exposed]
    leaving.finish()
    if axis:
        exposed = [_move_outside(place, item, axis) for item in exposed]
    return exposed if ran is None else [*exposed, ran]


def check_rows(view: PartitionView, case: int, value: Exposed) -> None:
    """Refuse a value without the batch axis of a row-wise branch.

    Raises:
        ProgramError: If the value has no batch axis.
    """
    axis, shape, count = value.loops, value.type.shape, view.cases[case].count
    if len(shape) <= axis or shape[axis] != count:
        raise ProgramError(
            f"cannot probe `{value.name}`: it has no batch axis in the row-wise branch "
            f"`{view.origin.name}`.",
            given=f"{value.name}: {value.type}   batch size of the case: {count}",
            fix="Probe a value with one entry per batch element along axis 0.",
        )


def _mask_inside(leaving: BranchExit, value: Exposed, ran: Exposed | None) -> Exposed:
    """Build the mask of a value in a case, up to the batch axis."""
    shape = value.type.shape[: value.loops + 1]

    def build(var: Callable[[str], Var]) -> Var:
        true = full(TensorType(BOOL, shape), 1)
        if ran is None:
            return true
        sizes = (*ran.type.shape, *[1] * (len(shape) - len(ran.type.shape)))
        mask = apply("reshape", {"x": (var(ran.name),)}, {"shape": sizes})["out"][0]
        return apply("logical_and", {"x": (true,), "y": (mask,)})["out"][0]

    name = leaving.build(leaving.case, build).name
    return Exposed(name, TensorType(BOOL, shape), value.loops)


def _output_rows(leaving: BranchExit, view: PartitionView, item: Exposed, axis: int) -> Exposed:
    """Give out a value with its batch axis in front."""
    if axis:
        moved = leaving.build(leaving.case, lambda var: move_axis(var(item.name), axis, 0))
        assert isinstance(moved.type, TensorType)
        item = replace(item, name=moved.name, type=moved.type)
    dtype, rest = item.type.dtype, item.type.shape[1:]
    inner = replace(item, type=TensorType(dtype, rest))
    check_sizes(inner, leaving.place, view.origin.name)
    others = [TensorType(dtype, (case.count, *rest)) for case in view.cases]
    rows = leaving.place.info(view.cases[leaving.case].mask).shape[0]
    return leaving.output(item, others, TensorType(dtype, (rows, *rest)))


def _move_outside(place: InsertionPoint, item: Exposed, axis: int) -> Exposed:
    """Move the batch axis behind the axes of loops."""
    with place.building():
        moved = move_axis(place.var(item.name), 0, axis)
    assert isinstance(moved.type, TensorType)
    return replace(item, name=moved.name, type=moved.type)


def move_axis(x: Var, source: int, destination: int) -> Var:
    """Append a `moveaxis`."""
    attrs = {"source": (source,), "destination": (destination,)}
    return apply("moveaxis", {"x": (x,)}, attrs)["out"][0]


def full(type_: TensorType, value: float) -> Var:
    """Append an array filled with one number."""
    attrs = {"shape": type_.shape, "value": value, "dtype": type_.dtype}
    return apply("full", {}, attrs)["out"][0]


def zero_of(dtype: DType) -> float:
    """Return the zero of a dtype."""
    return 0 if dtype == BOOL or is_integer(dtype) else 0.0
