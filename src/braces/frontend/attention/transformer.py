"""Layers of transformers: attention and two products, each beside what goes around it.

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
from braces.frontend import random
from braces.frontend.attention.multi_head import (
    AttentionCache,
    check_steps,
    multi_head_attention,
    only,
    valid_steps,
)
from braces.frontend.control.block import composed, layer_block
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.parameters import Activation, activated, fixed_size
from braces.frontend.nn.linear import fc
from braces.frontend.nn.normalization import layer_norm


@dataclass(frozen=True)
class _Around:
    """What goes around the parts of a layer.

    Attributes:
        first: Whether a part takes what is normalised, and not what it makes.
        dropout: The probability of dropping what a part makes.
        epsilon: Of the norms.
        bias: Whether norms and products have biases.
    """

    first: bool
    dropout: float
    epsilon: float
    bias: bool

    def __call__(self, x: Var, norm: str, part: Callable[[Var], Var]) -> Var:
        made = self.dropped(part(self._norm(x, norm) if self.first else x))
        return x + made if self.first else self._norm(x + made, norm)

    def dropped(self, x: Var) -> Var:
        """`x` with some of it dropped."""
        return random.dropout(x, self.dropout) if self.dropout else x

    def _norm(self, x: Var, name: str) -> Var:
        return layer_norm(x, True, self.bias, epsilon=self.epsilon, name=name)

    def products(self, hidden: Extent | None, act: Activation) -> Callable[[Var], Var]:
        """Two products with an activation between them."""

        def part(x: Var) -> Var:
            features = fixed_size(x, -1, "transformer")
            wide = fc(x, hidden or 4 * features, name="hidden", bias=self.bias)
            wide = self.dropped(activated(wide, act, ""))
            return fc(wide, features, name="out", bias=self.bias)

        return part


@building
@layer_block
def transformer_encoder_layer(
    x: Any,
    heads: Extent,
    hidden: Extent | None = None,
    *,
    mask: Any = None,
    lengths: Any = None,
    causal: bool = False,
    norm_first: bool = False,
    activation: Activation = "relu",
    dropout: float = 0.0,
    epsilon: float = 1e-5,
    bias: bool = True,
    key_value_heads: Extent | None = None,
    rotary: bool | float = False,
    cache: AttentionCache | None = None,
    name: str | None = None,
) -> Any:
    """Attention of steps to each other, then two products, each added to what it takes.

        x = norm1(x + attention(x))              norm_first:  x = x + attention(norm1(x))
        x = norm2(x + products(x))                            x = x + products(norm2(x))
        products(x) = activation(x @ hidden.w + hidden.b) @ out.w + out.b

    A plain block of its name, with the parameters `attention/q.w`, …, `norm1.scale`, …,
    `hidden.w` and `out.w`. With `causal=True` it is the layer of a language model.

    Args:
        x: float[rows, steps, features].
        heads: The number of heads. Names may stand beside sizes, `("heads", 8)`, `("mlp", 64)`;
            see `parameter`.
        hidden: The size between both products; 4 * features where nothing is said.
        mask: bool, broadcast to [rows, heads, steps, steps]; True takes part.
        lengths: integer[rows]: how many steps of each row there are. What lies behind them, NaN
            included, reaches no value and no gradient, and the result is zero there.
        causal: Whether a step sees none that is later.
        norm_first: Whether parts take what is normalised, as most do that are deep.
        activation: The name of an operator, or a function.
        dropout: The probability of dropping weights of attention, what is between the products,
            and what parts make; `prog.for_test()` drops none.
        epsilon: Of the norms.
        bias: Whether there are biases.
        key_value_heads: The number of heads of keys and values; `heads` where nothing is said.
        rotary: See `multi_head_attention`.
        cache: Keys and values of earlier steps; see `multi_head_attention`.
        name: The layer's name.

    Returns:
        float[rows, steps, features]; and the next cache, where one is given.

    Raises:
        ShapeError: Shapes do not fit.
        DTypeError: The mask is no bools, or the lengths are no integers.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     h = br.data("x", ["b", "t", 32])
        ...     for _ in range(2):
        ...         h = br.transformer_encoder_layer(h, 4, norm_first=True, causal=True)
        >>> print(h.type, len(prog.parameters))
        f32[b,t,32] 32
    """
    what = "transformer_encoder_layer"
    x = check_steps(what, operand(x, what))
    valid = None if lengths is None else valid_steps(what, lengths, x)
    around = _Around(norm_first, dropout, epsilon, bias)
    caches = [] if cache is None else [cache]

    def attention(taken: Var) -> Var:
        made = multi_head_attention(
            taken, heads, mask=mask, lengths=lengths, causal=causal, rotary=rotary,
            key_value_heads=key_value_heads, dropout=dropout, bias=bias, cache=cache,
            name="attention",
        )  # fmt: skip
        return _without_cache(made, caches)

    def layer() -> tuple[Any, ...]:
        h = around(only(valid, x), "norm1", attention)
        return only(valid, around(h, "norm2", around.products(hidden, activation))), *caches

    made = composed(name or what, layer)
    return made[0] if cache is None else made


def _without_cache(made: Any, caches: list[AttentionCache]) -> Var:
    """What attention made; the next cache takes the place of the one before."""
    if caches:
        made, caches[0] = made
    return made


@building
@layer_block
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
    activation: Activation = "relu",
    dropout: float = 0.0,
    epsilon: float = 1e-5,
    bias: bool = True,
    key_value_heads: Extent | None = None,
    rotary: bool | float = False,
    cache: AttentionCache | None = None,
    name: str | None = None,
) -> Any:
    """Attention of steps to each other, then to what an encoder made, then two products.

        x = norm1(x + self_attention(x))              norm_first: as in the encoder's layer
        x = norm2(x + cross_attention(x, memory))
        x = norm3(x + products(x))

    Args:
        x: float[rows, steps, features].
        memory: float[rows, keys, …], what an encoder made.
        heads: The number of heads. Names may stand beside sizes, `("heads", 8)`, `("mlp", 64)`;
            see `parameter`.
        hidden: The size between both products; 4 * features where nothing is said.
        mask: bool, broadcast to [rows, heads, steps, steps]; True takes part.
        memory_mask: bool, broadcast to [rows, heads, steps, keys].
        lengths: integer[rows]: how many steps of each row there are; the result is zero behind.
        memory_lengths: integer[rows]: how many keys of each row there are.
        causal: Whether a step sees none of `x` that is later.
        norm_first: Whether parts take what is normalised.
        activation: The name of an operator, or a function.
        dropout: The probability of dropping weights of attention, what is between the products,
            and what parts make; `prog.for_test()` drops none.
        epsilon: Of the norms.
        bias: Whether there are biases.
        key_value_heads: The number of heads of keys and values; `heads` where nothing is said.
        rotary: Whether steps of `x` are turned by their positions; see `multi_head_attention`.
        cache: Keys and values of earlier steps of `x`; see `multi_head_attention`.
        name: The layer's name.

    Returns:
        float[rows, steps, features]; and the next cache, where one is given.

    Raises:
        ShapeError: Shapes do not fit.
        DTypeError: A mask is no bools, or lengths are no integers.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, seen = br.data("x", ["b", "t", 32]), br.data("seen", ["b", "s", 32])
        ...     print(br.transformer_decoder_layer(x, seen, 4, name="dec").type)
        f32[b,t,32]
    """
    what = "transformer_decoder_layer"
    x, memory = (check_steps(what, operand(y, what)) for y in (x, memory))
    valid = None if lengths is None else valid_steps(what, lengths, x)
    around = _Around(norm_first, dropout, epsilon, bias)
    caches = [] if cache is None else [cache]
    options: dict[str, Any] = {
        "key_value_heads": key_value_heads, "dropout": dropout, "bias": bias,
    }  # fmt: skip

    def to_itself(taken: Var) -> Var:
        made = multi_head_attention(
            taken, heads, mask=mask, lengths=lengths, causal=causal, rotary=rotary,
            cache=cache, name="self_attention", **options,
        )  # fmt: skip
        return _without_cache(made, caches)

    def to_memory(taken: Var) -> Var:
        return multi_head_attention(
            taken, heads, memory, mask=memory_mask, lengths=memory_lengths,
            name="cross_attention", **options,
        )  # fmt: skip

    def layer() -> tuple[Any, ...]:
        h = around(only(valid, x), "norm1", to_itself)
        h = around(h, "norm2", to_memory)
        return only(valid, around(h, "norm3", around.products(hidden, activation))), *caches

    made = composed(name or what, layer)
    return made[0] if cache is None else made
