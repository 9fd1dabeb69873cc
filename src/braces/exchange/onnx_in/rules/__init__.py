"""What each operator of ONNX is: all the rules there are, by its name.

A rule takes a node and builds what it gives with operators. Versions differ little: a rule asks
`node.version` where they do. What ONNX writes as a graph of others needs no rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.onnx_in.node import Rule
from braces.exchange.onnx_in.rules.arithmetic import ARITHMETIC
from braces.exchange.onnx_in.rules.attention import ATTENTION
from braces.exchange.onnx_in.rules.bits import BITS
from braces.exchange.onnx_in.rules.control import CONTROL
from braces.exchange.onnx_in.rules.draws import DRAWS
from braces.exchange.onnx_in.rules.features import FEATURES
from braces.exchange.onnx_in.rules.finding import FINDING
from braces.exchange.onnx_in.rules.gathering import GATHERING
from braces.exchange.onnx_in.rules.images import IMAGES
from braces.exchange.onnx_in.rules.layers import LAYERS
from braces.exchange.onnx_in.rules.linear import LINEAR
from braces.exchange.onnx_in.rules.microsoft import MICROSOFT
from braces.exchange.onnx_in.rules.n_grams import N_GRAMS
from braces.exchange.onnx_in.rules.named_trees import NAMED_TREES
from braces.exchange.onnx_in.rules.quantized import QUANTIZED
from braces.exchange.onnx_in.rules.quantized_layers import QUANTIZED_LAYERS
from braces.exchange.onnx_in.rules.recurrent import RECURRENT
from braces.exchange.onnx_in.rules.reductions import REDUCTIONS
from braces.exchange.onnx_in.rules.scattering import SCATTERING
from braces.exchange.onnx_in.rules.sequences import SEQUENCES
from braces.exchange.onnx_in.rules.shapes import SHAPES
from braces.exchange.onnx_in.rules.signals import SIGNALS
from braces.exchange.onnx_in.rules.training import TRAINING
from braces.exchange.onnx_in.rules.trees import TREES
from braces.exchange.onnx_in.rules.windows import WINDOWS

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
"""An operator that is not here is written out as others where ONNX does that, else refused."""
