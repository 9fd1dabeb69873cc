"""The device that runs happen on."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from braces.errors import DeviceError
from braces.lazy import jax


def open_device(name: str | None) -> Any:
    """The device of JAX that `"cpu:0"` and the like mean; `None` for its default."""
    if name is None:
        return None
    mind_forks()
    kind, _, number = name.partition(":")
    try:
        devices = jax.devices(kind)
        return devices[int(number or 0)]
    except (RuntimeError, ValueError, IndexError):
        there = ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
        raise DeviceError(f"There is no device {name!r}.", fix=f"There is {there}.") from None


def platform_of(device: Any) -> str:
    """What this device of JAX, or where it is `None` the default one, is."""
    return jax.default_backend() if device is None else device.platform


@cache
def compute_in_calling_thread() -> None:
    """Let a CPU compute in the thread that calls, once for the process.

    JAX hands a call to another thread and returns, which takes about 25 µs. A run waits for its
    results, so nothing is gained by that. The setting is read when JAX opens the CPU: a process
    that has computed with JAX before, by interpreting say, keeps what it had.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


@cache
def mind_forks() -> None:
    """Let a child know from now on that it was forked from a process that uses XLA."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: forked.append(True))


forked = list[bool]()
"""Not empty in a process that was forked from one that ran something."""


def refuse_forked() -> None:
    """Refuse to run in a process that was forked from one that ran something.

    Raises:
        DeviceError: It was: the threads of XLA are not in it, and what waits for them hangs.
    """
    if forked:
        raise DeviceError(
            "This process was forked from one that had run a program, and would hang.",
            fix='Start it with multiprocessing.get_context("spawn"), or fork before the '
            "first run.",
        )
