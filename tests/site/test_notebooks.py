"""Notebooks of the built site have the views of their values."""

from __future__ import annotations

import re
from pathlib import Path


def test_a_notebook_shows_program_history_scope_and_model(site: Path) -> None:
    text = (site / "guides" / "notebook.html").read_text(encoding="utf-8")
    assert text.count('class="output text_html"') == 6
    assert "program: " in text
    assert "<svg" in text
    assert "predict(x: f32[n,64]) -&gt; logits: f32[n,10]" in text
    assert "license: Apache-2.0" in text
    assert re.search(r"cell \d+, line 3", text)
    assert "Traceback" not in text
