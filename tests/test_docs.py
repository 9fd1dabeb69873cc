"""The code in README and the other pages runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import braces as br

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


def test_the_code_of_the_page_of_other_systems_runs_from_top_to_bottom() -> None:
    page = "docs/interchange.md"
    exec(compile("\n".join(blocks(page)), str(ROOT / page), "exec"), {})


def test_the_code_of_the_page_of_gradients_runs_and_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = "docs/gradients.md"
    exec(compile("\n".join(blocks(page)), str(ROOT / page), "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    said = [
        "f32[batch,2,3,2] f32[batch,2,3] f32[batch,3,3]",
        "[[4.  2.  1. ]",
        " [2.  1.  0.5]]",
    ]
    assert shown == [*said, "[2. 2. 2.]", "layer"]


@pytest.mark.unoptimized
def test_the_code_of_layouts_and_pipelines_runs_on_several_devices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, names = "docs/scale_out.md", dict[str, Any]()
    exec(compile("\n".join(blocks(page)[:3]), str(ROOT / page), "exec"), names)
    assert 0 < names["found"] < 5
    assert capsys.readouterr().out == "f32[embed=32,mlp=128]\n"
    assert len(names["scope"].var("stages/up.w").raw.sharding.device_set) == 8


@pytest.mark.thorough  # it starts three processes
def test_the_code_of_the_page_of_workers_runs_and_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = "docs/remote.md"
    exec(compile("\n".join(blocks(page)), str(ROOT / page), "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["True", "(3, 8)", "100"]


def started(*words: str, at: Path, devices: int = 1) -> str:
    """What a command of a page prints, in a folder."""
    given = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        words, cwd=at, env=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.thorough  # it starts three processes
def test_the_program_of_checkpoints_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    (code,) = (one for one in blocks("docs/scale_out.md") if "br.Checkpoint(" in one)
    file, launch = tmp_path / "train.py", (sys.executable, "-m", "braces", "launch")
    file.write_text(code.replace("20", "12"), encoding="utf-8")
    printed = started(*launch, "-n", "2", "--devices", "2", file.name, at=tmp_path)
    assert "steps 0 to 12 done by 2" in printed
    file.write_text(code, encoding="utf-8")
    printed = started(sys.executable, file.name, at=tmp_path, devices=4)
    assert printed == "steps 12 to 20 done by 1\n"


@pytest.mark.thorough  # it compiles for 64 devices
def test_the_program_that_is_planned_is_planned_in_a_shell_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, names = "docs/scale_out.md", {"br": br}
    monkeypatch.chdir(tmp_path)
    (code,) = (one for one in blocks(page) if "br.plan(" in one)
    exec(compile(code, str(ROOT / page), "exec"), names)
    text = (ROOT / page).read_text(encoding="utf-8")
    (command,) = re.findall(r"^braces (plan train.*\n.*--device h100)$", text, re.MULTILINE)
    words = shlex.split(command.replace("\\\n", ""))
    shown = started(sys.executable, "-m", "braces", *words, "--json", at=tmp_path)
    report: Any = names["report"]
    assert json.loads(shown)["memory"] == report.memory


LINKED = (
    *PAGES,
    "docs/decisions/README.md",
    "docs/gradients.md",
    "docs/interchange.md",
    "docs/real_models.md",
    "docs/remote.md",
    "docs/scale_out.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    "benchmarks/XLA.md",
)


def anchors(page: str) -> set[str]:
    """What the headings of a page are called in links."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    for link in links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        assert not path or ((ROOT / page).parent / path).exists(), link
        assert not anchor or anchor in anchors(path or page), link


def test_every_feature_has_its_tests_and_its_example() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("| what | functional | tests | example |\n")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]
    assert len(rows) > 12
    for row in rows:
        tests, example = row[-2:]
        assert "](tests/" in tests, row
        assert re.search(r"\]\((examples/|src/braces/demo/|scripts/|#)", example), row
