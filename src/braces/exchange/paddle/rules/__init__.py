"""The registry of conversion rules, by Paddle operator.

A rule takes an operator and builds its results. Types with a trailing number are newer forms of
others, with mostly the same meaning. Sequence rules receive ragged sequences; row-wise
operators receive the rows of all sequences.
"""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.paddle.graph.node import Rule
from braces.exchange.paddle.rules.control import CONTROL
from braces.exchange.paddle.rules.lod import SEQUENCES
from braces.exchange.paddle.rules.nn.conv_pool import WINDOWS
from braces.exchange.paddle.rules.nn.images import IMAGES
from braces.exchange.paddle.rules.nn.losses import LOSSES
from braces.exchange.paddle.rules.nn.matmul_norm import LAYERS
from braces.exchange.paddle.rules.nn.recurrent import PADDED, RECURRENT
from braces.exchange.paddle.rules.tensor.arithmetic import ARITHMETIC
from braces.exchange.paddle.rules.tensor.creation_random import MAKING
from braces.exchange.paddle.rules.tensor.indexing import INDEXING
from braces.exchange.paddle.rules.tensor.linalg import LINEAR_ALGEBRA
from braces.exchange.paddle.rules.tensor.reductions import REDUCTIONS
from braces.exchange.paddle.rules.tensor.selection import SELECTION
from braces.exchange.paddle.rules.tensor.shape import SHAPES
from braces.exchange.paddle.rules.tensor.special import SPECIAL
from braces.exchange.paddle.rules.tensor.tensor_array import LISTS

RULES: Mapping[str, Rule] = {
    **ARITHMETIC,
    **SPECIAL,
    **REDUCTIONS,
    **SHAPES,
    **INDEXING,
    **SELECTION,
    **LINEAR_ALGEBRA,
    **MAKING,
    **LAYERS,
    **WINDOWS,
    **IMAGES,
    **LOSSES,
    **PADDED,
    **RECURRENT,
    **SEQUENCES,
    **CONTROL,
    **LISTS,
}
"""Other operators are refused."""

OF_SEQUENCES = frozenset({*RECURRENT, *SEQUENCES, "assign", "fetch", "print", "share_data"})
"""Operators that receive ragged sequences."""

HAVE_AXES = frozenset({*REDUCTIONS, *SHAPES})
"""Operators with axes, of which the first is that of the rows."""
ROW_WISE = frozenset({
    *ARITHMETIC, *HAVE_AXES, *LAYERS, "dropout", "fill_any_like",
    "fill_constant_batch_size_like",
    "fill_zeros_like", "one_hot", "one_hot_v2",
})  # fmt: skip
"""Operators that compute row by row if they leave the first axis unchanged."""
