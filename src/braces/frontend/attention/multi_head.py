"""Multi-head attention, and its cache of keys and values."""

from __future__ import annotations

from typing import Any, NamedTuple

from braces.builder.append import as_var, emit
from braces.builder.var import Var
from braces.dims import NamedSize, Size, axis_name
from braces.dtypes import Extent, is_integer, named_size
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.attention.dot_product import (
    as_mask,
    build_attention,
    causal_mask,
    check_equal_sizes,
    check_heads,
    shape_mismatch,
)
from braces.frontend.attention.positional_encoding import rotary_embedding
from braces.frontend.control.block import compose_block, mark_layer_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.parameters import fixed_size
from braces.frontend.core.random_state import as_shape
from braces.frontend.nn.linear import fc

# ---- cache -----------------------------------------------------------------------------------


class AttentionCache(NamedTuple):
    """Key-value cache of earlier steps with fixed capacity; a carry of a decoding loop.

    Attributes:
        key: float[rows, heads, room, size].
        value: float[rows, heads, room, size].
        position: integer[]: the number of steps written.
    """

    key: Var
    value: Var
    position: Var


@transactional
def attention_cache(
    rows: Any, room: int, heads: int, size: int, *, dtype: object = "float32"
) -> AttentionCache:
    """Create an empty cache for `multi_head_attention`, to be carried by a loop.

    Args:
        rows: The batch size; may be symbolic, as `x.shape[0]`.
        room: The capacity in steps; writing more steps is an error of the run.
        heads: The number of key heads.
        size: The size of each head.
        dtype: The dtype of keys and values.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", 1, 32])
        ...     cache = br.layers.attention_cache(x.shape[0], 100, heads=4, size=8)
        ...     out, cache = br.multi_head_attention(x, 4, cache=cache, causal=True)
        ...     print(out.shape, cache.key.shape)
        (b, 1, 32) (b, 4, 100, 8)
    """
    shape = as_shape((rows, heads, room, size))
    empty = emit("full", shape=shape, value=0.0, dtype=dtype)
    return AttentionCache(empty, empty, emit("full", shape=(), value=0, dtype="int32"))


def _append_step(cache: AttentionCache, k: Var, v: Var) -> AttentionCache:
    """Return the cache with the keys and values of this step appended."""
    if k.ndim != cache.key.ndim:
        raise shape_mismatch("rank mismatch of the cache of attention.", k, cache.key)
    for new, cached in ((k, cache.key), (v, cache.value)):
        for axis in (0, 1, 3):
            sizes = new.shape[axis], cached.shape[axis]
            check_equal_sizes(
                "attention", "batch, heads and sizes of cache and keys", *sizes, new, cached
            )
    dtype = cache.position.dtype
    count = ops.cast(emit("size", value=k.shape[-2]), dtype)
    room = ops.cast(emit("arange", stop=cache.key.shape[-2]), dtype)
    last = ops.take(room, cache.position + (count - 1), axis=0)  # an error beyond the capacity
    zero = emit("full", shape=(), value=0, dtype=dtype)
    starts = [zero, zero, last - (count - 1), zero]
    return AttentionCache(
        ops.dynamic_update_slice(cache.key, k, starts),
        ops.dynamic_update_slice(cache.value, v, starts),
        cache.position + count,
    )


def _positions(steps: Size, cache: AttentionCache | None) -> Var:
    """Return the positions of the steps of an input."""
    at = emit("arange", stop=steps)
    return at if cache is None else ops.cast(at, cache.position.dtype) + cache.position


def _cache_mask(q: Var, before: AttentionCache, after: AttentionCache, causal: bool) -> Var:
    """Return the mask of a cache's keys: written, and not later than the query if causal."""
    room = ops.cast(emit("arange", stop=after.key.shape[-2]), after.position.dtype)
    if not causal:
        return room < after.position
    return room <= ops.expand_dims(_positions(q.shape[-2], before), axis=1)


# ---- the layer -------------------------------------------------------------------------------


@transactional
@mark_layer_block
def multi_head_attention(
    x: Any,
    heads: Extent,
    key: Any = None,
    value: Any = None,
    *,
    mask: Any = None,
    lengths: Any = None,
    causal: bool = False,
    key_value_heads: Extent | None = None,
    head_size: int | None = None,
    rotary: bool | float = False,
    dropout: float = 0.0,
    bias: bool = True,
    cache: AttentionCache | None = None,
    name: str | None = None,
) -> Any:
    """Multi-head attention.

        head[h] = softmax(q[h] @ k[h]' / sqrt(head_size)) @ v[h]
        out = [head[0], head[1], …] @ w_out + b_out
        q = x @ w_q + b_q        k = key @ w_k + b_k        v = value @ w_v + b_v

    The layer is a plain block with the parameters `q.w`, `q.b`, `k.w`, …, `out.b`.

    Args:
        x: float[rows, steps, features], the input of the query projection.
        heads: The number of heads. A pair with a name, `("heads", 8)`, also names the head axes
            of parameters; see `parameter`.
        key: float[rows, keys, …], the input of the key projection; `x` by default.
        value: float[rows, keys, …], the input of the value projection; `key` by default.
        mask: bool, broadcast to [rows, heads, steps, keys]; True takes part.
        lengths: integer[rows]: the number of keys of each batch element. Padding behind them,
            NaN included, affects no value and no gradient. In self-attention the result is zero
            in the padding.
        causal: Whether a step attends only to itself and earlier steps.
        key_value_heads: The number of heads of keys and values, a divisor of `heads`; `heads`
            by default.
        head_size: The size of each head; features / heads by default.
        rotary: Whether queries and keys get a rotary position embedding; a number is its base.
        dropout: The probability of dropping a weight; `prog.for_test()` drops none.
        bias: Whether there are biases.
        cache: Keys and values of earlier steps, from `attention_cache` or from the previous
            step. The keys and values of `x` are appended to it.
        name: The layer's name.

    Returns:
        float[rows, steps, features]; and the next cache, if one is given.

    Raises:
        ShapeError: If the features or the query heads are not divisible by the number of heads,
            or shapes do not match.
        DTypeError: If the mask is not bool, or the lengths are not integers.
        ProgramError: If a cache is combined with `key=`, `value=` or `lengths=`.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, n = br.data("x", ["b", "t", 32]), br.data("n", ["b"], dtype="int32")
        ...     y = br.multi_head_attention(x, 4, lengths=n, causal=True, name="a")
        >>> print(y.type, [p.name for p in prog.parameters if p.name.endswith("w")])
        f32[b,t,32] ['a/q.w', 'a/k.w', 'a/v.w', 'a/out.w']
    """
    what = "multi_head_attention"
    if isinstance(heads, Var):  # query, key, value, as in PyTorch
        raise ProgramError(
            f"{what}: expected an integer for `heads`, the second argument, got a variable.",
            given=f"{heads.name}: {heads.type}",
            fix=f"Call br.{what}(x, 2, key, value) with the number of heads.",
        )
    x = operand(x, what)
    key = x if key is None else operand(key, what)
    value = key if value is None else operand(value, what)
    for sequence in (x, key, value):
        check_steps(what, sequence)
    if cache is not None and (key is not x or value is not x or lengths is not None):
        raise ProgramError(
            f"{what} supports a cache only for self-attention on `x`.",
            fix="Omit key=, value= and lengths=; use mask= to exclude steps.",
        )
    layer = _Heads(x, heads, key_value_heads, head_size, bias)
    valid = None if lengths is None else padding_mask(what, lengths, key)
    return compose_block(
        name or what,
        lambda: layer.attended(x, key, value, mask, valid, causal, rotary, dropout, cache),
    )


def check_steps(what: str, x: Var) -> Var:
    """Return `x` if it has the axes [rows, steps, features].

    Raises:
        ShapeError: If the rank of `x` is not 3.
    """
    if x.ndim != 3:
        raise ShapeError(
            f"{what}: expected [rows, steps, features], got {x.type}.",
            given=f"{x.name}: {x.type}",
            fix="Use br.reshape, or br.scaled_dot_product_attention on heads.",
        )
    return x


def padding_mask(what: str, lengths: Any, key: Var) -> Var:
    """Return the padding mask, bool[rows, steps]: True for valid steps."""
    var = as_var(lengths)
    if not is_integer(var.dtype) or var.ndim != 1:
        error = ShapeError if is_integer(var.dtype) else DTypeError
        raise error(
            f"{what}: expected lengths= as an integer vector over the batch, got {var.type}.",
            given=f"{var.name}: {var.type}",
        )
    check_equal_sizes(
        what, "batch sizes of keys and lengths", key.shape[0], var.shape[0], key, var
    )
    steps = ops.cast(emit("arange", stop=key.shape[1]), var.dtype)
    return steps < ops.expand_dims(var, axis=1)


def zero_padding(valid: Var | None, x: Var) -> Var:
    """Replace the padding by zeros."""
    return x if valid is None else ops.where(ops.expand_dims(valid, axis=2), x, 0.0)


class _Heads:
    """Sizes of a multi-head attention layer, and the code that builds it."""

    def __init__(
        self, x: Var, heads: Extent, shared: Extent | None, size: int | None, bias: bool
    ) -> None:
        heads, shared = named_size(heads), named_size(shared)
        features = fixed_size(x, -1, "multi_head_attention")
        self.heads, self.bias, self.features = heads, bias, features
        self.shared = heads if shared is None else shared
        if heads < 1 or self.shared < 1 or heads % self.shared:
            raise ShapeError(
                f"multi_head_attention: expected a multiple of {self.shared} key heads, "
                f"got {heads} heads."
            )
        if size is None and features % heads:
            raise ShapeError(
                f"multi_head_attention cannot split {features} features into {heads} heads.",
                given=f"{x.name}: {x.type}",
                fix="Choose a number of heads that divides the features, or pass head_size=.",
            )
        self.size = features // heads if size is None else size

    def attended(
        self, x: Var, key: Var, value: Var, mask: Any, valid: Var | None, causal: bool,
        rotary: bool | float, dropout: float, cache: AttentionCache | None,
    ) -> Any:  # fmt: skip
        """Build the layer; return its result, and the next cache if one is given."""
        own = key is x
        clean = zero_padding(valid, key)
        x, value = clean if own else x, clean if value is key else zero_padding(valid, value)
        q = self._project(x, "q", self.heads)
        k, v = self._project(clean, "k", self.shared), self._project(value, "v", self.shared)
        if rotary:
            base = 10000.0 if rotary is True else float(rotary)
            q, k = (
                rotary_embedding(y, _positions(y.shape[-2], cache), base=base) for y in (q, k)
            )
        seen, after = causal_mask(q, k) if causal else None, None
        if cache is not None:
            after = _append_step(cache, k, v)
            k, v, seen = after.key, after.value, _cache_mask(q, cache, after, causal)
        check_heads("multi_head_attention", q, k, v)
        combined = None if mask is None else as_mask("multi_head_attention", mask, q, k)
        if valid is not None:
            keys = ops.expand_dims(valid, axis=(1, 2))
            combined = keys if combined is None else ops.logical_and(keys, combined)
        out = ops.swapaxes(build_attention(q, k, v, combined, seen, None, dropout), -3, -2)
        width = self._width(self.heads)
        flat = ops.reshape(out, (*out.shape[:-2], width))
        flat.table.name_axes(flat.name, (*[None] * (flat.ndim - 1), axis_name(width)))
        result = fc(flat, self.features, name="out", bias=self.bias)
        result = zero_padding(valid, result) if own else result
        return result if after is None else (result, after)

    def _project(self, x: Var, role: str, heads: int) -> Var:
        """Project the input to heads: [rows, heads, steps, size]."""
        flat = fc(x, self._width(heads), name=role, bias=self.bias)
        return ops.swapaxes(ops.reshape(flat, (*x.shape[:-1], heads, self.size)), -3, -2)

    def _width(self, heads: int) -> int:
        """Return the total size of some heads, with their axis name."""
        return NamedSize.of(heads * self.size, axis_name(heads))
