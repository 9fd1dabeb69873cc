"""What each primitive of JAX is: all the rules there are, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from braces.jaxpr.arithmetic import ARITHMETIC
from braces.jaxpr.calls import CALLS
from braces.jaxpr.equation import Rule
from braces.jaxpr.linear_algebra import LINEAR_ALGEBRA
from braces.jaxpr.order import ORDER
from braces.jaxpr.places import PLACES
from braces.jaxpr.shapes import SHAPES
from braces.jaxpr.sliding import SLIDING
from braces.jaxpr.threefry import RANDOM

RULES: Mapping[str, Rule] = {
    **ARITHMETIC, **SHAPES, **PLACES, **ORDER, **SLIDING, **LINEAR_ALGEBRA, **CALLS,
    **RANDOM,
}  # fmt: skip
"""A primitive that is not here is refused by name."""
