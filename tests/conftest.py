"""Shared fixtures: both execution modes, reproducible numbers, and the NumPy references."""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import sys
import zlib
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braces.extend.operators import OPS
from tests.plugins import rollback
from tests.plugins.mlir_context import shared_contexts
from tests.plugins.serialization import Noted
from tests.plugins.shares import name_in_room, share_out
from tests.support.comparison import TALLY, count

# What XLA compiled is shared by the processes of a run, and by runs: pytest's cache keeps it.
# JAX reads these when it is imported, and the workers of xdist inherit them.
REPOSITORY = Path(__file__).parent.parent
SHARED_COMPILATIONS = {
    "JAX_COMPILATION_CACHE_DIR": str(REPOSITORY / ".pytest_cache" / "d" / "xla"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
for name, value in SHARED_COMPILATIONS.items():
    os.environ.setdefault(name, value)

XLA_OPTIMIZATION = "tests.plugins.xla_optimization"
STARTED_TESTS = itertools.count(1)
RELEASED_TOGETHER = 4000
"""The number of tests after which a process releases compiled code."""

# Layouts are tested on one processor that JAX takes for eight.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

# What tests and JAX keep lives long, and to look at all of it again for cycles after every few
# hundred objects took a fifteenth of a run. Tests of what is let go collect by themselves.
gc.set_threshold(20_000, 10, 10)

# What passes make of a program for a run is verified, also where the pass is one of ours.
os.environ.setdefault("BRACES_VERIFY_PASSES", "1")
os.environ.setdefault("BRACES_FULL_TRACEBACK", "1")


def pytest_configure() -> None:
    """Count the values that tests compare, separately in each worker of xdist."""
    count()


def is_unoptimized(item: pytest.Item) -> bool:
    """Return whether XLA compiles the programs of a test without optimization."""
    return item.get_closest_marker("unoptimized") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Some cases are left to `make thorough`, before `-m` chooses.

    Files are in two groups by the optimization of their first test: a process that changes it
    forgets all compiled code.
    """
    share_out(items)
    plain = {item.path: is_unoptimized(item) for item in reversed(items)}
    items.sort(key=lambda item: plain[item.path])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells what it counted."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["compared"] = (TALLY.comparisons, TALLY.values)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the counts of a worker; a crashed worker has none."""
    TALLY.add(*getattr(node, "workeroutput", {}).get("compared", (0, 0)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run says how much it compared."""
    terminalreporter.write_line(str(TALLY))


@pytest.fixture
def frozen_heap() -> Generator[None]:
    """Leave the objects of earlier tests out of collections, each of which takes seconds."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=["compile", "interpret"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both modes of the executor."""
    return request.param


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of random numbers, another one for each test and the same on every run."""
    return np.random.default_rng(zlib.crc32(name_in_room(request.node.nodeid).encode()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """XLA compiles as users have it, but for tests that are marked `unoptimized`.

    So do the fixtures of a module, which its first test that takes them makes. Compiled code of
    thousands of tests is released.
    """
    marked = is_unoptimized(item)
    if marked or XLA_OPTIMIZATION in sys.modules:  # else JAX may not be imported yet
        importlib.import_module(XLA_OPTIMIZATION).optimize(not marked)
    if next(STARTED_TESTS) % RELEASED_TOGETHER == 0 and "jax" in sys.modules:
        importlib.import_module(XLA_OPTIMIZATION).forget_compiled_code()


@pytest.fixture(scope="session")
def noted() -> Generator[Noted]:
    """The programs that tests run or save."""
    found = Noted()
    with found.watching():
        yield found


@pytest.fixture(autouse=True)
def programs_survive(noted: Noted) -> Generator[None]:
    """Every program that a test runs or saves survives its text and binary forms."""
    yield
    noted.check()


@pytest.fixture(scope="session", autouse=True)
def programs_come_back() -> Generator[None]:
    """Every program that goes back to a moment is again what it was."""
    with rollback.watching():
        yield


@pytest.fixture(scope="session", autouse=True)
def contexts_are_shared() -> Generator[None]:
    """JAX lowers many programs in one context; without tests of JAX, it is not imported."""
    with shared_contexts() if "jax" in sys.modules else nullcontext():
        yield


def is_of_an_example(definition: object) -> bool:
    """Return whether an operator was defined by an example of a docstring."""
    code = getattr(getattr(definition, "kernel", None), "__code__", None)
    return code is not None and code.co_filename.startswith("<doctest")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, noted: Noted) -> Generator[None]:
    """Operators of a test end with it; its programs are checked while they are there.

    Operators of docstring examples, which outlive them, are absent.
    """
    own = {type: op for type, op in OPS.definitions.items() if not is_of_an_example(op)}
    monkeypatch.setattr(OPS, "definitions", own)
    monkeypatch.setattr(OPS, "derived", dict(OPS.derived))
    yield
    noted.check()
