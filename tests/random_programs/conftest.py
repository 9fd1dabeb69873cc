"""`from generate import generate` in every test here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.gathered import gather_rows

sys.path.insert(0, str(Path(__file__).parent))

rows_are_gathered = pytest.fixture(autouse=True)(gather_rows)
