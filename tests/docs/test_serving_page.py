"""The curl commands of the guide to serving run, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import braces as br
from tests.docs.snippets import Page, agrees

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAIR = re.compile(r"```bash\n(curl [^\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.usefixtures("registry")
def test_commands_of_the_guide_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Page(DOCS / "guides/serving.md", "docs/guides/serving.md", tmp_path).run()
    models = [*tmp_path.rglob("classify.model"), *tmp_path.rglob("writer.model")]
    pairs = PAIR.findall((DOCS / "guides/serving.md").read_text(encoding="utf-8"))
    assert len(pairs) == 4
    with br.serve(models, port=0) as server:
        server.wait_ready()
        for command, shown in pairs:
            line = shlex.split(command.replace("http://localhost:8000", server.url))
            done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
            assert agrees(shown, done.stdout), done.stdout
