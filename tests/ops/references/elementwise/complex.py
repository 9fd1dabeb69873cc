"""References of `braces.ops.elementwise.complex`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def complex_of(real: Array, imag: Array) -> Array:
    double = np.float64 in (real.dtype, imag.dtype)
    return (real + 1j * imag).astype(np.complex128 if double else np.complex64)


REFERENCES = {
    "complex": Reference(complex_of),
    "real": Reference(np.real),
    "imag": Reference(np.imag),
    "conj": Reference(np.conj),
}
