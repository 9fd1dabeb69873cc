"""A plan as a value: what each device holds, needs and is told, and how long it may take."""

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
from braces.planning.collectives import Collective, counts
from braces.planning.device_specs import DEVICES, figures_of
from braces.planning.device_values import Held
from braces.planning.rendering import Sheet
from braces.planning.tables import (
    collectives_table,
    estimates_table,
    head_lines,
    memory_table,
    sums_table,
    values_table,
)
from braces.planning.time_estimate import Estimate, estimated
from braces.viewer.html import page
from braces.viewer.payload import payload

PEAK = "peak of a run"


@dataclass(frozen=True)
class PlanReport:
    """What a run of a program takes on each device of a mesh; what `br.plan` gives.

    Bytes of values are exact. The rest is what XLA made for as many virtual CPUs: collectives
    and their operators are those of a run on CPUs, memory meanwhile and operations are an
    estimate of what they are elsewhere, and so are all times.

    Attributes:
        mesh: The axes of the devices, with their sizes.
        sizes: The sizes that were told.
        values: What a run is given: parameters, state, data.
        memory: Bytes on each device, by what takes them.
        flops: Operations of one device in a run, as XLA counts them.
        moved_bytes: What one device reads and writes, as XLA counts it.
        narrow: Whether most products are of 16-bit floats.
        collectives: What devices tell each other, what sends most first.
        phases: How long planning took, in seconds, by phase.
        notes: What one must know of the numbers.
    """

    mesh: Mapping[str, int]
    sizes: Mapping[str, int]
    values: tuple[Held, ...]
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
        """How many devices there are."""
        return prod(self.mesh.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many collectives of each kind the code has."""
        return counts(self.collectives)

    def estimate(self, device: str) -> Estimate:
        """How long a step may take on devices of a kind, and whether it fits.

        Raises:
            DeviceError: The table has no such kind.
        """
        return estimated(
            figures_of(device), self.flops, self.moved_bytes, self.memory.get(PEAK, 0),
            self.collectives, self.narrow,
        )  # fmt: skip

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """Those of all kinds that are looked at."""
        return tuple(map(self.estimate, self.kinds))

    def warnings(self) -> list[str]:
        """What does not fit."""
        peak = self.memory.get(PEAK, 0)
        found = [one.device for one in self.estimates if not one.fits]
        told = ", ".join(f"{n} ({figures_of(n).memory_bytes / 1e9:g} GB)" for n in found)
        return [f"{peak / 1e9:.1f} GB at once is more than a device has: {told}"] * bool(found)

    def data(self) -> dict[str, Any]:
        """All of it for programs to read, as JSON has it."""
        named = ("mesh", "sizes", "memory", "flops", "moved_bytes", "narrow", "phases", "notes")
        return {
            **{name: getattr(self, name) for name in named},
            "devices": self.devices,
            "values": [asdict(one) for one in self.values],
            "collectives": [
                asdict(one) | {"sent_bytes": one.sent_bytes} for one in self.collectives
            ],
            "estimates": [asdict(one) for one in self.estimates],
            "warnings": self.warnings(),
        }

    # ---- for people --------------------------------------------------------------------------

    def text(self, limit: int | None = None) -> str:
        """Tables as text; of values and collectives so many rows at most."""
        return self._sheet(limit).text()

    def show(self, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print the tables, in colours where that is a terminal."""
        self._sheet(limit).print(sys.stdout if file is None else file)

    def html(self) -> str:
        """A page that needs nothing else: the tables, and the program below them."""
        tables = self._sheet(None).html()
        assert self._program is not None, "a plan is made of a program"
        return page(payload(self._program, "Plan"), above=tables)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, at once or not at all.

        Raises:
            OSError: The folder is missing, full, or must not be written to.
        """
        write_atomically(path, self.html().encode())

    def _sheet(self, limit: int | None) -> Sheet:
        tables = (
            memory_table(self.values, self.memory).cut(None),
            values_table(self.values).cut(limit),
            sums_table(self.collectives).cut(None),
            collectives_table(self.collectives).cut(limit),
            estimates_table(self.estimates).cut(None),
        )
        lines = head_lines(self.mesh, self.sizes, self.flops, self.phases)
        notes = (*self.warnings(), *self.notes)
        return Sheet(list(lines), [one for one in tables if one.rows], notes)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        return self._sheet(None).drawn()

    def _repr_html_(self) -> str:
        return self._sheet(None).html()
