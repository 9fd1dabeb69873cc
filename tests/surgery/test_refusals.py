"""Messages for wrong arguments: the call, the argument, the value and the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.surgery.programs import branches, nested_loops

PROG, BRANCHES = nested_loops(), branches()
SMALL = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) return y }")
INNER = "loop_1/body/loop_0/body"
CALLS: list[tuple[Callable[[Any], Any], str, str]] = [
    (
        lambda p: p.remove("mean_1", by=3, exact=True),
        "expected an operand for `by`, got 3",
        'by="x"',
    ),
    (
        lambda p: p.splice(p, inputs=["v"], name="s"),
        "expected a mapping of strings for `inputs`, got ['v']",
        'Pass inputs={"x": "encoder/h"}.',
    ),
    (
        lambda p: p.splice(p, name="s", outputs=["v"]),
        "expected a mapping of strings for `outputs`, got ['v']",
        'Pass outputs={"y": "loop_0/body/act"}.',
    ),
    (
        lambda p: br.cut(p, at=[3]),
        "expected a variable or its name for `at`, got 3",
        "at=['h']",
    ),
    (lambda p: br.cut(3, at=["h"]), "expected a program for `program`, got 3", ""),
    (lambda p: p.probe(3), "expected a path or a handle, got 3", ""),
    (
        lambda p: p.probe(f"{INNER}/act", gradient=3),
        "expected a variable or its name for `gradient`, got 3",
        "",
    ),
    (lambda p: p.debug(feed=3), "expected a mapping for `feed`, got 3", 'feed={"x": array}'),
    (lambda p: p.insert_before("sum_0", br.relu, operand=3), "invalid argument operand=3", ""),
    (lambda p: br.pattern(where=3), "expected a function for `where`, got 3", ""),
    (
        lambda p: SMALL.patch({"y": lambda: 1}),
        "the patch does not take 1 argument: too many positional arguments",
        "",
    ),
    (lambda p: p.find(where=lambda: 1), "`where` does not take 1 argument", ""),
    (lambda p: p.rename({"absent": "b"}), "unknown operator, variable or block `absent`", ""),
    (lambda p: p.edit().rename({"x": "b"}), "the transaction is not open", "with prog.edit()"),
    (
        lambda p: br.cut(p, at=["x"]),
        "cannot cut at `x`: expected a computed value, got data",
        "",
    ),
    (lambda p: br.prune(p, [3]), "expected a variable or its name for a result, got 3", ""),
    (lambda p: p["absent"], "unknown operator, variable or block `absent`", ""),
    (
        lambda p: p.rewrite(int, br.exp),
        "the parameters of <class 'int'> are unknown",
        "lambda x",
    ),
]


@pytest.mark.parametrize(("call", "what", "fix"), CALLS)
def test_the_problem_the_call_and_the_fix_are_stated(
    call: Callable[[Any], Any], what: str, fix: str
) -> None:
    before = str(PROG)
    with pytest.raises(br.BracesError) as caught:
        call(PROG)
    assert what in caught.value.what
    assert fix in (caught.value.fix or "")
    assert caught.value.at
    assert str(PROG) == before


def test_the_call_has_the_line_of_the_user() -> None:
    with pytest.raises(br.UnknownNameError) as caught:
        PROG.freeze("absent")
    assert str(caught.value.at).startswith("freeze, at ")
    assert Path(__file__).name in str(caught.value.at)


def test_selections_refuse_other_operands_and_indices() -> None:
    found = PROG.find(type="tanh")
    for use in (lambda: found | [1], lambda: found & 3, lambda: found - None):
        with pytest.raises(br.ProgramError, match="expected a selection as the operand"):
            use()
    assert found | PROG["x"] == PROG.find() & [] | [PROG["x"], *found]
    with pytest.raises(IndexError, match=r"index 99 is out of range for \d handles?") as caught:
        found[99]
    assert isinstance(caught.value, br.BracesError)
    with pytest.raises(br.ProgramError, match="expected an integer or a slice, got 'x'"):
        found["x"]  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize(
    ("prog", "path", "what", "values"),
    [
        (PROG, "loop_1", "an operator (loop)", ["loop_1.final", "loop_1/body/add_2"]),
        (PROG, "loop_1/body", "a block", ["loop_1/body/memory_0", "loop_1/body/add_2"]),
        (PROG, INNER, "a block", [f"{INNER}/act"]),
        (PROG, "encoder/body", "a block", ["encoder/body/encoder/q"]),
        (
            BRANCHES, "loop_0/body/partition_0/cases[1]", "a block",
            ["loop_0/body/partition_0/cases[1]/warm"],
        ),
    ],
)  # fmt: skip
def test_a_block_or_an_operator_is_no_value_and_its_values_are_listed(
    prog: br.Program, path: str, what: str, values: list[str]
) -> None:
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(prog, scope)
    feed = {name: np.ones((2, 2, 4), "float32") for name in prog.feeds}
    for use in (
        lambda: exe.run(prog, scope, feed, fetch=path),
        lambda: exe.run(prog, scope, feed, patch={path: 0.0}),
        lambda: prog.probe(path),
        lambda: prog.patch({path: 0.0}),
    ):
        with pytest.raises(br.UnknownNameError) as caught:
            use()
        assert caught.value.what == f"`{path}` is {what}, not a value."
        assert all(value in str(caught.value.given) for value in values)
        assert "Pass the path of one of them, as '" in str(caught.value.fix)
    if what == "a block":
        with pytest.raises(br.UnknownNameError, match="is a block, not a value"):
            br.cut(prog, at=[path])
        with pytest.raises(br.UnknownNameError, match="is a block, not a value"):
            prog.find(reads=path)


def test_a_missing_file_is_refused_as_by_importers() -> None:
    for read in (
        lambda: br.compare_values(SMALL, "absent.onnx", feed={"x": np.ones(3)}),
        lambda: br.from_onnx("absent.onnx"),
    ):
        with pytest.raises(FileNotFoundError, match=r"absent\.onnx"):
            read()
