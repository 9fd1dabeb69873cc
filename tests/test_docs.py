"""The code in README and the other pages runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md",)


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "\n".join(blocks(page)).replace("/tmp/", f"{tmp_path.as_posix()}/")
    names: dict[str, object] = {}
    exec(compile(code, str(ROOT / page), "exec"), names)
    shown = capsys.readouterr().out
    assert "log produced a NaN in `log_v`" in shown
    assert "program {" in shown
