"""The arrangement of a page: nested boxes, edges between boxes, parts of large blocks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.extend.programs import all_bodies
from tests.viewer.graphs import layout
from tests.viewer.programs import deep, many, nested, strange


@pytest.fixture(params=["library", "simple"])
def elk_in(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "library" else None


def spans(box: dict[str, Any]) -> tuple[float, float, float, float]:
    return box["x"], box["y"], box["x"] + box["w"], box["y"] + box["h"]


def check(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Boxes lie in what holds them, beside each other; edges begin and end at their boxes."""
    boxes = {box["id"]: box for box in found["boxes"]}
    assert len(boxes) == len(found["boxes"])
    for outer in boxes.values():
        assert outer["w"] >= outer["least"], outer
        left, top, right, bottom = spans(outer)
        inner = [spans(boxes[id_]) for id_ in outer["inner"]]
        for i, (x1, y1, x2, y2) in enumerate(inner):
            assert left < x1 < x2 < right, outer
            assert top < y1 < y2 < bottom, outer
            assert all(
                x2 <= a1 or a2 <= x1 or y2 <= b1 or b2 <= y1 for a1, b1, a2, b2 in inner[:i]
            ), outer
    for edge in found["edges"]:
        ends = (edge["from"], edge["points"][0]), (edge["to"], edge["points"][-1])
        for id_, (x, y) in ends:
            x1, y1, x2, y2 = spans(boxes[id_])
            assert x1 - 1 <= x <= x2 + 1, edge
            assert y1 - 1 <= y <= y2 + 1, edge
    return boxes


@pytest.mark.parametrize("program", [nested, strange, lambda: deep(2, 30)])
def test_boxes_and_edges_lie_where_they_belong(program: Any, elk_in: Path | None) -> None:
    made = program()
    boxes = check(layout(made, elk_in=elk_in))
    ops = sum(len(body.ops) for body, _ in all_bodies(made.definition.main))
    assert sum(box["kind"].startswith("op") for box in boxes.values()) == ops


def test_a_captured_variable_is_an_edge_to_the_operator_that_reads_it(tmp_path: Path) -> None:
    edges = {edge["id"]: edge for edge in layout(nested(), elk_in=tmp_path)["edges"]}
    assert edges["v0.w>o1.0"]["kind"] == "capture"
    assert edges["v0.w>o1.0"]["keys"] == ["0:w"]
    assert edges["v1.x.step_0>o1.0"]["kind"] == "flow"


def test_a_closed_block_is_where_captured_variables_end(tmp_path: Path) -> None:
    program = nested()
    loop = next(i for i, op in enumerate(program.blocks[0].ops) if op.type == "loop")
    found = layout(program, ["b0"], elk_in=tmp_path)
    check(found)
    kinds = {edge["id"]: edge["kind"] for edge in found["edges"]}
    assert kinds[f"v0.w>o0.{loop}"] == "capture"
    assert kinds[f"v0.x>o0.{loop}"] == "flow"
    assert not any(">o1." in id_ for id_ in kinds)


def test_a_large_block_is_drawn_in_parts_that_open(elk_in: Path | None) -> None:
    closed = check(layout(many(3000), ["b0"], elk_in=elk_in))
    assert len(closed) < 50
    assert closed["p0.operators:200-300"]["lines"] == ["▸ operators 201–300  tanh ×100"]
    opened = check(layout(many(3000), ["b0", "p0.operators:200-300"], elk_in=elk_in))
    assert len(opened) == len(closed) + 100
    assert "o0.250" in opened["p0.operators:200-300"]["inner"]


def test_very_many_operators_are_parts_of_parts() -> None:
    opened = ["b0", "p0.operators:0-300", "p0.operators:0-300:0-100"]
    boxes = check(layout(many(30_000), opened))
    assert len(boxes) < 250
    assert "o0.99" in boxes


def test_edges_join_closed_parts(tmp_path: Path) -> None:
    edges = layout(many(400), ["b0"], elk_in=tmp_path)["edges"]
    parts = [f"p0.operators:{at}-{at + 100}" for at in (0, 100, 200, 300)]
    assert {edge["id"] for edge in edges} == {
        f"{one}>{next_}" for one, next_ in pairwise(parts)
    }


def test_what_very_many_read_is_named_beside_each_reader(tmp_path: Path) -> None:
    with br.Program() as program:
        x = y = br.data("x", [4])
        for _ in range(12):
            y = br.tanh(y) + x
    boxes = check(found := layout(program, elk_in=tmp_path))
    echoes = [box for box in boxes.values() if box["kind"] == "var echo"]
    assert len(echoes) == 13
    assert all(box["lines"] == ["↑ x"] for box in echoes)
    assert not any(edge["from"] == "v0.x" for edge in found["edges"])


def test_many_parameters_are_a_list_and_named_beside_their_readers(tmp_path: Path) -> None:
    with br.Program() as program:
        y = br.data("x", [4])
        for i in range(20):
            y = y + br.parameter(f"w{i}", [4])
    closed = check(layout(program, ["b0"], elk_in=tmp_path))
    assert closed["p0.parameters:0-20"]["lines"] == ["▸ 20 parameters  "]
    assert {f"↑ w{i}" for i in range(20)} <= {box["lines"][0] for box in closed.values()}
    opened = check(layout(program, ["b0", "p0.parameters:0-20"], elk_in=tmp_path))
    assert len(opened["p0.parameters:0-20"]["inner"]) == 20
    assert len(opened) == len(closed) + 20


def test_updates_are_named_beside_the_value_that_a_run_commits() -> None:
    with br.Program() as program:
        w = br.parameter("w", [4])
        br.optimizer.sgd(learning_rate=0.1).minimize(br.mean(w * w))
    said = [line for box in layout(program)["boxes"] for line in box["lines"]]
    assert any("⇒ w" in line for line in said)


def test_a_block_is_called_by_its_name_and_its_values_by_what_they_become(
    elk_in: Path | None,
) -> None:
    with br.Program() as program:
        w = br.parameter("w", [4])
        br.optimizer.adam().minimize(br.mean(w * w))
    step = len(program.block(0).ops) - 1
    closed = check(layout(program, ["b0", "p0.optimizer"], elk_in=elk_in))
    assert any("block adam" in line for line in closed[f"o0.{step}"]["lines"])
    opened = check(layout(program, elk_in=elk_in))
    inside = [opened[id_] for id_ in opened[f"o0.{step}"]["inner"]]
    said = "".join(line for box in inside for line in box["lines"])
    assert all(f"⇒ {name}" in said for name in program.updates)


def test_metrics_gradients_and_optimizer_are_parts_of_their_own(
    elk_in: Path | None,
) -> None:
    with br.Program() as program:
        y = br.dropout(br.fc(br.data("x", ["n", 4]), 3, name="out"), 0.5)
        br.metrics.mean(y, name="average")
        br.optimizer.adam().minimize(br.mean(y * y))
    found = layout(program, ["b0"], elk_in=elk_in)
    closed = check(found)
    parts = [id_ for id_ in closed["b0"]["inner"] if id_.startswith("p0.")]
    assert parts == ["p0.metrics", "p0.gradient", "p0.optimizer", "p0.update"]
    main = program.block(0).ops
    drawn = [int(id_[3:]) for id_ in closed if id_.startswith("o0.")]
    assert [main[index].name for index in drawn] == [
        "matmul_0", "out", "dropout_0", "multiply_1", "mean_0"
    ]  # fmt: skip
    assert not any(id_.startswith("v0.adam/") for id_ in closed)
    opened = check(layout(program, ["b0", *parts], elk_in=elk_in))
    assert {f"o0.{index}" for index in range(len(main))} <= opened.keys()
    assert "v0.adam/count" in opened["p0.optimizer"]["inner"]
    assert sum("operator" in line for line in closed["p0.gradient"]["lines"]) == 1


def test_a_program_without_a_step_has_no_phases() -> None:
    boxes = layout(nested(), ["b0"])["boxes"]
    assert not [box for box in boxes if box["id"] in ("p0.gradient", "p0.optimizer")]


def test_without_edges_an_operator_names_what_it_reads() -> None:
    said = [line for box in layout(nested())["boxes"] for line in box["lines"]]
    assert "matmul_0 f32[batch,4] = matmul(x.step_0, w)" in said
