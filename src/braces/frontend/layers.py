"""Layers: functions that make their own parameters, or take them as arguments.

The first argument is the input. The second is a size, as in `br.conv2d(x, 16, 3)`, and the
layer makes parameters of that size; or it is the weights themselves, as in `br.conv2d(x,
weight, bias=b)`. Parameters live in the main block, wherever the layer is called, so a layer in
a step block shares its parameters between all steps.

Parameters are named after the layer: `name="fc1"` makes `fc1.w` and `fc1.b`. `params=` gives
the names of parameters instead and shares those that already exist.

A simple layer is at most three operators, such as a matrix product, a bias and an activation.
They are appended without a block. A composition of layers, such as an encoder or a transformer
layer, is a block of the program:

    with br.block("layer_3"):            one box of operators; `layer_3/q.w`, `layer_3/out.b`, …
        h = h + attention(br.layer_norm(h, name="norm"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.attention.dot_product import scaled_dot_product_attention
from braces.frontend.attention.multi_head import (
    AttentionCache,
    attention_cache,
    multi_head_attention,
)
from braces.frontend.attention.positional_encoding import positional_encoding, rotary_embedding
from braces.frontend.attention.transformer import (
    transformer_decoder_layer,
    transformer_encoder_layer,
)
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.nn.channels import channel_shuffle, maxout, prelu
from braces.frontend.nn.conv import conv1d, conv2d, conv3d
from braces.frontend.nn.conv_transpose import (
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from braces.frontend.nn.dropout_noise import (
    alpha_dropout,
    gaussian_dropout,
    gaussian_noise,
    rrelu,
)
from braces.frontend.nn.embedding import embedding, embedding_bag
from braces.frontend.nn.linear import bilinear, fc
from braces.frontend.nn.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from braces.frontend.nn.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    global_avg_pool,
    global_max_pool,
    pixel_shuffle,
    pixel_unshuffle,
    upsample,
)
from braces.frontend.nn.separable_conv import (
    depthwise_conv1d,
    depthwise_conv2d,
    separable_conv1d,
    separable_conv2d,
)
from braces.frontend.nn.weight_normalization import spectral_norm, weight_norm
from braces.frontend.random import dropout
from braces.frontend.recurrent.cells import gru_cell, lstm_cell, simple_rnn_cell
from braces.frontend.recurrent.conv_lstm import conv_lstm, conv_lstm_cell
from braces.frontend.recurrent.layers import gru, lstm, simple_rnn
from braces.frontend.sequence.crf import conditional_random_field, viterbi
from braces.frontend.sequence.ctc import ctc_greedy_decode, ctc_loss

__all__ = [
    "AttentionCache",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "alpha_dropout",
    "attention_cache",
    "batch_norm",
    "bilinear",
    "channel_shuffle",
    "conditional_random_field",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_lstm",
    "conv_lstm_cell",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "ctc_greedy_decode",
    "ctc_loss",
    "depthwise_conv1d",
    "depthwise_conv2d",
    "dropout",
    "embedding",
    "embedding_bag",
    "fc",
    "gaussian_dropout",
    "gaussian_noise",
    "global_avg_pool",
    "global_max_pool",
    "group_norm",
    "gru",
    "gru_cell",
    "instance_norm",
    "layer_norm",
    "lstm",
    "lstm_cell",
    "maxout",
    "multi_head_attention",
    "pixel_shuffle",
    "pixel_unshuffle",
    "positional_encoding",
    "prelu",
    "rms_norm",
    "rotary_embedding",
    "rrelu",
    "scaled_dot_product_attention",
    "separable_conv1d",
    "separable_conv2d",
    "simple_rnn",
    "simple_rnn_cell",
    "spectral_norm",
    "transformer_decoder_layer",
    "transformer_encoder_layer",
    "upsample",
    "viterbi",
    "weight_norm",
]

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.layers", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
