"""Pages of `docs/internals` print what they show; tables and decision records are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import internals
import methods
from size import ROOT

pytestmark = pytest.mark.unoptimized


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("path", internals.pages(), ids=lambda path: path.stem)
def test_the_programs_of_a_page_print_what_it_shows(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert internals.run_page(text, path.name) == text, "run `python scripts/internals.py`"


@pytest.mark.parametrize("path", internals.pages(), ids=lambda path: path.stem)
def test_a_table_gives_the_file_of_each_class(path: Path) -> None:
    _, _, table = path.read_text(encoding="utf-8").partition("| class | file |")
    for line in table.partition("\n\n")[0].splitlines()[2:]:
        names, files = (re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3])
        tops = [ROOT / "src" / "braces" / file for file in files]
        modules = [
            file for top in tops for file in (top.rglob("*.py") if top.is_dir() else [top])
        ]
        code = "\n".join(file.read_text(encoding="utf-8") for file in modules)
        for name in names:
            assert re.search(rf"^(class|def) {name}\b", code, re.MULTILINE), line


def test_the_table_of_methods_is_that_of_the_code() -> None:
    assert methods.PAGE.read_text(encoding="utf-8") == methods.page(), (
        "run `python scripts/methods.py`"
    )


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "internals" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in internals.FOLDER.glob("*.md")} - {"README.md"}
    assert all(f"[{name}]({name})" in index for name in pages)


RECORDS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
PARTS = ["Context", "Decision", "Measurements", "Consequences"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem[:4])
def test_a_decision_has_a_date_and_its_four_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^Recorded 20\d\d-\d\d-\d\d\.$", text, re.MULTILINE)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS


def test_the_index_has_every_decision_with_its_title() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for path in RECORDS:
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        assert f"- [{title}]({path.name})" in index
