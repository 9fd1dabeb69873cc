"""Row-wise branches whose few rows are gathered."""

from __future__ import annotations

import pytest

from tests.support.gathered_rows import gather_rows

rows_are_gathered = pytest.fixture(autouse=True)(gather_rows)
