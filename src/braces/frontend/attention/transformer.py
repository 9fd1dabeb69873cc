"""Transformer layers: attention and feed-forward sublayers with residual connections.

with br.block("layer"):
x = x + attention(norm1(x))              norm_first, or norm1(x + attention(x))
x = x + out(act(hidden(norm2(x))))       or norm2(x + out(act(hidden(x))))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from braces.builder.var import Var
from braces.dtypes import Extent
from braces.frontend.attention.multi_head import (
    AttentionCache,
    check_steps,
    multi_head_attention,
    padding_mask,
    zero_padding,
)
from braces.frontend.control.block import compose_block, mark_layer_block
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.parameters import Activation, apply_activation, fixed_size
from braces.frontend.nn import dropout_noise
from braces.frontend.nn.linear import fc
from braces.frontend.nn.normalization import layer_norm


@dataclass(frozen=True)
class _Sublayers:
    """Residual connection, normalization and dropout around the sublayers of a layer.

    Attributes:
        first: Whether the input of a sublayer is normalized (pre-norm), instead of the sum.
        dropout: The probability of dropping elements of a sublayer's output.
        epsilon: The epsilon of the norms.
        bias: Whether norms and matrix products have biases.
    """

    first: bool
    dropout: float
    epsilon: float
    bias: bool

    def __call__(self, x: Var, norm: str, part: Callable[[Var], Var]) -> Var:
        result = self.dropped(part(self._norm(x, norm) if self.first else x))
        return x + result if self.first else self._norm(x + result, norm)

    def dropped(self, x: Var) -> Var:
        """Apply dropout to `x`."""
        return dropout_noise.dropout(x, self.dropout) if self.dropout else x

    def _norm(self, x: Var, name: str) -> Var:
        return layer_norm(x, True, self.bias, epsilon=self.epsilon, name=name)

    def products(self, hidden: Extent | None, act: Activation) -> Callable[[Var], Var]:
        """Return the feed-forward sublayer: two matrix products and an activation."""

        def part(x: Var) -> Var:
            features = fixed_size(x, -1, "transformer")
            wide = fc(x, hidden or 4 * features, name="hidden", bias=self.bias)
            wide = self.dropped(apply_activation(wide, act, ""))
            return fc(wide, features, name="out", bias=self.bias)

        return part


@transactional
@mark_layer_block
def transformer_encoder_layer(
    x: Any,
    heads: Extent,
    hidden: Extent | None = None,
    *,
    mask: Any = None,
    lengths: Any = None,
    causal: bool = False,
    norm_first: bool = False,
    act: Activation = "relu",
    dropout: float = 0.0,
    epsilon: float = 1e-5,
    bias: bool = True,
    key_value_heads: Extent | None = None,
    rotary: bool | float = False,
    cache: AttentionCache | None = None,
    name: str | None = None,
) -> Any:
    """Transformer encoder layer: self-attention, then a feed-forward sublayer.

        x = norm1(x + attention(x))              norm_first:  x = x + attention(norm1(x))
        x = norm2(x + products(x))                            x = x + products(norm2(x))
        products(x) = act(x @ hidden.w + hidden.b) @ out.w + out.b

    The layer is a plain block with the parameters `attention/q.w`, …, `norm1.scale`, …,
    `hidden.w` and `out.w`. With `causal=True` it is the decoder-only layer of a language model.

    Args:
        x: float[rows, steps, features].
        heads: The number of heads. Sizes may be pairs with an axis name, `("heads", 8)`,
            `("mlp", 64)`; see `parameter`.
        hidden: The hidden size of the feed-forward sublayer; 4 * features by default.
        mask: bool, broadcast to [rows, heads, steps, steps]; True takes part.
        lengths: integer[rows]: the number of steps of each batch element. Padding behind them,
            NaN included, affects no value and no gradient, and the result is zero there.
        causal: Whether a step attends only to itself and earlier steps.
        norm_first: Whether the input of a sublayer is normalized (pre-norm), as in most deep
            models.
        act: The name of an operator, or a function.
        dropout: The probability of dropping attention weights, hidden activations and outputs
            of sublayers; `prog.for_test()` drops none.
        epsilon: The epsilon of the norms.
        bias: Whether there are biases.
        key_value_heads: The number of heads of keys and values; `heads` by default.
        rotary: See `multi_head_attention`.
        cache: Keys and values of earlier steps; see `multi_head_attention`.
        name: The layer's name.

    Returns:
        float[rows, steps, features]; and the next cache, if one is given.

    Raises:
        ShapeError: If the shapes do not match.
        DTypeError: If the mask is not bool, or the lengths are not integers.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     h = br.data("x", ["b", "t", 32])
        ...     for _ in range(2):
        ...         h = br.layers.transformer_encoder_layer(h, 4, norm_first=True, causal=True)
        >>> print(h.type, len(prog.parameters))
        f32[b,t,32] 32
    """
    what = "transformer_encoder_layer"
    x = check_steps(what, operand(x, what))
    valid = None if lengths is None else padding_mask(what, lengths, x)
    around = _Sublayers(norm_first, dropout, epsilon, bias)
    caches = [] if cache is None else [cache]

    def attention(inputs: Var) -> Var:
        result = multi_head_attention(
            inputs, heads, mask=mask, lengths=lengths, causal=causal, rotary=rotary,
            key_value_heads=key_value_heads, dropout=dropout, bias=bias, cache=cache,
            name="attention",
        )  # fmt: skip
        return _without_cache(result, caches)

    def layer() -> tuple[Any, ...]:
        h = around(zero_padding(valid, x), "norm1", attention)
        return zero_padding(valid, around(h, "norm2", around.products(hidden, act))), *caches

    result = compose_block(name or what, layer)
    return result[0] if cache is None else result


def _without_cache(result: Any, caches: list[AttentionCache]) -> Var:
    """Return the result of attention; store the next cache in place of the previous one."""
    if caches:
        result, caches[0] = result
    return result


@transactional
@mark_layer_block
def transformer_decoder_layer(
    x: Any,
    memory: Any,
    heads: Extent,
    hidden: Extent | None = None,
    *,
    mask: Any = None,
    memory_mask: Any = None,
    lengths: Any = None,
    memory_lengths: Any = None,
    causal: bool = True,
    norm_first: bool = False,
    act: Activation = "relu",
    dropout: float = 0.0,
    epsilon: float = 1e-5,
    bias: bool = True,
    key_value_heads: Extent | None = None,
    rotary: bool | float = False,
    cache: AttentionCache | None = None,
    name: str | None = None,
) -> Any:
    """Transformer decoder layer: self-attention, cross-attention, feed-forward sublayer.

        x = norm1(x + self_attention(x))              norm_first: as in the encoder's layer
        x = norm2(x + cross_attention(x, memory))
        x = norm3(x + products(x))

    Args:
        x: float[rows, steps, features].
        memory: float[rows, keys, …], the output of an encoder.
        heads: The number of heads. Sizes may be pairs with an axis name, `("heads", 8)`,
            `("mlp", 64)`; see `parameter`.
        hidden: The hidden size of the feed-forward sublayer; 4 * features by default.
        mask: bool, broadcast to [rows, heads, steps, steps]; True takes part.
        memory_mask: bool, broadcast to [rows, heads, steps, keys].
        lengths: integer[rows]: the number of steps of each batch element; the result is zero
            in the padding.
        memory_lengths: integer[rows]: the number of keys of each batch element.
        causal: Whether a step attends only to itself and earlier steps of `x`.
        norm_first: Whether the input of a sublayer is normalized (pre-norm).
        act: The name of an operator, or a function.
        dropout: The probability of dropping attention weights, hidden activations and outputs
            of sublayers; `prog.for_test()` drops none.
        epsilon: The epsilon of the norms.
        bias: Whether there are biases.
        key_value_heads: The number of heads of keys and values; `heads` by default.
        rotary: Whether self-attention uses rotary embeddings; see `multi_head_attention`.
        cache: Keys and values of earlier steps of `x`; see `multi_head_attention`.
        name: The layer's name.

    Returns:
        float[rows, steps, features]; and the next cache, if one is given.

    Raises:
        ShapeError: If the shapes do not match.
        DTypeError: If a mask is not bool, or lengths are not integers.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, seen = br.data("x", ["b", "t", 32]), br.data("seen", ["b", "s", 32])
        ...     print(br.layers.transformer_decoder_layer(x, seen, 4, name="dec").type)
        f32[b,t,32]
    """
    what = "transformer_decoder_layer"
    x, memory = (check_steps(what, operand(y, what)) for y in (x, memory))
    valid = None if lengths is None else padding_mask(what, lengths, x)
    around = _Sublayers(norm_first, dropout, epsilon, bias)
    caches = [] if cache is None else [cache]
    options: dict[str, Any] = {
        "key_value_heads": key_value_heads, "dropout": dropout, "bias": bias,
    }  # fmt: skip

    def to_itself(inputs: Var) -> Var:
        result = multi_head_attention(
            inputs, heads, mask=mask, lengths=lengths, causal=causal, rotary=rotary,
            cache=cache, name="self_attention", **options,
        )  # fmt: skip
        return _without_cache(result, caches)

    def to_memory(inputs: Var) -> Var:
        return multi_head_attention(
            inputs, heads, memory, mask=memory_mask, lengths=memory_lengths,
            name="cross_attention", **options,
        )  # fmt: skip

    def layer() -> tuple[Any, ...]:
        h = around(zero_padding(valid, x), "norm1", to_itself)
        h = around(h, "norm2", to_memory)
        return zero_padding(valid, around(h, "norm3", around.products(hidden, act))), *caches

    result = compose_block(name or what, layer)
    return result[0] if cache is None else result
