"""Functions of users on batches."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from braces.builder.user_functions import calling, check_takes


class BatchTransform:
    """A function of a user on a batch, with a random generator for each batch.

    Args:
        function: A function of a batch, or of a batch and a NumPy generator. The generator
            follows from the seed and the position, so that a resume draws the same values.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_rng = _takes_two(function)
        if not self._takes_rng:
            check_takes(function, 1, "transform")

    def __call__(self, batch: Any, seed: tuple[int, ...], place: str) -> Any:
        """Return the new batch; errors of the function get its place."""
        with calling(self._function, place):
            if self._takes_rng:
                return self._function(batch, np.random.default_rng(seed))
            return self._function(batch)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(0, 1)
    except (TypeError, ValueError):
        return False
    return True
