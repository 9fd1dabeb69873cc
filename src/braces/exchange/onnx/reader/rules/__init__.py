"""The registry of conversion rules, by ONNX operator.

A rule takes a node and builds its outputs with operators. Versions differ little: rules query
`node.version` where they do. Operators that ONNX defines as functions need no rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.onnx.reader.graph.node import Rule
from braces.exchange.onnx.reader.rules.contrib.attention import ATTENTION
from braces.exchange.onnx.reader.rules.contrib.fused import MICROSOFT
from braces.exchange.onnx.reader.rules.contrib.quantized import QUANTIZED_LAYERS
from braces.exchange.onnx.reader.rules.control.loops import CONTROL
from braces.exchange.onnx.reader.rules.control.sequences import SEQUENCES
from braces.exchange.onnx.reader.rules.ml.linear_svm import LINEAR
from braces.exchange.onnx.reader.rules.ml.n_grams import N_GRAMS
from braces.exchange.onnx.reader.rules.ml.preprocessing import FEATURES
from braces.exchange.onnx.reader.rules.ml.tree_ensemble import TREES
from braces.exchange.onnx.reader.rules.ml.tree_ensemble_v1 import NAMED_TREES
from braces.exchange.onnx.reader.rules.nn.conv_pool import WINDOWS
from braces.exchange.onnx.reader.rules.nn.gradient_optimizer import TRAINING
from braces.exchange.onnx.reader.rules.nn.matmul_norm import LAYERS
from braces.exchange.onnx.reader.rules.nn.quantized import QUANTIZED
from braces.exchange.onnx.reader.rules.nn.recurrent import RECURRENT
from braces.exchange.onnx.reader.rules.nn.resize_crop import IMAGES
from braces.exchange.onnx.reader.rules.tensor.arithmetic import ARITHMETIC
from braces.exchange.onnx.reader.rules.tensor.bitwise import BITS
from braces.exchange.onnx.reader.rules.tensor.fft import SIGNALS
from braces.exchange.onnx.reader.rules.tensor.gather import GATHERING
from braces.exchange.onnx.reader.rules.tensor.nonzero_unique import FINDING
from braces.exchange.onnx.reader.rules.tensor.random import DRAWS
from braces.exchange.onnx.reader.rules.tensor.reductions import REDUCTIONS
from braces.exchange.onnx.reader.rules.tensor.scatter import SCATTERING
from braces.exchange.onnx.reader.rules.tensor.shapes import SHAPES

RULES: Mapping[str, Rule] = {
    **ARITHMETIC,
    **REDUCTIONS,
    **SHAPES,
    **GATHERING,
    **LAYERS,
    **WINDOWS,
    **MICROSOFT,
    **ATTENTION,
    **TRAINING,
    **QUANTIZED,
    **QUANTIZED_LAYERS,
    **RECURRENT,
    **SEQUENCES,
    **BITS,
    **SCATTERING,
    **FINDING,
    **CONTROL,
    **DRAWS,
    **IMAGES,
    **SIGNALS,
    **N_GRAMS,
    **FEATURES,
    **LINEAR,
    **TREES,
    **NAMED_TREES,
}
"""Other operators are expanded if ONNX defines a function body, else refused."""
