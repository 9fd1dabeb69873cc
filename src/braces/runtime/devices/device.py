"""The device that runs happen on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from braces.errors import DeviceError
from braces.layout import Layout
from braces.lazy import jax
from braces.lower.sharding.sharding import Placement
from braces.target import Target, target_of


@dataclass(frozen=True, eq=False)
class Devices:
    """Where runs happen.

    Attributes:
        one: A device of JAX, or `None` for its default.
        placement: How values lie on several, where a layout says it.
    """

    one: Any = None
    placement: Placement | None = None

    @staticmethod
    def of(layout: Layout) -> Devices:
        """Those of a mesh.

        Raises:
            DeviceError: They are not there.
        """
        mind_forks()
        compute_in_calling_thread()
        return Devices(placement=Placement(layout))

    @property
    def platform(self) -> str:
        """What they are."""
        device = self.one if self.placement is None else self.placement.first
        return jax.default_backend() if device is None else device.platform

    @property
    def target(self) -> Target:
        """What code is made for there; loops that several devices run together never ask."""
        target = target_of(self.platform)
        if self.placement is None:
            return target
        return replace(target, asks=False, together=True)

    @property
    def alone(self) -> Any:
        """The one on which programs are interpreted.

        Raises:
            DeviceError: There are several processes, each with a part of the values.
        """
        if self.placement is None:
            return self.one
        if jax.process_count() > 1:
            raise DeviceError(
                "Several processes do not interpret together.",
                fix='Use br.Executor(layout=...) without mode="interpret".',
            )
        return self.placement.first


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
