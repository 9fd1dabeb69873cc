"""The page of environment variables names those that the code reads or sets, and no others."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "guides" / "environment_variables.md"
SOURCES = ROOT / "src" / "braces"
READS = re.compile(r"\b(?:os\.environ|os\.getenv|environment: (?:Environment|Mapping))")
"""The signs of a module that reads or sets variables."""
_NAME = re.compile(r"[A-Z][A-Z0-9]*_?[A-Za-z0-9_]*")
_PREFIXES = ("BRACES_", "JAX_", "XLA_", "SLURM_", "OMPI_", "PMI", "MPI_", "CUDA_", "TF_")


def strings(text: str) -> Iterator[str]:
    """The string constants of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def names_in_code() -> set[str]:
    """The variables of modules that read or set some, and constants that begin like one."""
    names: set[str] = set()
    for file in SOURCES.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        constants = {value for value in strings(text) if _NAME.fullmatch(value)}
        if READS.search(text):
            names |= {value for value in constants if value.isupper() or "_" in value}
        names |= {value for value in constants if value.startswith(_PREFIXES) and "_" in value}
    return names


def names_in_page(heading: str) -> set[str]:
    """The variables in the first column of the table of a section."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = (line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_page_has_all_variables_of_the_code() -> None:
    code = names_in_code() - {"PYTHONUNBUFFERED", "PMI"}  # set for children; a launcher
    own = names_in_page("Variables of Braces")
    others = names_in_page("Variables of other software that Braces reads")
    jax = {name for name in code if name.startswith(("JAX_", "XLA_"))}
    assert own == {name for name in code if name.startswith("BRACES_")}
    assert others == code - own - jax
    assert jax <= names_in_page("Variables of JAX and XLA")
    assert "PYTHONUNBUFFERED" in PAGE.read_text(encoding="utf-8")


def test_variables_of_jax_that_braces_reads_are_marked() -> None:
    marked = set(re.findall(r"^\| `(\w+)` ✓", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert marked == {name for name in names_in_code() if name.startswith(("JAX_", "XLA_"))}


def test_variables_of_jax_exist() -> None:
    settings: Any = jax.config
    options = {name.upper() for name in settings.values}
    for name in names_in_page("Variables of JAX and XLA"):
        assert name in options or not name.startswith("JAX_"), name


def test_the_page_has_all_loggers() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in SOURCES.rglob("*.py"))
    found = set(re.findall(r'getLogger\("([^"]+)"\)', code))
    page = PAGE.read_text(encoding="utf-8").split("\n## Loggers\n")[1]
    assert {name for name in re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)} == found


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] — the page sets a level
    level = logging.getLogger("braces").level
    yield
    logging.getLogger("braces").setLevel(level)
