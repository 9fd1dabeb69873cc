"""What devices tell each other in compiled code: how much, how often, for which operators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from braces.planning.replica_groups import axes_along, first_group
from braces.runtime.profiling.hlo_text import Code, Instruction, Numbering

KINDS = "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"
SOURCES = 3

_COLLECTIVE = re.compile(
    rf"^\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ({'|'.join(KINDS)})(-start)?\((.*)$", re.MULTILINE
)
_LOOP = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = .*? while\((.*)$", re.MULTILINE)
_TRIPS = re.compile(r"known_trip_count\D+(\d+)")
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([\d,]*)\]")
_BITS = re.compile(r"[a-z]+(\d+)")
_TWICE = "all-gather", "collective-permute"
"""Those that, begun and awaited apart, have what they read among their results."""


@dataclass(frozen=True)
class Collective:
    """Something that devices do together in each run.

    Attributes:
        kind: `all-reduce` and the like.
        operators: The paths of the operators that it was made for.
        types: Their types.
        sources: Lines of the user's program that made them, some of them.
        axes: The axes of the mesh along which the devices lie that do it together.
        group: How many these are.
        span: How far apart they are, as devices are numbered.
        bytes: What each device has of the result, or of what a `reduce-scatter` adds up, each
            time.
        trips: How often a run does it; `None` where only the run knows, in a loop.
    """

    kind: str
    operators: tuple[str, ...]
    types: tuple[str, ...]
    sources: tuple[str, ...]
    axes: tuple[str, ...]
    group: int
    span: int
    bytes: int
    trips: int | None

    @property
    def total_bytes(self) -> int:
        """The bytes of a whole run; of one trip, where only the run knows how many."""
        return self.bytes * (1 if self.trips is None else self.trips)

    @property
    def sent_bytes(self) -> float:
        """What each device sends in a run where the devices stand in a ring.

        all-reduce                                    2 (n - 1) / n of the bytes
        all-gather, reduce-scatter, all-to-all          (n - 1) / n
        collective-permute                            all of them
        """
        if self.kind == "collective-permute":
            return float(self.total_bytes)
        times = 2 if self.kind == "all-reduce" else 1
        return self.total_bytes * times * (self.group - 1) / self.group


def collectives_of(
    text: str, code: Code, numbering: Numbering, mesh: Mapping[str, int]
) -> list[Collective]:
    """All that compiled code has, those first that send most.

    Args:
        text: Its text.
        code: The same, read.
        numbering: The operators of the block that it was made of.
        mesh: The axes of the devices, with their sizes.
    """
    loops = {name: _TRIPS.search(rest) for name, rest in _LOOP.findall(text)}
    trips = {name: int(told[1]) if told else None for name, told in loops.items()}
    found = list[Collective]()
    for name, result, kind, begun, rest in _COLLECTIVE.findall(text):
        one = code.instructions[name]
        group = first_group(rest, prod(mesh.values()))
        numbers = one.numbers or tuple(_read(code, one))
        found.append(
            Collective(
                kind=kind,
                **_made_for(numbers, numbering),
                axes=axes_along(group, mesh),
                group=len(group),
                span=max(group) - min(group) + 1,
                bytes=_bytes(result, bool(begun) and kind in _TWICE)
                * (len(group) if kind == "reduce-scatter" else 1),
                trips=_trips(code, one, trips),
            )
        )
    return sorted(found, key=lambda one: -one.sent_bytes)


def _made_for(numbers: Sequence[int], numbering: Numbering) -> dict[str, tuple[str, ...]]:
    ops = [numbering.ops[number] for number in numbers]
    lines = dict.fromkeys(str(op.source) for op in ops if op.source)
    return {
        "operators": tuple(numbering.places[number].path for number in numbers),
        "types": tuple(dict.fromkeys(op.type for op in ops)),
        "sources": tuple(lines)[:SOURCES],
    }


def _bytes(result: str, twice: bool) -> int:
    """The bytes of a result, one array or several; where it is there twice, of the latter."""
    arrays = [_array_bytes(*one) for one in _ARRAY.findall(result)]
    return sum(arrays[len(arrays) // 2 :] if twice else arrays)


def _array_bytes(dtype: str, shape: str) -> int:
    bits = _BITS.match(dtype)
    count = prod(int(size) for size in shape.split(",") if size)
    return -(-count * (int(bits[1]) if bits else 8) // 8)


def _read(code: Code, one: Instruction) -> Iterator[int]:
    """The operators of what an instruction reads, where it has none itself."""
    for name in one.reads:
        if (before := code.instructions.get(name)) is not None:
            yield from before.numbers


def _trips(code: Code, one: Instruction, loops: Mapping[str, int | None]) -> int | None:
    """How often an instruction is computed: the trips of all loops around it."""
    count, around = 1, code.callers.get(one.computation)
    while around is not None:
        trips = loops.get(around.name, 1)
        if trips is None:
            return None
        count, around = count * trips, code.callers.get(around.computation)
    return count


def counts(several: Sequence[Collective]) -> dict[str, int]:
    """How many there are of each kind, in the code."""
    return {kind: n for kind in KINDS if (n := sum(one.kind == kind for one in several))}
