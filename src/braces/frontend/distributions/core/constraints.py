"""Supports of distributions."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from braces.builder.var import Var
from braces.frontend.core import functions as ops
from braces.frontend.distributions.core.parameterization import (
    DistributionParams,
    Form,
    ValueForm,
)


class Support(ABC):
    """Set of the values that can be drawn."""

    @abstractmethod
    def outside(self, params: DistributionParams, x: Var) -> Var | None:
        """Return a mask of the numbers outside the support; None if there are none."""

    @abstractmethod
    def inner(self, params: DistributionParams, x: Var) -> Var | float:
        """Return a value inside the support, as a substitute for values outside."""

    def extend_cdf(self, params: DistributionParams, x: Var, form: ValueForm) -> Var:
        """Extend a cumulative distribution function: 0 below the support and 1 above."""
        del self
        return form(params, x)


@final
@dataclass(frozen=True)
class Interval(Support):
    """Numbers between two bounds.

    Attributes:
        low: The lower bound.
        high: The upper bound.
        open: Whether the bounds are excluded.
        whole: Whether only integers belong to it.
    """

    low: Form | None = None
    high: Form | None = None
    open: bool = False
    whole: bool = False

    def outside(self, params: DistributionParams, x: Var) -> Var | None:
        """See Support."""
        below, above = (
            (ops.less_equal, ops.greater_equal) if self.open else (ops.less, ops.greater)
        )
        bounds = ((below, self.low), (above, self.high))
        masks = [compare(x, bound(params)) for compare, bound in bounds if bound is not None]
        if self.low is not None and self.high is None:
            masks.append(x == np.inf)
        if self.whole:
            masks.append(x != ops.floor(x))
        return functools.reduce(ops.logical_or, masks) if masks else None

    def inner(self, params: DistributionParams, x: Var) -> Var | float:
        """See Support."""
        del x
        if self.low is not None and self.high is not None:
            return (self.low(params) + self.high(params)) * 0.5
        return self.low(params) + 1.0 if self.low is not None else 0.0

    def extend_cdf(self, params: DistributionParams, x: Var, form: ValueForm) -> Var:
        """See Support."""
        if self.low is None:
            return form(params, x)
        x = ops.floor(x) if self.whole else x
        low, high = self.low(params), np.inf if self.high is None else self.high(params)
        below = x < low if self.whole else x <= low
        above = x >= high
        inner_cdf = form(params, ops.where(below | above, self.inner(params, x), x))
        return ops.where(below, 0.0, ops.where(above, 1.0, inner_cdf))


REALS = Interval()
POSITIVE = Interval(low=lambda d: 0.0)
ABOVE_ZERO = Interval(low=lambda d: 0.0, open=True)
UNIT = Interval(low=lambda d: 0.0, high=lambda d: 1.0)
INNER_UNIT = Interval(low=lambda d: 0.0, high=lambda d: 1.0, open=True)
COUNTS = Interval(low=lambda d: 0.0, whole=True)
