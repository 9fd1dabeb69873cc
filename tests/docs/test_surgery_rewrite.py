"""The code of the page about rewriting runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_docs import run_blocks


@pytest.mark.unoptimized
def test_the_code_of_the_page_of_rewriting_runs(tmp_path: Path) -> None:
    run_blocks("docs/guides/surgery/rewrite.md", tmp_path)
