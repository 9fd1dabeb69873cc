"""Axis rules: functions for `@op(axes=...)` that many operators share.

Each returns the `AxisMap` for the types and attributes of an operator:

    Reduction({"x": 0})     reduction over the attribute `axis`, with identity elements
    mixing_reduction        the same without identity elements: entries are mixed
    mix_along_axis          outputs with the axes of the input, mixed along `axis`
    mix_all_axes            outputs that mix all entries
    constant_axes           output with the attribute `shape`, without input axes
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from braces.define.axes.axis_map import (
    LOWEST,
    Attrs,
    AxisError,
    AxisMap,
    IdentityElements,
    Names,
    Types,
    make_axis_map,
    normalize_axes,
    numbered_indices,
    remove_axes,
    require_tuple,
    shape_indices,
    shape_of,
)
from braces.dims import Size
from braces.dtypes import TensorType, Type


@dataclass(frozen=True)
class Reduction:
    """A reduction over the attribute `axis`, or over all axes; with `keepdims`, to size 1.

    Attributes:
        fills: The identity elements that mask an entry, by input slot.
        nonempty: Whether reduced axes must not have size 0.
    """

    fills: IdentityElements
    nonempty: bool = False

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """Return the map for inputs of these types."""
        slots = list(self.fills)
        if self.nonempty:
            check_not_empty(types[slots[0]][0], attrs)
        indices, reduced_axes = _indices_and_axes(types[slots[0]][0], attrs)
        output_indices = remove_axes(indices, reduced_axes, bool(attrs.get("keepdims", False)))
        inputs = {slot: (indices,) for slot in slots}
        return make_axis_map(types, inputs, {"out": (output_indices,)}, fills=self.fills)


def check_not_empty(type_: Type, attrs: Attrs) -> None:
    """Reject an empty reduction.

    Raises:
        AxisError: If a reduced axis has size 0.
    """
    shape = shape_of(type_)
    if 0 in [shape[a] for a in normalize_axes(attrs["axis"], len(shape))]:
        raise AxisError(
            "zero-size axis in a reduction without identity element.",
            fix="Reduce axes of size 1 or more.",
        )


def mixing_reduction(types: Types, attrs: Attrs) -> AxisMap:
    """Return a reduction of the first input like `Reduction`, but without identity elements.

    Other inputs have the axes of the result.
    """
    slot, *others = (name for name in types if name != "out")
    indices, reduced_axes = _indices_and_axes(types[slot][0], attrs)
    output_indices = remove_axes(indices, reduced_axes, bool(attrs.get("keepdims", False)))
    inputs = {slot: (indices,)} | {other: (output_indices,) for other in others}
    return make_axis_map(
        types, inputs, {"out": (output_indices,)}, [indices[i] for i in reduced_axes]
    )


def reduce_exponentials(types: Types, attrs: Attrs) -> AxisMap:
    """Return a reduction with identity -inf; bools and unsigned integers have none."""
    slot, (x, *_) = next(iter(types.items()))
    unsigned = isinstance(x, TensorType) and x.dtype.kind in "bu"
    rule = mixing_reduction if unsigned else Reduction({slot: LOWEST})
    return rule(types, attrs)


def mix_along_axis(types: Types, attrs: Attrs) -> AxisMap:
    """Return a map that mixes along the attribute `axis`; outputs have the same axes."""
    (slot, slot_types), *_ = types.items()
    indices, mixed_axes = _indices_and_axes(slot_types[0], attrs)
    inputs, outputs = {slot: (indices,) * len(slot_types)}, {"out": (indices,)}
    return make_axis_map(types, inputs, outputs, [indices[i] for i in mixed_axes])


def with_tails(axis_map: AxisMap, fills: IdentityElements) -> AxisMap:
    """Return a map with these fills to exclude trailing entries along all mixed axes."""
    return replace(axis_map, tails=dict.fromkeys(axis_map.mixed, fills))


def resize_axis(axis_map: AxisMap, axis: int, index: str, size: Size) -> AxisMap:
    """Return a map of one output with another size along an axis, which is mixed."""
    ((slot, (indices,)),) = axis_map.outputs.items()
    out = list(indices)
    out[axis] = index
    mixed = axis_map.mixed | {index}
    return replace(axis_map, outputs={slot: (tuple(out),)}, mixed=mixed, sizes={index: size})


def _indices_and_axes(type_: Type, attrs: Attrs) -> tuple[Names, list[int]]:
    """Return an index for each axis, and the axes of the attribute `axis`."""
    indices = numbered_indices(len(shape_of(type_)))
    return indices, normalize_axes(attrs["axis"], len(indices))


def mix_all_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return a map that mixes all entries."""
    del attrs
    indices_of_slot = {
        slot: numbered_indices(len(shape_of(slot_types[0])), slot)
        for slot, slot_types in types.items()
    }
    all_names = [index for indices in indices_of_slot.values() for index in indices]
    indices = {slot: (axis_indices,) for slot, axis_indices in indices_of_slot.items()}
    return make_axis_map(types, indices, indices, all_names)


def axes_of_cases(types: Types, attrs: Attrs) -> AxisMap:
    """Return an empty map: the axes of an operator with cases are mapped by the cases."""
    del types, attrs
    return AxisMap({}, {})


def constant_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return the map of a constant output with the attribute `shape`, without input axes."""
    del types
    indices, sizes = shape_indices(require_tuple(attrs["shape"]))
    return AxisMap({}, {"out": (indices,)}, sizes=sizes)
