"""Unsupported primitives and the reasons, for messages, tests and docs."""

from __future__ import annotations

from collections.abc import Mapping

COMPLEX = "ONNX has no arithmetic on complex numbers"
ITERATED = "ONNX has no matrix decompositions"
DRAWN = "JAX's rejection sampling has no ONNX form"

MISSING: Mapping[str, str] = {
    **dict.fromkeys(("complex", "conj", "fft", "imag", "real"), COMPLEX),
    **dict.fromkeys(("eig", "eigh", "hessenberg", "schur", "svd", "tridiagonal"), ITERATED),
    "random_gamma": DRAWN,
    "tridiagonal_solve": "ONNX has no solver of linear equations",
}
"""The reason for a primitive that cannot be expressed in ONNX."""


def why_not(primitive: str) -> str:
    """Return the reason that a primitive is not exported, for messages."""
    reason = MISSING.get(primitive)
    return f"JAX primitive `{primitive}`" + (f": {reason}" if reason else "")
