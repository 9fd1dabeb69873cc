"""The tables of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from braces.planning.collectives import Collective
from braces.planning.device_specs import find_device_specs
from braces.planning.device_values import DeviceValue
from braces.planning.time_estimate import Estimate
from braces.report import (
    Table,
    count_text,
    first_names,
    in_bytes,
    in_time,
    shorten_start,
    without_folders,
)

_END = 22


def memory_table(values: Sequence[DeviceValue], memory: Mapping[str, int]) -> Table:
    """Memory by kind of value: on each device, and in total."""
    kinds = dict.fromkeys(value.kind for value in values)
    rows = [
        [
            kind,
            in_bytes(sum(value.device_bytes for value in values if value.kind == kind)),
            in_bytes(sum(value.bytes for value in values if value.kind == kind)),
        ]
        for kind in kinds
    ]
    rows += [[name, in_bytes(count), ""] for name, count in memory.items()]
    return Table("memory", ["kind", "per device", "total"], rows, (1, 2))


def values_table(values: Sequence[DeviceValue]) -> Table:
    """The values with the largest shards."""
    rows = [
        [value.name, value.kind, value.type, value.sharding, in_bytes(value.device_bytes)]
        for value in sorted(values, key=lambda value: -value.device_bytes)
    ]
    return Table(
        "largest values", ["name", "kind", "type", "sharding", "per device"], rows, (4,)
    )


def collective_totals_table(several: Sequence[Collective]) -> Table:
    """Totals of collectives by kind and mesh axes."""
    groups = dict[tuple[str, tuple[str, ...]], list[Collective]]()
    for collective in several:
        groups.setdefault((collective.kind, collective.axes), []).append(collective)
    rows = [
        [
            kind,
            ", ".join(axes) or "none",
            str(len(members)),
            in_bytes(sum(collective.total_bytes for collective in members)),
            in_bytes(round(sum(collective.sent_bytes for collective in members))),
        ]
        for (kind, axes), members in groups.items()
    ]
    head = ["collective", "mesh axes", "count", "bytes per run", "sent per device"]
    return Table("communication between devices", head, rows, (2, 3, 4))


def collectives_table(several: Sequence[Collective]) -> Table:
    """Each collective, with the operators it was compiled from."""
    rows = [
        [
            collective.kind,
            ", ".join(collective.axes) or "none",
            in_bytes(collective.bytes),
            "per iteration" if collective.trips is None else str(collective.trips),
            in_bytes(round(collective.sent_bytes)),
            _first_ends(collective.operators),
            _first_ends(map(without_folders, collective.sources)),
        ]
        for collective in several
    ]
    head = [
        "collective",
        "mesh axes",
        "bytes",
        "times",
        "sent per device",
        "operators",
        "lines",
    ]
    return Table("largest collectives", head, rows, (2, 3, 4))


def estimates_table(several: Sequence[Estimate]) -> Table:
    """Estimated times by kind of device."""
    rows = [
        [
            estimate.device,
            in_bytes(find_device_specs(estimate.device).memory_bytes),
            "yes" if estimate.fits else "no",
            *map(
                in_time,
                (
                    estimate.compute_s,
                    estimate.memory_s,
                    estimate.collectives_s,
                    estimate.step_s,
                ),
            ),
        ]
        for estimate in several
    ]
    head = ["device", "capacity", "fits", "compute", "memory", "collectives", "step"]
    return Table("estimated time of a step", head, rows, (1, 3, 4, 5, 6))


def _first_ends(names: Iterable[str]) -> str:
    return first_names([shorten_start(name, _END) for name in names])


def head_lines(
    mesh: Mapping[str, int], sizes: Mapping[str, int], flops: float, phases: Mapping[str, float]
) -> Iterator[str]:
    """Yield the lines about the planned run."""
    axes = ", ".join(f"{name}={size}" for name, size in mesh.items())
    named = ", ".join(f"{name}={size}" for name, size in sizes.items())
    devices = count_text(prod(mesh.values()), "device")
    yield f"a run on {devices}: {axes}{'; ' * bool(named)}{named}"
    yield f"  operations per device: {flops:.3g}"
    yield f"  planning time: {', '.join(f'{n} {in_time(s)}' for n, s in phases.items())}"
