"""The code of docs/guides/data.md runs, and prints its output."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guides/data.md"
OPTIONAL = ("grain", "pyarrow", "torch")


def parts() -> list[tuple[str, str]]:
    """The Python blocks of the page, each with the output that follows it."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?"
    return re.findall(pattern, text, re.DOTALL)


def available(code: str) -> bool:
    """Whether the optional packages of a block are installed."""
    used = [name for name in OPTIONAL if re.search(rf"^import {name}\b", code, re.MULTILINE)]
    return all(find_spec(name) for name in used)


@pytest.mark.unoptimized
def test_the_code_of_the_page_of_data_runs_and_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names, printed = dict[str, Any](), list[str]()
    blocks = [(code, shown) for code, shown in parts() if available(code)]
    for code, _ in blocks:
        exec(compile(code, "<docs/guides/data.md>", "exec"), names)
        printed.append(capsys.readouterr().out)
    assert printed == [shown for _, shown in blocks]


def test_most_blocks_need_no_optional_package() -> None:
    blocks = [code for code, _ in parts()]
    needing = [code for code in blocks if any(f"import {name}" in code for name in OPTIONAL)]
    assert len(needing) == 3
    assert len(blocks) > 15
