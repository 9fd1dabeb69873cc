"""Out-of-memory errors name the allocation, and come before anything is donated."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

import braces as br
from braces.lower.checks import out_of_memory as checks
from tests.support.sharded_models import code_of

GPU_MEMORY = {"bytes_limit": 80 << 30, "bytes_in_use": 70 << 30}


def device(memory: dict[str, int] | None) -> Any:
    return Mock(memory_stats=lambda: memory)


def test_the_memory_of_a_reporting_device_is_queried() -> None:
    checks.probe_memory(10 << 30, device(GPU_MEMORY))
    with pytest.raises(br.RunError, match="out of memory") as error:
        checks.probe_memory((10 << 30) + 1, device(GPU_MEMORY))
    assert "10,737,418,241 bytes" in str(error.value)


def test_the_memory_of_a_host_is_probed() -> None:
    checks.probe_memory(1 << 28, device(None))
    with pytest.raises(br.RunError, match="out of memory"):
        checks.probe_memory(1 << 60, device(None))


def test_results_in_donated_buffers_need_no_memory() -> None:
    with br.Program() as prog:
        w = br.state("w", [1000], init=0.0)
        prog.update("w", (w + 1.0).name)
        other = w * 2.0
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    for fetch, least in ({}, 0), ({"other": other}, 4000):
        exe.run(prog, scope, fetch=fetch)
        assert least <= checks.needed_bytes(code_of(exe, prog)) < least + 4000
