"""The registry of conversion rules, by aten operator.

A rule is a function with the operator's arguments: variables, numbers and sizes in, variables
out. An overload has a separate rule, as `max.dim`, if it differs from the others. Python
functions and control flow are listed under `python`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.torch.rules.nn.activations import ACTIVATIONS
from braces.exchange.torch.rules.nn.backward_ops import BACKWARD
from braces.exchange.torch.rules.nn.conv_pool import WINDOWS
from braces.exchange.torch.rules.nn.embedding_bag_fft import BAGS
from braces.exchange.torch.rules.nn.im2col_grid import PLANES
from braces.exchange.torch.rules.nn.losses import LOSSES
from braces.exchange.torch.rules.nn.matmul_attention import LAYERS
from braces.exchange.torch.rules.nn.normalization import NORMS
from braces.exchange.torch.rules.nn.recurrent import RECURRENT
from braces.exchange.torch.rules.numeric.airy import AIRY
from braces.exchange.torch.rules.numeric.factors import FACTORED
from braces.exchange.torch.rules.numeric.histograms import HISTOGRAMS
from braces.exchange.torch.rules.numeric.integers import INTEGERS
from braces.exchange.torch.rules.numeric.linalg import FACTORS
from braces.exchange.torch.rules.numeric.polynomials import POLYNOMIALS
from braces.exchange.torch.rules.numeric.special import SPECIAL
from braces.exchange.torch.rules.tensor.arithmetic import ARITHMETIC
from braces.exchange.torch.rules.tensor.control import CONTROL
from braces.exchange.torch.rules.tensor.creation_random import MAKING
from braces.exchange.torch.rules.tensor.indexing import INDEXING
from braces.exchange.torch.rules.tensor.nonzero_unique import FINDING
from braces.exchange.torch.rules.tensor.reductions import REDUCTIONS
from braces.exchange.torch.rules.tensor.shape import SHAPES
from braces.exchange.torch.rules.tensor.sort_cummax import ORDERING
from braces.exchange.torch.rules.tensor.strides import MEMORY
from braces.exchange.torch.rules.tensor.symbolic_sizes import SIZING

Rule = Callable[..., Any]

RULES: Mapping[str, Rule] = {
    **ARITHMETIC,
    **ACTIVATIONS,
    **REDUCTIONS,
    **SHAPES,
    **INDEXING,
    **MAKING,
    **MEMORY,
    **LAYERS,
    **NORMS,
    **WINDOWS,
    **LOSSES,
    **RECURRENT,
    **CONTROL,
    **SIZING,
    **FACTORS,
    **FACTORED,
    **HISTOGRAMS,
    **INTEGERS,
    **SPECIAL,
    **POLYNOMIALS,
    **AIRY,
    **PLANES,
    **ORDERING,
    **FINDING,
    **BAGS,
    **BACKWARD,
}
"""Other operators are refused."""

LAYOUT = "Programs have no memory layout: use reshape and views of torch."
REFUSED: Mapping[str, str] = {
    "set_": LAYOUT,
    **dict.fromkeys(
        ("_sparse_mm_reduce_impl", "_to_dense", "_to_sparse", "sparse_sampled_addmm"),
        "Use dense tensors: arrays of programs are dense.",
    ),
}
"""The advice for operators that will not be supported."""
