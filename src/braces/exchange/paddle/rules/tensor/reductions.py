"""Rules of reductions, and of operators along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from braces.exchange.common.rules.along_axis import norm, sort, topk
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.constructs import custom_gradient
from braces.extend.operators import derived
from braces.extend.types import BOOL, INT64, DType, is_float, product


def reduction_rule(op_type: str) -> Rule:
    """Return the rule of a reduction; no axes mean all axes, regardless of `reduce_all`."""
    return lambda node: _reduced(op_type, node)


def _reduced(op_type: str, node: PaddleOp) -> Var:
    x = node.x()
    truth = op_type in ("all", "any")
    x = cast_to_dtype(x, BOOL if truth else _result_dtype(node, x))
    if not x.ndim:
        return ops.abs(x) if op_type == "norm" else ops.identity(x)
    return ops.function_of(op_type)(x, axis=_axes(node), keepdims=_keeps(node))


def extreme_rule(op_type: str) -> Rule:
    """Return the rule of a maximum or minimum, all of whose ties receive the whole gradient."""

    def rule(node: PaddleOp) -> Var:
        x = node.x()
        if not is_float(x.dtype) or not x.ndim or node.type in SHARING:
            return _reduced(op_type, node)
        return extreme(op_type, x, _axes(node), _keeps(node))

    return rule


def extreme(op_type: str, x: Var, axes: Sequence[int] | None, keepdims: bool) -> Var:
    """Return a maximum or minimum, all of whose ties receive the whole gradient."""
    reduce = ops.function_of(op_type)
    axis = None if axes is None else tuple(axes)

    @custom_gradient
    def with_ties(x: Var) -> tuple[Var, Callable[[Var], Var]]:
        best = reduce(x, axis=axis, keepdims=True)

        def gradient(grad: Var) -> Var:
            spread = ops.reshape(grad, best.shape)
            return ops.where(ops.equal(x, best), spread, ops.zeros_like(x))

        return ops.reshape(best, reduce(x, axis=axis, keepdims=keepdims).shape), gradient

    return with_ties(x)


SHARING = ("reduce_amax", "reduce_amin")
"""The extremes whose ties share the gradient."""


def _axes(node: PaddleOp) -> tuple[int, ...] | None:
    """Return the axes of a reduction; `None` for all."""
    axes = node.many("dim") or node.many("axis")
    return None if node.attr("reduce_all") or not axes else tuple(int(axis) for axis in axes)


def _keeps(node: PaddleOp) -> bool:
    return bool(node.attr("keep_dim", node.attr("keepdim", False)))


def _result_dtype(node: PaddleOp, x: Var) -> DType:
    """Return the dtype in which a reduction computes: an attribute."""
    if node.attr("out_dtype", -1) != -1:
        return node.dtype("out_dtype")
    return x.dtype


def mean(node: PaddleOp) -> Var:
    """The mean of all numbers."""
    return ops.mean(node.var("X"))


def arg_extreme_rule(op_type: str) -> Rule:
    """Return the rule of an argmax or argmin."""

    def rule(node: PaddleOp) -> Var:
        x, keepdims = node.var("X"), bool(node.attr("keepdims", False))
        if node.attr("flatten", False):
            position = ops.function_of(op_type)(ops.reshape(x, (product(x.shape),)), axis=0)
            position = ops.reshape(position, (1,) * x.ndim) if keepdims else position
        else:
            axis = node.axis("axis", x.ndim)
            position = ops.function_of(op_type)(x, axis=axis, keepdims=keepdims)
        return cast_to_dtype(position, node.dtype("dtype", INT64))

    return rule


def top_k(node: PaddleOp) -> Results:
    """The k largest or smallest numbers of an axis, and their indices."""
    x = node.var("X")
    values, at = topk(
        x, int(node.number("k", "K", 1)), node.axis("axis", x.ndim), node.attr("largest", True)
    )
    return {"Out": values, "Indices": at}


def argsort(node: PaddleOp) -> Results:
    """Sorted numbers and their original indices."""
    x = node.var("X")
    values, at = sort(x, node.axis("axis", x.ndim), node.attr("descending", False))
    return {"Out": values, "Indices": at}


def softmax(op_type: str) -> Rule:
    """Return the rule of a softmax along an axis."""

    def rule(node: PaddleOp) -> Var:
        x, function = node.var("X"), ops.function_of(op_type)
        if x.ndim:
            return function(x, axis=node.attr("axis", -1))
        return ops.reshape(function(ops.reshape(x, (1,)), axis=0), ())

    return rule


def cumsum(node: PaddleOp) -> Var:
    """A cumulative sum, inclusive or exclusive."""
    x = node.var("X")
    if node.attr("flatten", False):
        x = ops.reshape(x, (product(x.shape),))
    axis, back = node.axis("axis", x.ndim), bool(node.attr("reverse", False))
    sums = ops.cumsum(x, axis=axis, reverse=back)
    return sums - x if node.attr("exclusive", False) else sums


def p_norm(node: PaddleOp) -> Var:
    """The p-norm along one axis, or of all numbers."""
    x, order = node.var("X"), float(node.attr("porder", 2.0))
    axis = None if node.attr("asvector", False) or not x.ndim else int(node.attr("axis", -1))
    keepdims = bool(node.attr("keepdim", False))
    if math.isinf(order):
        axes = None if axis is None else (axis,)
        return extreme("max" if order > 0 else "min", ops.abs(x), axes, keepdims)
    if order == 0:
        return ops.sum(
            cast_to_dtype(ops.not_equal(x, 0.0), x.dtype), axis=axis, keepdims=keepdims
        )
    return norm(x, order, axis, keepdims)


def l2_normalize(node: PaddleOp) -> Var:
    """L2 normalization along an axis."""
    x, epsilon = node.var("X"), node.attr("epsilon", 1e-10)
    total = ops.sum(ops.square(x), axis=node.axis("axis", x.ndim), keepdims=True)
    return x / ops.sqrt(total + np.float32(epsilon).item())


REDUCTIONS: Mapping[str, Rule] = {
    **derived("paddle", reduction_rule, "reduction", "truth"),
    **derived("paddle", extreme_rule, "extreme"),
    **derived("paddle", arg_extreme_rule, "position"),
    **derived("paddle", softmax, "softmax"),
    "argsort": argsort,
    "cumsum": cumsum,
    "mean": mean,
    "norm": l2_normalize,
    "p_norm": p_norm,
    "top_k": top_k,
    "top_k_v2": top_k,
}
