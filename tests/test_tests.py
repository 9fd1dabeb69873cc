"""Tests look where they say: none ends before it compared something, or only if it feels so."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.comparing import TALLY, differences, near
from tests.sharing import SHARES, left_out

ROOT = Path(__file__).parent
CHECKS = ("assert", "check", "raises", "refus", "warns", "fail", "expect", "same", "hold")
"""How functions begin that compare: those of pytest, NumPy and this folder."""
APART = (ast.FunctionDef, ast.Lambda, ast.ClassDef)


def in_module(tree: ast.AST) -> list[ast.FunctionDef]:
    """The tests in a module, or in a class of it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [function for function in functions if function.name.startswith("test_")]


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement consists of, less what functions in it would do if they were called."""
    if not isinstance(node, APART):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from inside(child)


def compares(node: ast.AST) -> bool:
    """Whether this is an assertion, or the call of something that makes one."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name.startswith(CHECKS)


def any_compares(statements: Sequence[ast.AST]) -> bool:
    """Whether there is a comparison in these statements, wherever it stands."""
    return any(map(compares, (node for one in statements for node in inside(one))))


def surely_compares(statements: Sequence[ast.stmt]) -> bool:
    """Whether these statements compare something whichever way a condition goes."""
    return any(map(_surely, statements))


def _surely(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return surely_compares(statement.body) and surely_compares(statement.orelse)
    if isinstance(statement, ast.With):
        return any_compares(statement.items) or surely_compares(statement.body)
    if isinstance(statement, ast.For | ast.While):
        return surely_compares(statement.body)
    return any_compares([statement])


def ends_early(test: ast.FunctionDef) -> bool:
    """Whether a test returns somewhere: what comes after it may never be looked at."""
    return any(isinstance(node, ast.Return) for one in test.body for node in inside(one))


def looks_away(test: ast.FunctionDef) -> bool:
    """Whether all comparisons of a test stand under a condition, with none if it is false."""
    return any_compares(test.body) and not surely_compares(test.body)


def found(rule: Callable[[ast.FunctionDef], bool]) -> list[str]:
    """The tests of the whole suite that a rule finds."""
    return [
        f"{path.relative_to(ROOT)}:{test.lineno} {test.name}"
        for path in sorted(ROOT.rglob("test_*.py"))
        for test in in_module(ast.parse(path.read_text(encoding="utf-8")))
        if rule(test)
    ]


def test_no_test_returns_before_its_end() -> None:
    assert found(ends_early) == []


def test_no_test_compares_only_under_a_condition() -> None:
    assert found(looks_away) == []


def defines(tree: ast.Module) -> list[str]:
    """The operators that are defined where a module is imported, for all tests after it."""
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(one).startswith(("op", "br.op")) for one in node.decorator_list)
    ]


def test_operators_of_a_test_end_with_it() -> None:
    modules = {path: ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    assert {path.name: defines(tree) for path, tree in modules.items() if defines(tree)} == {}
    assert defines(ast.parse("@br.op(axes='...')\ndef f(x): ...")) == ["f"]


def test_the_rules_see_the_whole_suite() -> None:
    assert len(found(lambda test: any_compares(test.body))) > 1000


EARLY = "def test_x(case):\n    if not case:\n        return\n    assert case"
ONLY_IF = (
    "def test_x(cases):\n    for case in cases:\n        if case:\n            assert case"
)
ONLY_IF_RAISES = "def test_x(x):\n    if x:\n        with pytest.raises(E):\n            f()"
EITHER = "def test_x(x):\n    if x:\n        assert x\n    else:\n        check(x)"
INNER = "def test_x():\n    def inner():\n        return 1\n    assert inner()"


@pytest.mark.parametrize(
    ("code", "early", "away"),
    [
        (EARLY, True, False),
        (ONLY_IF, False, True),
        (ONLY_IF_RAISES, False, True),
        (EITHER, False, False),
        (INNER, False, False),
    ],
)
def test_the_rules_find_what_they_are_for(code: str, early: bool, away: bool) -> None:
    (test,) = in_module(ast.parse(code))
    assert (ends_early(test), looks_away(test)) == (early, away)


def test_what_is_compared_is_counted() -> None:
    before = (TALLY.comparisons, TALLY.values)
    np.testing.assert_array_equal(np.ones((2, 3)), 1)
    assert np.allclose(1.0, [1.0, 1.0])
    near([1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0]), 0.0, "numbers")
    assert (TALLY.comparisons, TALLY.values) == (before[0] + 3, before[1] + 11)


@pytest.mark.parametrize("found", [1.1, np.nan, [1.0, 1.1]])
def test_what_is_not_near_is_told(found: Any) -> None:
    with pytest.raises(AssertionError, match="numbers"):
        near(found, np.ones(1), 1e-3, "numbers")


def test_differences_are_taken_along_every_number() -> None:
    def powers(given: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": np.sum(given["x"] ** 3) * given["c"], "other": 0.0}

    values = {"x": np.array([[1.0, 2.0], [3.0, 4.0]]), "c": 2.0}
    found = differences(powers, values, "x", ["y", "missing"])
    near(found["y"], 6 * values["x"] ** 2, 1e-9, "slopes")
    assert found.keys() == {"y", "missing"}
    assert not found["missing"].any()


# ---- what `make check` leaves to `make thorough` ---------------------------------------------


def named(*names: str) -> list[Any]:
    """What stands in for collected cases."""
    return [SimpleNamespace(nodeid=name, callspec=SimpleNamespace(params={})) for name in names]


def test_shares_are_of_tests() -> None:
    for file, shares in SHARES.items():
        found = {test.name for test in in_module(ast.parse((ROOT / file).read_text()))}
        assert shares.keys() <= found, file
        assert 1 not in shares.values()


def test_a_share_has_all_cases_of_an_operator_or_none() -> None:
    test = "tests/ops/test_contract.py::test_gradients"
    cases = named(*(f"{test}[op{i}(x=f32[{n}])]" for i in range(41) for n in (2, 3)))
    kept = {case.nodeid for case in cases} - {case.nodeid for case in left_out(test, cases)}
    assert len(kept) == 2 * math.ceil(41 / SHARES["ops/test_contract.py"]["test_gradients"])
    assert {name.replace("[2]", "[3]") for name in kept} <= kept
    only = named(f"{test}[abs(x=f32[2])]")
    assert left_out(test, only) == []


def test_modes_take_turns_where_operators_are_composed() -> None:
    for folder, left in (("frontend", 10), ("runtime", 0)):
        test, cases = f"tests/{folder}/test_a.py::test_b", list[Any]()
        for i, mode in itertools.product(range(10), ("compile", "interpret")):
            cases.append(SimpleNamespace(nodeid=f"{test}[{mode}-{i}]"))
            cases[-1].callspec = SimpleNamespace(params={"mode": mode, "i": i})
        assert len(left_out(test, cases)) == left
