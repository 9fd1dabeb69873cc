"""Compilation of a traced function by XLA, or its code from the persistent cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from braces.define.core.jax_settings import braces_jax_settings
from braces.ir.records import Op
from braces.lazy import jax
from braces.lower.cache.persistent_cache import code_name, compile_or_read
from braces.lower.checks.array_size_limit import refuse_huge
from braces.lower.compiler_options import compiler_options
from braces.ops.linalg.einsum import keep_axes_separate
from braces.runtime.compile.frozen_states import FrozenFunction, freeze_function
from braces.runtime.monitoring.compile_listener import CompileListener


@dataclass(frozen=True)
class CompileTarget:
    """Devices and buffers that a function is compiled for.

    Attributes:
        device: The device, or `None` for the default one and for a layout.
        sharded: Whether several devices compute together.
        donated: The number of leading arguments whose buffers XLA may reuse.
        options: Arguments of `jax.jit` that describe the shardings.
        known: The positions of arguments that are constants.
        shared: Values that depend on the constants alone; see `freeze_function`.
    """

    device: Any
    sharded: bool
    donated: int
    options: Mapping[str, Any]
    known: range = range(0)
    shared: dict[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])


@dataclass(frozen=True)
class CompiledFunction:
    """Code of a function.

    Attributes:
        code: The code.
        arguments: The arguments that it takes, before `more`.
        more: Its last arguments, the same in each call.
        about: Its constants, in words.
    """

    code: Any
    arguments: list[Any]
    more: tuple[Any, ...] = ()
    about: str = ""


def compile_function(
    function: Callable[..., Any],
    arguments: list[Any],
    ops: Sequence[Op],
    making: CompileListener,
    target: CompileTarget,
) -> CompiledFunction:
    """Compile a function of the operators `ops` for arguments of these types."""
    function.__name__ = name = making.named(code_name(ops, arguments))
    with ExitStack() as settings:
        settings.enter_context(braces_jax_settings())
        settings.enter_context(jax.threefry_partitionable(True))
        if target.sharded:
            settings.enter_context(keep_axes_separate())
        if target.device is not None:
            settings.enter_context(jax.default_device(target.device))
            arguments = jax.device_put(arguments, target.device)
        frozen = FrozenFunction(function, arguments)
        if target.known:
            with making.phase("constants"):
                frozen = freeze_function(function, arguments, target.known, target.shared)
        call = jax.jit(
            frozen.call,
            donate_argnums=tuple(range(target.donated)),
            compiler_options=compiler_options(),
            **target.options,
        )
        with making.phase("trace"):
            traced = call.trace(*frozen.arguments, *frozen.more)
            refuse_huge(traced.jaxpr, ops)
        with making.phase("lower"):
            lowered = traced.lower()
        with making.phase("XLA or cache"):
            code = compile_or_read(lowered, name)
        making.record_code(code)
    return CompiledFunction(code, frozen.arguments, frozen.more, frozen.about)
