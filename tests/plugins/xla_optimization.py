"""The XLA optimization level of tests: that of users, or none for marked tests.

    pytestmark = pytest.mark.unoptimized

Most of the time of the heaviest tests would go into optimising programs that run for less than
a millisecond. A test may be marked if it holds what Braces makes of a program, gradients above
all, against differences, another mode, NumPy, JAX or optax, or that a program learns: XLA then
gets the same program and emits plain code for it, in a half to a quarter of the time. What
holds the values of operators and constructs is not marked, and so everything is also compiled
as users compile it. Nor is what must be the same bits computed one by one or all at once, which
only optimised code is: plain code rounds differently in a loop. `XLA_FLAGS` could say the same,
but for all tests of a process alike.
"""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import jax
from jax._src import compiler

from braces.lower.compiler_options import supported_options
from braces.lower.interpret.kernels import forget_kernels
from braces.target import QUICKLY

PLAIN = supported_options(QUICKLY) | {"xla_cpu_parallel_codegen_split_count": 1}
"""What XLA is told: as of kernels that are interpreted, but for what those have bits by."""


@functools.wraps(compiler.get_compile_options)
def _plain(*given: Any, env_options_overrides: Any = None, **options: Any) -> Any:
    overrides = {**PLAIN, **(env_options_overrides or {})}
    return _plain.__wrapped__(*given, env_options_overrides=overrides, **options)


PATCH = mock.patch.object(compiler, "get_compile_options", _plain)


def unoptimized() -> bool:
    """Return whether XLA is told to optimise nothing."""
    return compiler.get_compile_options is _plain


def optimize(wanted: bool) -> None:
    """Let XLA optimise what is compiled from now on, or not; kernels without are forgotten."""
    if wanted and unoptimized():
        PATCH.stop()
        forget_compiled_code()
    elif not wanted and not unoptimized():
        PATCH.start()


def forget_compiled_code() -> None:
    """Release the code of programs and kernels; the memory maps of a process are limited."""
    jax.clear_caches()
    forget_kernels()
