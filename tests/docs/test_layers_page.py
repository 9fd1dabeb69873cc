"""The page that maps layers of other libraries to those of Braces."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def layers() -> Any:
    """The script that writes the page."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec = importlib.util.spec_from_file_location("layers_page", SCRIPTS / "layers.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module


def test_the_page_says_what_there_is(layers: Any) -> None:
    assert layers.PAGE.read_text(encoding="utf-8") == layers.page()


def test_no_name_of_others_comes_twice(layers: Any) -> None:
    for title, rows in layers.sections():
        names = [name for row in rows for name in row.theirs]
        assert len(names) == len(set(names)), title


def test_nothing_that_is_installed_is_left_out(layers: Any) -> None:
    assert layers.unlisted() == []
