"""References of `braces.ops.elementwise.comparison`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Reference
from tests.ops.references.elementwise.arithmetic import binary

REFERENCES = {
    **{
        name: Reference(binary(getattr(np, name)))
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    **{
        name: Reference(getattr(np, name))
        for name in ("logical_and", "logical_or", "logical_xor", "logical_not")
    },
    **{name: Reference(getattr(np, name)) for name in ("isnan", "isinf", "isfinite")},
}
