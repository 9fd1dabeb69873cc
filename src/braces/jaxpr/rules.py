"""What each primitive of JAX is: all the rules there are, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from braces.jaxpr.arithmetic import ARITHMETIC
from braces.jaxpr.calls import CALLS
from braces.jaxpr.equation import Rule
from braces.jaxpr.shapes import SHAPES

RULES: Mapping[str, Rule] = {**ARITHMETIC, **SHAPES, **CALLS}
"""A primitive that is not here is refused by name."""
