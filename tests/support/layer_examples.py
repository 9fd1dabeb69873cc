"""Every layer, built once: examples for the tests of all layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import braces as br
from braces.cli.common.function_help import is_layer


def public_layers() -> dict[str, Any]:
    """All public layers, by name."""
    places = (br, br.image, br.layers, br.losses)
    named = ((name, getattr(place, name)) for place in places for name in dir(place))
    return {name: member for name, member in named if is_layer(member)}


GIVEN: dict[str, br.Var] = {}
"""What layers take in place of data, by name."""


@contextmanager
def feeding(given: Mapping[str, br.Var]) -> Iterator[None]:
    """Layers that are built in this take what is given, in place of data."""
    GIVEN.update(given)
    try:
        yield
    finally:
        GIVEN.clear()


def data(name: str, sizes: list[Any], dtype: str = "float32") -> br.Var:
    """Data, or what is given for it."""
    return GIVEN[name] if GIVEN else br.data(name, sizes, dtype)


def x(*sizes: int | str, dtype: str = "float32") -> br.Var:
    """Data with rows."""
    return data("x", ["b", *sizes], dtype)


def ids(*sizes: int | str) -> br.Var:
    """Classes of rows."""
    return data("ids", ["b", *sizes], "int32")


def state(size: int) -> br.Var:
    """Return the state of a cell for each batch element."""
    return data("state", ["b", size])


def weight() -> br.Var:
    """Return the parameters of a layer."""
    return br.parameter("weight", [4, 3])


def memory() -> br.Var:
    """Return the output of an encoder."""
    return data("memory", ["b", 5, 4])


def picture_state() -> tuple[br.Var, br.Var]:
    """Return the state of a convolutional cell."""
    h, c = (data(name, ["b", 3, 5, 5]) for name in "hc")
    return h, c


LAYERS: dict[str, Callable[[], Any]] = {
    "AttentionCache": lambda: br.layers.attention_cache("b", 7, 2, 4),
    "adaptive_avg_pool1d": lambda: br.layers.adaptive_avg_pool1d(x(4, 8), 3),
    "adaptive_avg_pool2d": lambda: br.layers.adaptive_avg_pool2d(x(4, 8, 8), 3),
    "adaptive_avg_pool3d": lambda: br.layers.adaptive_avg_pool3d(x(4, 8, 8, 8), 3),
    "adaptive_max_pool1d": lambda: br.layers.adaptive_max_pool1d(x(4, 8), 3),
    "adaptive_max_pool2d": lambda: br.layers.adaptive_max_pool2d(x(4, 8, 8), 3),
    "adaptive_max_pool3d": lambda: br.layers.adaptive_max_pool3d(x(4, 8, 8, 8), 3),
    "alpha_dropout": lambda: br.layers.alpha_dropout(x(4), 0.5),
    "attention_cache": lambda: br.layers.attention_cache("b", 7, 2, 4),
    "batch_norm": lambda: br.batch_norm(x(4, 8)),
    "bilinear": lambda: br.layers.bilinear(x(4), state(3), 2),
    "channel_shuffle": lambda: br.layers.channel_shuffle(x(4, 8), 2),
    "conditional_random_field": lambda: br.layers.conditional_random_field(
        x(5, 3), ids(5), reduction="none"
    ),
    "conv1d": lambda: br.conv1d(x(4, 8), 2, 3, act="relu"),
    "conv2d": lambda: br.conv2d(x(4, 8, 8), 2, 3, act="relu"),
    "conv3d": lambda: br.conv3d(x(4, 8, 8, 8), 2, 3, act="relu"),
    "conv_lstm": lambda: br.layers.conv_lstm(x(6, 2, 5, 5), 3, 3),
    "conv_lstm_cell": lambda: br.layers.conv_lstm_cell(x(2, 5, 5), picture_state(), 3),
    "conv_transpose1d": lambda: br.layers.conv_transpose1d(x(4, 8), 2, 3, act="relu"),
    "conv_transpose2d": lambda: br.layers.conv_transpose2d(x(4, 8, 8), 2, 3, act="relu"),
    "conv_transpose3d": lambda: br.layers.conv_transpose3d(x(4, 8, 8, 8), 2, 3, act="relu"),
    "ctc_greedy_decode": lambda: br.layers.ctc_greedy_decode(x(6, 4)),
    "ctc_loss": lambda: br.losses.ctc_loss(x(6, 4), ids(2), reduction="none"),
    "depthwise_conv1d": lambda: br.layers.depthwise_conv1d(x(4, 8), 3, act="relu"),
    "depthwise_conv2d": lambda: br.layers.depthwise_conv2d(x(4, 8, 8), 3, act="relu"),
    "dropout": lambda: br.dropout(x(4), 0.5),
    "embedding": lambda: br.embedding(ids(), [9, 2]),
    "embedding_bag": lambda: br.layers.embedding_bag(ids(3), [9, 2]),
    "fc": lambda: br.fc(x(4), 2, act="tanh"),
    "gaussian_dropout": lambda: br.layers.gaussian_dropout(x(4), 0.5),
    "gaussian_noise": lambda: br.layers.gaussian_noise(x(4), 0.5),
    "global_avg_pool": lambda: br.layers.global_avg_pool(x(4, 8)),
    "global_max_pool": lambda: br.layers.global_max_pool(x(4, 8)),
    "group_norm": lambda: br.group_norm(x(4, 8), 2),
    "gru": lambda: br.gru(x(6, 4), 3),
    "gru_cell": lambda: br.layers.gru_cell(x(4), state(3)),
    "instance_norm": lambda: br.layers.instance_norm(x(4, 8)),
    "layer_norm": lambda: br.layer_norm(x(4)),
    "lstm": lambda: br.lstm(x(6, 4), 3),
    "lstm_cell": lambda: br.layers.lstm_cell(x(4), [state(3)] * 2),
    "maxout": lambda: br.layers.maxout(x(4), 2),
    "multi_head_attention": lambda: br.multi_head_attention(x(6, 4), 2),
    "pixel_shuffle": lambda: br.image.pixel_shuffle(x(4, 8, 8), 2),
    "pixel_unshuffle": lambda: br.image.pixel_unshuffle(x(4, 8, 8), 2),
    "positional_encoding": lambda: br.layers.positional_encoding(ids(), 4),
    "prelu": lambda: br.layers.prelu(x(4)),
    "rms_norm": lambda: br.rms_norm(x(4)),
    "rotary_embedding": lambda: br.layers.rotary_embedding(x(2, 6, 4)),
    "rrelu": lambda: br.layers.rrelu(x(4)),
    "scaled_dot_product_attention": lambda: br.scaled_dot_product_attention(*[x(2, 6, 4)] * 3),
    "separable_conv1d": lambda: br.layers.separable_conv1d(x(4, 8), 2, 3),
    "separable_conv2d": lambda: br.layers.separable_conv2d(x(4, 8, 8), 2, 3),
    "simple_rnn": lambda: br.layers.simple_rnn(x(6, 4), 3),
    "simple_rnn_cell": lambda: br.layers.simple_rnn_cell(x(4), state(3)),
    "spectral_norm": lambda: br.layers.spectral_norm(weight()),
    "transformer_decoder_layer": lambda: br.layers.transformer_decoder_layer(
        x(6, 4), memory(), 2
    ),
    "transformer_encoder_layer": lambda: br.layers.transformer_encoder_layer(x(6, 4), 2),
    "upsample": lambda: br.image.upsample(x(4, 8, 8), 2),
    "viterbi": lambda: br.layers.viterbi(x(5, 3)),
    "weight_norm": lambda: br.layers.weight_norm(weight(), axis=0),
}
LINES = frozenset(
    {"AttentionCache", "attention_cache", "positional_encoding", "rotary_embedding"}
    | {name for name in LAYERS if name.endswith("_cell")}
)
"""What stands as lines in the block where it is called: cells in steps, places of words."""
