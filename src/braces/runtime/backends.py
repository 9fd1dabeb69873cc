"""Backends of an executor by mode, and those of other runtimes by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from braces.errors import ProgramError
from braces.layout import Layout
from braces.lazy import LazyModule
from braces.passes.core.pipeline import Passes
from braces.passes.registry import DCE, DEFAULT
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.backend.interface import Backend
from braces.runtime.backend.interpreted import InterpretedPlan

COMPILE = "compile"
BACKENDS: dict[str, Backend] = {COMPILE: CompiledPlan, "interpret": InterpretedPlan}
"""The backend of each mode of an executor."""
PASSES = {
    COMPILE: DEFAULT,
    "interpret": Passes((DCE,)),
    "onnxruntime": Passes((DCE,)),
}
"""The default passes of each mode and of each other runtime."""
_onnx_backend: Any = LazyModule("braces.exchange.onnx.backend.onnx_runtime")
RUNTIMES: Mapping[str, Any] = {"onnxruntime": lambda: _onnx_backend.OnnxRuntimeBackend}
"""The backends of other runtimes; each takes a number of threads."""


class FrozenBackend:
    """Compiled runs with constants: the values of variables that a program only reads."""

    open = staticmethod(CompiledPlan.open)
    prepare_process = staticmethod(CompiledPlan.prepare_process)
    __call__ = staticmethod(partial(CompiledPlan, frozen=True))


def find_backend(
    mode: str,
    name: str | None,
    threads: int | None,
    layout: Layout | None,
    frozen: bool = False,
) -> Backend:
    """Return the backend of a mode, or that of another runtime.

    Args:
        mode: The mode.
        name: The other runtime.
        threads: Its number of threads.
        layout: The layout of the executor.
        frozen: Whether variables are constants of compiled code. Interpretation compiles no
            programs, and another runtime decides itself.

    Raises:
        ProgramError: If the mode or the name is unknown, or the other runtime does not support
            the mode, the layout or the number of threads.
    """
    if mode not in BACKENDS:
        raise ProgramError(f"unknown mode {mode!r}.", fix="Use 'compile' or 'interpret'.")
    if name is None:
        if threads is not None:
            raise ProgramError(
                "threads= requires a backend.", fix='Pass backend="onnxruntime", or omit it.'
            )
        return FrozenBackend() if frozen and mode == COMPILE else BACKENDS[mode]
    if name not in RUNTIMES:
        raise ProgramError(
            f"unknown backend {name!r:.40}.", fix="Use 'onnxruntime', or omit it for XLA."
        )
    if mode != COMPILE or layout is not None:
        raise ProgramError(
            f"the backend {name} supports neither interpretation nor layouts.",
            fix="Omit backend=, or mode= and layout=.",
        )
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ProgramError(
            f"invalid threads={threads!r:.40}.", fix="Use an integer of at least 1."
        )
    return RUNTIMES[name]()(threads)


def refuse_profile(name: str | None) -> None:
    """Refuse to measure runs of another runtime.

    Raises:
        ProgramError: If the executor has a backend of this name.
    """
    if name is not None:
        raise ProgramError(
            f"profiles are unsupported by the backend {name}.",
            fix="Use br.Executor() without backend=.",
        )
