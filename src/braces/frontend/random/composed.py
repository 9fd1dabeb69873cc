"""Draws built from gamma variables (by rejection sampling), and draws of vectors."""

from __future__ import annotations

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Operand, Var
from braces.dims import Size
from braces.errors import ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import (
    DistributionParameters,
    check_numbers,
    check_one_given,
    draw,
    draw_keys,
    to_common_dtype,
)
from braces.frontend.random.argument_order import draw_function
from braces.frontend.random.continuous import Sizes

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "multivariate_normal", "student_t"]

# ---- from gamma variables --------------------------------------------------------------------


@draw_function
def gamma(
    shape: Sizes = None,
    concentration: Operand = 1.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Gamma variables: waiting times until `concentration` events.

        density(x) = (x / scale)^(a - 1) exp(-x / scale) / (gamma(a) scale),  a = concentration

    Gradients with respect to the concentration are implicit: a draw moves such that its
    cumulative probability stays constant. Source: Figurnov, Mohamed, Mnih, Implicit
    Reparameterization Gradients, 2018.

    Args:
        shape: The shape of the result; see `uniform`.
        concentration: Above 0; NaN if a variable is below. Parameters as for `uniform`.
        scale: The mean divided by the concentration, above 0.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Raises:
        ProgramError: If a parameter is a number that is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     a = br.data("a", ["batch", 1])
        ...     print(br.random.gamma([a.shape[0], 5], a).type)
        f32[batch,5]
    """
    check_numbers("gamma", 0, concentration=concentration, scale=scale)

    def build() -> Var:
        params = DistributionParameters(
            "gamma", shape, dtype, concentration=concentration, scale=scale
        )
        return params["scale"] * _draw_gamma(params, "concentration")

    return compose_block(name or "gamma", build)


def _draw_gamma(params: DistributionParameters, parameter: str, log: bool = False) -> Var:
    """Draw gamma variables, or their logarithms, with a key for each."""
    a = params.broadcast(parameter)
    compute_dtype = np.promote_types(params.dtype, np.float32)
    draws = emit("gamma_of_key", draw_keys(params.sizes), ops.cast(a, compute_dtype), log=log)
    return ops.cast(draws, params.dtype)


@draw_function
def beta(
    shape: Sizes = None,
    concentration1: Operand = 1.0,
    concentration0: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Beta variables in (0, 1): the share of one gamma variable in the sum of two.

        density(x) = x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / beta(both)

    Args:
        shape: The shape of the result; see `uniform`.
        concentration1: Above 0; larger values move mass towards 1. Parameters as for `gamma`.
        concentration0: Above 0; larger values move mass towards 0.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Raises:
        ProgramError: If a parameter is a number that is not positive.
    """
    concentrations = {"concentration1": concentration1, "concentration0": concentration0}
    check_numbers("beta", 0, **concentrations)

    def build() -> Var:
        params = DistributionParameters("beta", shape, dtype, **concentrations)
        return ops.sigmoid(
            _draw_gamma(params, "concentration1", True)
            - _draw_gamma(params, "concentration0", True)
        )

    return compose_block(name or "beta", build)


@draw_function
def dirichlet(
    shape: Sizes = None,
    concentration: Operand = (1.0, 1.0),
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Dirichlet variables: gamma variables divided by their sum.

        density(x) = product over i of x[i]^(concentration[i] - 1) / beta(concentration)

    Args:
        shape: The shape of the result without its last axis; by default that of `concentration`
            without its last one.
        concentration: [..., n], above 0; parameters as for `gamma`.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Returns:
        [*shape, n]; the sum along the last axis is 1.

    Raises:
        ProgramError: If a parameter is a number that is not positive.
        ShapeError: If `concentration` is a scalar.
    """
    check_numbers("dirichlet", 0, concentration=concentration)

    def build() -> Var:
        params = DistributionParameters(
            "dirichlet", shape, dtype, 1, concentration=concentration
        )
        params.sizes = (*params.sizes, _last_size("dirichlet", "concentration", params))
        return ops.softmax(_draw_gamma(params, "concentration", log=True), axis=-1)

    return compose_block(name or "dirichlet", build)


def _last_size(what: str, name: str, params: DistributionParameters) -> Size:
    if not params[name].ndim:
        raise ShapeError(f"{what}: expected `{name}` with at least one axis, got a scalar.")
    return params[name].shape[-1]


@draw_function
def chisquare(
    shape: Sizes = None, df: Operand = 1.0, *, dtype: object = None, name: str = ""
) -> Var:
    """Chi-squared variables: sums of squares of `df` normal numbers.

        out = 2 gamma(df / 2)

    Args:
        shape: The shape of the result; see `uniform`.
        df: The degrees of freedom, above 0; parameters as for `gamma`.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Raises:
        ProgramError: If `df` is a number that is not positive.
    """
    check_numbers("chisquare", 0, df=df)

    def build() -> Var:
        params = DistributionParameters("chisquare", shape, dtype, df=df)
        return 2.0 * _half_df_gamma(params)

    return compose_block(name or "chisquare", build)


def _half_df_gamma(params: DistributionParameters) -> Var:
    halved = DistributionParameters(
        params.what, params.sizes, params.dtype, half=params["df"] * 0.5
    )
    return _draw_gamma(halved, "half")


@draw_function
def student_t(
    shape: Sizes = None,
    df: Operand = 1.0,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Student's t variables: normal numbers divided by an estimate of their deviation.

        out = loc + scale * normal() / sqrt(chisquare(df) / df)

    Args:
        shape: The shape of the result; see `uniform`.
        df: The degrees of freedom, above 0; parameters as for `gamma`.
        loc: The median.
        scale: The scale, above 0.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Raises:
        ProgramError: If `df` or `scale` is a number that is not positive.
    """
    check_numbers("student_t", 0, df=df, scale=scale)

    def build() -> Var:
        params = DistributionParameters("student_t", shape, dtype, df=df, loc=loc, scale=scale)
        noise = draw("random_normal", shape=params.sizes, dtype=params.dtype)
        ratio = ops.sqrt(params["df"] * 0.5 / _half_df_gamma(params))
        return params["loc"] + params["scale"] * (noise * ratio)

    return compose_block(name or "student_t", build)


# ---- vectors ---------------------------------------------------------------------------------


@draw_function
def multivariate_normal(
    shape: Sizes = None,
    loc: Operand = 0.0,
    covariance_matrix: Operand | None = None,
    *,
    scale_tril: Operand | None = None,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Multivariate normal vectors.

        out = loc + scale_tril @ normal([n]),  scale_tril @ scale_tril^T = covariance_matrix

    Args:
        shape: The shape of the result without its last axis; by default that of the parameters.
        loc: [..., n], or one number for all; parameters as for `uniform`.
        covariance_matrix: [..., n, n], symmetric and positive definite, else the result is NaN.
        scale_tril: Instead of `covariance_matrix`: its Cholesky factor [..., n, n], lower
            triangular with a positive diagonal.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Returns:
        [*shape, n].

    Raises:
        ProgramError: If not exactly one of `covariance_matrix` and `scale_tril` is given.
        ShapeError: If the parameter is not a matrix, or the shapes do not match.
    """
    what = "multivariate_normal"
    matrices = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril}
    check_one_given(what, "covariance_matrix", "scale_tril", matrices)

    def build() -> Var:
        matrix = scale_tril if covariance_matrix is None else covariance_matrix
        assert matrix is not None
        common_dtype, vars = to_common_dtype(what, dtype, loc=loc, matrix=matrix)
        full_matrix, center = vars["matrix"], vars["loc"]
        if full_matrix.ndim < 2:
            raise ShapeError(f"{what}: expected a matrix [..., n, n], got {full_matrix.type}.")
        center = center if center.ndim else ops.expand_dims(center, axis=0)
        lower = full_matrix if covariance_matrix is None else ops.cholesky(full_matrix)
        params = DistributionParameters(
            what, shape, common_dtype, 1, loc=center, rows=lower[..., 0]
        )
        sizes = (*params.sizes, full_matrix.shape[-1])
        noise = draw("random_normal", shape=sizes, dtype=params.dtype)
        return center + ops.sum(lower * ops.expand_dims(noise, axis=-2), axis=-1)

    return compose_block(name or what, build)
