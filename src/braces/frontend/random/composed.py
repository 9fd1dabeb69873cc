"""Draws that are made of gamma variables, which are tried until they fit; and of vectors."""

from __future__ import annotations

import numpy as np

from braces.builder.append import one
from braces.builder.var import Operand, Var
from braces.dims import Size
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.random_state import (
    Parameters,
    check_numbers,
    draw,
    in_one_dtype,
    keys_for,
)
from braces.frontend.random.continuous import Sizes

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "multivariate_normal", "student_t"]

# ---- made of gamma variables -----------------------------------------------------------------


@building
def gamma(
    shape: Sizes = None,
    concentration: Operand = 1.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Gamma variables: how long until something has happened `concentration` times.

        density(x) = (x / scale)^(a - 1) exp(-x / scale) / (gamma(a) scale),  a = concentration

    The gradient with respect to the concentration moves a number so that the probability below
    it stays: it is implicit. Source: Figurnov, Mohamed, Mnih, Implicit Reparameterization
    Gradients, 2018.

    Args:
        shape: Of the result; see `uniform`.
        concentration: Above 0; NaN where a variable is below. Parameters as those of `uniform`.
        scale: The mean over the concentration, above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: A parameter is a number that is not above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     a = br.data("a", ["batch", 1])
        ...     print(br.random.gamma([a.shape[0], 5], a).type)
        f32[batch,5]
    """
    check_numbers("gamma", 0, concentration=concentration, scale=scale)

    def built() -> Var:
        given = Parameters("gamma", shape, dtype, concentration=concentration, scale=scale)
        return given["scale"] * _gamma(given, "concentration")

    return composed(name or "gamma", built)


def _gamma(given: Parameters, parameter: str, log: bool = False) -> Var:
    """Gamma variables, or their logarithms; a key for each."""
    a = given.broadcast(parameter)
    wide = np.promote_types(given.dtype, np.float32)
    drawn = one("gamma_of_key", keys_for(given.sizes), ops.cast(a, wide), log=log)
    return ops.cast(drawn, given.dtype)


@building
def beta(
    shape: Sizes = None,
    concentration1: Operand = 1.0,
    concentration0: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Numbers in (0, 1): the part that one gamma variable has of the sum of two.

        density(x) = x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / beta(both)

    Args:
        shape: Of the result; see `uniform`.
        concentration1: What pulls to 1; above 0. Parameters as those of `gamma`.
        concentration0: What pulls to 0; above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: A parameter is a number that is not above 0.
    """
    both = {"concentration1": concentration1, "concentration0": concentration0}
    check_numbers("beta", 0, **both)

    def built() -> Var:
        given = Parameters("beta", shape, dtype, **both)
        return ops.sigmoid(
            _gamma(given, "concentration1", True) - _gamma(given, "concentration0", True)
        )

    return composed(name or "beta", built)


@building
def dirichlet(
    shape: Sizes = None,
    concentration: Operand = (1.0, 1.0),
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Parts of a whole: gamma variables over their sum.

        density(x) = product over i of x[i]^(concentration[i] - 1) / beta(concentration)

    Args:
        shape: Of the result without its last axis; that of `concentration` without its last
            one where it is not said.
        concentration: [..., n], above 0; parameters as those of `gamma`.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Returns:
        [*shape, n]; the sum along the last axis is 1.

    Raises:
        ProgramError: A parameter is a number that is not above 0.
        ShapeError: `concentration` has no axis.
    """
    check_numbers("dirichlet", 0, concentration=concentration)

    def built() -> Var:
        given = Parameters("dirichlet", shape, dtype, 1, concentration=concentration)
        given.sizes = (*given.sizes, _last("dirichlet", "concentration", given))
        return ops.softmax(_gamma(given, "concentration", log=True), axis=-1)

    return composed(name or "dirichlet", built)


def _last(what: str, name: str, given: Parameters) -> Size:
    if not given[name].ndim:
        raise ShapeError(f"{what} needs {name} with an axis, not one number.")
    return given[name].shape[-1]


@building
def chisquare(
    shape: Sizes = None, df: Operand = 1.0, *, dtype: object = None, name: str = ""
) -> Var:
    """Sums of squares of `df` normally distributed numbers.

        out = 2 gamma(df / 2)

    Args:
        shape: Of the result; see `uniform`.
        df: The degrees of freedom, above 0; parameters as those of `gamma`.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `df` is a number that is not above 0.
    """
    check_numbers("chisquare", 0, df=df)

    def built() -> Var:
        given = Parameters("chisquare", shape, dtype, df=df)
        return 2.0 * _half_of(given)

    return composed(name or "chisquare", built)


def _half_of(given: Parameters) -> Var:
    halved = Parameters(given.what, given.sizes, given.dtype, half=given["df"] * 0.5)
    return _gamma(halved, "half")


@building
def student_t(
    shape: Sizes = None,
    df: Operand = 1.0,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Student's t: normally distributed numbers over an estimate of their spread.

        out = loc + scale * normal() / sqrt(chisquare(df) / df)

    Args:
        shape: Of the result; see `uniform`.
        df: The degrees of freedom, above 0; parameters as those of `gamma`.
        loc: The median.
        scale: How far numbers spread, above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `df` or `scale` is a number that is not above 0.
    """
    check_numbers("student_t", 0, df=df, scale=scale)

    def built() -> Var:
        given = Parameters("student_t", shape, dtype, df=df, loc=loc, scale=scale)
        noise = draw("random_normal", shape=given.sizes, dtype=given.dtype)
        spread = ops.sqrt(given["df"] * 0.5 / _half_of(given))
        return given["loc"] + given["scale"] * (noise * spread)

    return composed(name or "student_t", built)


# ---- vectors ---------------------------------------------------------------------------------


@building
def multivariate_normal(
    shape: Sizes = None,
    mean: Operand = 0.0,
    covariance: Operand | None = None,
    *,
    scale_tril: Operand | None = None,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Vectors that are normally distributed together.

        out = mean + scale_tril @ normal([n]),  scale_tril @ scale_tril^T = covariance

    Args:
        shape: Of the result without its last axis; that of the parameters where it is not said.
        mean: [..., n], or one number for all; parameters as those of `uniform`.
        covariance: [..., n, n], symmetric and positive definite; NaN where it is not.
        scale_tril: In its place: [..., n, n], a lower triangle with a positive diagonal.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Returns:
        [*shape, n].

    Raises:
        ProgramError: Not exactly one of `covariance` and `scale_tril` is given.
        ShapeError: It is no matrix, or shapes do not fit.
    """
    what = "multivariate_normal"
    if (covariance is None) == (scale_tril is None):
        raise ProgramError(
            f"{what} needs the covariance or its triangle, and not both.",
            fix="Give covariance=... or scale_tril=...",
        )

    def built() -> Var:
        matrix = scale_tril if covariance is None else covariance
        assert matrix is not None
        found, vars = in_one_dtype(what, dtype, mean=mean, matrix=matrix)
        full, loc = vars["matrix"], vars["mean"]
        if full.ndim < 2:
            raise ShapeError(f"{what} needs a matrix, not {full.type}.")
        loc = loc if loc.ndim else ops.expand_dims(loc, axis=0)
        lower = full if covariance is None else ops.cholesky(full)
        led = Parameters(what, shape, found, 1, mean=loc, rows=lower[..., 0])
        sizes = (*led.sizes, full.shape[-1])
        noise = draw("random_normal", shape=sizes, dtype=led.dtype)
        return loc + ops.sum(lower * ops.expand_dims(noise, axis=-2), axis=-1)

    return composed(name or what, built)
