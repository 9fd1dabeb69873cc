"""Where operands of products can follow one another, so that several products are one.

    p: f32[b,4] = matmul(x=h, y=u)        j: f32[3,8] = concat(xs=[u, v]) {axis=1}
    q: f32[b,4] = matmul(x=h, y=v)   ->   r: f32[b,8] = matmul(x=h, y=j)

`r` has `p` and `q` beside each other, for the last axis of `u` becomes one of the product. The
products of an axis along which they are added are added in one go:

    p: f32[b,4] = matmul(x=g, y=u)        k: f32[b,6] = concat(xs=[g, h]) {axis=1}
    q: f32[b,4] = matmul(x=h, y=v)        j: f32[6,4] = concat(xs=[u, v]) {axis=0}
    s: f32[b,4] = add(x=p, y=q)      ->   s: f32[b,4] = matmul(x=k, y=j)

Both follow from the axes that an operator declares, of which it says that it adds up products
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
from braces.ops.control.batch_axis.analysis import TypeOf, axes_of
from braces.passes.batching.batching_rule import structure

Key: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True)
class Operand:
    """An operand of a product, and the axis along which others can follow it.

    Attributes:
        slot: Its slot.
        at: Which variable of the slot.
        axis: The axis.
    """

    slot: str
    at: int
    axis: int

    def name(self, op: Op) -> str:
        """What a product has there."""
        return op.inputs[self.slot][self.at]


@dataclass(frozen=True)
class Joint:
    """Where products can be joined: at one operand, or at two along which they are added.

    Attributes:
        operands: The operands.
        out: The axis of the result that has the results beside each other; `None` where they
            are added.
    """

    operands: tuple[Operand, ...]
    out: int | None

    def alike(self, op: Op, type_of: TypeOf) -> Key:
        """What all products have in common that can be joined there with this one."""
        others = [
            (slot, i, name)
            for slot, names in op.inputs.items()
            for i, name in enumerate(names)
            if (slot, i) not in self._places
        ]
        kinds = [_beside(type_of(one.name(op)), one.axis) for one in self.operands]
        return op.type, tuple(op.attrs.items()), tuple(others), tuple(kinds)

    def holds(self, op: Op, sizes: Sequence[Size], type_of: TypeOf) -> bool:
        """Whether the axes say so of an operator with operands of these sizes, too.

        Args:
            op: One of the products.
            sizes: Of each operand, along its axis.
            type_of: The types of what the operator reads and binds.
        """
        alone, types = _with_own_names(op, type_of)
        joined = dict(types)
        for one, size in zip(self.operands, sizes, strict=True):
            joined[one.name(alone)] = resized(types[one.name(alone)], one.axis, size)
        (result,) = alone.binds()
        wanted = types[result]
        if self.out is not None:
            wanted = resized(wanted, self.out, sizes[0])
        try:
            found = infer_op(alone, joined, Unifier())[result]
        except BracesError:
            return False
        shapes = [
            structure(alone, axes_of(alone, each.__getitem__)) for each in (types, joined)
        ]
        return found == wanted and shapes[0] == shapes[1]

    def build(self, op: Op, given: Sequence[Var], value: Callable[[str], Var]) -> Var:
        """Append the one product.

        Args:
            op: One of the products.
            given: What stands at each operand now.
            value: What stands for another name.
        """
        inputs = {slot: [*map(value, names)] for slot, names in self._rest(op).items()}
        for one, var in zip(self.operands, given, strict=True):
            inputs[one.slot].insert(one.at, var)
        (slot,) = op.outputs
        return apply(op.type, inputs, op.attrs, wanted=(slot,))[slot][0]

    @property
    def _places(self) -> set[tuple[str, int]]:
        return {(one.slot, one.at) for one in self.operands}

    def _rest(self, op: Op) -> dict[str, list[str]]:
        slots = op.inputs.items()
        return {
            slot: [name for i, name in enumerate(names) if (slot, i) not in self._places]
            for slot, names in slots
        }

    @classmethod
    def found(cls, op: Op, type_of: TypeOf) -> Iterator[Self]:
        """Where an operator can be joined with others like it; none where it is no product."""
        definition, outputs = OPS.get(op.type), [*op.binds()]
        if not definition.product or definition.axes_rule is None or len(outputs) != 1:
            return
        try:
            axes = axes_of(op, type_of)
        except BracesError:
            return
        (slot,) = op.outputs
        out, operands = axes.of_output(slot), _operands(op, axes)
        for index, places in operands.items():
            if len(places) == 1 and out.count(index) == 1:
                yield cls(tuple(places), out.index(index))
            elif len(places) == 2 and index in axes.fills and index not in out:
                yield cls(tuple(places), None)


def _operands(op: Op, axes: AxisMap) -> dict[str, list[Operand]]:
    """Where each index is that does not broadcast and has no diagonal, the last one first."""
    found: dict[str, list[Operand]] = {}
    for slot, names in op.inputs.items():
        for i in range(len(names)):
            for axis, index in enumerate(axes.of(slot, i)):
                if index is not None and not index.startswith(DOTS):
                    found.setdefault(index, []).append(Operand(slot, i, axis))
    return {
        index: places
        for index, places in reversed(found.items())
        if index not in axes.mixed
        and len({(one.slot, one.at) for one in places}) == len(places)
    }


def axis_before(op: Op, axis: int, type_of: TypeOf) -> int:
    """The axis of what such an operator reads that becomes an axis of its result."""
    axes, (slot,), (out,) = axes_of(op, type_of), op.inputs, op.outputs
    return axes.of(slot).index(axes.of_output(out)[axis])


def _with_own_names(op: Op, type_of: TypeOf) -> tuple[Op, dict[str, Type]]:
    """An operator that reads each of its inputs by another name, and the types of those."""
    types: dict[str, Type] = {}
    inputs: dict[str, tuple[str, ...]] = {}
    for slot, names in op.inputs.items():
        inputs[slot] = tuple(f"{slot}.{i}" for i in range(len(names)))
        types |= dict(zip(inputs[slot], map(type_of, names), strict=True))
    return op.with_(inputs=inputs), types | {name: type_of(name) for name in op.binds()}


def resized(type_: Type, axis: int, size: Size) -> Type:
    """A type with another size along an axis."""
    assert isinstance(type_, TensorType)
    return type_.with_shape((*type_.shape[:axis], size, *type_.shape[axis + 1 :]))


def _beside(type_: Type, axis: int) -> Key:
    """What must be the same of what stands beside something along an axis."""
    assert isinstance(type_, TensorType)
    return type_.dtype, type_.shape[:axis], type_.shape[axis + 1 :]


def total(names: Sequence[str], axis: int, type_of: TypeOf) -> Size:
    """The size of several along an axis, one after another."""
    return sum((shape_of(type_of(name))[axis] for name in names), start=0)
