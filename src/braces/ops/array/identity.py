"""Identity operators: a copy, a shape assertion, a fence, and a value without a gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
    require_tuple,
    shape_of,
)
from braces.define.core.check_code import encode_offender
from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Dim, Shape, sum_of
from braces.dtypes import TensorType, Type
from braces.errors import GradientError, RunError, ShapeError
from braces.lazy import jnp, lax
from braces.ops.common.linear_jvp import VarSlots, register_linear
from braces.ops.common.rules import Backward

FENCE = "fence"
"""The operator that orders rematerialization: it blocks CSE and waits for another value."""


@op(
    axes="... -> ...",
    changes_only="shape",
    operations=0,
    examples=("x=f32[2,3]", "x=f64[b,4]", "x=i32[]", "x=f32[0,2]"),
)
def identity(x: Tensor) -> Tensor:
    """The input, under another name.

        out = x

    Inputs:
        x: any[*shape].

    Outputs:
        out: any[*shape].
    """
    return x


@identity.infer
def infer_identity(context: InferenceContext, x: Type) -> Type:
    """Infer the type: that of `x`, which may be a list, since derivatives rename lists, too."""
    del context
    return x


identity.gradient(lambda g: {"x": g.out_grad})


register_linear(identity)


def ensure_shape_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: all axes; an axis whose symbolic size changes is not pointwise."""
    have, want = shape_of(types["x"][0]), require_tuple(attrs["shape"])
    indices = numbered_indices(len(have))
    mixed = [i for i, a, b in zip(indices, have, want, strict=False) if a != b]
    return make_axis_map(types, {"x": (indices,)}, {"out": (indices,)}, mixed)


@op(
    axes=ensure_shape_axis_map,
    changes_only="shape",
    operations=0,
    examples=("x=f32[2,3] shape=(2,3)", "x=f64[b,4] shape=(b,4)", "x=i32[] shape=()"),
)
def ensure_shape(x: Tensor, *, shape: Shape) -> Tensor:
    """The input, with its shape asserted.

        out = x

    Use it for sizes that are equal in every valid run although the program cannot prove it: a
    padded length that is a multiple of eight, two inputs of the same length. The assertion is
    checked at run time.

    Inputs:
        x: any[*shape_of_x].

    Attributes:
        shape: The sizes, symbolic or not.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If the sizes differ for all values of the symbols.
        RunError: If the sizes differ in a run.

    Example:
        >>> import braces as br, numpy as np
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["n"]), br.data("y", ["m"])
        ...     out = x + br.ensure_shape(y, x.shape)
        >>> feed = {"x": np.ones(2, "float32"), "y": np.ones(3, "float32")}
        >>> br.Executor().run(prog, br.Scope(), feed=feed, fetch=out)
        Traceback (most recent call last):
        ...
        braces.errors.RunError: The shape at run time differs from the shape of ensure_shape.
          at: op `ensure_shape_0` (ensure_shape), built at ...
          given: 3
    """
    return x if tuple(x.shape) == tuple(shape) else jnp.zeros(shape, x.dtype)


@ensure_shape.infer
def infer_ensure_shape(context: InferenceContext, x: TensorType, *, shape: Shape) -> TensorType:
    """Infer the type: the asserted sizes, if those of `x` can equal them."""
    wanted = tuple(map(context.unifier.resolve, shape))
    problem = f"ensure_shape: expected shape ({', '.join(map(str, wanted))}), got {x}."
    if x.rank != len(wanted):
        raise ShapeError(problem, fix="Pass one size for each axis.")
    for size, want in zip(x.shape, wanted, strict=True):
        difference = sum_of((context.unifier.resolve(size), want * -1))
        low, high = (
            difference.bounds if isinstance(difference, Dim) else (difference, difference)
        )
        if low > 0 or high < 0:
            raise ShapeError(problem, fix="Pass sizes that the array can have at run time.")
    return x.with_shape(wanted)


@ensure_shape.checked(RunError, "The shape at run time differs from the shape of ensure_shape.")
def shape_differs(x: Tensor, *, shape: Shape) -> Any:
    """Run-time check: return the first size that differs."""
    for size, want in zip(x.shape, shape, strict=True):
        if not size == want:  # noqa: SIM201 - JAX can decide only `==` of symbolic sizes
            return encode_offender(True, jnp.asarray(size, dtype=np.int32))
    return False


ensure_shape.gradient(lambda g: {"x": emit("ensure_shape", g.out_grad, shape=g["x"].shape)})


register_linear(ensure_shape)


def axes_beside(other: str, **fills: Any) -> Callable[[Types, Attrs], AxisMap]:
    """Return an axis map that is pointwise in `x`, beside an operand of any shape.

    Args:
        other: The slot of the other operand.
        fills: Its value at masked entries, if its values are used.
    """

    def axis_map(types: Types, attrs: Attrs) -> AxisMap:
        """Axis map: pointwise in `x`."""
        del attrs
        x, beside = (numbered_indices(first_rank(types, slot), slot) for slot in ("x", other))
        return make_axis_map(types, {"x": (x,), other: (beside,)}, {"out": (x,)}, fills=fills)

    return axis_map


def pass_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent of `x` is that of the output; the other operand has none."""
    return {"x": g.out_grad}


def pass_tangent(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """The tangent of the output is that of `x`."""
    del values, attrs
    return {"out": tangents["x"]} if tangents["x"] else {}


@op(
    axes=axes_beside("gate"),
    dtypes=lambda what, gate, x: x,
    function=False,
    operations=0,
    examples=("gate=f32[2,3] x=f32[2,3]", "gate=f64[b] x=f64[b,4]", "gate=f32[0] x=f32[3]"),
)
def fence(gate: Tensor, x: Tensor) -> Tensor:
    """The input, available once `gate` is computed: an optimization barrier.

        out = x

    The compiler treats the result as a value different from the input. So computations on it
    are not merged with the same computations on the input (CSE), and they run after `gate`.
    Rematerialization of a block in its gradient uses the first cotangent as the gate. (XLA
    removes `optimization_barrier` on a CPU: it kept all values of 8 layers, 9.0 MB, and 1.7 MB
    with this operator.)

    Inputs:
        gate: float[*any]. Its value is only waited for.
        x: any[*shape].

    Outputs:
        out: any[*shape].
    """
    return jnp.where(_opaque_true(gate), x, jnp.zeros_like(x))


def _opaque_true(gate: Any) -> Any:
    """Return true, computed so that no simplifier folds it: the popcount is below 128."""
    if not gate.size:
        return True
    first = lax.real(gate.ravel()[0]) if jnp.iscomplexobj(gate) else gate.ravel()[0]
    bits = lax.bitcast_convert_type(first, f"uint{8 * first.dtype.itemsize}")
    return lax.shift_right_logical(lax.population_count(bits), jnp.asarray(7, bits.dtype)) == 0


fence.gradient(pass_gradient)
fence.jvp(pass_tangent)


@op(
    axes=axes_beside("source"),
    dtypes=lambda what, x, source, **_: x,
    function=False,
    operations=0,
    examples=(
        "x=f32[2,3] source=i32[2] message='unknown'",
        "x=f64[b,4] source=i64[b] message='unknown'",
        "x=f32[] source=i32[0] message='unknown'",
    ),
)
def refuse_gradient(x: Tensor, source: Tensor, *, message: str) -> Tensor:
    """The input, whose gradient with respect to `source` is unknown.

        out = x

    Importers use it for a computation with values and without a known derivative. The cotangent
    of `x` is that of the output.

    Inputs:
        x: any[*shape].
        source: any[*any]. The computation depends on it.

    Attributes:
        message: The reason, as an error message.

    Outputs:
        out: any[*shape].

    Raises:
        GradientError: If a gradient depends on `source`.
    """
    del source, message
    return x


@refuse_gradient.gradient
def refuse_gradient_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent passes to `x`; one of `source` is refused."""
    if g.wants("source"):
        raise GradientError(g.attrs["message"], fix=_STOP)
    return pass_gradient(g)


@refuse_gradient.jvp
def refuse_gradient_jvp(
    values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]
) -> VarSlots:
    """The tangent of `x` passes; one of `source` is refused."""
    if tangents["source"]:
        raise GradientError(str(attrs["message"]), fix=_STOP)
    return pass_tangent(values, tangents, attrs)


_STOP = "Stop the gradient of the arguments, or differentiate with respect to others."
