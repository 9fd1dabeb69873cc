"""JAX's own tests, as cases.

A case is a test of `unittest` in a checkout of JAX, whose path the user gives in `JAX_TESTS`.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import braces as br
from suites.case import Check, Excluded, Group, Verdict, brief
from suites.jax import replaced

NEEDS = "Needs a checkout of JAX: JAX_TESTS=/path/to/jax make suite-jax."
FILES = {
    "control flow": (1.0, ("lax_control_flow_test",)),
    "lax_numpy": (0.99, ("lax_numpy_test",)),
    "lax_numpy, other files": (
        0.99,
        (
            "lax_numpy_einsum_test", "lax_numpy_indexing_test", "lax_numpy_operators_test",
            "lax_numpy_reducers_test", "lax_numpy_setops_test", "lax_numpy_ufuncs_test",
            "lax_numpy_vectorize_test",
        ),
    ),
    "lax": (0.99, ("lax_test",)),
    "vmap of lax": (0.95, ("lax_vmap_test", "lax_vmap_op_test")),
    "nn": (0.95, ("nn_test",)),
    "autodiff": (0.95, ("lax_autodiff_test",)),
    "remat": (0.95, ("api_test.RematTest", "api_test.Remat3Test")),
    "custom derivatives": (0.95, ("custom_api_test",)),
    "custom_root, custom_linear_solve": (
        0.95, ("custom_root_test", "custom_linear_solve_test")
    ),
}  # fmt: skip
"""Goals, and files of tests or their classes, by group."""


def folder() -> Path | None:
    """Return the folder of the tests, or `None` without a checkout."""
    given = os.environ.get("JAX_TESTS")
    if not given:
        return None
    path = Path(given).resolve()
    return path if (path / "lax_test.py").exists() else path / "tests"


@contextmanager
def replacing() -> Iterator[None]:
    """Replace the functions of JAX that the tests call."""
    with replaced.replaced_functions(str(folder())):
        yield


@cache
def _classes(file: str) -> list[type[unittest.TestCase]]:
    """Return the test classes of a file, or one of them."""
    name, _, only = file.partition(".")
    for path in (str(folder()), str((folder() or Path()).parent)):
        if path not in sys.path:
            sys.path.append(path)
    arguments, sys.argv = sys.argv, sys.argv[:1]
    try:
        with replacing():
            module = importlib.import_module(name)
    finally:
        sys.argv = arguments
    br.Executor().run(br.Program(), br.Scope())  # sets options of JAX, which its tests compare
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, unittest.TestCase)
    ]
    return [c for c in found if c.__module__ == name and only in ("", c.__name__)]


def names(files: tuple[str, ...]) -> Iterator[str]:
    """Yield the tests of some files."""
    if folder() is None:
        return
    loader = unittest.TestLoader()
    for file in files:
        for case in _classes(file):
            stem = file.partition(".")[0]
            yield from (f"{stem}.{case.__name__}.{n}" for n in loader.getTestCaseNames(case))


def run(name: str) -> Iterator[Check]:
    """Run a test on imported programs."""
    file, cls, method = name.split(".")
    (case,) = _classes(f"{file}.{cls}")
    test = partial(case, method)
    for eager in (False, True):
        session = replaced.start(control=False, eager=eager)
        with replacing():
            error = _error(test)
        if error is not None or session.imports:
            break
    else:
        raise Excluded("no function is compiled or differentiated")
    good = {Verdict.EQUAL, Verdict.EXCLUDED}
    if error is None and all(check.verdict in good for check in session.checks):
        yield from session.checks
        return
    _exclude_special(test, eager)
    yield from session.checks
    if error is not None and not _is_explained(session.checks):
        yield Check("assertion", Verdict.DIFFERS, brief(error, 300))


def _is_explained(checks: list[Check]) -> bool:
    """Return whether a check states why the test fails."""
    return any(check.verdict in (Verdict.DIFFERS, Verdict.FAILED) for check in checks)


def _exclude_special(test: Callable[[], unittest.TestCase], eager: bool) -> None:
    """Raise `Excluded` if a test fails by itself, or if it tests how JAX traces functions."""
    error = _error(test)
    if error is not None:
        raise Excluded(f"fails in JAX: {error}")
    replaced.start(control=True, eager=eager)
    with replacing():
        error = _error(test)
    if error is not None:
        raise Excluded(f"tests JAX's tracing, compilation or errors: {error}")


def _error(test: Callable[[], unittest.TestCase]) -> str | None:
    """Return the failure of a test, or `None`."""
    result = unittest.TestResult()
    test().run(result)
    if result.skipped:
        raise Excluded(f"skipped by JAX: {result.skipped[0][1]}")
    if result.expectedFailures:
        raise Excluded("expected to fail in JAX")
    found = [*result.errors, *result.failures]
    if not found:
        return None
    lines = [line for line in found[0][1].strip().splitlines() if line and line[0] not in " -"]
    return next((line for line in lines if "Error" in line or "Exception" in line), lines[-1])


def group(goal: float, files: tuple[str, ...]) -> Group:
    """Return the group of some files."""
    return Group(goal, partial(names, files), run, seconds=240.0, needs=NEEDS)


def _groups() -> dict[str, Any]:
    return {name: group(*value) for name, value in FILES.items()}


GROUPS: dict[str, Group] = _groups()
