"""Searches for variables with gradients, in a program that grows."""

from __future__ import annotations

import pytest

import braces as br
from braces.extend.programs import Op, VarInfo
from braces.passes.autodiff import common
from braces.passes.autodiff.common import DifferentiablePaths, is_differentiable_path


def test_each_operator_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visited = list[str]()
    search = common.reachable_through

    def counted(ops: list[Op], infos: dict[str, VarInfo], wanted: set[str]) -> set[str]:
        visited.extend(op.name for op in ops)
        return search(ops, infos, wanted)

    monkeypatch.setattr(common, "reachable_through", counted)
    prog, paths = br.Program(), DifferentiablePaths()
    with prog:
        x = y = br.data("x", [3])
        for _ in range(20):
            y = br.sin(y) * x
            assert paths.reach(prog.table, y.name)
    assert len(visited) == len(set(visited)) == 40


def test_results_are_those_of_separate_searches() -> None:
    prog, paths = br.Program(), DifferentiablePaths()
    with prog:
        x, w = br.data("x", [3]), br.parameter("w", [3])
        made = [x, w, br.sign(x), br.sin(br.sign(w)), br.sign(x) + w]
        with br.block("part"):
            made += [br.cos(x), br.cos(br.sign(x))]
        made += [made[-2] * 2.0, made[-1] * 2.0, br.stop_gradient(x)]
        found = {var.name: paths.reach(prog.table, var.name) for var in made}
    assert found == {var.name: is_differentiable_path(prog.table, var.name) for var in made}
    assert list(found.values()) == [
        True, True, False, False, True, True, False, True, False, False,
    ]  # fmt: skip


def test_a_rollback_removes_results() -> None:
    prog, paths = br.Program(), DifferentiablePaths()
    with prog:
        x = br.data("x", [3])
        mark = prog.table.mark()
        first = br.sin(x)
        assert paths.reach(prog.table, first.name)
        prog.table.rewind(mark)
        again = br.sign(x, name=first.name)
        assert again.name == first.name
        assert not paths.reach(prog.table, again.name)
