"""Compilation of a traced function by XLA, or its code from the persistent cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from braces.define.core.jax_settings import braces_jax_settings
from braces.ir.records import Op
from braces.lazy import jax
from braces.lower.cache.persistent_cache import code_name, compile_or_read
from braces.lower.checks.array_size_limit import refuse_huge
from braces.lower.compiler_options import compiler_options
from braces.ops.linalg.einsum import keep_axes_separate
from braces.runtime.monitoring.compile_listener import CompileListener


@dataclass(frozen=True)
class CompileTarget:
    """Devices and buffers that a function is compiled for.

    Attributes:
        device: The device, or `None` for the default one and for a layout.
        sharded: Whether several devices compute together.
        donated: The number of leading arguments whose buffers XLA may reuse.
        options: Arguments of `jax.jit` that describe the shardings.
    """

    device: Any
    sharded: bool
    donated: int
    options: Mapping[str, Any]


def compile_function(
    function: Callable[..., Any],
    arguments: list[Any],
    ops: Sequence[Op],
    making: CompileListener,
    target: CompileTarget,
) -> Any:
    """Compile a function of the operators `ops` for arguments of these types."""
    function.__name__ = making.named(code_name(ops, arguments))
    call = jax.jit(
        function,
        donate_argnums=tuple(range(target.donated)),
        compiler_options=compiler_options(),
        **target.options,
    )
    with ExitStack() as settings:
        settings.enter_context(braces_jax_settings())
        settings.enter_context(jax.threefry_partitionable(True))
        if target.sharded:
            settings.enter_context(keep_axes_separate())
        if target.device is not None:
            settings.enter_context(jax.default_device(target.device))
            arguments = jax.device_put(arguments, target.device)
        with making.phase("trace"):
            traced = call.trace(*arguments)
            refuse_huge(traced.jaxpr, ops)
        with making.phase("lower"):
            lowered = traced.lower()
        with making.phase("XLA or cache"):
            code = compile_or_read(lowered, function.__name__)
        making.record_code(code)
    return code
