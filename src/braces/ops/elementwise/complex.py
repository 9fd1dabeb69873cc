"""Complex numbers and their parts."""

from __future__ import annotations

import numpy as np

from braces.define.completed_doc import described
from braces.define.decorator import Tensor, op
from braces.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, DType
from braces.lazy import jnp, lax
from braces.ops.common.rules import numeric, promote, promote_arrays, refuse

NUMBERS = ("x=f32[2,3]", "x=c64[b,4]", "x=c128[2]", "x=f64[]", "x=f32[0]")


def complex_dtype(dtype: DType) -> DType:
    """Return the complex dtype: complex128 for 64-bit floats, else complex64."""
    return COMPLEX128 if dtype in (FLOAT64, COMPLEX128) else COMPLEX64


def part_dtype(dtype: DType) -> DType:
    """Return the dtype of the real part; real dtypes are returned unchanged."""
    return {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}.get(dtype, dtype)


def as_complex(x: Tensor) -> Tensor:
    """Cast an array to its complex dtype (kernel helper)."""
    return x.astype(complex_dtype(np.dtype(x.dtype)))


def of_parts(what: str, real: DType, imag: DType) -> DType:
    """Dtype rule: the complex dtype of two real parts."""
    dtype = promote(real, imag)
    refuse(what, dtype, "bc")
    return complex_dtype(dtype)


@described("number", "The real dtype of `x`, its shape.", "If the dtype is bool.")
def part_dtype_rule(what: str, x: DType) -> DType:
    """Dtype rule: the dtype of the real or imaginary part."""
    refuse(what, x, "b")
    return part_dtype(x)


@op(
    axes="..., ... -> ...",
    dtypes=of_parts,
    examples=(
        "real=f32[2,3] imag=f32[2,3]",
        "real=f64[b,1] imag=f64[4]",
        "real=f32[b] imag=f64[]",
        "real=i32[2] imag=f32[2]",
    ),
)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers from real and imaginary parts.

        out = real + i * imag

    Inputs:
        real: number[*shape]. The real part.
        imag: number[*shape]. The imaginary part; both broadcast.

    Outputs:
        out: complex64[*shape]; complex128 where a part has 64-bit floats.

    Raises:
        DTypeError: If a part is bool or complex.
        ShapeError: If the shapes do not broadcast.
    """
    parts = promote_arrays(real, imag)
    dtype = part_dtype(complex_dtype(np.dtype(parts[0].dtype)))
    wide = jnp.broadcast_arrays(*(part.astype(dtype) for part in parts))
    return lax.complex(*wide)


@op(axes="... -> ...", dtypes=part_dtype_rule, operations=0, examples=NUMBERS)
def real(x: Tensor) -> Tensor:
    """The real part of numbers."""
    return jnp.real(x)


@op(axes="... -> ...", dtypes=part_dtype_rule, operations=0, examples=NUMBERS)
def imag(x: Tensor) -> Tensor:
    """The imaginary part of numbers; zeros for real numbers."""
    return jnp.imag(x)


@op(axes="... -> ...", dtypes=numeric, operations=0, examples=NUMBERS)
def conj(x: Tensor) -> Tensor:
    """The complex conjugate.

    out = real(x) - i * imag(x)
    """
    return jnp.conj(x)
