"""`braces ops`."""

from __future__ import annotations

import json

import pytest

from braces.cli.main import main
from braces.cli.ops import signature
from braces.ops.define import OPS


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["ops", *arguments]) == 0
    return capsys.readouterr().out


def test_every_operator_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    names = [line.split()[0] for line in said(capsys).splitlines()[:-2]]
    assert names == sorted(OPS.definitions)


def test_one_operator_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "softmax")
    assert text.startswith("softmax(x, *, axis: int = -1) -> out\n")
    assert OPS.get("softmax").doc in text
    assert "softmax x=f32[2,3]" in text
    assert "gradient: a kernel" in text


@pytest.mark.parametrize(
    "name", ["loop", "switch", "tanh.vjp", "tanh.vjp.jvp", "split", "concat"]
)
def test_operators_of_all_kinds_are_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, name).startswith(f"{name}(")


def test_slots_that_hold_many_or_nothing_are_marked() -> None:
    assert signature(OPS.get("concat")).startswith("concat(xs…")


def test_json_has_every_definition(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "--json"))
    assert [one["type"] for one in found] == sorted(OPS.definitions)
    one = json.loads(said(capsys, "softmax", "--json"))
    assert one["attributes"] == [
        {"name": "axis", "kind": "int", "required": False, "default": "-1"}
    ]
    assert one in found


def test_an_unknown_name_ends_with_1_and_names_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops", "sofmax"]) == 1
    assert "Did you mean `softmax`" in capsys.readouterr().err
