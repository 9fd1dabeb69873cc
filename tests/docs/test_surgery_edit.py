"""The code of the page about edits runs and prints its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_docs import blocks, run_blocks


@pytest.mark.unoptimized
def test_the_code_of_the_page_of_edits_runs_and_prints_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "docs/guides/surgery/edit.md"
    run_blocks(page, tmp_path)
    assert capsys.readouterr().out == "".join(blocks(page, "text"))
