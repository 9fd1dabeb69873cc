"""Folded batching rule: iterations folded into the first axis of the operands.

    y: f32[b,8,8,4] = conv2d(x=r, weight=w)         in each of n iterations
    xs: f32[n*b,8,8,3] = reshape(x=rows)            once
    ys: f32[n*b,8,8,4] = conv2d(x=xs, weight=w)
    …: f32[n,b,8,8,4] = reshape(x=ys)

It serves operators that accept no further axis, as convolutions, if the first axis of all
varying operands and outputs is pointwise. It also serves operators that reduce this axis, for
the sum over all iterations:

    g: f32[3,3,3,4] = conv_to_weight(x=r, out=d)    in each of n iterations, added up
    total: f32[3,3,3,4] = conv_to_weight(x=xs, out=ds)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, shape_of
from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Attr, Op
from braces.ops.control.batch_axis.axis_kinds import TypeOf, axis_map_of
from braces.passes.batching.batching_rule import Values
from braces.passes.core.random_effects import is_random


@dataclass(frozen=True)
class FoldedOp:
    """Operator for all iterations, folded into the first axis.

    Attributes:
        op: The operator for all iterations.
        varying: Its loop-variant operands.
        trips: The trip count.
        totals: Outputs that `build` sums over all iterations: all, or none.
    """

    op: Op
    varying: Collection[str]
    trips: Size
    totals: frozenset[str]

    def can_sum(self, name: str) -> bool:
        """Return whether an output is summed over all iterations."""
        return name in self.totals

    def build(self, values: Values) -> dict[str, Var]:
        """Append the operator; return its outputs for all iterations, by name.

        Args:
            values: Returns an operand, with a leading iteration axis if it varies.
        """
        (size, *_) = (values(name).shape[1] for name in self.op.reads() if name in self.varying)

        def folded_operand(name: str) -> Var:
            x = values(name)
            if name not in self.varying:
                return x
            return emit("reshape", x, shape=(self.trips * size, *x.shape[2:]))

        inputs = {slot: [*map(folded_operand, names)] for slot, names in self.op.inputs.items()}

        def unfolded_output(name: str, x: Var) -> Var:
            if name in self.totals:
                return x
            return emit("reshape", x, shape=(self.trips, size, *x.shape[1:]))

        results = apply(self.op.type, inputs, self.op.attrs, wanted=tuple(self.op.outputs))
        return {
            name: unfolded_output(name, x)
            for slot, names in self.op.outputs.items()
            for name, x in zip(names, results[slot], strict=True)
        }


def apply_folded_rule(
    op: Op, type_of: TypeOf, varying: Collection[str], trips: Size
) -> FoldedOp | None:
    """Apply the folded batching rule to an operator; `None` if it does not apply.

    Args:
        op: The operator in one iteration.
        type_of: Returns the type of its operands and results in one iteration.
        varying: Its loop-variant operands.
        trips: The trip count.
    """
    definition, names = OPS.get(op.type), {*op.reads(), *op.binds()}
    if definition.axes_rule is None or is_random(op) or op.bodies():
        return None
    types = {name: type_of(name) for name in names}
    if not all(isinstance(type_, TensorType) for type_ in types.values()):
        return None
    axes, outs = axis_map_of(op, types.__getitem__), frozenset(op.binds())
    index = _common_first_axis(op, axes, {*varying, *outs})
    if index is not None and axes.keeps(index):
        return _fold_op(op, types, trips, varying, frozenset())
    index = _common_first_axis(op, axes, varying)
    if index is not None and index not in axes.mixed and definition.additive:
        return _fold_op(op, types, trips, varying, outs)
    return None


def _common_first_axis(op: Op, axes: AxisMap, led: Collection[str]) -> str | None:
    """Return the axis that is the first of all these and occurs nowhere else."""
    firsts, others = set[str | None](), set[str | None]()
    for out, slots in ((False, op.inputs), (True, op.outputs)):
        for slot, names in slots.items():
            for i, name in enumerate(names):
                indices = axes.of_output(slot, i) if out else axes.of(slot, i)
                firsts.update((indices[:1] or (None,)) if name in led else ())
                others.update(indices[name in led :])
    index = firsts.pop() if len(firsts) == 1 else None
    return None if index in others else index


def _fold_op(
    op: Op,
    types: Mapping[str, Type],
    trips: Size,
    varying: Collection[str],
    totals: frozenset[str],
) -> FoldedOp | None:
    """Return the operator for all iterations if its outputs have the expected types."""
    led = {*varying, *op.binds()} - totals
    longer = {
        n: _folded_type(type_, trips) if n in led else type_ for n, type_ in types.items()
    }
    (out, *_) = op.binds()
    folded_op = op.with_(attrs=_attrs(op, shape_of(longer[out])))
    try:
        inferred_types = infer_op(folded_op, longer, Unifier())
    except BracesError:
        return None
    if any(longer[name] != type_ for name, type_ in inferred_types.items()):
        return None
    return FoldedOp(folded_op, varying, trips, totals)


def _folded_type(type_: Type, trips: Size) -> Type:
    assert isinstance(type_, TensorType)
    first, *others = type_.shape
    return TensorType(type_.dtype, (trips * first, *others))


def _attrs(op: Op, shape: tuple[Size, ...]) -> Mapping[str, Attr]:
    """Return the attributes, with shapes that begin with the folded first axis."""
    new_attrs = dict(op.attrs)
    for spec in OPS.get(op.type).attrs:
        value = new_attrs[spec.name]
        if spec.sizes_axes and isinstance(value, tuple) and len(value) == len(shape):
            new_attrs[spec.name] = (shape[0], *value[1:])
    return new_attrs
