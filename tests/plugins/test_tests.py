"""Checks of the tests: each compares something, on every path."""

from __future__ import annotations

import ast
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.plugins.shares import SHARES, left_out, name_in_room
from tests.support.comparison import TALLY, near

ROOT = Path(__file__).parents[1]
CHECKS = ("assert", "check", "raises", "refus", "warns", "fail", "expect", "same", "hold")
"""How functions begin that compare: those of pytest, NumPy and this folder."""
APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax trees of all modules of the suite."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


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
    """Return whether this is an assertion, or the call of something that makes one."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name.startswith(CHECKS)


def any_compares(statements: Sequence[ast.AST]) -> bool:
    """Return whether there is a comparison in these statements, wherever it stands."""
    return any(map(compares, (node for one in statements for node in inside(one))))


def surely_compares(statements: Sequence[ast.stmt]) -> bool:
    """Return whether these statements compare something whichever way a condition goes."""
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
    """Return whether a test returns somewhere: what comes after it may never be looked at."""
    return any(isinstance(node, ast.Return) for one in test.body for node in inside(one))


def looks_away(test: ast.FunctionDef) -> bool:
    """Return whether all comparisons of a test are conditional."""
    return any_compares(test.body) and not surely_compares(test.body)


def found(rule: Callable[[ast.FunctionDef], bool]) -> list[str]:
    """The tests of the whole suite that a rule finds."""
    return [
        f"{path.relative_to(ROOT)}:{test.lineno} {test.name}"
        for path, tree in trees().items()
        if path.name.startswith("test_")
        for test in in_module(tree)
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
    assert {path: defines(tree) for path, tree in trees().items() if defines(tree)} == {}
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


# ---- the order of tests ----------------------------------------------------------------------

SETS = ("set", "frozenset")
ORDERED = ("sorted", "min", "max", "len", "sum", "any", "all")
"""Functions whose results do not depend on the order of what they are given."""


PARAMETRIZED = ("parametrize", "fixture")


def unordered(node: ast.AST, names: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression iterates over a set, whose order is that of hashes.

    Args:
        node: The expression.
        names: Names that stand for sets.
    """
    if isinstance(node, ast.Compare):
        return False
    if isinstance(node, ast.Call):
        called = getattr(node.func, "id", "")
        if called in SETS or called in ORDERED:
            return called in SETS
    keys = isinstance(node, ast.BinOp) and any(map(_is_key_view, ast.walk(node)))
    named = isinstance(node, ast.Name) and node.id in names
    if keys or named or isinstance(node, ast.Set | ast.SetComp):
        return True
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.List | ast.Tuple | ast.Dict):  # a set may be an element
        children = (child for child in children if not isinstance(child, ast.Set))
    return any(unordered(child, names) for child in children)


def _is_key_view(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "keys"


def assigned_names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def in_hash_order(tree: ast.Module) -> list[str]:
    """The parameters of tests and fixtures that come from sets."""
    assigned = [one for one in tree.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    targets = [one for one in assigned if one.value is not None and unordered(one.value)]
    names = frozenset(name for one in targets for name in assigned_names(one))
    given = [
        argument.value if isinstance(argument, ast.keyword) else argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in PARAMETRIZED
        for argument in (*node.args[-1:], *(k for k in node.keywords if k.arg == "params"))
    ]
    return [ast.unparse(one) for one in given if unordered(one, names)]


def test_no_test_takes_its_parameters_in_the_order_of_a_set() -> None:
    wrong = {path: in_hash_order(tree) for path, tree in trees().items()}
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("{1, 2}", True),
        ("set(CASES)", True),
        ("CASES.keys() - {1}", True),
        ("[*map(str, CASES.keys() - {1})]", True),
        ("NAMES", True),
        ("sorted({1, 2})", False),
        ("sorted(NAMES)", False),
        ("[{'a': 1}, {}, {1}]", False),
        ("[*{1, 2}]", True),
        ("CASES.keys()", False),
        ("[name for name in CASES if name not in {1, 2}]", False),
    ],
)
def test_the_rule_of_order_finds_sets(code: str, wrong: bool) -> None:
    text = f"NAMES = {{1, 2}}\n@pytest.mark.parametrize('x', {code})\ndef test_x(x): assert x"
    assert bool(in_hash_order(ast.parse(text))) == wrong


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_tests_are_collected_in_the_same_order_by_every_process() -> None:
    collecting = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-p"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    processes = [
        subprocess.Popen(
            [*collecting, "no:cacheprovider"],
            cwd=ROOT.parent,
            env=environment | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = [process.communicate()[0].splitlines() for process in processes]
    collected = [[line for line in found if "::" in line] for found in (first, second)]
    assert len(collected[0]) > 10_000
    assert collected[0] == collected[1]


# ---- what `make check` leaves to `make thorough` ---------------------------------------------


def named(*names: str) -> list[Any]:
    """A stand-in for collected cases."""
    return [SimpleNamespace(nodeid=name, callspec=SimpleNamespace(params={})) for name in names]


def test_shares_are_of_tests() -> None:
    for file, shares in SHARES.items():
        found = {test.name for test in in_module(ast.parse((ROOT / file).read_text()))}
        assert shares.keys() <= found, file
        assert 1 not in shares.values()


def test_a_share_has_all_cases_of_an_operator_or_none() -> None:
    test = "tests/ops/contract/test_contract.py::test_gradients"
    cases = named(*(f"{test}[op{i}(x=f32[{n}])]" for i in range(41) for n in (2, 3)))
    kept = {case.nodeid for case in cases} - {case.nodeid for case in left_out(test, cases)}
    share = SHARES["ops/contract/test_contract.py"]["test_gradients"]
    assert len(kept) == 2 * math.ceil(41 / share)
    assert {name.replace("[2]", "[3]") for name in kept} <= kept
    only = named(f"{test}[abs(x=f32[2])]")
    assert left_out(test, only) == []


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/ops/linalg/test_a.py::test_b[x=f32]", "tests/ops/test_a.py::test_b[x=f32]"),
        ("tests/ops/test_a.py::test_b[c/d]", "tests/ops/test_a.py::test_b[c/d]"),
        ("tests/test_a.py::test_b", "tests/test_a.py::test_b"),
        ("src/braces/ops/linalg/solve.py::solve", "src/braces/ops/linalg/solve.py::solve"),
    ],
)
def test_a_file_may_move_in_its_room(nodeid: str, name: str) -> None:
    assert name_in_room(nodeid) == name


def test_modes_take_turns_where_operators_are_composed() -> None:
    for folder, left in (("frontend", 10), ("runtime", 0)):
        test, cases = f"tests/{folder}/test_a.py::test_b", list[Any]()
        for i, mode in itertools.product(range(10), ("compile", "interpret")):
            cases.append(SimpleNamespace(nodeid=f"{test}[{mode}-{i}]"))
            cases[-1].callspec = SimpleNamespace(params={"mode": mode, "i": i})
        assert len(left_out(test, cases)) == left


# ---- imports ---------------------------------------------------------------------------------

PUBLIC = {"errors", "extend", "testing", "cli.main", "dtypes", "lazy", "target"}
"""Modules of the package that all tests may import, besides `braces` itself."""
ROOMS = {
    "control": {"frontend", "ops"},
    "docs": {"dims", "ir", "storage"},
    "frontend": {"builder", "hints", "homes"},
    "ops": {"define"},
    "hints": {"homes"},
    "random_programs": {"passes"},
    "storage": {"ir"},
    "exchange": {"equivalents"},
    "browser": {"viewer"},
    "examples": {"viewer"},
    "passes": {"ir"},
    "planning": {"report"},
    "serving": {"cli"},
    "surgery": {"ir", "viewer"},
}
"""Rooms of the package that tests of a folder are for, besides the room of that name."""
OTHER_ROOMS = 51  # must not rise


def test_tests_use_the_public_surface_of_other_rooms() -> None:
    """Internals of a room are imported by its own tests; a suite of all rooms is exempt."""
    found = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path, tree in trees().items()
        if (room := path.relative_to(ROOT).parts[0]) not in ("plugins", "support")
        and not room.endswith(".py")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("braces.")
        for inner in [(node.module or "").removeprefix("braces.")]
        if inner not in PUBLIC
        and inner.partition(".")[0] not in {room, *ROOMS.get(room, ()), *PUBLIC}
    ]
    assert len(found) <= OTHER_ROOMS, "\n".join(found)
