"""Rules of matrix products and attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt
from typing import Any

from braces.errors import ShapeError
from braces.exchange.common.rules.elementwise import cast_to_dtype, scale_by
from braces.extend import functions as ops, layers
from braces.extend.building import Var, call, emit
from braces.extend.types import BOOL, INT64


def linear(x: Var, w: Var, b: Var | None = None) -> Var:
    """The product with a transposed weight, plus an optional bias."""
    product_ = ops.matmul(x, ops.transpose(w))
    return product_ if b is None else product_ + b


def addmm(added: Var, a: Var, b: Var, *, beta: float = 1, alpha: float = 1) -> Var:
    """Beta added + alpha a b."""
    return scale_by(ops.matmul(a, b), alpha) + scale_by(added, beta)


def addbmm(added: Var, a: Var, b: Var, *, beta: float = 1, alpha: float = 1) -> Var:
    """Beta added + alpha times the sum of all products."""
    total = call("einsum", a, b, equation="bij,bjk->ik")
    return scale_by(total, alpha) + scale_by(added, beta)


def grouped_matmul(
    a: Var, b: Var, ends: Var | None = None, bias: Var | None = None, dtype: Any = None
) -> Var:
    """Products of groups of rows, or of columns, whose ends are an array."""
    if ends is None:
        product_ = ops.matmul(a, b)
    elif a.ndim == 2 and b.ndim == 2:  # groups of the summed axis
        parts = ops.expand_dims(a, axis=0) * ops.expand_dims(_members(ends, a, 1), axis=1)
        product_ = ops.matmul(parts, b)
    elif a.ndim == 2:  # groups of rows
        chosen = ops.expand_dims(_members(ends, a, 0), axis=2)
        product_ = ops.sum(ops.matmul(ops.expand_dims(a, axis=0) * chosen, b), axis=0)
    else:  # groups of columns
        chosen = ops.expand_dims(_members(ends, b, 1), axis=1)
        product_ = ops.sum(ops.matmul(a, b) * chosen, axis=0)
    product_ = product_ if bias is None else product_ + bias
    return product_ if dtype is None else cast_to_dtype(product_, dtype)


def _members(ends: Var, x: Var, axis: int) -> Var:
    """Return 1 for each index of an axis that is in a group, else 0: [groups, indices]."""
    at = emit("arange", stop=x.shape[axis])
    below = ops.expand_dims(cast_to_dtype(ends, INT64), axis=1) > at
    before = ops.concat([ops.zeros_like(below[:1]), below[:-1]], axis=0)
    return cast_to_dtype(ops.logical_and(below, ops.logical_not(before)), x.dtype)


def einsum(equation: str, xs: Sequence[Var], **options: Any) -> Var:
    """An einsum."""
    return call("einsum", *xs, equation=equation.replace(" ", ""))


def bilinear(x: Var, y: Var, w: Var, b: Var | None = None) -> Var:
    """A bilinear form, plus an optional bias."""
    product_ = call("einsum", x, w, y, equation="...i,oij,...j->...o")
    return product_ if b is None else product_ + b


def attention(
    q: Var, k: Var, v: Var, mask: Var | None = None, rate: float = 0.0, causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Var:  # fmt: skip
    """Scaled dot-product attention: softmax(q k' scale + mask) v.

    A row that is fully masked gives zeros.
    """
    if enable_gqa:
        k, v = (_for_each_head(x, q) for x in (k, v))
    factor = 1.0 / sqrt(float(_known_size(q.shape[-1]))) if scale is None else scale
    scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) * factor
    if causal:
        scores = ops.where(_causal_mask(q, k), scores, -inf)
    weights = _masked_softmax(scores, mask)
    return ops.matmul(layers.dropout(weights, rate) if rate else weights, v)


def _known_size(size: Any) -> int:
    if not isinstance(size, int):
        raise ShapeError(f"attention: expected a static number of features, got {size}.")
    return size


def _for_each_head(x: Var, q: Var) -> Var:
    """Repeat key heads that several query heads share."""
    times = _known_size(q.shape[-3]) // _known_size(x.shape[-3])
    return ops.repeat(x, times, axis=-3)


def _causal_mask(q: Var, k: Var) -> Var:
    """Return the causal mask."""
    rows, columns = (emit("arange", stop=x.shape[-2]) for x in (q, k))
    return ops.expand_dims(rows, axis=1) >= columns


def _masked_softmax(scores: Var, mask: Var | None) -> Var:
    if mask is None:
        return ops.softmax(scores, axis=-1)
    if mask.dtype == BOOL:
        scores = ops.where(mask, scores, -inf)
    else:
        scores = scores + cast_to_dtype(mask, scores.dtype)
    fully_masked = ops.all(ops.equal(scores, -inf), axis=-1, keepdims=True)
    probabilities = ops.softmax(ops.where(fully_masked, 0.0, scores), axis=-1)
    return ops.where(fully_masked, 0.0, probabilities)


def flash(
    q: Var, k: Var, v: Var, rate: float = 0.0, causal: bool = False, *,
    attn_mask: Var | None = None, scale: float | None = None,
) -> tuple[Var, None]:  # fmt: skip
    """Attention; torch's second output is only read by its gradient."""
    return attention(q, k, v, attn_mask, rate, causal, scale=scale), None


def vdot(x: Var, y: Var) -> Var:
    """The inner product, whose first operand is conjugated."""
    return ops.matmul(ops.conj(x) if x.dtype.kind == "c" else x, y)


LAYERS: Mapping[str, Callable[..., Any]] = {
    "_grouped_mm": grouped_matmul,
    "addbmm": addbmm,
    "addmm": addmm,
    "addmv": addmm,
    "baddbmm": addmm,
    "bilinear": bilinear,
    "einsum": einsum,
    "linear": linear,
    "scaled_dot_product_attention": attention,
    "transformers.grouped_mm_fallback": grouped_matmul,
    "_scaled_dot_product_flash_attention_for_cpu": flash,
    "vdot": vdot,
}
