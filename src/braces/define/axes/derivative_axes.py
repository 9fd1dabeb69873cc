"""Axis maps of derivatives: cotangents and tangents have the axes of their primals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    AxisRule,
    IdentityElements,
    Indices,
    Types,
    slots_having,
    unique_indices,
)
from braces.define.core.signature import Slot


def derive_axis_rule(
    base: AxisRule | None,
    slots: Sequence[Slot],
    outputs: Sequence[Slot],
    suffix: str,
    linear: Collection[str],
) -> AxisRule | None:
    """Return the axis rule of a derivative.

    Args:
        base: The axis rule of the differentiated operator.
        slots: The inputs of the derivative.
        outputs: Its outputs.
        suffix: The suffix of its own cotangents or tangents, after the name of their primals.
        linear: The inputs in which the results are linear.
    """
    if base is None:
        return None

    def rule(types: Types, attrs: Attrs) -> AxisMap:
        primal_types = {
            name.removesuffix(suffix): slot_types for name, slot_types in types.items()
        }
        of_base = base(primal_types | dict(types), attrs)
        named = [(s.name, s.name.removesuffix(suffix)) for s in (*slots, *outputs)]
        known_axes = dict(of_base.outputs) | dict(of_base.inputs)
        indices = {n: known_axes.get(n) or known_axes.get(stem, ((),)) for n, stem in named}
        inputs = {s.name: indices[s.name] for s in slots if types.get(s.name)}
        return AxisMap(
            inputs,
            {s.name: indices[s.name] for s in outputs},
            of_base.mixed,
            _derived_fills(of_base, inputs, [indices[s.name] for s in outputs], linear),
            tails=_derived_tails(of_base, inputs, linear),
        )

    return rule


def _derived_tails(
    base: AxisMap, inputs: Mapping[str, tuple[Indices, ...]], linear: Collection[str]
) -> dict[str, IdentityElements]:
    """Return fills that exclude trailing entries of a derivative: zeros of linear inputs."""
    return {
        index: {slot: 0 for slot in inputs if slot in linear}
        | {slot: fill for slot, fill in fills.items() if slot in inputs}
        for index, fills in base.tails.items()
    }


def _derived_fills(
    base: AxisMap,
    inputs: Mapping[str, tuple[Indices, ...]],
    outputs: Iterable[tuple[Indices, ...]],
    linear: Collection[str],
) -> dict[str, IdentityElements]:
    """Return the fills that mask an entry of a derivative.

    Its sums are linear in cotangents or tangents. Reductions of the operator itself are masked
    as there. Other inputs keep their padding: there may be no derivative at zero.
    """
    results = [axis_indices for fills_of_index in outputs for axis_indices in fills_of_index]
    fills_of_index: dict[str, IdentityElements] = {}
    for index in unique_indices(inputs):
        zeros = {slot: 0 for slot in slots_having(inputs, index) if slot in linear}
        if index in base.mixed:
            continue
        if index in base.fills:
            base_fills = {
                slot: fill for slot, fill in base.fills[index].items() if slot in inputs
            }
            fills_of_index[index] = zeros | base_fills
        elif not all(index in axis_indices for axis_indices in results):
            fills_of_index[index] = zeros
    return fills_of_index
