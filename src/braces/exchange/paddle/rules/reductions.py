"""Rules of reductions, and of operators along an axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from braces.exchange.common.rules.along_axis import norm, sort, topk
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.operators import derived
from braces.extend.types import BOOL, INT64, product


def reduction_rule(op_type: str) -> Rule:
    """Return the rule of a reduction; no axes mean all axes, regardless of `reduce_all`."""
    function = ops.function_of(op_type)

    def rule(node: PaddleOp) -> Var:
        x = node.var("X")
        x = cast_to_dtype(x, BOOL) if op_type in ("all", "any") else x
        if not x.ndim:
            return ops.identity(x)
        axes = node.attr("dim", node.attr("axis")) or ()
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        keepdims = bool(node.attr("keep_dim", node.attr("keepdim", False)))
        if node.attr("reduce_all") or not axes:
            return function(x, axis=None, keepdims=keepdims)
        return function(x, axis=axes, keepdims=keepdims)

    return rule


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
    return lambda node: ops.function_of(op_type)(node.var("X"), axis=node.attr("axis", -1))


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
    x, order = node.var("X"), node.attr("porder", 2.0)
    axis = None if node.attr("asvector", False) else node.attr("axis", -1)
    keepdims = bool(node.attr("keepdim", False))
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
    **derived("paddle", reduction_rule, "reduction", "extreme", "truth"),
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
