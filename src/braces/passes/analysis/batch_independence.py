"""Independence of batch elements: whether a program on joined batches equals that on each.

data x: f32[n,4]
y: f32[n] = sum(x) {axis=[1]}       independent: element i of y depends on element i of x
z: f32[4] = mean(x) {axis=[0]}      not: reduces over the batch axis
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from braces.dims import Dim, Size
from braces.dtypes import ListType, TensorType, Type
from braces.errors import BracesError, ProgramError
from braces.ir.records import DATA, Op, ProgramDef
from braces.ir.views import PartitionView, view_of
from braces.ops.common.row_semantics import mixed_rows_error
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis, BlockState
from braces.ops.control.batch_axis.axis_kinds import (
    AxisKind,
    AxisKinds,
    OpAxes,
    leading_row_kinds,
)


class _Independence(BatchAxisAnalysis):
    """A batch axis analysis that also refuses reductions over the batch axis, at any depth."""

    def step(self, op: Op, block: BlockState) -> OpAxes:
        """Interpret one operator."""
        op_axes = super().step(op, block)
        results = (block.kinds.get(name, ()) for names in op.outputs.values() for name in names)
        view = view_of(op)
        if isinstance(view, PartitionView) and all(AxisKind.BATCH in k for k in results):
            self._check_cases(view, op, block)
            return op_axes  # it counts the elements of each case, and nothing else
        if reduced := op_axes.reduced():
            raise mixed_rows_error(op, f"the batch axis is {reduced[0]}, which it reduces.")
        return op_axes

    @staticmethod
    def _check_cases(view: PartitionView, op: Op, block: BlockState) -> None:
        """Refuse cases that mix the batch elements which they select."""
        inner = block.constructs[op.name].blocks
        for case, (label, body) in zip(view.cases, op.bodies().items(), strict=True):
            types = inner[label].types
            kinds = {name: leading_row_kinds(types[name]) for name in body.params}
            _Independence(case.count).run(body.ops, BlockState(types, kinds).at_entry())


def find_batch_axis(types: Iterable[Type]) -> Dim | None:
    """Return the symbolic size of axis 0 that data share; `None` if there is none.

    Data without any symbolic size may be among them.
    """
    symbolic = [
        type_.shape
        for type_ in types
        if isinstance(type_, TensorType) and any(isinstance(size, Dim) for size in type_.shape)
    ]
    first = {shape[0] for shape in symbolic}
    size = first.pop() if len(first) == 1 else None
    return size if isinstance(size, Dim) and size.name else None


def explain_dependence(program: ProgramDef, rows: Dim, fetches: Iterable[str]) -> str | None:
    """Return why batch elements depend on each other; `None` if they are independent.

    Args:
        program: The program; it has no operators but those that the fetches need.
        rows: The size of the batch axis, which is axis 0 of the data that have it.
        fetches: The results: with the batch axis on axis 0, or without it.
    """
    body = program.main
    types: dict[str, Type] = {name: info.type for name, info in body.vars.items()}
    data = [name for name, info in body.vars.items() if info.kind == DATA]
    kinds: AxisKinds = {name: _declared_kinds(types[name], rows) for name in data}
    block = BlockState(types, kinds).at_entry()
    try:
        _Independence(rows).run(body.ops, block)
        for name in fetches:
            _check_result(name, types[name], block.kinds, rows)
    except BracesError as error:
        return error.what.replace(" of a row-wise branch", "")
    return None


def _declared_kinds(type_: Type, rows: Size) -> tuple[AxisKind, ...]:
    shape = cast(TensorType, type_).shape
    return tuple(AxisKind.BATCH if size == rows else AxisKind.OTHER for size in shape)


def _check_result(name: str, type_: Type, kinds: AxisKinds, rows: Dim) -> None:
    if isinstance(type_, ListType):
        raise ProgramError(f"the fetch `{name}` is a list.")
    own = kinds.get(name, (AxisKind.OTHER,) * type_.rank)
    has_rows = [rows.name in size.names() for size in type_.shape if isinstance(size, Dim)]
    is_first = type_.rank > 0 and type_.shape[0] == rows and AxisKind.OTHER is not own[0]
    if AxisKind.BATCH in own[1:] or sum(has_rows) != is_first:
        raise ProgramError(f"the batch axis is not axis 0 of the fetch `{name}`.")
