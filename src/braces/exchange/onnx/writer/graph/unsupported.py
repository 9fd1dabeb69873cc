"""Unsupported primitives and the reasons, for messages, tests and docs."""

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
"""The reason for a primitive that cannot be expressed in ONNX."""


def why_not(primitive: str) -> str:
    """Return the reason that a primitive is not exported, for messages."""
    reason = MISSING.get(primitive)
    return f"`{primitive}` of JAX" + (f": {reason}" if reason else "")
