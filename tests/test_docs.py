"""The code in README and the other pages runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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


LINKED = (
    *PAGES,
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
