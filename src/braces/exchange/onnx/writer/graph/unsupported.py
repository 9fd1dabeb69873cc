"""Primitives that are not written: why, once, for messages, tests and docs."""

from __future__ import annotations

from collections.abc import Mapping

COMPLEX = "ONNX does not compute with complex numbers"
ITERATED = "ONNX has no decomposition of matrices, and this one takes steps until it converges"
DRAWN = "the numbers that JAX tries one after the other are its own"

MISSING: Mapping[str, str] = {
    **dict.fromkeys(("complex", "conj", "fft", "imag", "real"), COMPLEX),
    **dict.fromkeys(("eig", "eigh", "schur", "svd"), ITERATED),
    "random_gamma": DRAWN,
}
"""Why ONNX cannot say a primitive of JAX, where more than a rule is missing."""


def why_not(primitive: str) -> str:
    """Why a primitive is not written, as messages say it."""
    reason = MISSING.get(primitive)
    return f"`{primitive}` of JAX" + (f": {reason}" if reason else "")
