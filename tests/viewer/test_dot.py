"""Programs as DOT."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import braces as br
from braces.dtypes import parse_type
from braces.extend.programs import Body, Op, ProgramDef, VarInfo
from braces.viewer.dot import quote

HOSTILE = 'a"];}\\" digraph { b\n\\'


def nested() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["t", 4])
        w = br.parameter("w", [4, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.constant([0.0] * 4))
            h.update(br.matmul(net.add_input(x), w) + h)
        rnn.final(h)
    return prog


def hostile() -> br.Program:
    infos = {HOSTILE: VarInfo(HOSTILE, parse_type("f32[]"))}
    op = Op(HOSTILE, HOSTILE, {}, {"out": (HOSTILE,)}, {})
    inner = Op("odd", HOSTILE, {}, {}, {HOSTILE: Body((), (HOSTILE,), infos, (op,))})
    return br.Program(ProgramDef(Body((), (), infos, (op, inner)), {}))


def test_each_block_is_a_cluster_and_a_captured_variable_is_dashed() -> None:
    text = nested().to_dot()
    assert text.count("subgraph cluster_") == 1
    assert re.findall(r'\[label="(\w+)", style=dashed\]', text) == ["w"]
    assert 'label="matmul"' in text


def test_every_edge_joins_nodes_that_exist() -> None:
    text = nested().to_dot()
    made = re.findall(r"^\s*(n\d+) \[", text, re.M)
    assert len(made) == len(set(made))
    ends = re.findall(r"(n\d+) -> (n\d+)", text)
    assert ends
    assert {end for edge in ends for end in edge} <= set(made)


@pytest.mark.parametrize("text", [HOSTILE, "", '"', "\\", "\x00\x1b", "β"])
def test_a_quoted_name_has_no_end_before_its_end(text: str) -> None:
    assert re.fullmatch(r'"(?:[^"\\\n]|\\.)*"', quote(text))


def test_names_that_look_like_dot_stay_names() -> None:
    text = hostile().to_dot()
    outside = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    assert outside.count("digraph") == 1
    assert outside.count("{") == outside.count("}") == 2


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("make", [nested, hostile])
def test_graphviz_reads_it(make: object) -> None:
    assert callable(make)
    done = subprocess.run(
        ["dot", "-Tsvg"], input=make().to_dot(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
