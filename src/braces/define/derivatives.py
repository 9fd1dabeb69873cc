"""Derivatives of operators, as operators: `tanh.vjp`, `tanh.jvp`, `tanh.vjp.vjp`.

Derivatives without a written rule are derived from the kernel by `jax.vjp` and `jax.jvp`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from braces.define.axes.derivative_axes import derive_axis_rule
from braces.define.core.signature import Slot
from braces.define.definition import Attrs, OpDef, Types, Values
from braces.dims import Size
from braces.dtypes import Type
from braces.lazy import jax

GRAD, TANGENT = "_grad", "_tangent"
"""Suffixes of the slots of first derivatives, appended to the name of the original slot."""


def suffix_of(stem: str, base: OpDef) -> str:
    """Return the suffix for a derivative's slots: `_grad`, or `_grad2` if that is taken.

    The operator may be a derivative itself and have an `x_grad` already, which is not the
    cotangent of its `x`.
    """
    names = {slot.name for slot in (*base.inputs, *base.outputs)}
    numbered = (f"{stem}{order}" for order in itertools.count(2))
    suffixes = itertools.chain([stem], numbered)
    return next(s for s in suffixes if names.isdisjoint(name + s for name in names))


@dataclass(eq=False)
class DerivedVjp(OpDef):
    """Gradient of an operator, by `jax.vjp` of its kernel."""

    base: OpDef | None = None

    def compute(self, values: Values, attrs: Attrs, wanted: Iterable[str]) -> dict[str, Any]:
        """Return cotangents of the wanted inputs, given those of the outputs."""
        base = self.base
        assert base is not None
        cotangents = {
            s.name: values[s.name + self.suffix]
            for s in base.outputs
            if values.get(s.name + self.suffix)
        }
        primals = {s.name: values[s.name] for s in base.inputs if values.get(s.name)}
        names = [slot.removesuffix(self.suffix) for slot in wanted]
        chosen = {name: primals[name] for name in names}

        def forward(chosen: dict[str, Any]) -> dict[str, Any]:
            results = base.compute(primals | chosen, attrs, cotangents)
            return {name: results[name] for name in cotangents}

        _, pull = jax.vjp(forward, chosen)
        (grads,) = pull(cotangents)
        return {name + self.suffix: grad for name, grad in grads.items()}

    def count(self, inputs: Types, outputs: Types, attrs: Attrs) -> Size | None:
        """Return the operation count: the operator's per wanted input, plus recomputation."""
        base = self.base
        assert base is not None
        ends = _base_types(self.suffix, base.outputs, inputs)
        return _repeat_count(base, base.count(inputs, ends, attrs), outputs)


@dataclass(eq=False)
class DerivedJvp(OpDef):
    """Directional derivative of an operator, by `jax.jvp` of its kernel."""

    base: OpDef | None = None

    def compute(self, values: Values, attrs: Attrs, wanted: Iterable[str]) -> dict[str, Any]:
        """Return tangents of the wanted outputs, given those of the inputs."""
        base = self.base
        assert base is not None
        primals = {s.name: values[s.name] for s in base.inputs if values.get(s.name)}
        all_tangents = {name: values.get(name + self.suffix) for name in primals}
        tangents = {
            name: slot_tangents for name, slot_tangents in all_tangents.items() if slot_tangents
        }
        outs = [slot.removesuffix(self.suffix) for slot in wanted]

        def forward(chosen: dict[str, Any]) -> dict[str, Any]:
            results = base.compute(primals | chosen, attrs, outs)
            return {name: results[name] for name in outs}

        _, pushed = jax.jvp(forward, ({n: primals[n] for n in tangents},), (tangents,))
        return {name + self.suffix: tangent for name, tangent in pushed.items()}

    def count(self, inputs: Types, outputs: Types, attrs: Attrs) -> Size | None:
        """Return the operation count: the operator's own per tangent, plus recomputation."""
        base = self.base
        assert base is not None
        ends = _base_types(self.suffix, base.outputs, outputs)
        return _repeat_count(
            base,
            base.count(inputs, ends, attrs),
            _base_types(self.suffix, base.inputs, inputs),
        )


def _base_types(
    suffix: str, slots: Iterable[Slot], types: Types
) -> dict[str, tuple[Type, ...]]:
    """Return the types of cotangents or tangents by the original slots."""
    return {s.name: types[s.name + suffix] for s in slots if types.get(s.name + suffix)}


def _repeat_count(base: OpDef, once: Size | None, beside: Types) -> Size | None:
    """Return the count for one repetition per item; linear operators need no recomputation."""
    linear = base.product or base.costly
    return None if once is None else once * (sum(map(len, beside.values())) + (not linear))


def _vjp_of(base: OpDef) -> OpDef:
    if base.vjp_rule is not None:
        return base.vjp_rule
    suffix = suffix_of(GRAD, base)
    inputs = (*base.inputs, *_suffixed_slots(base.outputs, suffix))
    outputs = _suffixed_slots(base.inputs, suffix)
    cotangents = base.cotangents | {slot.name + suffix for slot in base.outputs}
    return DerivedVjp(
        f"{base.type}.vjp", inputs, base.attrs, outputs, base.kernel,
        f"Gradient of {base.type}.", base=base, differentiable=base.differentiable,
        costly=base.costly, stored=base.takes_stored, suffix=suffix,
        cotangents=cotangents,
        axes_rule=derive_axis_rule(base.axes_rule, inputs, outputs, suffix, cotangents),
    )  # fmt: skip


def _jvp_of(base: OpDef) -> OpDef:
    suffix = suffix_of(TANGENT, base)
    inputs = (*base.inputs, *_suffixed_slots(base.inputs, suffix))
    outputs = _suffixed_slots(base.outputs, suffix)
    cotangents = base.cotangents | {slot + suffix for slot in base.cotangents}
    linear = cotangents | {slot.name + suffix for slot in base.inputs}
    return DerivedJvp(
        f"{base.type}.jvp", inputs, base.attrs, outputs, base.kernel,
        f"Directional derivative of {base.type}.", base=base,
        differentiable=base.differentiable, costly=base.costly, stored=base.takes_stored,
        suffix=suffix, cotangents=cotangents,
        axes_rule=derive_axis_rule(base.axes_rule, inputs, outputs, suffix, linear),
    )  # fmt: skip


def _suffixed_slots(slots: Iterable[Slot], suffix: str) -> tuple[Slot, ...]:
    """Return a slot for the cotangent or tangent of each of these."""
    return tuple(Slot(s.name + suffix, s.many, optional=True) for s in slots)


TRANSFORMS: dict[str, Callable[[OpDef], OpDef]] = {"vjp": _vjp_of, "jvp": _jvp_of}
