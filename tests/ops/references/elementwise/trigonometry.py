"""References of `braces.ops.elementwise.trigonometry`."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.reference import Reference, between
from tests.ops.references.elementwise.unary import real

inside = between(-0.9, 0.9)

REFERENCES = {
    "sin": Reference(real(np.sin)),
    "cos": Reference(real(np.cos)),
    "tan": Reference(real(np.tan), inputs={"x": between(-1, 1)}),
    "arcsin": Reference(real(np.arcsin), inputs={"x": inside}),
    "arccos": Reference(real(np.arccos), inputs={"x": inside}),
    "arctan": Reference(real(np.arctan)),
    "sinh": Reference(real(np.sinh)),
    "cosh": Reference(real(np.cosh)),
    "tanh": Reference(real(np.tanh)),
    "sigmoid": Reference(real(lambda x: 1 / (1 + np.exp(-x)))),
    "erf": Reference(real(lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x))),
}
