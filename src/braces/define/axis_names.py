"""Names of axes, followed through an operator: an axis that it keeps keeps its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.define.axes.axis_map import AxisMap, Indices, Types, shape_of
from braces.define.definition import OpDef
from braces.dims import Shape
from braces.dtypes import AxisNames
from braces.errors import BracesError

Named = Mapping[str, Sequence[AxisNames]]
"""By slot, the names of the axes of each of its variables."""


def names_of_outputs(
    definition: OpDef, types: Types, attrs: Mapping[str, Any], named: Named
) -> dict[str, tuple[AxisNames, ...]]:
    """By output slot, the names of axes that come of axes of the inputs which have some.

    Args:
        definition: Of the operator.
        types: Of inputs and outputs, by slot.
        attrs: Its attributes.
        named: The names of axes of the inputs.
    """
    if definition.axes_rule is None or not any(any(each) for each in named.values()):
        return {}
    try:
        axes = definition.axes_rule(types, attrs)
    except BracesError:  # nothing is known of such inputs
        return {}
    called = _by_index(axes, named)
    return {
        slot: tuple(
            _spelled(axes.of_output(slot, i), shape_of(type_), called)
            for i, type_ in enumerate(types.get(slot, ()))
        )
        for slot in definition.output_names
        if called
    }


def _by_index(axes: AxisMap, named: Named) -> dict[str, str]:
    """What indices are called; where two inputs differ, as the first says."""
    found = dict[str, str]()
    for slot, each in named.items():
        for i, names in enumerate(each):
            for index, name in zip(axes.of(slot, i), names, strict=False):
                if index is not None and name is not None:
                    found.setdefault(index, name)
    return found


def _spelled(indices: Indices, shape: Shape, called: Mapping[str, str]) -> AxisNames:
    pairs = zip(indices, shape, strict=False)
    names = (called.get(i or "") if isinstance(size, int) else None for i, size in pairs)
    found = tuple(names)
    return found if any(found) and len(found) == len(shape) else ()
