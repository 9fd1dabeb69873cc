"""Row-wise branches with few rows, which are gathered even for a small computation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from braces.target import TARGETS


def gather_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a fixture: small branches have copies for some rows, as large ones have."""
    monkeypatch.setitem(TARGETS, "cpu", replace(TARGETS["cpu"], little=0))
