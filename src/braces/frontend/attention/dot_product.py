"""Scaled dot-product attention.

    with br.block("attention"):              one box of operators; q.w, q.b, k.w, …
        q, k, v = (heads of br.fc(x, …))     [..., heads, steps, size]
        weights = softmax(q k' scale)        [..., heads, queries, keys]
        out = br.fc(heads of weights v side by side, name="out")

A mask is bool; True takes part. Masked keys have weight exactly 0. A query with no unmasked key
gives zeros.
"""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes

from braces import dims
from braces.builder.append import as_var, emit
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import BOOL, is_float
from braces.errors import DTypeError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.parameters import fixed_size
from braces.frontend.nn import dropout_noise

# ---- weights ---------------------------------------------------------------------------------


@transactional
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    *,
    name: str | None = None,
) -> Var:
    """Scaled dot-product attention: values weighted by the match of their keys and a query.

        out = softmax(query @ key' * scale, where mask) @ value

    The softmax excludes masked keys; a query with no unmasked key gives zeros. Keys may have
    fewer heads than queries (grouped-query attention): query head `h` then uses key head
    `h // times`, if there are `times` as many query heads.

    Args:
        query: float[..., heads, queries, size]; the axes before `queries` may be any.
        key: float[..., heads, keys, size].
        value: float[..., heads, keys, taken].
        mask: bool, broadcast to [..., heads, queries, keys]; True takes part.
        causal: Whether the query at step t sees keys at steps up to t only.
        scale: The factor of the products; 1 / sqrt(size) by default.
        dropout: The probability of dropping a weight; `prog.for_test()` drops none.
        name: The name of the block.

    Returns:
        float[..., heads, queries, taken].

    Raises:
        ShapeError: If the sizes of queries, keys, values and the mask do not match.
        DTypeError: If the mask is not bool.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     q, k = br.data("q", ["b", 8, "t", 16]), br.data("k", ["b", 2, "s", 16])
        ...     print(br.scaled_dot_product_attention(q, k, k, causal=True).shape)
        (b, 8, t, 16)
    """
    what = "scaled_dot_product_attention"
    q, k, v = (operand(x, what) for x in (query, key, value))
    check_heads(what, q, k, v)
    mask_var = None if mask is None else as_mask(what, mask, q, k)
    return compose_block(
        name or what,
        lambda: build_attention(
            q, k, v, mask_var, causal_mask(q, k) if causal else None, scale, dropout
        ),
    )


def build_attention(
    q: Var, k: Var, v: Var, mask: Var | None, seen: Var | None, scale: float | None,
    dropout: float,
) -> Var:  # fmt: skip
    """Build attention; `seen` keeps at least one key for each query, the mask may keep none."""
    scale = fixed_size(q, -1, "attention") ** -0.5 if scale is None else scale
    groups = k.shape[-3] if q.ndim > 2 else 1
    grouped = q.ndim > 2 and groups not in (1, q.shape[-3])
    shape = q.shape
    if grouped:
        q, k, v = (
            _group_heads(q, groups),
            ops.expand_dims(k, axis=-3),
            ops.expand_dims(v, axis=-3),
        )
        mask = None if mask is None else _group_mask(mask, groups)
    scores = ops.matmul(q * scale, ops.matrix_transpose(k))
    combined = seen if mask is None else mask if seen is None else ops.logical_and(mask, seen)
    if combined is not None:
        scores = ops.where(combined, scores, _lowest(scores.dtype))
    weights = ops.softmax(scores, axis=-1)
    if mask is not None and combined is not None:
        weights = ops.where(combined, weights, 0.0)
    out = ops.matmul(dropout_noise.dropout(weights, dropout) if dropout else weights, v)
    return ops.reshape(out, (*shape[:-1], out.shape[-1])) if grouped else out


def _lowest(dtype: Any) -> float:
    """Return the lowest finite number, which avoids NaN for a query that sees no key."""
    return float(cast("Any", ml_dtypes).finfo(dtype).min)


def _group_heads(q: Var, groups: Size) -> Var:
    """Group query heads by shared key head: [..., groups, times, queries, size]."""
    return ops.reshape(q, (*q.shape[:-3], groups, -1, *q.shape[-2:]))


def _group_mask(mask: Var, groups: Size) -> Var:
    if mask.ndim < 3:
        return mask
    return ops.expand_dims(mask, axis=-3) if mask.shape[-3] == 1 else _group_heads(mask, groups)


def causal_mask(q: Var, k: Var) -> Var:
    """Return the causal mask: True for keys that are not later than the query."""
    rows, columns = (emit("arange", stop=x.shape[-2]) for x in (q, k))
    return ops.expand_dims(rows, axis=1) >= columns


# ---- checks ----------------------------------------------------------------------------------


def check_equal_sizes(what: str, said: str, left: Size, right: Size, *given: Var) -> None:
    """Refuse two sizes that differ; `said` states the requirement."""
    if current_program().current.unifier.unify(left, right) is None:
        raise shape_mismatch(f"{what}: expected equal {said}, got {left} and {right}.", *given)


def shape_mismatch(message: str, *given: Var) -> ShapeError:
    """Return an error for queries, keys and values, or a cache, whose shapes do not match."""
    shown = "   ".join(f"{x.name}: {x.type}" for x in given)
    fix = "Pass queries [..., heads, queries, size], keys and values [..., heads, keys, size]."
    return ShapeError(message, given=shown, fix=fix)


def check_heads(what: str, q: Var, k: Var, v: Var) -> None:
    """Refuse queries, keys and values whose dtypes or shapes do not match."""
    for x in (q, k, v):
        if not is_float(x.dtype):
            raise DTypeError(
                f"{what}: expected floats, got {x.dtype}.",
                given=f"{x.name}: {x.type}",
                fix="Use br.cast, or br.embedding for ids.",
            )
    if not q.ndim == k.ndim == v.ndim or q.ndim < 2:
        raise shape_mismatch(
            f"{what}: expected queries, keys and values of equal rank, 2 or more.", q, k, v
        )
    check_equal_sizes(what, "sizes of queries and keys", q.shape[-1], k.shape[-1], q, k)
    check_equal_sizes(what, "numbers of keys and values", k.shape[-2], v.shape[-2], k, v)
    if q.ndim > 2:
        check_equal_sizes(
            what, "numbers of heads of keys and values", k.shape[-3], v.shape[-3], k, v
        )
        if 1 not in (k.shape[-3], q.shape[-3]) and (
            dims.divide_exactly(q.shape[-3], k.shape[-3]) is None
        ):
            heads, key_heads = q.shape[-3], k.shape[-3]
            message = f"{what}: expected a multiple of {key_heads} key heads, got {heads}."
            raise shape_mismatch(message, q, k)


def as_mask(what: str, mask: Any, q: Var, k: Var, keys: Size | None = None) -> Var:
    """Convert a mask to a bool variable that broadcasts against the scores."""
    var = as_var(mask)
    if var.dtype != BOOL:
        raise DTypeError(
            f"{what}: expected a bool mask, True where a key takes part, got {var.type}.",
            fix="Compare: `mask != 0`, or `mask == 0` if -inf excludes a key.",
        )
    scores = (*q.shape[:-1], k.shape[-2] if keys is None else keys)
    fits = var.ndim <= len(scores) and all(
        size == 1 or current_program().current.unifier.unify(size, full_size) is not None
        for size, full_size in zip(reversed(var.shape), reversed(scores), strict=False)
    )
    if not fits:
        shape = ", ".join(map(str, scores))
        raise ShapeError(
            f"{what} has a mask that does not broadcast to [{shape}].",
            given=f"{var.name}: {var.type}",
            fix="Write a key mask of shape [batch, keys] as mask[:, None, None, :].",
        )
    return var
