"""One operator for all trips of a loop, whose first axis holds those of all trips.

    y: f32[b,8,8,4] = conv2d(x=r, weight=w)         in each of n trips
    xs: f32[n*b,8,8,3] = reshape(x=rows)            once
    ys: f32[n*b,8,8,4] = conv2d(x=xs, weight=w)
    …: f32[n,b,8,8,4] = reshape(x=ys)

So are operators written that take no further axis, as convolutions do, where each entry along
the first axis of all that is another on each trip is on its own. And so are those that add up
what they make of the entries, for the sum over all trips:

    g: f32[3,3,3,4] = conv_to_weight(x=r, out=d)    in each of n trips, added up
    total: f32[3,3,3,4] = conv_to_weight(x=xs, out=ds)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, shape_of
from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Attr, Op
from braces.ops.control.batch_axis.analysis import TypeOf, axes_of
from braces.passes.batching.batching_rule import Values
from braces.passes.core.random_effects import is_random


@dataclass(frozen=True)
class StretchedFirst:
    """How an operator is written for all trips.

    Attributes:
        op: The operator as it is written then.
        varying: What of its inputs is another on each trip.
        trips: How many there are.
        totals: What `build` gives added up over all trips: all outputs, or none.
    """

    op: Op
    varying: Collection[str]
    trips: Size
    totals: frozenset[str]

    def adds_up(self, name: str) -> bool:
        """Whether it can give an output added up."""
        return name in self.totals

    def build(self, values: Values) -> dict[str, Var]:
        """Append it; what stands for the outputs of the operator, by their names.

        Args:
            values: What stands for an input, with a first axis of trips where it varies.
        """
        (size, *_) = (values(name).shape[1] for name in self.op.reads() if name in self.varying)

        def given(name: str) -> Var:
            x = values(name)
            if name not in self.varying:
                return x
            return one("reshape", x, shape=(self.trips * size, *x.shape[2:]))

        inputs = {slot: [*map(given, names)] for slot, names in self.op.inputs.items()}

        def whole(name: str, x: Var) -> Var:
            if name in self.totals:
                return x
            return one("reshape", x, shape=(self.trips, size, *x.shape[1:]))

        made = apply(self.op.type, inputs, self.op.attrs, wanted=tuple(self.op.outputs))
        return {
            name: whole(name, x)
            for slot, names in self.op.outputs.items()
            for name, x in zip(names, made[slot], strict=True)
        }


def stretched_first(
    op: Op, type_of: TypeOf, varying: Collection[str], trips: Size
) -> StretchedFirst | None:
    """How an operator is written for all trips; `None` where it cannot be so.

    Args:
        op: The operator as each trip runs it.
        type_of: The type there of what it reads and binds.
        varying: What of its inputs is another on each trip.
        trips: How many there are.
    """
    definition, names = OPS.get(op.type), {*op.reads(), *op.binds()}
    if definition.axes_rule is None or is_random(op) or op.bodies():
        return None
    types = {name: type_of(name) for name in names}
    if not all(isinstance(type_, TensorType) for type_ in types.values()):
        return None
    axes, outs = axes_of(op, types.__getitem__), frozenset(op.binds())
    index = _first_of(op, axes, {*varying, *outs})
    if index is not None and axes.keeps(index):
        return _written(op, types, trips, varying, frozenset())
    index = _first_of(op, axes, varying)
    if index is not None and index not in axes.mixed and definition.additive:
        return _written(op, types, trips, varying, outs)
    return None


def _first_of(op: Op, axes: AxisMap, led: Collection[str]) -> str | None:
    """The axis with which all these begin, and which nothing else has."""
    firsts, others = set[str | None](), set[str | None]()
    for out, slots in ((False, op.inputs), (True, op.outputs)):
        for slot, names in slots.items():
            for i, name in enumerate(names):
                indices = axes.of_output(slot, i) if out else axes.of(slot, i)
                firsts.update((indices[:1] or (None,)) if name in led else ())
                others.update(indices[name in led :])
    index = firsts.pop() if len(firsts) == 1 else None
    return None if index in others else index


def _written(
    op: Op,
    types: Mapping[str, Type],
    trips: Size,
    varying: Collection[str],
    totals: frozenset[str],
) -> StretchedFirst | None:
    """The operator for the entries of all trips, if it gives what is wanted of it then."""
    led = {*varying, *op.binds()} - totals
    longer = {n: _longer(type_, trips) if n in led else type_ for n, type_ in types.items()}
    (out, *_) = op.binds()
    made = op.with_(attrs=_attrs(op, shape_of(longer[out])))
    try:
        found = infer_op(made, longer, Unifier())
    except BracesError:
        return None
    if any(longer[name] != type_ for name, type_ in found.items()):
        return None
    return StretchedFirst(made, varying, trips, totals)


def _longer(type_: Type, trips: Size) -> Type:
    assert isinstance(type_, TensorType)
    first, *rest = type_.shape
    return TensorType(type_.dtype, (trips * first, *rest))


def _attrs(op: Op, shape: tuple[Size, ...]) -> Mapping[str, Attr]:
    """The attributes, of which the shape of the first output begins with all trips."""
    found = dict(op.attrs)
    for spec in OPS.get(op.type).attrs:
        value = found[spec.name]
        if spec.sizes_axes and isinstance(value, tuple) and len(value) == len(shape):
            found[spec.name] = (shape[0], *value[1:])
    return found
