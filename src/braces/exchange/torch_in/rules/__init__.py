"""What each operator of aten is: all the rules there are, by its name.

A rule is a function of the same arguments: variables, numbers and sizes in, variables out. An
overload has a rule of its own, as `max.dim`, where it differs from the others. What is no
operator of aten, but a function of Python or a construct, stands under `python`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.torch_in.rules.activations import ACTIVATIONS
from braces.exchange.torch_in.rules.arithmetic import ARITHMETIC
from braces.exchange.torch_in.rules.backward import BACKWARD
from braces.exchange.torch_in.rules.bags import BAGS
from braces.exchange.torch_in.rules.control import CONTROL
from braces.exchange.torch_in.rules.factors import FACTORS
from braces.exchange.torch_in.rules.finding import FINDING
from braces.exchange.torch_in.rules.indexing import INDEXING
from braces.exchange.torch_in.rules.layers import LAYERS
from braces.exchange.torch_in.rules.losses import LOSSES
from braces.exchange.torch_in.rules.making import MAKING
from braces.exchange.torch_in.rules.memory import MEMORY
from braces.exchange.torch_in.rules.norms import NORMS
from braces.exchange.torch_in.rules.ordering import ORDERING
from braces.exchange.torch_in.rules.planes import PLANES
from braces.exchange.torch_in.rules.recurrent import RECURRENT
from braces.exchange.torch_in.rules.reductions import REDUCTIONS
from braces.exchange.torch_in.rules.shapes import SHAPES
from braces.exchange.torch_in.rules.sizing import SIZING
from braces.exchange.torch_in.rules.windows import WINDOWS

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
    **PLANES,
    **ORDERING,
    **FINDING,
    **BAGS,
    **BACKWARD,
}
"""An operator that is not here is refused."""

LAYOUT = "How numbers lie in memory is no matter of programs: use reshape, and views of torch."
REFUSED: Mapping[str, str] = {
    "set_": LAYOUT,
    "embedding_renorm": "Leave out max_norm: it writes into weights while they are read.",
}
"""What to do about operators of torch that cannot be read."""
