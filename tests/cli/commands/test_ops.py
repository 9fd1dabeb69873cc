"""`braces ops`."""

from __future__ import annotations

import inspect
import json

import pytest

import braces as br
from braces.cli.commands.ops import signature
from braces.cli.common.function_help import find_function
from braces.cli.main import main
from braces.extend.operators import OPS
from tests.support.layer_examples import LAYERS, LINES, public_layers


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["ops", *arguments]) == 0
    return capsys.readouterr().out


def test_every_operator_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    names = [line.split()[0] for line in said(capsys).splitlines()[:-2]]
    assert names == sorted(OPS.definitions)


def test_one_operator_is_described_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "softmax")
    assert text.startswith("softmax(x, *, axis: Axis = -1) -> out\n")
    assert OPS.get("softmax").doc in text
    assert "softmax x=f32[2,3]" in text
    assert "gradient: a kernel" in text


@pytest.mark.parametrize(
    "name", ["loop", "switch", "tanh.vjp", "tanh.vjp.jvp", "split", "concat"]
)
def test_operators_of_all_kinds_are_described(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, name).startswith(f"{name}(")


def test_slots_that_hold_many_or_nothing_are_marked() -> None:
    assert signature(OPS.get("concat")).startswith("concat(xs…")


def test_json_has_every_definition(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "--json"))
    assert [one["type"] for one in found] == sorted(OPS.definitions)
    one = json.loads(said(capsys, "softmax", "--json"))
    assert one["attributes"] == [
        {"name": "axis", "kind": "Axis", "required": False, "default": "-1"}
    ]
    assert one in found


def test_an_unknown_name_ends_with_1_and_names_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops", "sofmax"]) == 1
    assert "Did you mean `softmax`" in capsys.readouterr().err


# ---- layers and functions --------------------------------------------------------------------


def test_every_layer_is_described_with_its_operators() -> None:
    assert LAYERS.keys() == public_layers().keys()
    for name, build in LAYERS.items():
        with br.Program() as program:
            build()
        appended = {op.type for op in program.definition.main.ops}
        found = find_function(name)
        assert found is not None
        told = set() if name in LINES or "block" in appended else appended
        assert {*found.made_of} == told - {"next_random_state", "tanh", "relu"}, name
        assert found.doc == inspect.getdoc(public_layers()[name])


def test_a_layer_is_found_by_its_plain_name(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "fc")
    assert text.startswith("br.fc(x")
    assert "A fully connected layer." in text
    assert "appends `matmul` and `add`" in text
    assert json.loads(said(capsys, "fc", "--json"))["made_of"] == ["matmul", "add"]


@pytest.mark.parametrize("name", ["conv2d", "full", "dropout"])
def test_an_operator_says_that_a_function_written_by_hand_has_its_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"`braces ops br.{name}`" in said(capsys, name)
    assert said(capsys, f"br.{name}").startswith(f"br.{name}(")
    assert "br." not in said(capsys, "softmax")


def test_internal_operators_are_listed_with_a_mark(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {line.split()[0]: line.split()[1] for line in said(capsys).splitlines()[:-2]}
    marked = {name for name, mark in lines.items() if mark == "·"}
    assert {"getitem", "window_add", "loop", "random_normal"} <= marked
    assert not marked & {"softmax", "conv2d", "arccos", "full", "dropout"}
    assert "Not a function of `br`" in said(capsys, "getitem")
    assert json.loads(said(capsys, "getitem", "--json"))["function"] is None
    assert json.loads(said(capsys, "arccos", "--json"))["function"] == "br.acos"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("create_rnn", "br.create_rnn("),
        ("br.prune", "br.prune("),
        ("random.normal", "br.random.normal("),
        ("glorot_uniform", "br.init.glorot_uniform("),
        ("Executor", "br.Executor("),
    ],
)
def test_public_functions_are_described_too(
    name: str, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, name).startswith(start)


@pytest.mark.parametrize("name", ["__name__", "layers", "layers.Any", "layers._conv", "fcc"])
def test_private_names_are_not_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", name]) == 1
    assert f"unknown operator `{name}`" in capsys.readouterr().err
