"""Propagation of axis names through operators: an axis that is kept keeps its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.define.axes.axis_map import AxisMap, Indices, Types, shape_of
from braces.define.definition import OpDef
from braces.dims import Shape
from braces.dtypes import AxisNames
from braces.errors import BracesError

Named = Mapping[str, Sequence[AxisNames]]
"""By slot, the axis names of each of its variables."""


def output_axis_names(
    definition: OpDef, types: Types, attrs: Mapping[str, Any], named: Named
) -> dict[str, tuple[AxisNames, ...]]:
    """Return the axis names of outputs, by slot, inherited from the inputs.

    Args:
        definition: The operator.
        types: The types of inputs and outputs, by slot.
        attrs: Its attributes.
        named: The names of axes of the inputs.
    """
    if definition.axes_rule is None or not any(any(each) for each in named.values()):
        return {}
    try:
        axes = definition.axes_rule(types, attrs)
    except BracesError:  # no axis map for such inputs
        return {}
    called = _names_by_index(axes, named)
    return {
        slot: tuple(
            _names_of_axes(axes.of_output(slot, i), shape_of(type_), called)
            for i, type_ in enumerate(types.get(slot, ()))
        )
        for slot in definition.output_names
        if called
    }


def _names_by_index(axes: AxisMap, named: Named) -> dict[str, str]:
    """Return the names of axis indices; if inputs disagree, the first one wins."""
    name_of = dict[str, str]()
    for slot, each in named.items():
        for i, names in enumerate(each):
            for index, name in zip(axes.of(slot, i), names, strict=False):
                if index is not None and name is not None:
                    name_of.setdefault(index, name)
    return name_of


def _names_of_axes(indices: Indices, shape: Shape, name_of: Mapping[str, str]) -> AxisNames:
    pairs = zip(indices, shape, strict=False)
    names = (name_of.get(i or "") if isinstance(size, int) else None for i, size in pairs)
    axis_names = tuple(names)
    return axis_names if any(axis_names) and len(axis_names) == len(shape) else ()
