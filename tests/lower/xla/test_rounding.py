"""Compiled runs round each result of 16 bits, as interpreted ones do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jax._src import compiler

import braces as br

CPU = Path("/proc/cpuinfo")
FUSED = {"float16"} if CPU.exists() and "avx512_fp16" in CPU.read_text() else set[str]()
"""The dtypes with products and sums in one instruction, which rounds once."""
NARROW: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def scanned(x: br.Var) -> br.Var:
    """A product in each trip of a loop, widened there."""
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(x)
        net.add_output(br.cast(row * row, "float32"))
    return rnn()


def chosen(x: br.Var) -> br.Var:
    """A product in the rows that a branch takes."""
    branch = br.create_if_else(br.sum(x, axis=1) > 0)
    with branch.true_block() as case:
        row = case.add_input(x)
        case.add_output(br.cast(row * row, "float32"))
    with branch.false_block() as case:
        row = case.add_input(x)
        case.add_output(br.cast(row * 3.3 + row, "float32"))
    return branch()


RESULTS: dict[str, Callable[[br.Var], br.Var]] = {
    "matmul": lambda x: br.matmul(x, br.permute_dims(x)),
    "multiply": lambda x: x * x,
    "several in one loop of XLA": lambda x: x * 3.3 + x * x - 0.7,
    "sum": lambda x: br.sum(x * x, axis=1),
    "mean": lambda x: br.mean(x * 3.3, axis=0),
    "divide": lambda x: 1.1 / (x * x + 1.0),
    "loop": scanned,
    "row-wise branch": chosen,
}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("result", RESULTS)
def test_what_is_cast_to_float32_was_rounded_in_both_modes(result: str, dtype: str) -> None:
    with br.Program() as prog:
        out = br.cast(RESULTS[result](br.data("x", ["b", 16], dtype=dtype)), "float32")
    feed = {"x": np.random.default_rng(0).normal(size=(32, 16)).astype(NARROW[dtype])}
    wide, *others = (
        br.Executor(mode=mode, passes=passes).run(prog, br.Scope(), feed=feed, fetch=out)
        for mode in ("interpret", "compile")
        for passes in (br.passes.default, ())
    )
    assert np.array_equal(wide.astype(NARROW[dtype]).astype(np.float32), wide)
    most = 2**-10 * np.abs(wide).max() if dtype in FUSED else 0.0
    for other in others:
        np.testing.assert_allclose(other, wide, rtol=0.0, atol=most)


def test_rounding_is_part_of_the_options_that_kept_code_is_known_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, options = list[Any](), compiler.get_compile_options

    def noting(*given: Any, **more: Any) -> Any:
        found.append(more["env_options_overrides"])
        return options(*given, **more)

    monkeypatch.setattr(compiler, "get_compile_options", noting)
    with br.Program() as prog:
        out = br.tanh(br.data("x", [7]) * 2.0)
    exe = br.Executor()
    exe.clear()
    exe.run(prog, br.Scope(), feed={"x": np.ones(7, "float32")}, fetch=out)
    assert found
    assert all(told["xla_allow_excess_precision"] is False for told in found)
