"""The axes of derivatives: cotangents and tangents have those of what they belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    AxisRule,
    Fills,
    Indices,
    Types,
    all_indices,
    slots_having,
)
from braces.define.core.signature import Slot


def derived_rule(
    base: AxisRule | None,
    slots: Sequence[Slot],
    outputs: Sequence[Slot],
    suffix: str,
    linear: Collection[str],
) -> AxisRule | None:
    """The axes of a derivative: cotangents and tangents have those of what they belong to.

    Args:
        base: What the operator that it is of says.
        slots: The inputs of the derivative.
        outputs: Its outputs.
        suffix: What its own cotangents or tangents have after the name of what they belong to.
        linear: The inputs that the results are linear in.
    """
    if base is None:
        return None

    def rule(types: Types, attrs: Attrs) -> AxisMap:
        known = {name.removesuffix(suffix): found for name, found in types.items()}
        of_base = base(known | dict(types), attrs)
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
) -> dict[str, Fills]:
    """What leaves the last entries out of a derivative: zero cotangents, or zero tangents."""
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
) -> dict[str, Fills]:
    """What leaves an entry out of a derivative.

    Its sums are linear in cotangents or tangents. What the operator itself reduced is left out
    as there. All else keeps what it has beyond: zeros may be where there is no derivative.
    """
    results = [one for found in outputs for one in found]
    found: dict[str, Fills] = {}
    for index in all_indices(inputs):
        zeros = {slot: 0 for slot in slots_having(inputs, index) if slot in linear}
        if index in base.mixed:
            continue
        if index in base.fills:
            own = {slot: fill for slot, fill in base.fills[index].items() if slot in inputs}
            found[index] = zeros | own
        elif not all(index in one for one in results):
            found[index] = zeros
    return found
