"""Layers, pools and activations beyond the everyday ones, as in `torch.nn` and `keras.layers`.

The everyday layers are in `br` itself: `br.fc`, `br.embedding`, `br.conv2d`, `br.max_pool2d`,
`br.batch_norm`, `br.layer_norm`, `br.dropout`, `br.lstm`, `br.multi_head_attention`, …. All
layers follow the same rules. A layer makes its own parameters, or takes them as arguments.

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

from braces.frontend.attention.multi_head import AttentionCache, attention_cache
from braces.frontend.attention.positional_encoding import positional_encoding, rotary_embedding
from braces.frontend.attention.transformer import (
    transformer_decoder_layer,
    transformer_encoder_layer,
)
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import (
    celu,
    deform_conv2d,
    dequantize,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    local_response_norm,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool_with_indices1d,
    max_pool_with_indices2d,
    max_pool_with_indices3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    mish,
    quantize,
    relu6,
    selu,
    softshrink,
    softsign,
    tanhshrink,
)
from braces.frontend.nn.channels import channel_shuffle, maxout, prelu
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
from braces.frontend.nn.embedding import embedding_bag
from braces.frontend.nn.linear import bilinear
from braces.frontend.nn.normalization import instance_norm
from braces.frontend.nn.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    global_avg_pool,
    global_max_pool,
)
from braces.frontend.nn.separable_conv import (
    depthwise_conv1d,
    depthwise_conv2d,
    separable_conv1d,
    separable_conv2d,
)
from braces.frontend.nn.weight_normalization import spectral_norm, weight_norm
from braces.frontend.recurrent.cells import gru_cell, lstm_cell, simple_rnn_cell
from braces.frontend.recurrent.conv_lstm import conv_lstm, conv_lstm_cell
from braces.frontend.recurrent.layers import simple_rnn
from braces.frontend.sequence.crf import conditional_random_field, viterbi
from braces.frontend.sequence.ctc import ctc_greedy_decode

__all__ = [
    "AttentionCache", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "alpha_dropout",
    "attention_cache", "bilinear", "celu", "channel_shuffle", "conditional_random_field",
    "conv_lstm", "conv_lstm_cell", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "ctc_greedy_decode", "deform_conv2d", "depthwise_conv1d", "depthwise_conv2d", "dequantize",
    "embedding_bag", "gaussian_dropout", "gaussian_noise", "global_avg_pool", "global_max_pool",
    "glu", "gru_cell", "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh",
    "instance_norm", "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d", "lstm_cell",
    "max_pool_with_indices1d", "max_pool_with_indices2d", "max_pool_with_indices3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "maxout", "mish", "positional_encoding",
    "prelu", "quantize", "relu6", "rotary_embedding", "rrelu", "selu", "separable_conv1d",
    "separable_conv2d", "simple_rnn", "simple_rnn_cell", "softshrink", "softsign",
    "spectral_norm", "tanhshrink", "transformer_decoder_layer", "transformer_encoder_layer",
    "viterbi", "weight_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.layers", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
