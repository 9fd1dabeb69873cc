"""Fusion axes: operand axes along which matrix products can be concatenated into one product.

    p: f32[b,4] = matmul(x=h, y=u)        j: f32[3,8] = concat(xs=[u, v]) {axis=1}
    q: f32[b,4] = matmul(x=h, y=v)   ->   r: f32[b,8] = matmul(x=h, y=j)

`r` is the concatenation of `p` and `q`, because the last axis of `u` is an axis of the product.
Along a contracted axis, one product adds up the products:

    p: f32[b,4] = matmul(x=g, y=u)        k: f32[b,6] = concat(xs=[g, h]) {axis=1}
    q: f32[b,4] = matmul(x=h, y=v)        j: f32[6,4] = concat(xs=[u, v]) {axis=0}
    s: f32[b,4] = add(x=p, y=q)      ->   s: f32[b,4] = matmul(x=k, y=j)

Both follow from the axis map of an operator that is declared a contraction
(`@op(product=True)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from braces.builder.append import apply
from braces.builder.var import Var
from braces.define.axes.axis_map import DOTS, AxisMap, shape_of
from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Op
from braces.ops.control.batch_axis.axis_kinds import TypeOf, axis_map_of
from braces.passes.batching.batching_rule import axis_structure

Key: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True)
class FusionOperand:
    """An operand of a product, and the axis along which others can be concatenated to it.

    Attributes:
        slot: Its slot.
        at: Position of the variable in the slot.
        axis: The axis.
    """

    slot: str
    at: int
    axis: int

    def name(self, op: Op) -> str:
        """Return the name of this operand of a product."""
        return op.inputs[self.slot][self.at]


@dataclass(frozen=True)
class FusionAxis:
    """Fusion axis of products: of one operand, or contracted, of two operands.

    Attributes:
        operands: The operands.
        out: Axis of the result along which the results are concatenated; `None` if they are
            added.
    """

    operands: tuple[FusionOperand, ...]
    out: int | None

    def alike(self, op: Op, type_of: TypeOf) -> Key:
        """Return a key that is equal for products that can be fused here."""
        others = [
            (slot, i, name)
            for slot, names in op.inputs.items()
            for i, name in enumerate(names)
            if (slot, i) not in self._operand_slots
        ]
        kinds = [
            _concat_key(type_of(operand.name(op)), operand.axis) for operand in self.operands
        ]
        return op.type, tuple(op.attrs.items()), tuple(others), tuple(kinds)

    def holds(self, op: Op, sizes: Sequence[Size], type_of: TypeOf) -> bool:
        """Return whether the axis map is also valid for operands of these sizes.

        Args:
            op: One of the products.
            sizes: Size of each operand along its axis.
            type_of: The types of the operator's operands and results.
        """
        renamed_op, types = _with_distinct_names(op, type_of)
        joined = dict(types)
        for operand, size in zip(self.operands, sizes, strict=True):
            joined[operand.name(renamed_op)] = resize_axis(
                types[operand.name(renamed_op)], operand.axis, size
            )
        (result,) = renamed_op.binds()
        expected_type = types[result]
        if self.out is not None:
            expected_type = resize_axis(expected_type, self.out, sizes[0])
        try:
            result_type = infer_op(renamed_op, joined, Unifier())[result]
        except BracesError:
            return False
        structures = [
            axis_structure(renamed_op, axis_map_of(renamed_op, known_types.__getitem__))
            for known_types in (types, joined)
        ]
        return result_type == expected_type and structures[0] == structures[1]

    def build(self, op: Op, new_operands: Sequence[Var], value: Callable[[str], Var]) -> Var:
        """Append the fused product.

        Args:
            op: One of the products.
            new_operands: The new operands at the fusion axis.
            value: Returns the variable of any other operand.
        """
        inputs = {slot: [*map(value, names)] for slot, names in self._other_inputs(op).items()}
        for operand, var in zip(self.operands, new_operands, strict=True):
            inputs[operand.slot].insert(operand.at, var)
        (slot,) = op.outputs
        return apply(op.type, inputs, op.attrs, wanted=(slot,))[slot][0]

    @property
    def _operand_slots(self) -> set[tuple[str, int]]:
        return {(operand.slot, operand.at) for operand in self.operands}

    def _other_inputs(self, op: Op) -> dict[str, list[str]]:
        slots = op.inputs.items()
        return {
            slot: [name for i, name in enumerate(names) if (slot, i) not in self._operand_slots]
            for slot, names in slots
        }

    @classmethod
    def all_of(cls, op: Op, type_of: TypeOf) -> Iterator[Self]:
        """Yield the fusion axes of an operator; none if it is no contraction."""
        definition, outputs = OPS.get(op.type), [*op.binds()]
        if not definition.product or definition.axes_rule is None or len(outputs) != 1:
            return
        try:
            axes = axis_map_of(op, type_of)
        except BracesError:
            return
        (slot,) = op.outputs
        out, operands = axes.of_output(slot), _operands(op, axes)
        for index, places in operands.items():
            if len(places) == 1 and out.count(index) == 1:
                yield cls(tuple(places), out.index(index))
            elif len(places) == 2 and index in axes.fills and index not in out:
                yield cls(tuple(places), None)


def _operands(op: Op, axes: AxisMap) -> dict[str, list[FusionOperand]]:
    """Return the operands by axis name, without broadcast axes and diagonals; last first."""
    operands_by_axis: dict[str, list[FusionOperand]] = {}
    for slot, names in op.inputs.items():
        for i in range(len(names)):
            for axis, index in enumerate(axes.of(slot, i)):
                if index is not None and not index.startswith(DOTS):
                    operands_by_axis.setdefault(index, []).append(FusionOperand(slot, i, axis))
    return {
        index: places
        for index, places in reversed(operands_by_axis.items())
        if index not in axes.mixed
        and len({(operand.slot, operand.at) for operand in places}) == len(places)
    }


def source_axis(op: Op, axis: int, type_of: TypeOf) -> int:
    """Return the operand axis of a transpose that becomes an axis of its result."""
    axes, (slot,), (out,) = axis_map_of(op, type_of), op.inputs, op.outputs
    return axes.of(slot).index(axes.of_output(out)[axis])


def _with_distinct_names(op: Op, type_of: TypeOf) -> tuple[Op, dict[str, Type]]:
    """Return an operator whose inputs have distinct names, and their types."""
    types: dict[str, Type] = {}
    inputs: dict[str, tuple[str, ...]] = {}
    for slot, names in op.inputs.items():
        inputs[slot] = tuple(f"{slot}.{i}" for i in range(len(names)))
        types |= dict(zip(inputs[slot], map(type_of, names), strict=True))
    return op.with_(inputs=inputs), types | {name: type_of(name) for name in op.binds()}


def resize_axis(type_: Type, axis: int, size: Size) -> Type:
    """Return a type with another size along an axis."""
    assert isinstance(type_, TensorType)
    return type_.with_shape((*type_.shape[:axis], size, *type_.shape[axis + 1 :]))


def _concat_key(type_: Type, axis: int) -> Key:
    """Return the properties that must be equal to concatenate along an axis."""
    assert isinstance(type_, TensorType)
    return type_.dtype, type_.shape[:axis], type_.shape[axis + 1 :]


def total_size(names: Sequence[str], axis: int, type_of: TypeOf) -> Size:
    """Return the size of several values concatenated along an axis."""
    return sum((shape_of(type_of(name))[axis] for name in names), start=0)
