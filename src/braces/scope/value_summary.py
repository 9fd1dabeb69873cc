"""Summary statistics of a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Summary statistics of an array; of complex numbers, of their magnitudes.

    Attributes:
        finite: The finite numbers, flat.
        nans: The number of NaNs.
        infinite: The number of infinities.

    Example:
        >>> print(Summary.of([1.0, 3.0, float("nan")]))
        mean 2, std 1, from 1 to 3, 1 NaN
    """

    finite: np.ndarray[Any, np.dtype[np.float64]]
    nans: int
    infinite: int

    @classmethod
    def of(cls, raw: Any) -> Summary:
        """Summarize an array of any dtype that programs support."""
        array = np.asarray(raw).reshape(-1)
        numbers = (np.abs(array) if array.dtype.kind == "c" else array).astype(np.float64)
        is_finite, nans = np.isfinite(numbers), int(np.isnan(numbers).sum())
        finite = numbers if is_finite.all() else numbers[is_finite]
        return cls(finite, nans, numbers.size - finite.size - nans)

    @property
    def is_well(self) -> bool:
        """True if all numbers are finite."""
        return not (self.nans or self.infinite)

    def __str__(self) -> str:
        parts = [self._moments()] if self.finite.size else []
        parts += [f"{self.nans:,} NaN"] if self.nans else []
        parts += [f"{self.infinite:,} infinite"] if self.infinite else []
        return ", ".join(parts) or "no numbers"

    def _moments(self) -> str:
        low, high = self.finite.min(), self.finite.max()
        if self.finite.size == 1 or low == high:
            return f"{low:.4g}" if self.finite.size == 1 else f"all {low:.4g}"
        with np.errstate(over="ignore", invalid="ignore"):  # squares may overflow
            mean, std = self.finite.mean(), self.finite.std()
        return f"mean {mean:.3g}, std {std:.3g}, from {low:.3g} to {high:.3g}"
