"""The Python of each page of the documentation runs, and prints what the page shows.

All Python blocks of a page run from top to bottom in one namespace. A `text` block directly
below a Python block is the output of that block; `…` in it stands for omitted text. Files below
`/tmp/` are written to a fresh folder. Source lines in an output are those of `train.py`, the
program that has the Python blocks of the page, with an empty line between them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.snippets import OMITTED, Page, agrees, snippets

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = ("internals/", "decisions/", "_build/", "files/")
"""Folders whose pages have tests of their own, or no code."""
OWN_TESTS = ("guides/scale_out.md", "guides/remote.md")
"""Pages that need several devices or processes: test_docs.py runs them."""
UNOPTIMIZED = ("gallery/", "guides/surgery/", "guides/data.md", "how_do_i/")
"""Pages with many compilations and short runs."""


def found() -> list[str]:
    """Pages with Python blocks, below docs/."""
    files = sorted(file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md"))
    named = [name for name in files if not name.startswith(ELSEWHERE)]
    texts = {name: (DOCS / name).read_text(encoding="utf-8") for name in named}
    return [name for name, text in texts.items() if snippets(text)]


def page(name: str) -> object:
    """A page as a parameter."""
    marks = [pytest.mark.unoptimized] if name.startswith(UNOPTIMIZED) else []
    return pytest.param(name, id=name.removesuffix(".md"), marks=marks)


@pytest.mark.usefixtures("registry")  # pages define operators
@pytest.mark.parametrize("name", [page(name) for name in found() if name not in OWN_TESTS])
def test_the_code_of_a_page_runs_and_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Page(DOCS / name, f"docs/{name}", tmp_path)
    run.run()
    FURTHER.get(name, lambda page: None)(run)


def test_pages_with_tests_of_their_own_have_code() -> None:
    assert set(OWN_TESTS) <= set(found())


@pytest.mark.parametrize("name", found())
def test_an_output_shows_more_than_an_omission(name: str) -> None:
    for snippet in snippets((DOCS / name).read_text(encoding="utf-8")):
        assert snippet.shown is None or snippet.shown.replace(OMITTED, "").strip(), snippet.line


# ---- further assertions about a page ---------------------------------------------------------


def training(page: Page) -> None:
    """The first program is short, and prints one line for each of its epochs."""
    assert len("".join(page.errors).splitlines()) == 4
    assert len(page.snippets[0].code.strip().splitlines()) <= 15


def data(page: Page) -> None:
    """Most blocks need no optional package."""
    names = ("grain", "pandas", "pyarrow", "torch")
    codes = (snippet.code for snippet in page.snippets)
    assert len([code for code in codes if any(f"import {name}" in code for name in names)]) == 4
    assert len(page.snippets) > 15


def find(page: Page) -> None:
    """A page of a program is written."""
    assert (page.folder / "program.html").exists()


FURTHER: dict[str, Callable[[Page], None]] = {
    "guides/data.md": data,
    "guides/surgery/find.md": find,
    "guides/training.md": training,
}


# ---- how pages are run -----------------------------------------------------------------------


def written(folder: Path, text: str) -> Page:
    """A page with this text."""
    file = folder / "page.md"
    file.write_text(textwrap.dedent(text).replace("~~~", "```"), encoding="utf-8")
    return Page(file, "docs/page.md", folder)


def test_an_error_is_reported_with_its_line(tmp_path: Path) -> None:
    text = """\
        # Title
        ~~~python
        def f():
            return 1 / 0
        ~~~
        Prose.
        ~~~python
        f()
        ~~~
        """
    with pytest.raises(
        AssertionError, match=r"^docs/page\.md:4: ZeroDivisionError: "
    ) as caught:
        written(tmp_path, text).run()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_syntax_error_is_reported_with_its_line(tmp_path: Path) -> None:
    text = "Prose.\n\n~~~python\nx = 1\nx = = 2\n~~~\n"
    with pytest.raises(AssertionError, match=r"^docs/page\.md:5: SyntaxError: "):
        written(tmp_path, text).run()


def test_another_output_is_reported_with_its_line(tmp_path: Path) -> None:
    text = "~~~python\nprint(1 + 1)\n~~~\n\n~~~text\n3\n~~~\n"
    with pytest.raises(AssertionError, match=r"(?s)^docs/page\.md:5: .*:\n2\n.*\n3\n$"):
        written(tmp_path, text).run()


def test_a_text_block_below_prose_is_no_output(tmp_path: Path) -> None:
    page = written(tmp_path, "~~~python\nprint(1)\n~~~\nA shell:\n\n~~~text\n$ ls\n~~~\n")
    page.run()
    assert page.printed == ["1\n"]


def test_blocks_share_names_and_files_are_in_the_folder(tmp_path: Path) -> None:
    text = """\
        ~~~python
        from pathlib import Path
        file = Path("/tmp/a.txt")
        ~~~
        ~~~python
        file.write_text("a")
        print(file)
        ~~~
        ~~~text
        /tmp/a.txt
        ~~~
        """
    written(tmp_path, text).run()
    assert (tmp_path / "a.txt").read_text() == "a"


def test_source_lines_are_those_of_the_program(tmp_path: Path) -> None:
    text = """\
        # Title

        ~~~python
        import braces as br
        ~~~
        Prose.
        ~~~python
        with br.Program() as prog:
            x = br.ones([2])
        print(prog.block(0).ops[0].source)
        ~~~
        ~~~text
        train.py:4
        ~~~
        """
    written(tmp_path, text).run()


def test_blocks_without_their_optional_package_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.docs.snippets.OPTIONAL", ("no_such_package",))
    text = "~~~python\nimport no_such_package\n~~~\n~~~python\nx = 1\n~~~\n"
    page = written(tmp_path, text)
    page.run()
    assert page.names["x"] == 1


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a\nb\n", "a  \nb\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a …\n", "a b\nc\n", True),
        ("loss 0.…\n", "loss 0.1234\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\nd\n", "a\nb\n", False),
        ("[1.]\n", "11.]\n", False),
    ],
)
def test_an_omission_stands_for_any_text(shown: str, printed: str, equal: bool) -> None:
    assert agrees(shown, printed) == equal
