"""Conversion rules of users, for operators that Braces does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br
from braces.errors import ProgramError

pytestmark = pytest.mark.unoptimized

HEAD = """<ir_version: 10, opset_import: ["" : 18, "my.domain" : 1]>
    own (float[N] x) => (float[N] y)"""


def read(body: str, rules: Any) -> br.Program:
    return br.from_onnx(onnx.parser.parse_model(f"{HEAD} {{ {body} }}"), rules=rules)[0]


def result(program: br.Program, mode: str) -> Any:
    exe = br.Executor(mode=mode)
    return exe.run(program, br.Scope(), {"x": np.array([1.0, -2.0], "float32")})[0].tolist()


def test_a_rule_gets_inputs_and_attributes(mode: str) -> None:
    def scale(x: br.Var, bias: br.Var | None, other: br.Var, *, by: float) -> br.Var:
        assert bias is None
        return x * by + other

    model = onnx.parser.parse_model(f"{HEAD} {{ y = my.domain.Scale <by = 3.0> (x, x, x) }}")
    model.graph.node[0].input[1] = ""
    program, _ = br.from_onnx(model, rules={"my.domain.Scale": scale})
    assert result(program, mode) == [4.0, -8.0]


def both(x: br.Var) -> tuple[br.Var, br.Var]:
    return -x, x + 1.0


def test_a_rule_returns_several_outputs(mode: str) -> None:
    program = read("a, b = my.domain.Two(x) y = Add(a, b)", {"my.domain.Two": both})
    assert result(program, mode) == [1.0, 1.0]


def test_a_rule_replaces_that_of_braces(mode: str) -> None:
    program = read("y = Relu(x)", {"Relu": br.abs})
    assert result(program, mode) == [1.0, 2.0]


def test_an_unknown_operator_names_the_way_out() -> None:
    with pytest.raises(ProgramError, match=r"my\.domain\.Scale: unsupported") as caught:
        read("y = my.domain.Scale(x)", None)
    assert "rules={operator: function}" in str(caught.value)


def needs_two(x: br.Var, y: br.Var) -> br.Var:
    return x + y


def returns_a_number(x: br.Var) -> int:
    return x.ndim + 2


def reshapes(x: br.Var) -> br.Var:
    return br.reshape(x, [-2])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (needs_two, "the rule of my.domain.Scale raised TypeError: "),
        (returns_a_number, "the rule returned 3; expected a variable, or a tuple of them"),
        (reshapes, "reshape"),
    ],
)
def test_a_rule_that_fails_is_named(rule: Any, words: str) -> None:
    with pytest.raises(ProgramError) as caught:
        read("y = my.domain.Scale(x)", {"my.domain.Scale": rule})
    assert words in str(caught.value)
    assert "my.domain.Scale-1" in str(caught.value)


@pytest.mark.parametrize("rules", [[br.abs], {"Relu": 1}])
def test_rules_that_are_no_dict_of_functions_are_refused(rules: Any) -> None:
    with pytest.raises(ProgramError, match="expected a dict of functions for `rules`"):
        read("y = Relu(x)", rules)
