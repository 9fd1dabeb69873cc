"""References of `braces.ops.array.error_check`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Reference

REFERENCES = {
    "error_if": Reference(
        lambda x, failed, message: np.array(x),
        inputs={"failed": lambda random, shape, dtype: np.zeros(shape, dtype)},
    )
}
