"""The tables of hints: no name twice, no name that exists, and every equivalent exists."""

from __future__ import annotations

import re
from operator import attrgetter

import pytest

import braces as br
from braces.hints import classes, table_files
from braces.hints.answers import answer_class, answer_operator
from braces.homes import find_homes

PATH = re.compile(r"\bbr((?:\.[A-Za-z_]\w*)+)")


def names(table: str) -> list[str]:
    """The names of a table, as often as they are in it."""
    return [name for name, _ in table_files.pairs(table_files.table_lines(table))]


def paths(text: str) -> set[str]:
    """The names of the package in a text."""
    return set(PATH.findall(text))


def test_no_name_is_in_two_tables_or_twice_in_one() -> None:
    found = [name for table in (*table_files.SUBJECTS, "namespaces") for name in names(table)]
    assert sorted(name for name in set(found) if found.count(name) > 1) == []
    assert [name for name in found if name != name.lower()] == []


def test_no_hint_repeats_the_tables_of_classes_and_operators() -> None:
    repeated = [
        name
        for name, hint in table_files.habits().items()
        for derived in (answer_class(name), answer_operator(name))
        if derived and paths(derived) == paths(hint)
    ]
    assert repeated == []


def test_no_hint_repeats_the_home_of_a_function() -> None:
    repeated = [
        name
        for name, hint in table_files.habits().items()
        if (homes := find_homes(name)) and {f"br{path}" for path in paths(hint)} <= {*homes}
    ]
    assert repeated == []


@pytest.mark.parametrize("table", [*table_files.SUBJECTS, "namespaces"])
def test_a_table_is_sorted(table: str) -> None:
    first = [line.partition(" ")[0].split("|")[0] for line in table_files.table_lines(table)]
    assert first == sorted(first)


def test_no_attribute_of_an_object_is_hinted_twice_or_exists() -> None:
    found = [line.partition(" ")[0] for line in table_files.table_lines("objects")]
    hinted = sum(len(each.split("|")) for each in found if each and not each.startswith("["))
    assert hinted == sum(map(len, table_files.objects().values()))
    for kind, hints in table_files.objects().items():
        cls = getattr(br, kind, None) or getattr(br.optimizer, kind, None)
        assert [name for name in hints if hasattr(cls, name)] == []


def test_equivalents_of_classes_exist() -> None:
    ours = {our for _, rows in classes.sections() for row in rows for our in row.ours}
    assert [our for our in sorted(ours) if not attrgetter(our)(br)] == []
    assert len(ours) > 150


def test_every_row_has_an_equivalent_or_a_reason() -> None:
    rows = [row for _, rows in classes.sections() for row in rows]
    assert [row for row in rows if not row.ours and not row.why] == []
    assert {title.split()[0] for title, _ in classes.sections()} == classes.PLACES.keys()


@pytest.mark.parametrize(
    ("their", "ours"),
    [
        ("Conv2d", ["conv2d"]),
        ("LazyConv3d", ["conv3d"]),
        ("PixelUnshuffle", ["image.pixel_unshuffle"]),
        ("LSTMCell", ["layers.lstm_cell"]),
        ("CrossEntropyLoss", ["softmax_cross_entropy", "softmax_cross_entropy_soft"]),
    ],
)
def test_a_class_of_a_row_has_its_own_equivalents(their: str, ours: list[str]) -> None:
    row, spelled = next(classes.rows_of(their.upper(), ["nn"]))
    assert spelled == their
    assert list(row.ours_of(their)) == ours
