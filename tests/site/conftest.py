"""The built pages of the documentation: `make docs` builds them, and runs these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built pages."""
    assert (SITE / "index.html").exists(), "run `make docs`"
    return SITE
