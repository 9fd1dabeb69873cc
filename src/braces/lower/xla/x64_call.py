"""Calls with 64-bit dtypes inside JAX functions that are compiled without them.

A user's `jax.jit` traces a program with 64-bit numbers, but lowers the jaxpr with the user's
`jax_enable_x64`. Some primitives, as `argmax`, are lowered by tracing a Python function:
without 64-bit numbers that gives other dtypes, and invalid code. `call_with_x64` stages a call
that is lowered with the settings of Braces. Its derivatives and batched forms are such calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from braces.define.core.jax_settings import braces_jax_settings
from braces.lazy import ad, batchers, extend, jax, jnp, mlir

Traced: TypeAlias = Any
"""A function traced by JAX: a `ClosedJaxpr`."""
Function: TypeAlias = Callable[..., Any]


def call_with_x64(function: Function, operands: Any) -> Any:
    """Call a function of a tree of arrays, always lowered with 64-bit numbers.

    Args:
        function: The function to call.
        operands: The tree, whose leaves may be tracers.

    Returns:
        The tree of its results.
    """
    with braces_jax_settings():
        code, results = jax.make_jaxpr(function, return_shape=True)(operands)
        leaves = _call(code, jax.tree.leaves(operands))
    return jax.tree.unflatten(jax.tree.structure(results), leaves)


def _call(code: Traced, operands: Sequence[Any]) -> list[Any]:
    return _primitive().bind(*operands, code=code)


@cache
def _primitive() -> Any:
    """Return the primitive of the call, with its rules."""
    primitive = extend.Primitive("call_with_x64")
    primitive.multiple_results = True
    primitive.def_impl(_compute)
    primitive.def_abstract_eval(lambda *operands, code: code.out_avals)
    mlir.register_lowering(primitive, _lower)
    ad.primitive_jvps[primitive] = _jvp
    ad.primitive_transposes[primitive] = _transpose
    batchers.primitive_batchers[primitive] = _batch
    return primitive


def _compute(*operands: Any, code: Traced) -> list[Any]:
    with braces_jax_settings():
        return jax.jit(extend.jaxpr_as_fun(code))(*operands)


def _lower(context: Any, *operands: Any, code: Traced) -> Any:
    with braces_jax_settings():
        return mlir.lower_fun(extend.jaxpr_as_fun(code), multiple_results=True)(
            context, *operands
        )


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, code: Traced) -> Any:
    """Batching rule: vectorize the call; results have the batch as first axis."""
    with braces_jax_settings():
        function = jax.vmap(extend.jaxpr_as_fun(code), tuple(axes))
        results = _call(jax.make_jaxpr(function)(*operands), operands)
    return results, [0] * len(results)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, code: Traced) -> Any:
    """JVP rule: one call for results and residuals, and a linear call for tangents."""
    function = extend.jaxpr_as_fun(code)
    smooth_in, smooth = _smooth(code.in_avals), _smooth(code.out_avals)
    moving = [at for at in smooth_in if not _is_zero(tangents[at])]
    linear_trees = list[Any]()

    def with_residuals(*inputs: Any) -> Any:
        def of_moving(*active: Any) -> Any:
            replaced = {
                **dict(enumerate(inputs)),
                **dict(zip(moving, active, strict=True)),
            }
            results = function(*replaced.values())
            return [results[at] for at in smooth], results

        _, linear, results = jax.linearize(
            of_moving, *(inputs[at] for at in moving), has_aux=True
        )
        residuals, tree = jax.tree.flatten(linear)
        linear_trees.append(tree)
        return results, residuals

    with braces_jax_settings():
        results, residuals = call_with_x64(
            lambda inputs: with_residuals(*inputs), list(primals)
        )
        tangents_out = call_with_x64(
            lambda inputs: jax.tree.unflatten(linear_trees[0], inputs[0])(*inputs[1]),
            (residuals, [tangents[at] for at in moving]),
        )
    tangents_by_position = dict(zip(smooth, tangents_out, strict=True))
    zeros = [ad.Zero(aval.to_tangent_aval()) for aval in code.out_avals]
    return results, [tangents_by_position.get(at, zero) for at, zero in enumerate(zeros)]


def _transpose(cotangents: Sequence[Any], *operands: Any, code: Traced) -> list[Any]:
    """Transpose rule: the cotangents of the operands in which a call is linear."""
    function = extend.jaxpr_as_fun(code)
    linear = [at for at, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    known = {at: operand for at, operand in enumerate(operands) if at not in linear}
    shapes = [operands[at].aval for at in linear]

    def of_known(residuals: Any) -> Any:
        known, cotangents = residuals

        def of_linear(*values: Any) -> Any:
            replaced = {**known, **dict(zip(linear, values, strict=True))}
            return function(*(replaced[at] for at in range(len(operands))))

        return jax.linear_transpose(of_linear, *shapes)(cotangents)

    with braces_jax_settings():
        linear_cotangents = call_with_x64(
            of_known, (known, list(map(ad.instantiate_zeros, cotangents)))
        )
    by_position = dict(zip(linear, linear_cotangents, strict=True))
    return [by_position.get(at) for at in range(len(operands))]


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, ad.Zero)


def _smooth(avals: Sequence[Any]) -> list[int]:
    """Return the positions of values with tangents: real and complex numbers."""
    return [at for at, aval in enumerate(avals) if jnp.issubdtype(aval.dtype, jnp.inexact)]
