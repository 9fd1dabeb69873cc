"""The plan report: memory, collectives and estimated times per device."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import prod
from typing import Any, TextIO

from braces.builder.builder import Builder
from braces.ir.files.atomic_write import write_atomically
from braces.planning.collectives import Collective, count_by_kind
from braces.planning.device_specs import DEVICES, find_device_specs
from braces.planning.device_values import DeviceValue
from braces.planning.tables import (
    collective_totals_table,
    collectives_table,
    estimates_table,
    head_lines,
    memory_table,
    values_table,
)
from braces.planning.time_estimate import Estimate, estimate_step
from braces.report import Sheet
from braces.viewer.html import page
from braces.viewer.payload import payload

PEAK = "peak"


@dataclass(frozen=True)
class PlanReport:
    """Cost of a run of a program on each device of a mesh; the result of `br.plan`.

    Bytes of values are exact. The rest is read from code that XLA compiled for as many virtual
    CPUs: collectives and their operators are those of a run on CPUs. Temporary memory,
    operations and times are estimates for other devices.

    Attributes:
        mesh: The axes of the devices, with their sizes.
        sizes: The given sizes of named dimensions.
        values: The inputs of a run: parameters, state, data.
        memory: Bytes on each device, by purpose.
        flops: Operations of one device in a run, as XLA counts them.
        moved_bytes: Bytes that one device reads and writes, as XLA counts them.
        narrow: Whether most products are of 16-bit floats.
        collectives: Collectives in decreasing order of bytes sent.
        phases: Duration of planning by phase, in seconds.
        notes: Caveats about the numbers.
    """

    mesh: Mapping[str, int]
    sizes: Mapping[str, int]
    values: tuple[DeviceValue, ...]
    memory: Mapping[str, int]
    flops: float
    moved_bytes: float
    narrow: bool
    collectives: tuple[Collective, ...]
    phases: Mapping[str, float]
    notes: tuple[str, ...]
    kinds: tuple[str, ...] = tuple(DEVICES)
    _program: Builder | None = field(default=None, repr=False, compare=False)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return prod(self.mesh.values())

    @property
    def counts(self) -> dict[str, int]:
        """Number of collectives of each kind in the code."""
        return count_by_kind(self.collectives)

    def estimate(self, device: str) -> Estimate:
        """Estimate the time of a step on devices of a kind, and whether it fits in memory.

        Raises:
            DeviceError: If the table has no device of this kind.
        """
        return estimate_step(
            find_device_specs(device), self.flops, self.moved_bytes, self.memory.get(PEAK, 0),
            self.collectives, self.narrow,
        )  # fmt: skip

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """Estimates for all selected kinds of devices."""
        return tuple(map(self.estimate, self.kinds))

    def warnings(self) -> list[str]:
        """Return a warning about the devices on which the run does not fit."""
        peak = self.memory.get(PEAK, 0)
        names = [estimate.device for estimate in self.estimates if not estimate.fits]
        devices = ", ".join(
            f"{n} ({find_device_specs(n).memory_bytes / 1e9:g} GB)" for n in names
        )
        return [f"Peak memory of {peak / 1e9:.1f} GB exceeds the memory of {devices}"] * bool(
            names
        )

    def data(self) -> dict[str, Any]:
        """Return all fields as JSON-compatible data."""
        named = ("mesh", "sizes", "memory", "flops", "moved_bytes", "narrow", "phases", "notes")
        return {
            **{name: getattr(self, name) for name in named},
            "devices": self.devices,
            "values": [asdict(item) for item in self.values],
            "collectives": [
                asdict(item) | {"sent_bytes": item.sent_bytes} for item in self.collectives
            ],
            "estimates": [asdict(item) for item in self.estimates],
            "warnings": self.warnings(),
        }

    # ---- for people --------------------------------------------------------------------------

    def text(self, limit: int | None = None) -> str:
        """Return the tables as text, with at most `limit` rows of values and collectives."""
        return self._sheet(limit).text()

    def show(self, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print the tables, in colours on a terminal."""
        self._sheet(limit).print(sys.stdout if file is None else file)

    def html(self) -> str:
        """Return a self-contained page: the tables, and the program below them."""
        tables = self._sheet(None).html()
        assert self._program is not None, "a plan is made of a program"
        return page(payload(self._program, "Plan"), above=tables)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically.

        Raises:
            OSError: If the folder is missing, full, or not writable.
        """
        write_atomically(path, self.html().encode())

    def _sheet(self, limit: int | None) -> Sheet:
        tables = (
            memory_table(self.values, self.memory).limit_rows(None),
            values_table(self.values).limit_rows(limit),
            collective_totals_table(self.collectives).limit_rows(None),
            collectives_table(self.collectives).limit_rows(limit),
            estimates_table(self.estimates).limit_rows(None),
        )
        lines = head_lines(self.mesh, self.sizes, self.flops, self.phases)
        notes = (*self.warnings(), *self.notes)
        return Sheet(list(lines), [table for table in tables if table.rows], notes)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        return self._sheet(None).renderable()

    def _repr_html_(self) -> str:
        return self._sheet(None).html()
