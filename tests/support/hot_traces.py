"""Comparison of bundles with the same operators one by one."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import braces as br
from braces.lower.interpret.hot_traces import FusedKernel, FusedRegion
from braces.target import CPU, TARGETS


@contextmanager
def hot_after(runs: int) -> Generator[list[str]]:
    """Operators that ran so often are dispatched together; how, each time that they are."""
    given, run, run_between = list[str](), FusedKernel.run, FusedRegion.run

    def counting(piece: FusedKernel, env: dict[str, Any]) -> bool:
        given.append("alone")
        return run(piece, env)

    def counting_between(block: FusedRegion, env: dict[str, Any], values: Any) -> Any:
        given.append("between")
        return run_between(block, env, values)

    target = mock.patch.dict(TARGETS, cpu=replace(CPU, hot=runs))
    pieces = mock.patch.object(FusedKernel, "run", counting)
    blocks = mock.patch.object(FusedRegion, "run", counting_between)
    with target, pieces, blocks:
        yield given


def _last(prog: br.Program, feed: Mapping[str, Any], fetch: Any, runs: int) -> Any:
    """What the last of some interpreted runs gives, each from the same values."""
    exe = br.Executor(mode="interpret")
    scope = br.Scope()
    exe.init(prog, scope)
    for _ in range(runs):
        found = exe.run(prog, scope.new_scope(), feed=feed, fetch=fetch)
    return found


def check_same_bits(prog: br.Program, feed: Mapping[str, Any], fetch: dict[str, Any]) -> int:
    """Hold what is dispatched together against one by one; how much of it was together."""
    with hot_after(0):
        alone = _last(prog, feed, fetch, 1)
    with hot_after(1) as given:
        together = _last(prog, feed, fetch, 4)
    for name, value in alone.items():
        assert value.dtype == together[name].dtype
        assert value.tobytes() == together[name].tobytes(), name
    return len(given)
