"""Tests that `make check` runs in part, and `make thorough` in full."""

from __future__ import annotations

import itertools
import math
import tomllib
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SHARES: dict[str, dict[str, int]] = tomllib.loads((ROOT / "shares.toml").read_text())
"""Of how many groups of cases one is run, by file and test; 0 for none."""
BY_TURNS = ("control", "exchange", "fitting", "frontend", "jaxpr", "passes", "surgery")
"""Folders whose tests run in one mode each: `ops/contract`, `control/battery` and
`random_programs` hold the modes of operators and constructs against each other."""


def name_in_room(nodeid: str) -> str:
    """The name of a test without the folders between its room and its file.

    Shares and random numbers follow from it, so they stay as they are when a file moves inside
    its room: `tests/ops/linalg/test_solve.py::test_a` and `tests/ops/test_solve.py::test_a` are
    one name.
    """
    path, colons, test = nodeid.partition("::")
    parts = path.split("/")
    kept = (*parts[:2], parts[-1]) if parts[0] == "tests" and len(parts) > 3 else parts
    return "/".join(kept) + colons + test


def thorough(given: Any) -> Any:
    """Parameters that `make thorough` alone runs."""
    values = given if isinstance(given, tuple) else (given,)
    return pytest.param(*values, marks=pytest.mark.thorough)


def share_out(items: Iterable[pytest.Item]) -> None:
    """Mark what `make thorough` alone runs."""
    rest = [item for item in items if item.get_closest_marker("thorough") is None]
    for test, cases in itertools.groupby(rest, lambda item: item.nodeid.partition("[")[0]):
        for item in left_out(test, list(cases)):
            item.add_marker(pytest.mark.thorough)


def left_out(test: str, cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases of a test that `make check` does not run."""
    file, _, name = test.removeprefix("tests/").partition("::")
    share = SHARES.get(file, {}).get(name)
    if share is not None:
        return _behind(cases, [_group(case) for case in cases], share)
    if file.partition("/")[0] not in BY_TURNS:
        return []
    return [case for case in cases if not _has_its_turn(case)]


def _behind(
    cases: Sequence[pytest.Item], groups: Sequence[str], share: int
) -> list[pytest.Item]:
    order = sorted({*groups}, key=_number)
    kept = order[: math.ceil(len(order) / share)] if share else []
    return [case for case, group in zip(cases, groups, strict=True) if group not in kept]


def _group(case: pytest.Item) -> str:
    """The test and its parameters, less those in parentheses: `abs(x=f32[b])` is of `abs`."""
    return name_in_room(case.nodeid).partition("(")[0]


def _has_its_turn(case: pytest.Item) -> bool:
    """Return whether a case is in the mode whose turn it is, as its other parameters say."""
    params = getattr(getattr(case, "callspec", None), "params", {})
    if "mode" not in params:
        return True
    name = name_in_room(case.nodeid).replace(params["mode"], "mode")
    turn = ("compile", "interpret")[_number(name) % 2]
    return params["mode"] == turn


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
