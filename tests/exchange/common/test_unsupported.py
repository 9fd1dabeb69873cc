"""Refusals of importers: all reasons at once, with counts, places and advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br
from braces.errors import ProgramError
from braces.exchange.common.model.source_lines import describe_lines, sources_in
from braces.exchange.common.model.unsupported import (
    MOST_PLACES,
    UnsupportedNode,
    unsupported_error,
)
from paddle_writing import Written

HEADER = '<ir_version: 10, opset_import: ["" : 18, "ai.other" : 2]>'


def problem(operator: str, node: str, line: str = "", fix: str | None = None) -> Any:
    return UnsupportedNode(operator, node, ProgramError("no rule.", fix=fix), line)


def test_reasons_are_grouped_with_counts_places_and_advice() -> None:
    error = unsupported_error(
        [
            problem("spin", "`a` in layer.0", "net.py:7", "Use turn."),
            problem("spin", "`b` in layer.1", "net.py:7", "Use turn."),
            problem("spin", "`c`", "net.py:9"),
            problem("fold", "`d`", fix="Use reshape."),
        ],
        "net.onnx",
    )
    assert str(error).splitlines() == [
        "net.onnx cannot be imported: 4 unsupported nodes.",
        "  given: spin, 3 times: no rule.",
        "             `a` in layer.0 at net.py:7, and 1 more",
        "             `c` at net.py:9",
        "             Use turn.",
        "         fold, 1 time: no rule.",
        "             `d`",
        "             Use reshape.",
    ]


def test_the_advice_for_the_only_reason_is_that_of_the_error() -> None:
    error = unsupported_error([problem("spin", "`a`", "net.py:7", "Use turn.")], "net.onnx")
    assert error.fix == "Use turn."
    assert str(error).count("Use turn.") == 1
    assert "1 unsupported node." in str(error)


def test_many_places_are_counted() -> None:
    problems = [problem("spin", f"`a{n}`", f"net.py:{n}") for n in range(MOST_PLACES + 3)]
    assert "and 3 more places" in str(unsupported_error(problems, "net.onnx"))


def test_a_line_of_a_package_is_followed_by_the_line_of_its_caller() -> None:
    trace = """
  File "/home/me/net.py", line 3, in forward
    return self.vit(x)
  File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line 9, in _call_impl
    return forward(*args)
  File "/usr/lib/python3/site-packages/nets/vit.py", line 30, in forward
    return x.strange()
"""
    wanted = "/usr/lib/python3/site-packages/nets/vit.py:30, called at /home/me/net.py:3"
    assert describe_lines(sources_in(trace)) == wanted
    assert describe_lines([]) == ""


def test_onnx_nodes_are_listed_with_the_modules_and_lines_of_their_exporter() -> None:
    model = onnx.parser.parse_model(f"""{HEADER} g (float[N] x) => (float[N] z) {{
        y = ai.other.Spin (x)
        z = ai.other.Spin (y)
    }}""")
    first, second = model.graph.node
    first.name = "node_spin"
    for key, value in {
        "name_scopes": "['', 'layers.0', 'spin']",
        "class_hierarchy": "['net.Net', 'net.Layer', 'aten.spin.default']",
        "stack_trace": 'File "/home/me/net.py", line 12, in forward\n  spin(x)',
    }.items():
        entry = first.metadata_props.add()
        entry.key, entry.value = f"pkg.torch.onnx.{key}", value
    second.doc_string = "/home/me/net.py(14): forward\n"
    with pytest.raises(ProgramError, match="2 unsupported nodes") as caught:
        br.from_onnx(model)
    said = str(caught.value)
    assert "ai.other.Spin-2, 2 times" in said
    assert "`node_spin` in layers.0 (Layer) at /home/me/net.py:12" in said
    assert "`z` at /home/me/net.py:14" in said
    assert "rules={operator: function}" in said


@pytest.mark.parametrize("text", ["[", "1", "['one']", "(" * 9000, "['a', 2, 3.0]"])
def test_damaged_metadata_of_an_exporter_is_left_out(text: str) -> None:
    model = onnx.parser.parse_model(
        f"{HEADER} g (float[N] x) => (float[N] y) {{ y = ai.other.Spin (x) }}"
    )
    for key in ("name_scopes", "class_hierarchy", "stack_trace"):
        entry = model.graph.node[0].metadata_props.add()
        entry.key, entry.value = f"pkg.torch.onnx.{key}", text
    with pytest.raises(ProgramError, match=r"ai\.other\.Spin-2, 1 time: .*\n +`y`"):
        br.from_onnx(model)


def test_onnx_operators_in_subgraphs_of_unread_nodes_are_listed() -> None:
    model = onnx.parser.parse_model(f"""{HEADER} g (float[N] x, bool b) => (float[N] z) {{
        y = ai.other.Spin (x)
        c = ai.other.Flip (b)
        z = If (c) <
            then_branch = t () => (float[N] t0) {{ t0 = ai.other.Turn (y) }},
            else_branch = e () => (float[N] e0) {{ e0 = Relu (y) }}
        >
    }}""")
    with pytest.raises(ProgramError, match="3 unsupported nodes") as caught:
        br.from_onnx(model)
    assert all(name in str(caught.value) for name in ("Spin-2", "Flip-2", "Turn-2"))
    assert "Relu" not in str(caught.value)


def test_paddle_operators_in_blocks_of_unread_operators_are_listed(tmp_path: Path) -> None:
    p = Written()
    x = p.feed("x", -1, 3)
    stack = [b'  File "net.py", line 7, in f', b"g()"]
    p.op("beam_search", {"X": x}, {"Out": "c"}, op_callstack=stack)
    with p.block() as block:
        p.op("no_such_operator", {"X": x}, {"Out": "d"})
    p.op(
        "conditional_block",
        {"Cond": "c", "Input": x},
        {"Out": "d"},
        sub_block=block,
        is_scalar_condition=True,
    )
    p.fetch("d")
    with pytest.raises(ProgramError) as caught:
        br.from_paddle(p.save(tmp_path))
    said = str(caught.value)
    assert "`c` at net.py:7" in said
    assert "no_such_operator, 1 time" in said


def test_jax_equations_are_listed_with_their_lines() -> None:
    import jax
    from jax import lax

    def strange(x: Any) -> Any:
        x = jax.pure_callback(np.sin, x, x)
        return lax.rng_uniform(x[0], x[1], (3,)) + lax.rng_uniform(x[1], x[2], (3,))

    with pytest.raises(ProgramError) as caught:
        br.from_jax(strange, np.ones(3, "float32"))
    said = str(caught.value)
    assert "`rng_uniform`, 2 times" in said
    assert len([line for line in said.splitlines() if "test_unsupported.py" in line]) >= 3
