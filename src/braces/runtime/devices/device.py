"""Devices of runs, and their process settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from braces.errors import DeviceError
from braces.layout import Layout
from braces.lazy import backends, jax
from braces.lower.sharding.sharding import Placement
from braces.target import Target, target_of


@dataclass(frozen=True, eq=False)
class Devices:
    """The devices of runs.

    Attributes:
        one: A device of JAX, or `None` for its default.
        placement: The sharding of values on several devices, if there is a layout.
    """

    one: Any = None
    placement: Placement | None = None

    @staticmethod
    def of(layout: Layout) -> Devices:
        """Return the devices of a mesh.

        Raises:
            DeviceError: If the devices do not exist.
        """
        detect_forks()
        compute_in_calling_thread()
        return Devices(placement=Placement(layout))

    @property
    def platform(self) -> str:
        """The platform of the devices."""
        return self.first.platform

    @property
    def first(self) -> Any:
        """The device, or the first of several."""
        if self.placement is not None:
            return self.placement.first
        return jax.local_devices()[0] if self.one is None else self.one

    @property
    def target(self) -> Target:
        """The target of compilation; loops on several devices are not interruptible."""
        target = target_of(self.platform)
        if self.placement is None:
            return target
        return replace(target, asks=False, together=True)

    @property
    def alone(self) -> Any:
        """The device that interprets programs.

        Raises:
            DeviceError: If the program runs on several processes, each with shards of the
                values.
        """
        if self.placement is None:
            return self.one
        if jax.process_count() > 1:
            raise DeviceError(
                "interpretation is unsupported with several processes.",
                fix='Use br.Executor(layout=...) without mode="interpret".',
            )
        return self.placement.first


def is_cpu(name: str | None) -> bool:
    """Return whether a device, or the default one for `None`, is a CPU."""
    return (name or jax.default_backend()).startswith("cpu")


def open_device(name: str | None) -> Any:
    """Return the JAX device with a name such as `"cpu:0"`; `None` for the default."""
    if name is None:
        return None
    detect_forks()
    kind, _, number = name.partition(":")
    try:
        devices = jax.devices(kind)
        return devices[int(number or 0)]
    except (RuntimeError, ValueError, IndexError):
        there = ", ".join(_list_devices())
        raise DeviceError(f"unknown device {name!r}.", fix=f"Use one of {there}.") from None


def _list_devices() -> Iterator[str]:
    """Yield the names of all devices, of the default platform first."""
    platforms = dict.fromkeys((jax.default_backend(), *backends.backends()))
    for platform in platforms:
        yield from (f"{d.platform}:{d.id}" for d in jax.devices(platform))


@cache
def compute_in_calling_thread() -> None:
    """Let a CPU compute in the calling thread, once for the process.

    Asynchronous dispatch of JAX hands a call to another thread. A run waits for its results, so
    it gains nothing, and a small step takes longer (docs/decisions, 0013). The setting is read
    when JAX opens the CPU: a process that has computed with JAX before, for example by
    interpretation, keeps its setting.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


@cache
def detect_forks() -> None:
    """Detect forks of this process from now on, which uses XLA."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: forked.append(True))


forked = list[bool]()
"""Not empty in a process that was forked from one that ran a program."""


def refuse_forked() -> None:
    """Refuse to run in a process that was forked from one that ran a program.

    Raises:
        DeviceError: If the process was forked. It has no threads of XLA, so that waiting for
            them would block forever.
    """
    if forked:
        raise DeviceError(
            "this process was forked after a run of its parent, so a run would hang.",
            fix='Start processes with multiprocessing.get_context("spawn"), or fork before the '
            "first run.",
        )
