"""The tables of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from braces.ir.text_table import in_bytes, in_time
from braces.planning.collectives import Collective
from braces.planning.device_specs import figures_of
from braces.planning.device_values import Held
from braces.planning.rendering import Table
from braces.planning.time_estimate import Estimate

_FOLDERS = re.compile(r"[^\s]*[/\\]")
_MANY, _END = 2, 22


def memory_table(values: Sequence[Held], memory: Mapping[str, int]) -> Table:
    """What takes memory on each device, and in all."""
    kinds = dict.fromkeys(one.kind for one in values)
    rows = [
        [
            kind,
            in_bytes(sum(one.device_bytes for one in values if one.kind == kind)),
            in_bytes(sum(one.bytes for one in values if one.kind == kind)),
        ]
        for kind in kinds
    ]
    rows += [[name, in_bytes(count), ""] for name, count in memory.items()]
    return Table("memory", ["what", "each device", "in all"], rows, (1, 2))


def values_table(values: Sequence[Held]) -> Table:
    """The values that take most."""
    rows = [
        [one.name, one.kind, one.type, one.lies, in_bytes(one.device_bytes)]
        for one in sorted(values, key=lambda one: -one.device_bytes)
    ]
    return Table("largest values", ["name", "kind", "type", "lies", "each device"], rows, (4,))


def sums_table(several: Sequence[Collective]) -> Table:
    """Collectives by kind and axes of the mesh."""
    groups = dict[tuple[str, tuple[str, ...]], list[Collective]]()
    for one in several:
        groups.setdefault((one.kind, one.axes), []).append(one)
    rows = [
        [
            kind,
            ", ".join(axes) or "none",
            str(len(found)),
            in_bytes(sum(one.total_bytes for one in found)),
            in_bytes(round(sum(one.sent_bytes for one in found))),
        ]
        for (kind, axes), found in groups.items()
    ]
    head = ["collective", "along", "count", "bytes a run", "sent by each"]
    return Table("what devices tell each other", head, rows, (2, 3, 4))


def collectives_table(several: Sequence[Collective]) -> Table:
    """Collectives one by one, with the operators that they were made for."""
    rows = [
        [
            one.kind,
            ", ".join(one.axes) or "none",
            in_bytes(one.bytes),
            "each trip" if one.trips is None else str(one.trips),
            in_bytes(round(one.sent_bytes)),
            some(one.operators),
            some([_FOLDERS.sub("", source) for source in one.sources]),
        ]
        for one in several
    ]
    head = ["collective", "along", "bytes", "times", "sent by each", "operators", "lines"]
    return Table("collectives that send most", head, rows, (2, 3, 4))


def estimates_table(several: Sequence[Estimate]) -> Table:
    """Estimated times by kind of device."""
    rows = [
        [
            one.device,
            in_bytes(figures_of(one.device).memory_bytes),
            "yes" if one.fits else "no",
            *map(in_time, (one.compute_s, one.memory_s, one.collectives_s, one.step_s)),
        ]
        for one in several
    ]
    head = ["device", "has", "fits", "compute", "memory", "collectives", "step"]
    return Table("a step (estimate)", head, rows, (1, 3, 4, 5, 6))


def some(names: Sequence[str]) -> str:
    """The first of some names, each with its end at least, and how many more there are.

    Example:
        >>> some(["a", "b", "c"]), some(["layer0/attention/body/matmul"])
        ('a, b (+1)', '…attention/body/matmul')
    """
    more = f" (+{len(names) - _MANY})" if len(names) > _MANY else ""
    shown = (name if len(name) <= _END else f"…{name[1 - _END :]}" for name in names[:_MANY])
    return ", ".join(shown) + more


def head_lines(
    mesh: Mapping[str, int], sizes: Mapping[str, int], flops: float, phases: Mapping[str, float]
) -> Iterator[str]:
    """What is planned."""
    count = prod(mesh.values())
    axes = ", ".join(f"{name}={size}" for name, size in mesh.items())
    named = ", ".join(f"{name}={size}" for name, size in sizes.items())
    yield f"a run on {count} device{'s' * (count != 1)}: {axes}{'; ' * bool(named)}{named}"
    yield f"  of each device: {flops:.3g} operations"
    yield f"  planned in {', '.join(f'{n} {in_time(s)}' for n, s in phases.items())}"
