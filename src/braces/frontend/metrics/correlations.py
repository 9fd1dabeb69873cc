"""Metrics of how predictions and targets vary together."""

from __future__ import annotations

from typing import Any

from braces.builder.append import one
from braces.builder.var import Operand, Var
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.metrics.base import (
    Metric,
    Sums,
    alike,
    kept,
    looked_at,
    mean_of,
    weights_of,
)


@building
def cosine_similarity(
    predictions: Any,
    targets: Operand,
    weights: Operand | None = None,
    *,
    axis: int = -1,
    name: str | None = None,
) -> Metric:
    """The mean of the cosines between predictions and targets; see `mean`.

    Args:
        predictions: number[*shape].
        targets: number[*shape].
        weights: As those of `mean`, one for each vector.
        axis: The axis along which vectors lie.
        name: That of the metric.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    what = "cosine_similarity"
    left, right = alike(what, predictions=predictions, targets=targets)
    return mean_of(what, name, one(what, left, right, axis=axis), weights)


@building
def pearson_correlation(
    predictions: Any,
    targets: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The correlation of all predictions with their targets.

        value = cov(x, y) / sqrt(var(x) * var(y))

    Variances are found from sums of numbers and of their products, so they lose digits where
    these are much larger than they vary.

    Args:
        predictions: number[*shape]: x.
        targets: number[*shape]: y.
        weights: As those of `mean`.
        name: That of the metric.

    Raises:
        ShapeError: Shapes differ.
    """

    def number(sums: Sums) -> Var:
        (_, left), (_, right), both = _moments(sums)
        return both / ops.sqrt(left * right)

    return kept("pearson_correlation", name, _products(predictions, targets, weights), number)


@building
def concordance_correlation(
    predictions: Any,
    targets: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """How near predictions are to their targets, beside how both vary.

        value = 2 * cov(x, y) / (var(x) + var(y) + (mean(x) - mean(y))^2)

    Source: Lin, A Concordance Correlation Coefficient to Evaluate Reproducibility, 1989. See
    `pearson_correlation`.
    """

    def number(sums: Sums) -> Var:
        (before, left), (after, right), both = _moments(sums)
        return 2.0 * both / (left + right + ops.square(before - after))

    what = "concordance_correlation"
    return kept(what, name, _products(predictions, targets, weights), number)


def _products(predictions: Any, targets: Operand, weights: Operand | None) -> dict[str, Var]:
    """Sums of numbers of two kinds, and of their products."""
    what = "A correlation"
    left, right = alike(what, predictions=predictions, targets=targets)
    weight = weights_of(what, left, weights)
    x, y = looked_at(left, weight), looked_at(right, weight)
    parts = {"count": weight, "x": weight * x, "y": weight * y}
    parts |= {"xx": weight * x * x, "yy": weight * y * y, "xy": weight * x * y}
    return {role: ops.sum(part) for role, part in parts.items()}


def _moments(sums: Sums) -> tuple[tuple[Var, Var], tuple[Var, Var], Var]:
    """Of each of two its mean and variance, and their covariance."""
    x, y, xx, yy, xy = (sums[role] / sums["count"] for role in ("x", "y", "xx", "yy", "xy"))
    return (x, xx - x * x), (y, yy - y * y), xy - x * y
