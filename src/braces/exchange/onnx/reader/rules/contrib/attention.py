"""Rules of ONNX Runtime's attention operators: heads, masks, KV cache, rotary embeddings.

Arrays of heads are `[batch, heads, length, size]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import Value, number_var
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.graph.run_time_sizes import sizes_at
from braces.exchange.onnx.reader.rules.nn.quantized import integer_matmul, squeeze_parameter
from braces.extend import dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import Size

DOMAIN = "com.microsoft"
FILTER = -10000.0
"""The value added to masked scores."""


# ---- heads -----------------------------------------------------------------------------------


def split_heads(node: OnnxNode, x: Var, heads: int) -> Var:
    """Split the last axis into heads."""
    batch, length, width = x.shape
    size = dims.divide_exactly(width, heads)
    if size is None:
        node.refuse(f"cannot divide {width} features into {heads} heads")
    return ops.transpose(ops.reshape(x, (batch, length, heads, size)), (0, 2, 1, 3))


def merge_heads(x: Var) -> Var:
    """Merge heads into the last axis."""
    batch, heads, length, size = x.shape
    flat = (batch, length, sizes.times(heads, size))
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), flat)


def append_to_cache(past: Var | None, x: Var) -> Var:
    """Append new keys or values to cached ones."""
    return x if past is None else ops.concat([past, x], axis=2)


# ---- masks -----------------------------------------------------------------------------------


def mask_of(node: OnnxNode, mask: Var | None, keys: Size) -> Var | None:
    """Return the additive mask of scores: from lengths, from keys, or from pairs."""
    if mask is None:
        return None
    if mask.ndim == 1:
        visible = ops.cast(emit("arange", stop=keys), mask.dtype) < ops.expand_dims(
            mask, axis=1
        )
        visible = ops.expand_dims(visible, axis=(1, 2))
    elif mask.ndim == 2:
        visible = ops.expand_dims(mask != 0, axis=(1, 2))
    elif mask.ndim == 3:
        visible = ops.expand_dims(mask != 0, axis=1)
    else:
        node.refuse(f"expected a mask of rank 1 to 3, got rank {mask.ndim}")
    mask_value = np.array(node.attr("mask_filter_value", FILTER), "f4")
    return ops.where(visible, np.zeros_like(mask_value), mask_value)


def causal_mask(queries: Size, keys: Size, window: int = -1) -> Var:
    """Return the causal mask; the last query is aligned with the last key."""
    at = ops.expand_dims(
        emit("arange", stop=queries) + number_var(sizes.minus(keys, queries)), axis=1
    )
    key = emit("arange", stop=keys)
    causal = key <= at
    return causal if window < 0 else ops.logical_and(causal, key > at - window)


@dataclass(frozen=True)
class Scores:
    """The conversion of scores to attention weights.

    Attributes:
        scale: The factor of products; `1 / sqrt(size)` if it is 0.
        bias: The additive bias; may be absent.
        kept: The visible keys; all if absent.
        cap: The soft cap by tanh, if not 0.
    """

    scale: float = 0.0
    bias: Var | None = None
    kept: Var | None = None
    cap: float = 0.0

    def attended(self, q: Var, k: Var, v: Var) -> Var:
        """Return the values weighted by the attention of queries to keys."""
        size = q.shape[-1]
        if isinstance(size, dims.Dim):
            root = ops.sqrt(ops.cast(number_var(size), q.dtype))
            scores = ops.matmul(q, ops.matrix_transpose(k))
            scores = scores * self.scale if self.scale else scores / root
        else:
            factor = self.scale or size**-0.5
            scores = ops.matmul(q, ops.matrix_transpose(k)) * factor
        if self.cap:
            scores = ops.tanh(scores / self.cap) * self.cap
        if self.bias is not None:
            scores = scores + ops.cast(self.bias, scores.dtype)
        if self.kept is not None:
            lowest = np.asarray(np.finfo("f2").min if q.dtype.itemsize == 2 else -3e38)
            scores = ops.where(self.kept, scores, lowest.astype(q.dtype))
        return ops.matmul(ops.softmax(scores, axis=-1), v)


def add_optional(x: Var | None, y: Var | None) -> Var | None:
    """Add two optional values."""
    return y if x is None else x if y is None else x + y


# ---- operators -------------------------------------------------------------------------------


def attention(node: OnnxNode) -> tuple[Value, ...]:
    """Attention whose queries, keys and values come from one product."""
    packed = ops.matmul(node.var(0), node.var(1))
    bias = node.maybe(2)
    packed = packed if bias is None else packed + bias
    return _packed_attention(node, packed, node.maybe(3), node.maybe(4), node.maybe(5))


def quantized_attention(node: OnnxNode) -> tuple[Value, ...]:
    """Attention whose input product is one of quantized integers."""
    scale = squeeze_parameter(node.var(3)) * squeeze_parameter(node.var(4))
    out = integer_matmul(node.var(0), node.maybe(6), node.var(1), node.maybe(7))
    packed = ops.cast(out, "float32") * scale + node.var(2)
    return _packed_attention(node, packed, node.maybe(5), node.maybe(8), None)


def _packed_attention(
    node: OnnxNode, packed: Var, mask: Var | None, past: Var | None, bias: Var | None
) -> tuple[Value, ...]:
    if node.flag("do_rotary"):
        node.refuse("unsupported attribute `do_rotary`")
    heads, widths = node.attr("num_heads"), node.attr("qkv_hidden_sizes")
    sections = 3 if widths is None else tuple(widths)
    q, k, v = (
        split_heads(node, x, heads) for x in ops.split(packed, sections=sections, axis=-1)
    )
    if past is not None:
        k, v = append_to_cache(past[0], k), append_to_cache(past[1], v)
    queries, keys = q.shape[2], k.shape[2]
    visible = causal_mask(queries, keys) if node.flag("unidirectional") else None
    total = add_optional(mask_of(node, mask, keys), bias)
    out = Scores(node.attr("scale", 0.0), total, visible).attended(q, k, v)
    return merge_heads(out), ops.stack([k, v]) if node.wants(1) else None


def multi_head_attention(node: OnnxNode) -> tuple[Value, ...]:
    """Attention of queries, keys and values, which may be packed in one array."""
    heads = node.attr("num_heads")
    q, k, v = _project_inputs(node, heads)
    k, v = append_to_cache(node.maybe(6), k), append_to_cache(node.maybe(7), v)
    queries, keys = q.shape[2], k.shape[2]
    visible = causal_mask(queries, keys) if node.flag("unidirectional") else None
    total = add_optional(mask_of(node, node.maybe(4), keys), node.maybe(5))
    out = Scores(node.attr("scale", 0.0), total, visible).attended(q, k, v)
    return merge_heads(out), k, v


def _project_inputs(node: OnnxNode, heads: int) -> tuple[Var, Var, Var]:
    """Return queries, keys and values, with their biases."""
    q, k, v, bias = node.var(0), node.maybe(1), node.maybe(2), node.maybe(3)
    if q.ndim == 5:
        packed = ops.transpose(q, (3, 0, 2, 1, 4))
        if bias is not None:
            node.refuse("unsupported bias with packed queries, keys and values")
        return packed[0], packed[1], packed[2]
    first = second = third = None
    if bias is not None:
        wide, deep = q.shape[-1], sizes.minus(bias.shape[0], sizes.times(q.shape[-1], 2))
        first, second, third = ops.split(bias, sections=(wide, wide, deep), axis=0)
    q = split_heads(node, _add_bias(q, first), heads)
    if k is None:
        node.refuse("missing keys")
    if k.ndim == 5:
        packed = ops.transpose(k, (3, 0, 2, 1, 4))
        return q, packed[0], packed[1]
    if v is None:
        node.refuse("missing values")
    if k.ndim == 4:
        return q, k, v
    return (
        q,
        split_heads(node, _add_bias(k, second), heads),
        split_heads(node, _add_bias(v, third), heads),
    )


def _add_bias(x: Var, bias: Var | None) -> Var:
    return x if bias is None else x + bias


def group_query_attention(node: OnnxNode) -> tuple[Value, ...]:
    """Attention with fewer key heads than query heads; the cache has its exact length."""
    heads, groups = node.attr("num_heads"), node.attr("kv_num_heads")
    q, k, v = _split_groups(node, heads, groups)
    past = node.maybe(3)
    before = 0 if past is None else past.shape[2]
    if node.flag("do_rotary"):
        positions = node.maybe(9)
        if positions is None:
            positions = ops.expand_dims(
                emit("arange", stop=q.shape[2]) + number_var(before), axis=0
            )
        tables, interleaved = (node.var(7), node.var(8)), node.flag("rotary_interleaved")
        q, k = (apply_rotary(x, positions, *tables, interleaved) for x in (q, k))
    k, v = (
        _assert_total_length(node, x)
        for x in (append_to_cache(past, k), append_to_cache(node.maybe(4), v))
    )
    queries, keys = q.shape[2], k.shape[2]
    lengths = ops.reshape(node.var(5), (-1, 1, 1, 1))
    visible = ops.logical_and(
        causal_mask(queries, keys, node.attr("local_window_size", -1)),
        ops.cast(emit("arange", stop=keys), lengths.dtype) <= lengths,
    )
    scores = Scores(node.attr("scale", 0.0), node.maybe(10), visible, node.attr("softcap", 0.0))
    times = heads // groups
    repeated = [ops.repeat(x, times, axis=1) if times > 1 else x for x in (k, v)]
    return merge_heads(scores.attended(q, *repeated)), k, v


def _assert_total_length(node: OnnxNode, x: Var) -> Var:
    """Assert that the number of keys or values is the total sequence length.

    A preallocated buffer violates this: new entries would follow its unused part.
    """
    (count,) = sizes_at(node, 6) or (x.shape[2],)
    return ops.ensure_shape(x, (*x.shape[:2], count, x.shape[3]))


def _split_groups(node: OnnxNode, heads: int, groups: int) -> tuple[Var, Var, Var]:
    """Return queries, keys and values, separate or packed in one array."""
    q = node.var(0)
    if node.has(1):
        return (
            split_heads(node, q, heads), split_heads(node, node.var(1), groups),
            split_heads(node, node.var(2), groups),
        )  # fmt: skip
    size = dims.divide_exactly(q.shape[-1], heads + 2 * groups)
    if size is None:
        node.refuse(f"cannot divide {q.shape[-1]} features into {heads + 2 * groups} heads")
    widths = tuple(sizes.times(size, count) for count in (heads, groups, groups))
    parts = ops.split(q, sections=widths, axis=-1)
    first, second, third = (
        split_heads(node, x, n) for x, n in zip(parts, (heads, groups, groups), strict=True)
    )
    return first, second, third


def apply_rotary(x: Var, places: Var, cos: Var, sin: Var, interleaved: bool) -> Var:
    """Apply rotary embeddings from tables of cosines and sines."""
    half = cos.shape[-1]
    wide = sizes.times(half, 2)
    rotary, unrotated = x[..., :wide], x[..., wide:]
    cos, sin = (
        ops.cast(ops.expand_dims(ops.take(t, places, axis=0), axis=1), x.dtype)
        for t in (cos, sin)
    )
    if interleaved:
        pairs = ops.reshape(rotary, (*x.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = rotary[..., :half], rotary[..., half:]
    halves = [a * cos - b * sin, b * cos + a * sin]
    if interleaved:
        out = ops.reshape(ops.stack(halves, axis=-1), (*x.shape[:-1], wide))
    else:
        out = ops.concat(halves, axis=-1)
    return out if wide == x.shape[-1] else ops.concat([out, unrotated], axis=-1)


def rotary_embedding(node: OnnxNode) -> Var:
    """Apply rotary embeddings to the input."""
    x, positions, cos, sin = (node.var(at) for at in range(4))
    if positions.ndim == 1:
        length = x.shape[-2]
        positions = ops.expand_dims(
            emit("arange", stop=length) + ops.reshape(positions, ()), axis=0
        )
    interleaved = node.flag("interleaved")
    if x.ndim == 4:
        return apply_rotary(x, positions, cos, sin, interleaved)
    heads = node.attr("num_heads", 0)
    if not heads:
        half = dims.divide_exactly(x.shape[-1], sizes.times(cos.shape[-1], 2))
        if not isinstance(half, int):
            node.refuse("unknown number of heads")
        heads = half
    return merge_heads(
        apply_rotary(split_heads(node, x, heads), positions, cos, sin, interleaved)
    )


ATTENTION: Mapping[str, Rule] = {
    f"{DOMAIN}.Attention": attention,
    f"{DOMAIN}.GroupQueryAttention": group_query_attention,
    f"{DOMAIN}.MultiHeadAttention": multi_head_attention,
    f"{DOMAIN}.QAttention": quantized_attention,
    f"{DOMAIN}.RotaryEmbedding": rotary_embedding,
}
