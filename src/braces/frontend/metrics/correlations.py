"""Correlation metrics of predictions and targets."""

from __future__ import annotations

from typing import Any

from braces.builder.append import emit
from braces.builder.var import Operand, Var
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.metrics.base import (
    Metric,
    Sums,
    accumulate_metric,
    check_same_shape,
    mean_metric,
    weights_of,
    zero_unweighted,
)


@transactional
def cosine_similarity(
    prediction: Any,
    target: Operand,
    weights: Operand | None = None,
    *,
    axis: int = -1,
    name: str | None = None,
) -> Metric:
    """The mean cosine similarity of predictions and targets; see `mean`.

    Args:
        prediction: number[*shape].
        target: number[*shape].
        weights: As for `mean`, one for each vector.
        axis: The axis of the vectors.
        name: The name of the metric.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    what = "cosine_similarity"
    left, right = check_same_shape(what, prediction=prediction, target=target)
    return mean_metric(what, name, emit(what, left, right, axis=axis), weights, better="max")


@transactional
def pearson_correlation(
    prediction: Any,
    target: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The Pearson correlation of predictions and targets.

        value = cov(x, y) / sqrt(var(x) * var(y))

    Variances are computed from sums of numbers and of their products. They lose precision if
    the mean is much larger than the standard deviation.

    Args:
        prediction: number[*shape]: x.
        target: number[*shape]: y.
        weights: As for `mean`.
        name: The name of the metric.

    Raises:
        ShapeError: If the shapes differ.
    """

    def number(sums: Sums) -> Var:
        (_, x_variance), (_, y_variance), covariance = _moments(sums)
        return covariance / ops.sqrt(x_variance * y_variance)

    products = _products(prediction, target, weights)
    return accumulate_metric("pearson_correlation", name, products, number, "max")


@transactional
def concordance_correlation(
    prediction: Any,
    target: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The concordance correlation: agreement of predictions and targets.

        value = 2 * cov(x, y) / (var(x) + var(y) + (mean(x) - mean(y))^2)

    Source: Lin, A Concordance Correlation Coefficient to Evaluate Reproducibility, 1989. See
    `pearson_correlation`.
    """

    def number(sums: Sums) -> Var:
        (x_mean, x_variance), (y_mean, y_variance), covariance = _moments(sums)
        return 2.0 * covariance / (x_variance + y_variance + ops.square(x_mean - y_mean))

    what = "concordance_correlation"
    products = _products(prediction, target, weights)
    return accumulate_metric(what, name, products, number, "max")


def _products(prediction: Any, target: Operand, weights: Operand | None) -> dict[str, Var]:
    """Return sums of two variables, and of their products."""
    what = "A correlation"
    left, right = check_same_shape(what, prediction=prediction, target=target)
    weight = weights_of(what, left, weights)
    x, y = zero_unweighted(left, weight), zero_unweighted(right, weight)
    parts = {"count": weight, "x": weight * x, "y": weight * y}
    parts |= {"xx": weight * x * x, "yy": weight * y * y, "xy": weight * x * y}
    return {role: ops.sum(part) for role, part in parts.items()}


def _moments(sums: Sums) -> tuple[tuple[Var, Var], tuple[Var, Var], Var]:
    """Return mean and variance of both variables, and their covariance."""
    x, y, xx, yy, xy = (sums[role] / sums["count"] for role in ("x", "y", "xx", "yy", "xy"))
    return (x, xx - x * x), (y, yy - y * y), xy - x * y
