"""Row-wise branches of few rows, and of few copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from braces.target import TARGETS
from tests.support.gathered_rows import gather_rows

rows_are_gathered = pytest.fixture(autouse=True)(gather_rows)


@pytest.fixture
def few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row-wise branch is compiled for half of its rows, all but one and all of them alone.

    Then a few rows have padding, where else each number of them has a copy of its own, and XLA
    has half as much to compile, a quarter where a branch is in a branch.
    """
    monkeypatch.setitem(TARGETS, "cpu", replace(TARGETS["cpu"], shares=(2,)))
