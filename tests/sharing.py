"""Tests of which `make check` runs a share, and `make thorough` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def shared(given: Iterable[Any], share: int) -> list[Any]:
    """Parameters of a test: every `share`-th for `make check`, the others for `make thorough`.

    Only where each case is slow, and one is much like the next: random programs, or all
    operators at what none of them can have a rule of its own for.
    """
    return [one if i % share == 0 else thorough(one) for i, one in enumerate(given)]


def thorough(given: Any) -> Any:
    """Parameters that `make thorough` alone runs."""
    values = given if isinstance(given, tuple) else (given,)
    return pytest.param(*values, marks=pytest.mark.thorough)
