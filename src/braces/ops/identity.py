"""The input itself: under another name, or not before something else is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.builder.var import Var
from braces.define.axes import Attrs, AxisMap, Types, first_rank, mapped, numbered
from braces.define.decorator import Tensor, op
from braces.define.inference import Context
from braces.dtypes import Type
from braces.lazy import jnp, lax
from braces.ops.linear import VarSlots, linear
from braces.ops.rules import Backward

FENCE = "fence"
"""The operator that lets values be computed again, and not before something else is there."""


@op(
    axes="... -> ...",
    changes_only="shape",
    operations=0,
    examples=("x=f32[2,3]", "x=f64[b,4]", "x=i32[]", "x=f32[0,2]"),
)
def identity(x: Tensor) -> Tensor:
    """The input itself, under another name.

        out = x

    Inputs:
        x: any[*shape].

    Outputs:
        out: any[*shape].
    """
    return x


@identity.infer
def infer_identity(context: Context, x: Type) -> Type:
    """The type of `x`, which may be a list: derivatives have other names for those, too."""
    del context
    return x


@identity.gradient
def identity_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent passes through."""
    return {"x": g.out_grad}


linear(identity)


def fenced(types: Types, attrs: Attrs) -> AxisMap:
    """Nothing of the gate is seen."""
    del attrs
    gate, x = (numbered(first_rank(types, slot), slot) for slot in ("gate", "x"))
    return mapped(types, {"gate": (gate,), "x": (x,)}, {"out": (x,)}, fills={})


@op(
    axes=fenced,
    dtypes=lambda what, gate, x: x,
    function=False,
    operations=0,
    examples=("gate=f32[2,3] x=f32[2,3]", "gate=f64[b] x=f64[b,4]", "gate=f32[0] x=f32[3]"),
)
def fence(gate: Tensor, x: Tensor) -> Tensor:
    """The input itself, as soon as `gate` is there.

        out = x

    A compiler takes it for another value than the input. So what is computed from it is not
    taken from what was computed from the input before, even where it is the same; and it is
    computed after `gate`. A gradient that runs a block again, to keep none of its values, has
    the first cotangent as the gate. (XLA sees through `optimization_barrier` on a CPU: it kept
    all values of 8 layers, 9.0 MB, and 1.7 MB with this.)

    Inputs:
        gate: float[*any]. Only waited for.
        x: any[*shape].

    Outputs:
        out: any[*shape].
    """
    return jnp.where(_is_there(gate), x, jnp.zeros_like(x))


def _is_there(gate: Any) -> Any:
    """True, in a way that no simplifier finds out: no number has more bits than it has bits."""
    if not gate.size:
        return True
    first = lax.real(gate.ravel()[0]) if jnp.iscomplexobj(gate) else gate.ravel()[0]
    bits = lax.bitcast_convert_type(first, f"uint{8 * first.dtype.itemsize}")
    return lax.shift_right_logical(lax.population_count(bits), jnp.asarray(7, bits.dtype)) == 0


@fence.gradient
def fence_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent passes through; what is waited for has none."""
    return {"x": g.out_grad}


@fence.jvp
def fence_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """The tangent passes through."""
    del values, attrs
    return {"out": tangents.get("x", ())}
