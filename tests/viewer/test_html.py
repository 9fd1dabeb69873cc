"""The page and the fragment: complete, inert, and small enough."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.extend.programs import Body, Op, ProgramDef, VarInfo
from braces.viewer.html import program_html
from tests.viewer.programs import F32, HOSTILE, many, nested, strange


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


def content(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="content">(.*?)</script>', page, re.S
    )
    assert found is not None
    return json.loads(found.group(1))


def test_the_page_has_every_operator_of_every_block() -> None:
    prog = nested()
    blocks = content(program_html(prog))["blocks"]
    wanted = [
        [op.name for op in block.ops] for one in (prog, prog.startup) for block in one.blocks
    ]
    assert [[op["n"] for op in block["ops"]] for block in blocks] == wanted


def test_the_page_knows_types_sources_and_captures() -> None:
    first = content(program_html(nested()))["blocks"]
    loop = next(op for op in first[0]["ops"] if op["t"] == "loop")
    label, inner = loop["b"][0]
    assert label == "body"
    assert loop["i"]["captures"] == ["w"]
    assert first[0]["vars"]["w"] == ["f32[4,4]", "parameter", True]
    matmul = first[inner]["ops"][0]
    assert matmul["t"] == "matmul"
    assert re.fullmatch(r"\S*programs.py:\d+", matmul["s"])
    assert not matmul["s"].startswith("/")


def test_the_page_tells_what_operators_do() -> None:
    docs = content(program_html(nested()))["docs"]
    assert docs["tanh"].startswith("The hyperbolic tangent")
    assert "tanh" in docs["tanh.vjp"]
    assert set(docs) == {
        op["t"] for b in content(program_html(nested()))["blocks"] for op in b["ops"]
    }


def test_attributes_that_only_say_the_default_are_marked() -> None:
    loop = next(op for op in content(program_html(nested()))["blocks"][0]["ops"] if op["b"])
    assert "reverse" in loop["d"]
    assert "length" not in loop["d"]


@pytest.mark.parametrize("title", ["Program", HOSTILE])
def test_nothing_that_a_file_says_becomes_markup(title: str) -> None:
    plain = Tags(program_html(nested()))
    page = program_html(strange(), title=title, curve={HOSTILE: [1.0]})
    found = Tags(page)
    assert [tag for tag, _ in found.tags if tag in ("script", "style", "img")] == [
        tag for tag, _ in plain.tags if tag in ("script", "style", "img")
    ]
    assert content(page)["blocks"][0]["ops"][0]["n"] == HOSTILE
    assert page.count("<script") == 2


def test_a_fragment_is_escaped_too() -> None:
    found = Tags(strange()._repr_html_())
    assert {tag for tag, _ in found.tags} == {"div", "details", "summary"}
    assert all(set(attrs) <= {"style", "open"} for _, attrs in found.tags)
    assert any(HOSTILE in text for texts in found.texts.values() for text in texts)


def test_the_policy_lets_only_the_own_script_run_and_nothing_load() -> None:
    page = program_html(nested())
    tags = Tags(page).tags
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for kind, text in (
        ("script", page.rpartition("<script>")[2]),
        ("style", page.partition("<style>")[2]),
    ):
        inside = text.partition(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not any({"src", "href", "onclick", "style"} & set(a) for _, a in tags)


def test_the_page_names_no_address() -> None:
    assert "://" not in program_html(nested())


def test_surrogates_and_control_characters_do_not_break_a_file(tmp_path: Path) -> None:
    infos = {"x": VarInfo("x", F32, "data")}
    op = Op("tanh", "y", {"x": ("x",)}, {}, {"note": "\ud800\x00\x1b[31m"})
    prog = br.Program(ProgramDef(Body((), (), infos, (op,)), {}))
    prog.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "\x00" not in page
    prog._repr_html_().encode()


def test_a_fragment_stays_small_and_whole() -> None:
    text = many(5000)._repr_html_()
    assert len(text.encode()) < 200_000
    assert "to_html" in text
    found = Tags(text)
    assert not found.open
    assert text.count("<div") == text.count("</div>")


def test_a_fragment_begins_with_long_blocks_closed_and_says_their_names() -> None:
    with br.Program() as prog:
        with br.block("short"):
            y = br.fc(br.constant([[1.0, 2.0]]), 2)
        br.optimizer.adam().minimize(br.mean(y))
    found = re.findall(r"<details( open)?[^>]*><summary>(\w+) body", prog._repr_html_())
    assert found == [(" open", "short"), (" open", "short_grad_0"), ("", "adam")]


def test_a_fragment_of_a_small_program_leaves_nothing_out() -> None:
    prog = nested()
    text = prog._repr_html_()
    assert all(op.type in text for block in prog.blocks for op in block.ops)
    assert text.count("<details") == text.count("</details>") == len(prog.blocks) - 1
    assert "to_html" not in text


def test_looking_at_a_program_does_not_change_it() -> None:
    with br.Program() as prog:
        br.tanh(br.data("x", [3]))
    before = prog.to_bytes()
    program_html(prog)
    prog.to_dot()
    assert prog.to_bytes() == before


def test_a_large_program_makes_a_page_of_bounded_size() -> None:
    assert len(program_html(many(3000))) < 1_500_000
