"""The code of README and the other pages runs, and their links and names exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("registry")  # pages define operators


def blocks(page: str, language: str = "python") -> list[str]:
    """The fenced blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_blocks(page: str, folder: Path) -> dict[str, Any]:
    """Run the Python blocks of a page from top to bottom, with `folder` in place of `/tmp`."""
    code = "\n".join(blocks(page)).replace("/tmp/", f"{folder.as_posix()}/")
    names = dict[str, Any]()
    exec(compile(code, str(ROOT / page), "exec"), names)
    return names


def test_the_program_of_the_readme_is_shown_and_trains_and_predicts_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run_blocks("README.md", tmp_path)
    assert capsys.readouterr().out == "[0 1 2 3 4]\n"
    run, model, prog, logits = (names[name] for name in ("run", "model", "prog", "logits"))
    assert run.history["val_accuracy"][-1] > 0.85
    feed = {"x": names["data"]["x"][1500:]}
    wanted = run.exe.evaluate(prog, run.scope, feed, logits)
    np.testing.assert_allclose(model.run(**feed), wanted, atol=1e-5)
    printed = f"{br.prune(prog, [logits])}\n"
    (picture,) = blocks("README.md", "text")
    start = 0
    for part in re.split("…|\n", picture):  # `…` marks omissions
        assert part in printed[start:], part
        start = printed.index(part, start) + len(part)


def test_the_readme_fits_on_one_screen() -> None:
    assert (ROOT / "README.md").stat().st_size < 6000


@pytest.mark.unoptimized
def test_the_code_of_layouts_and_pipelines_runs_on_several_devices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, names = "docs/guides/scale_out.md", dict[str, Any]()
    exec(compile("\n".join(blocks(page)[:3]), str(ROOT / page), "exec"), names)
    assert 0 < names["loss_value"] < 5
    assert capsys.readouterr().out == "f32[embed=32,mlp=128]\n"
    assert len(names["scope"].var("stages/up.w").raw.sharding.device_set) == 8


@pytest.mark.thorough  # it starts three processes
def test_the_code_of_the_page_of_workers_runs_and_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = "docs/guides/remote.md"
    exec(compile("\n".join(blocks(page)), str(ROOT / page), "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["True", "(3, 8)", "100"]


def started(*words: str, at: Path, devices: int = 1) -> str:
    """Return the output of a command of a page, run in a folder."""
    given = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        words, cwd=at, env=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.thorough  # it starts three processes
def test_the_program_of_checkpoints_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    (code,) = (one for one in blocks("docs/guides/scale_out.md") if "br.Checkpoint(" in one)
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
    page, names = "docs/guides/scale_out.md", {"br": br}
    monkeypatch.chdir(tmp_path)
    (code,) = (one for one in blocks(page) if "br.plan(" in one)
    exec(compile(code, str(ROOT / page), "exec"), names)
    text = (ROOT / page).read_text(encoding="utf-8")
    (command,) = re.findall(r"^braces (plan train.*\n.*--device h100)$", text, re.MULTILINE)
    words = shlex.split(command.replace("\\\n", ""))
    shown = started(sys.executable, "-m", "braces", *words, "--json", at=tmp_path)
    report: Any = names["report"]
    assert json.loads(shown)["memory"] == report.memory


# ---- links -----------------------------------------------------------------------------------

SKIPPED = {"node_modules", "build", "_build", "dist"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages() -> list[str]:
    """All Markdown files, relative to the root."""
    found = (file.relative_to(ROOT) for file in ROOT.rglob("*.md"))
    return sorted(
        file.as_posix()
        for file in found
        if not any(part in SKIPPED or part.startswith(".") for part in file.parts)
        and not file.as_posix().startswith("docs/files/")  # copies, by `make docs`
    )


def prose(page: str) -> str:
    """The text of a page without its fenced blocks, and without comments for the site."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```$|^<!--.*?-->$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub spells them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: str) -> list[tuple[Path, str]]:
    """The relative links of a page: the file or folder, and the anchor."""
    parts = (link.partition("#") for link in LINK.findall(prose(page)) if "://" not in link)
    start = ROOT / page
    return [
        ((start.parent / path if path else start).resolve(), anchor)
        for path, _, anchor in parts
    ]


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    for file, anchor in links(page):
        assert file.exists(), file
        assert not anchor or anchor in anchors(file.relative_to(ROOT).as_posix()), anchor


def test_every_page_of_the_documentation_is_reachable_from_the_readme() -> None:
    reached, waiting = set[str](), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            files = (file for file, _ in links(page) if file.is_relative_to(ROOT))
            named = (file.relative_to(ROOT).as_posix() for file in files)
            waiting += [name for name in named if name.endswith(".md")]
    assert {page for page in pages() if page.startswith("docs/")} <= reached


def test_the_readme_and_the_index_link_to_each_page_of_docs() -> None:
    for start in ("README.md", "docs/index.md"):
        linked = {file for file, _ in links(start)}
        assert {ROOT / "docs" / file.name for file in ROOT.glob("docs/*.md")} - linked <= {
            ROOT / start
        }


# ---- features --------------------------------------------------------------------------------

FEATURES = "docs/guides/features.md"
EXAMPLES = (
    r"\.\./\.\./(examples|src/braces/demo|scripts|tests)/|"
    r"(control_flow|gradients|debugging)\.md"
)
"""Places of examples: programs, and pages whose code runs."""
OBJECTS = {"exe": br.Executor, "prog": br.Program, "scope": br.Scope}


def tables(head: str) -> list[list[str]]:
    """The cells of all tables of the page of features with a certain head, row by row."""
    parts = prose(FEATURES).split(head + "\n")[1:]
    lines = [line for part in parts for line in part.split("\n\n")[0].splitlines()[1:]]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def test_every_construct_has_its_documentation_its_example_and_its_tests() -> None:
    rows = tables("| feature | functional form | documentation | example | tests |")
    assert len(rows) > 12
    for row in rows:
        page, example, tests = row[-3:]
        assert re.search(r"\]\(", page), row
        assert "](../../tests/" in tests, row
        assert re.search(rf"\]\(({EXAMPLES})", example), row


def test_every_feature_has_its_documentation() -> None:
    rows = tables("| feature | names | documentation |")
    assert len(rows) > 80
    for _, names, page in rows:
        assert "](" in page, page
        source = re.search(r"\[docstring\]\(\.\./\.\./(\S+)\)", page)
        if source:
            text = (ROOT / source[1]).read_text(encoding="utf-8")
            for name in re.findall(r"`(?:\w+\.)+(\w+)`", names):
                assert re.search(rf"\b{name}\b", text), (name, source[1])


# ---- names -----------------------------------------------------------------------------------

NAME = re.compile(r"`@?((?:br|exe|prog|scope)(?:\.[a-zA-Z]\w*)+)")
USER_PAGES = (
    "README.md",
    *(page for page in pages() if re.match(r"docs/(?!internals/|decisions/)", page)),
)


@pytest.mark.parametrize("page", USER_PAGES)
def test_every_name_of_a_page_exists(page: str) -> None:
    for name in NAME.findall(prose(page)):
        start, _, rest = name.partition(".")
        attrgetter(rest)(br if start == "br" else OBJECTS[start])


def test_the_page_of_features_names_most_of_the_library() -> None:
    assert len(set(NAME.findall(prose(FEATURES)))) > 120
