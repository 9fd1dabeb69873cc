"""Errors in functions of users: the class stays, and function and place are named."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

TEXT = """program {
  data x: f32[3]
  y: f32[3] = tanh(x=x)
  z: f32[3] = exp(x=y)
  return z
}"""


class OwnError(Exception):
    """An error of a user."""


def fails(*_: Any, **__: Any) -> Any:
    raise OwnError("own text")


def refuses(x: Any, *_: Any, **__: Any) -> Any:
    del x
    raise br.ProgramError("own text")


LINES = {f: inspect.getsourcelines(f)[1] for f in (fails, refuses)}


def unary(function: Any) -> Any:
    def unary_function(x: Any) -> Any:
        return function(x)

    LINES[unary_function] = unary_function.__code__.co_firstlineno
    return unary_function


def tanh_pattern(x: Any) -> Any:
    return br.tanh(x)


def as_rule(function: Any) -> Any:
    def rule(op: Any, place: Any) -> Any:
        del place
        return function(op)

    return rule


KINDS: dict[str, tuple[Callable[[br.Program, Any], Any], str]] = {
    "where of find": (lambda p, f: p.find(where=f), "`where` of find, at `y`"),
    "pattern": (lambda p, f: p.rewrite(f, br.exp), "the pattern"),
    "condition of a pattern": (
        lambda p, f: p.rewrite(br.pattern(tanh_pattern, where=f), br.exp),
        "the condition of the pattern `tanh_pattern`, at `y`",
    ),
    "replacement": (lambda p, f: p.rewrite(tanh_pattern, f), "match 1 of `tanh_pattern`"),
    "rule": (lambda p, f: p.rewrite(as_rule(f)), "`y`"),
    "insert_after": (lambda p, f: p.insert_after("y", f), "insert_after `y`"),
    "insert_before": (lambda p, f: p.insert_before("z", f), "insert_before `z`"),
    "replace": (lambda p, f: p.replace("y", f), "replace `y`"),
    "patch": (lambda p, f: p.patch({"y": f}), "the patch of `y`"),
    "patch of a run": (
        lambda p, f: br.Executor().run(p, br.Scope(), {"x": np.ones(3)}, patch={"y": f}),
        "the patch of `y`",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_function_keeps_its_class_and_names_function_and_place(kind: str) -> None:
    call, place = KINDS[kind]
    prog = br.parse(TEXT)
    function = unary(fails)
    with pytest.raises(OwnError, match="own text") as caught:
        call(prog, function)
    (note,) = caught.value.__notes__
    assert f"called for {place}" in note
    check_function(note, kind, function)
    assert str(prog) == str(br.parse(TEXT))


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_braces_in_a_function_is_located(kind: str) -> None:
    call, place = KINDS[kind]
    function = unary(refuses)
    with pytest.raises(br.ProgramError, match="own text") as caught:
        call(br.parse(TEXT), function)
    message = str(caught.value)
    assert place in message
    check_function(message, kind, function)


def check_function(text: str, kind: str, function: Any) -> None:
    """The text has the name of the function, and its file and line."""
    name = "rule" if kind == "rule" else "unary_function"
    file = re.escape(Path(__file__).name)
    found = re.search(rf"`{name}` \(.*{file}:(\d+)\)", text)
    assert found is not None, text
    assert kind == "rule" or int(found[1]) == LINES[function]


def test_a_function_of_another_system_that_fails_is_named() -> None:
    with pytest.raises(OwnError) as caught:
        br.compare_values(br.parse(TEXT), fails, feed={"x": np.ones(3, "float32")})
    note = caught.value.__notes__[-1]
    assert "called for the run of `b`" in note
    assert f"{Path(__file__).name}:{LINES[fails]}" in note


def test_a_function_of_the_package_is_named_without_a_line() -> None:
    with pytest.raises(br.BracesError) as caught:
        br.parse(TEXT).insert_after("y", br.linalg.cholesky)
    assert str(caught.value.at).startswith("insert_after `y`, in `cholesky`:")


@pytest.mark.parametrize(
    ("removed", "reason"),
    [
        ("tanh", "the rule removed `loop_0/body/h` (tanh), but `loop_0/body/k` (exp) reads it"),
        ("exp", "(exp), but it is a result of the block `loop_0/body`"),
        ("negative", "the rule removed `y` (negative), but it is a result of the program"),
    ],
)
def test_a_rule_that_removes_an_operator_that_is_read_is_refused_with_both(
    removed: str, reason: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])

        def step(h: Any, row: Any) -> Any:
            k = br.exp(br.tanh(h + row, name="h"), name="k")
            return k, k

        final, _ = br.scan(step, x[0], x)
        prog.give(br.negative(final, name="y").name)
    before = str(prog)

    def remover(op: Any, place: Any) -> Any:
        del place
        return None if op.type == removed else op

    with pytest.raises(br.ProgramError) as caught:
        prog.rewrite(remover)
    assert reason in caught.value.what
    line = f"{Path(__file__).name}:{remover.__code__.co_firstlineno}"
    assert "`remover`" in str(caught.value.at)
    assert line in str(caught.value.at)
    assert str(prog) == before


def test_a_rule_may_remove_an_operator_together_with_its_readers() -> None:
    def drop(op: Any) -> Any:
        return None if op.type in ("tanh", "exp") else op

    text = TEXT.replace("return z", "w: f32[3] = sin(x=x)\n  return w")
    new = br.parse(text).rewrite(as_rule(drop))
    assert [op.type for op in new.block(0).ops] == ["sin"]


@pytest.mark.parametrize("kind", [*KINDS][3:])
@pytest.mark.parametrize("result", [3, "another type"])
def test_a_result_of_another_kind_is_refused_with_function_and_place(
    kind: str, result: Any
) -> None:
    def widened(x: Any) -> Any:
        if result == 3:
            return 3
        return br.concat([x if isinstance(x, br.Var) else br.get_variable("x")] * 2, axis=0)

    call, _ = KINDS[kind]
    with pytest.raises(br.BracesError) as caught:
        call(br.parse(TEXT), unary(widened))
    check_function(str(caught.value.at), kind, list(LINES)[-1])
