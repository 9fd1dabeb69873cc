"""Transactions: all edits of programs, and rewritings, verified together."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import braces as br
from tests.surgery.edits.models import ACT, losses, minimized, model, same

pytestmark = pytest.mark.unoptimized
NOT_EDITS = {"adopt", "for_test", "from_bytes", "frozen", "like", "load"}


def squash(x: br.Var) -> br.Var:
    return br.tanh(x)


def twice(x: br.Var) -> br.Var:
    return x * 2.0


def edit_methods() -> list[str]:
    """The methods of programs that return a program like this one."""
    public = [name for name in dir(br.Program) if name[0] != "_" and name not in NOT_EDITS]
    methods = {name: inspect.getattr_static(br.Program, name) for name in public}
    return [
        name
        for name, method in methods.items()
        if inspect.isfunction(method)
        and inspect.signature(method).return_annotation in {"Self", "Program"}
    ]


def test_each_edit_of_programs_is_one_of_transactions() -> None:
    names = edit_methods()
    assert {"rewrite", "replace", "rename", "freeze", "splice"} <= set(names)
    transaction = type(model().edit())
    for name in names:
        ours, theirs = getattr(transaction, name), getattr(br.Program, name)
        parameters = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        assert [str(p) for p in parameters[0].values()] == [
            str(p) for p in parameters[1].values()
        ], name


def test_rewritings_and_edits_are_verified_together(mode: str) -> None:
    prog = model()
    with prog.edit() as e:
        e.rename({ACT: "squashed"}).rewrite(squash, br.relu)
        assert e.report is not None
        paths = e.report.paths
        e.rewrite(br.sigmoid, br.cos).freeze("cell.*")
    assert [path.rpartition("/")[2] for path in paths] == ["proj", "squashed"]
    assert e.program.report is e.report
    assert e.program.report.paths == ("partition_1/cases[1]/warm",)
    assert e.program[prog[ACT]].type == "relu"
    apart = prog.rewrite(squash, br.relu).rewrite(br.sigmoid, br.cos)
    same(losses(e.program, mode), losses(apart, mode))


def test_a_rewriting_may_follow_edits_whose_types_do_not_fit_yet() -> None:
    prog = model()
    with prog.edit() as e:
        e.retype({"cell.b": "f32[3]"}).rewrite(squash, br.relu).retype({"cell.b": "f32[6]"})
    assert e.program[ACT].type == "relu"
    with pytest.raises(br.ShapeError, match="retype `cell"), prog.edit() as e:
        e.retype({"cell.b": "f32[3]"}).rewrite(squash, br.relu)
    assert e.program is prog


def test_steps_are_rewritten_and_edited_together(mode: str) -> None:
    prog = minimized(model())
    with prog.edit() as e:
        e.rewrite(squash, br.relu)
        e.insert_after(ACT, twice).rewrite(br.sigmoid, br.cos)
    again = model().rewrite(squash, br.relu).insert_after(ACT, twice)
    same(losses(e.program, mode), losses(minimized(again.rewrite(br.sigmoid, br.cos)), mode))


def test_an_error_of_a_rewriting_leaves_the_program() -> None:
    prog = model()

    def other_shape(x: br.Var) -> br.Var:
        return br.sum(x, axis=-1)

    with pytest.raises(br.ShapeError), prog.edit() as e:
        e.rename({ACT: "squashed"}).rewrite(squash, other_shape)
    assert e.program is prog
    closed: Any = e
    with pytest.raises(br.ProgramError, match="not open"):
        closed.rewrite(squash, br.relu)
