"""The reference has each public name on one page; names of other libraries are beside them."""

from __future__ import annotations

from collections import Counter

from braces_docs import command_line, equivalents, reference
from braces_docs.docstrings import converted

import public_names


def public() -> set[str]:
    """The public names of tests/public_names.txt: `softmax`, `linalg.svd`."""
    lines = public_names.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    spaces = {line.removeprefix("br.") for line in lines if line.startswith("br.")}
    found, module = set[str](), ""
    for line in lines:
        if not line.startswith(" "):
            module = line.removeprefix("br").removeprefix(".")
        elif module or line.strip() not in spaces:
            found.add(f"{module}.{line.strip()}".removeprefix("."))
    return found


def test_every_public_name_is_on_one_page() -> None:
    listed = Counter(name for page in reference.pages() for name in page.names)
    assert [name for name, count in listed.items() if count > 1] == []
    assert set(listed) == public() - {"BracesError"}, reference.TABLE  # in `errors`


def test_a_page_is_not_too_long() -> None:
    assert {
        page.file: len(page.names) for page in reference.pages() if len(page.names) > 60
    } == {}


def test_pages_have_titles_and_introductions_with_the_words_of_other_libraries() -> None:
    for page in reference.pages():
        assert page.title
        assert len(page.intro) == 2
        assert page.intro[1].startswith("Also called: ")


def test_equivalents_of_other_libraries_are_named() -> None:
    line = equivalents.line("fc")
    assert line.startswith(
        "PyTorch: ``nn.Linear``, ``nn.LazyLinear`` · Keras: ``layers.Dense``"
    )
    assert equivalents.line("no_such_name") == ""


DOCSTRING = """\
Norm `x`s over real[*shape], |x| * 2.

    out = |x| * 2

Args:
    x: `a|b`, c|d.

>>> x | y
2"""
CONVERTED = """\
Norm ``x``\\ s over ``real[*shape]``, \\|x\\| \\* 2.

::

    out = |x| * 2

Args:
    x: ``a|b``, c\\|d.

>>> x | y
2"""


def test_markup_of_docstrings_is_text_code_or_a_literal_block() -> None:
    assert converted(DOCSTRING.split("\n")) == CONVERTED.split("\n")


def test_dtypes_and_constants_are_documented_without_docstrings() -> None:
    page = next(page for page in reference.pages() if page.file == "dtypes_constants")
    text = reference.text(page)
    assert ".. py:data:: braces.float32\n\n   Dtype ``float32``, written ``f32``" in text
    assert ".. py:data:: braces.pi\n\n   Ratio of" in text


def test_the_page_of_a_program_has_the_methods_that_completion_offers() -> None:
    (line,) = (line for line in reference.directive("Program") if ":members:" in line)
    assert {"summary", "for_test", "find"} <= set(line.split(": ")[1].split(", "))
    assert "adopt" not in line


def test_the_page_of_the_command_line_has_the_help_of_each_command() -> None:
    text = command_line.page()
    assert text.count("usage: braces ") == len(command_line.COMMANDS)
    assert "braces show\n-----------" in text
