"""The page in a real browser: drawing and interaction."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import braces as br
from braces.viewer import html
from tests.browser.chromium import Browser
from tests.viewer.programs import HOSTILE, nested, strange

Opened: TypeAlias = Callable[..., Browser]
SVG = "{http://www.w3.org/2000/svg}"

BOXES = """scene.boxes.map(({box, x, y, w, h}) =>
    ({id: box.id, least: box.w, children: box.children.map(c => c.id), x, y, w, h}))"""


def ids(browser: Browser, selector: str) -> list[str]:
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return browser.js(f"{found}.map(one => one.dataset.id ?? one.dataset.edge)")


def place(program: br.Program, type_: str, within: int = 0) -> str:
    """The id of the box of the first operator of a type in a block, as the page counts them."""
    index = next(i for i, op in enumerate(program.blocks[within].ops) if op.type == type_)
    return f"o{within}.{index}"


def toggle(browser: Browser, id_: str) -> None:
    browser.click(f'[data-toggle="{id_}"]')
    browser.settle()


# ---- the picture ----


def test_the_page_asks_for_nothing_but_itself(opened: Opened, tmp_path: Path) -> None:
    browser = opened(nested())
    own = (tmp_path / "page.html").as_uri()
    assert own in browser.requests
    assert all(
        url in (own, "about:blank") or url.startswith("blob:") for url in browser.requests
    )


def test_every_operator_of_the_main_block_has_a_box_that_says_its_type(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    for index, op in enumerate(program.definition.main.ops):
        box = f"document.querySelector('[data-id=\"o0.{index}\"]')"
        assert op.type in browser.js(f"{box}.textContent"), op
    assert browser.sees("o0.0")


def test_boxes_lie_inside_what_they_belong_to_and_beside_each_other(opened: Opened) -> None:
    browser = opened(nested())
    browser.click(".open")
    browser.settle()
    boxes = {box["id"]: box for box in browser.js(BOXES)}
    assert len(boxes) > 30
    for outer in boxes.values():
        assert outer["w"] >= outer["least"], outer
        inner = [boxes[child] for child in outer["children"]]
        for one in inner:
            assert contains(outer, one), (outer, one)
        for i, one in enumerate(inner):
            assert not any(overlap(one, other) for other in inner[:i]), one


def contains(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    return (
        outer["x"] <= inner["x"]
        and outer["y"] <= inner["y"]
        and inner["x"] + inner["w"] <= outer["x"] + outer["w"] + 0.5
        and inner["y"] + inner["h"] <= outer["y"] + outer["h"] + 0.5
    )


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


def test_a_click_opens_and_closes_a_block(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    browser.click(".close")
    browser.settle()
    assert not ids(browser, '[data-id^="o1."]')
    toggle(browser, "b1")
    assert len(ids(browser, '.op[data-id^="o1."]')) == len(program.blocks[1].ops)
    assert browser.js("document.querySelector('[data-toggle=b1]').ariaExpanded") == "true"
    toggle(browser, "b1")
    assert not ids(browser, '[data-id^="o1."]')


def test_keys_open_a_block_too(opened: Opened) -> None:
    browser = opened(nested())
    browser.click(".close")
    browser.settle()
    browser.js("document.querySelector('[data-toggle=b1]').focus()")
    browser.press("Enter")
    browser.settle()
    assert ids(browser, '[data-id^="o1."]')
    assert browser.js("document.activeElement.dataset.toggle") == "b1"


# ---- edges ----


def test_a_captured_variable_is_an_edge_into_the_box_that_reads_it(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    browser.click(".open")
    browser.settle()
    reader = place(program, "matmul", within=1)
    assert f"v0.w>{reader}" in ids(browser, ".edge.capture")
    points = browser.js(
        f"scene.edges.find(({{edge}}) => edge.id === 'v0.w>{reader}').points.at(-1)"
    )
    box = next(one for one in browser.js(BOXES) if one["id"] == reader)
    assert box["x"] <= points[0] <= box["x"] + box["w"]
    assert points[1] == pytest.approx(box["y"], abs=1)


def test_edges_join_who_binds_and_who_reads(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    browser.click(".close")
    browser.settle()
    made = {
        name: f"o0.{i}"
        for i, op in enumerate(program.definition.main.ops)
        for name in op.binds()
    }
    made |= {
        info.name: f"v0.{info.name}"
        for info in program.definition.main.vars.values()
        if info.name not in made
    }
    wanted = {
        f"{made[name]}>o0.{i}"
        for i, op in enumerate(program.definition.main.ops)
        for names in op.inputs.values()
        for name in names
    }
    main = [edge for edge in ids(browser, ".edge") if edge.count("0.") == 2]
    assert set(main) == wanted


def test_captured_variables_can_be_hidden(opened: Opened) -> None:
    browser = opened(nested())
    drawn = "e => getComputedStyle(e).display !== 'none'"
    shown = f"[...document.querySelectorAll('.edge.{{}}')].filter({drawn}).length"
    captured, flow = browser.js(shown.format("capture")), browser.js(shown.format("flow"))
    assert captured > 0
    assert flow > 0
    browser.click("input.captures")
    assert browser.js(shown.format("capture")) == 0
    assert browser.js(shown.format("flow")) == flow
    browser.click("input.captures")
    assert browser.js(shown.format("capture")) == captured


# ---- search and the panel ----


def test_search_reaches_into_closed_blocks_and_reveals(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    browser.click(".close")
    browser.settle()
    wanted = place(program, "tanh", within=1)
    assert not browser.sees(wanted)
    browser.press("/")
    browser.type("tanh_0")
    assert "body" in browser.js("document.querySelector('.found li.first').textContent")
    browser.press("Enter")
    browser.settle()
    browser.wait("!!document.querySelector('.box.chosen')")
    assert browser.sees(wanted)
    assert ids(browser, ".chosen") == [wanted]


def test_a_click_shows_all_about_an_operator(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    browser.click(f'[data-id="{place(program, "loop")}"]')
    panel = browser.js("document.querySelector('aside').innerText")
    loop = next(op for op in program.definition.main.ops if op.type == "loop")
    assert loop.name in panel
    assert "f32[t,batch,4]" in panel
    assert "reverse" in panel
    assert "programs.py:" in panel
    assert len(panel.split("DESCRIPTION")[1]) > 100
    source = browser.js("document.querySelector('aside .source').textContent")
    assert loop.source is not None
    assert source.endswith(f"programs.py:{loop.source.line}")


def test_a_click_on_a_name_shows_who_makes_and_who_reads_it(opened: Opened) -> None:
    program = nested()
    browser = opened(program)
    browser.click('[data-id="v0.w"]')
    panel = browser.js("document.querySelector('aside').innerText")
    assert "f32[4,4]" in panel
    assert "parameter, trainable" in panel
    assert "READ BY" in panel
    assert "matmul" in panel
    assert "v0.w" in ids(browser, ".same")


# ---- saving ----


def test_the_saved_picture_is_svg_that_needs_no_page(opened: Opened, tmp_path: Path) -> None:
    program = nested()
    browser = opened(program, title="A saved program")
    browser.click(".open")
    browser.settle()
    file = browser.saves(".save", tmp_path)
    assert file.name == "A-saved-program.svg"
    text = file.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    said = "\n".join("".join(one.itertext()) for one in root.iter(f"{SVG}text"))
    assert all(op.type in said for block in program.blocks for op in block.ops)
    frames = [one for one in root.iter(f"{SVG}rect") if one.get("class") == "frame"]
    assert len(frames) == len(ids(browser, ".box"))
    assert all(one.get("fill") and one.get("stroke") for one in frames)
    assert "var(" not in text
    assert not [one for one in root.iter() if one.get("class") in ("hit", "toggle")]
    assert len([one for one in root.iter(f"{SVG}path") if one.get("class") == "wire"]) == len(
        ids(browser, ".edge")
    )


# ---- how the page opens ----


def trained() -> br.Program:
    with br.Program() as program:
        h = br.data("x", ["n", 8])
        for size in (32, 32, 16):
            h = br.relu(br.fc(h, size))
        br.optimizer.adam().minimize(br.mean(h * h))
    return program


def test_a_training_program_opens_with_its_forward_part_in_sight_and_the_rest_folded(
    opened: Opened,
) -> None:
    program = trained()
    browser = opened(program)
    main = program.block(0).ops
    names = [op.name for op in main]
    forward = range(names.index("mean_0") + 1)
    assert {f"o0.{index}" for index in forward} == {*ids(browser, ".box.op")}
    assert all(browser.sees(f"o0.{index}") for index in forward)
    assert "p0.optimizer" in ids(browser, ".box.part")
    fits = "picture.getBoundingClientRect().height <= stage.clientHeight || zoom === LEAST"
    assert browser.js(fits)
    assert browser.js("picture.getBoundingClientRect().width <= stage.clientWidth")


def test_folded_operators_are_found_and_opened(opened: Opened) -> None:
    program = trained()
    browser = opened(program)
    browser.press("/")
    browser.type("relu.vjp")
    browser.press("Enter")
    browser.settle()
    last = max(i for i, op in enumerate(program.block(0).ops) if op.type == "relu.vjp")
    first = min(i for i, op in enumerate(program.block(0).ops) if op.type == "relu.vjp")
    assert any(browser.sees(f"o0.{index}") for index in (first, last))
    before = browser.js("zoom")
    toggle(browser, "p0.optimizer")
    assert browser.js("zoom") <= before
    browser.click(".open")
    browser.settle()
    assert "p0.gradient" in ids(browser, ".box.part")


# ---- strangers' files, and a page without the library ----


def test_nothing_that_a_file_says_is_run(opened: Opened) -> None:
    browser = opened(strange(), title=HOSTILE)
    browser.click(".open")
    browser.settle()
    for id_ in ids(browser, '.box[tabindex="0"]'):
        browser.click(f"[data-id={json.dumps(id_)}]")
    browser.press("/")
    browser.type("script")
    assert browser.js("document.querySelectorAll('.found li').length") > 0
    assert (
        browser.js("document.querySelectorAll('img, body script:not([type]) ~ script').length")
        == 0
    )
    assert browser.js("document.querySelectorAll('script').length") == 2
    assert HOSTILE[:30] in browser.js("document.querySelector('.picture').textContent")


def test_without_the_library_the_page_shows_boxes_and_says_what_to_install(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "layout_library", lambda: "")
    program = nested()
    browser = opened(program)
    assert "braces[pictures]" in browser.js("document.querySelector('.note').textContent")
    browser.click(".open")
    browser.settle()
    assert len(ids(browser, ".op")) >= sum(len(block.ops) for block in program.blocks)
    assert not ids(browser, ".edge")
    assert "matmul(x.step_0, w)" in browser.js("document.querySelector('.picture').textContent")
    browser.click(f'[data-id="{place(program, "loop")}"]')
    assert "reverse" in browser.js("document.querySelector('aside').innerText")
