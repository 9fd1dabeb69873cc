"""The page of a program highlights a selection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.ir.places import Place
from braces.surgery.highlight import highlight_marks
from braces.viewer.payload import payload
from tests.surgery.programs import nested_loops
from tests.viewer.graphs import layout
from tests.viewer.test_html import content


def marked(page: dict[str, Any]) -> list[str]:
    blocks = page["blocks"]
    ops = [op["n"] for block in blocks for op in block["ops"] if op.get("m")]
    return [*ops, *(name for block in blocks for name in block.get("m", {}))]


def test_operators_and_variables_of_a_selection_are_marked(tmp_path: Path) -> None:
    prog = nested_loops()
    parameters = prog.find(kind="parameters")
    found = prog.find(name="act") | parameters | prog.find(kind="blocks", name="loop_1/body")
    prog.to_html(tmp_path / "page.html", highlight=found)
    page = content((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert marked(page) == ["loop_1", "act", "w"]


def test_an_argument_is_marked_in_its_block_and_a_value_at_its_operator() -> None:
    prog = nested_loops()
    (argument,) = prog.find(kind="variables", name="loop_1/body/memory_*")[:1]
    value = prog.find(kind="variables", name="act")[0]
    for handle in (argument, value):
        marks = highlight_marks(Place.main(prog.definition), handle)
        assert marks == {(handle.block, handle.name): "highlighted"}


def test_boxes_of_marked_operators_and_variables_have_the_class_of_the_mark() -> None:
    prog = nested_loops()
    found = prog.find(name="act") | prog.find(kind="parameters")
    marks = highlight_marks(Place.main(prog.definition), found)
    boxes = layout(prog, marks=marks)["boxes"]
    highlighted = [box for box in boxes if box["kind"].endswith(" highlighted")]
    assert sorted(box["lines"][0].split()[0] for box in highlighted) == ["act", "w"]


def test_a_page_without_a_selection_has_no_marks() -> None:
    assert marked(payload(nested_loops(), "Program")) == []


def test_a_handle_of_a_removed_operator_is_refused() -> None:
    prog = nested_loops()
    gone = prog.find(name="act")
    with pytest.raises(
        br.UnknownNameError, match="unknown operator `loop_1/body/loop_0/body/act`"
    ):
        br.prune(prog, ["x"]).to_html("unused.html", highlight=gone)
    with pytest.raises(br.ProgramError, match="expected handles for `highlight`, got 'act'"):
        prog.to_html("unused.html", highlight="act")  # pyright: ignore[reportArgumentType]
    assert not Path("unused.html").exists()
