"""XLA optimises the programs of tests, except for marked tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jax._src import compiler

import braces as br
from braces.lower.compiler_options import compiler_options
from braces.lower.interpret import kernels as single
from braces.target import CPU
from tests.plugins.xla_optimization import optimize


def told_to_xla() -> dict[str, object]:
    """The options that XLA is given besides its own defaults."""
    return dict(compiler.get_compile_options(1, 1).env_option_overrides)


def kernels() -> int:
    """Return the number of cached kernels."""
    return single._kernel.cache_info().currsize


@pytest.mark.unoptimized
def test_a_marked_test_has_plain_code() -> None:
    assert told_to_xla()["xla_backend_optimization_level"] == 0


def test_plain_code_does_not_outlive_its_test() -> None:
    with br.Program() as prog:
        out = br.tanh(br.data("x", [3]) * 2.0)
    feed = {"x": np.ones(3, "float32")}
    optimize(False)
    try:
        br.Executor(mode="interpret").run(prog, br.Scope(), feed=feed, fetch=out)
        assert kernels() > 0
    finally:
        optimize(True)
    assert told_to_xla() == {}
    assert kernels() == 0


@pytest.mark.parametrize(
    ("numbers", "told"),
    [(CPU.small, compiler_options(CPU.quickly)), (CPU.small + 1, compiler_options())],
)
def test_only_large_kernels_are_optimised_to_be_interpreted(
    numbers: int, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, options = list[Any](), compiler.get_compile_options

    def noting(*given: Any, **more: Any) -> Any:
        found.append(more.get("env_options_overrides"))
        return options(*given, **more)

    monkeypatch.setattr(compiler, "get_compile_options", noting)
    with br.Program() as prog:
        out = br.tanh(br.data("x", ["n"]))
    exe = br.Executor(mode="interpret")
    exe.clear()
    exe.run(prog, br.Scope(), feed={"x": np.ones(numbers, "float32")}, fetch=out)
    assert found == [told]
