"""Composed functions that importers use: layers without parameters, norms, truncated division.

Each appends several operators. Functions of single operators are in `braces.extend.functions`.
"""

from braces.frontend.array_api.norms import vector_norm as vector_norm
from braces.frontend.nn.dropout_noise import dropout as dropout
from braces.frontend.nn.pooling import (
    Sizes as Sizes,
    pixel_shuffle as pixel_shuffle,
    pool_to_sizes as pool_to_sizes,
)
from braces.frontend.recurrent.cell_parts import run_cell as run_cell
from braces.frontend.sequence.ctc import ctc_loss as ctc_loss
from braces.jaxpr.rules.arithmetic import (
    truncated_divide as truncated_divide,
    truncated_remainder as truncated_remainder,
)
