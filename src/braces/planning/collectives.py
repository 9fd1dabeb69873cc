"""Collectives of compiled code: bytes, trip counts and the operators they stem from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from braces.planning.replica_groups import axes_along, first_group
from braces.runtime.profiling.hlo_text import HloModule, Instruction, Numbering

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
"""Asynchronous (`-start`) kinds whose result tuple also holds their operands."""


@dataclass(frozen=True)
class Collective:
    """A collective operation of each run.

    Attributes:
        kind: `all-reduce` and the like.
        operators: The paths of the operators that it was compiled from.
        types: Their types.
        sources: The first lines of the user's program that declared them.
        axes: The mesh axes of the participating devices.
        group: Number of participating devices.
        span: Largest minus smallest device number of the group.
        bytes: Bytes per device and execution: of the result, or of the operand of a
            `reduce-scatter`.
        trips: Executions per run; `None` in a loop whose trip count is known at run time only.
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
        """Bytes of a whole run; of one iteration where the trip count is unknown."""
        return self.bytes * (1 if self.trips is None else self.trips)

    @property
    def sent_bytes(self) -> float:
        """Bytes that each device sends in a run, with devices arranged in a ring.

        all-reduce                                    2 (n - 1) / n of the bytes
        all-gather, reduce-scatter, all-to-all          (n - 1) / n
        collective-permute                            all of them
        """
        if self.kind == "collective-permute":
            return float(self.total_bytes)
        times = 2 if self.kind == "all-reduce" else 1
        return self.total_bytes * times * (self.group - 1) / self.group


def find_collectives(
    text: str, code: HloModule, numbering: Numbering, mesh: Mapping[str, int]
) -> list[Collective]:
    """Return all collectives of compiled code, in decreasing order of bytes sent.

    Args:
        text: The HLO text.
        code: The same text, parsed.
        numbering: The operators of the block that was compiled.
        mesh: The axes of the devices, with their sizes.
    """
    loops = {name: _TRIPS.search(operands) for name, operands in _LOOP.findall(text)}
    trips = {name: int(match[1]) if match else None for name, match in loops.items()}
    collectives = list[Collective]()
    for name, result, kind, start, operands in _COLLECTIVE.findall(text):
        item = code.instructions[name]
        group = first_group(operands, prod(mesh.values()))
        numbers = (
            item.numbers
            or tuple(_operand_operators(code, item))
            or tuple(_user_operators(code, item))
        )
        collectives.append(
            Collective(
                kind=kind,
                **_operator_fields(numbers, numbering),
                axes=axes_along(group, mesh),
                group=len(group),
                span=max(group) - min(group) + 1,
                bytes=_result_bytes(result, bool(start) and kind in _TWICE)
                * (len(group) if kind == "reduce-scatter" else 1),
                trips=_executions(code, item, trips),
            )
        )
    return sorted(collectives, key=lambda item: -item.sent_bytes)


def _operator_fields(
    numbers: Sequence[int], numbering: Numbering
) -> dict[str, tuple[str, ...]]:
    ops = [numbering.ops[number] for number in numbers]
    lines = dict.fromkeys(str(op.source) for op in ops if op.source)
    return {
        "operators": tuple(numbering.places[number].path for number in numbers),
        "types": tuple(dict.fromkeys(op.type for op in ops)),
        "sources": tuple(lines)[:SOURCES],
    }


def _result_bytes(result: str, has_operands: bool) -> int:
    """Return the bytes of a result (an array or a tuple), without operands repeated in it."""
    arrays = [_array_bytes(*array) for array in _ARRAY.findall(result)]
    return sum(arrays[len(arrays) // 2 :] if has_operands else arrays)


def _array_bytes(dtype: str, shape: str) -> int:
    bits = _BITS.match(dtype)
    count = prod(int(size) for size in shape.split(",") if size)
    return -(-count * (int(bits[1]) if bits else 8) // 8)


def _operand_operators(code: HloModule, instruction: Instruction) -> Iterator[int]:
    """Yield the operators of the operands of an instruction that has none itself."""
    for name in instruction.reads:
        if (operand := code.instructions.get(name)) is not None:
            yield from operand.numbers


def _user_operators(code: HloModule, instruction: Instruction) -> list[int]:
    """Return the operators that read the result of an instruction, by way of copies.

    The gathering of a parameter has only these.
    """
    readers, pending, seen = dict[int, None](), [instruction.name], set[str]()
    while pending:
        for name in code.users.get(pending.pop(), ()):
            numbers = code.instructions[name].numbers
            readers.update(dict.fromkeys(numbers))
            if not numbers and name not in seen:
                pending.append(name)
            seen.add(name)
    return [*readers]


def _executions(
    code: HloModule, instruction: Instruction, loops: Mapping[str, int | None]
) -> int | None:
    """Return how often an instruction runs: the product of the trip counts of its loops."""
    count, caller = 1, code.callers.get(instruction.computation)
    while caller is not None:
        trips = loops.get(caller.name, 1)
        if trips is None:
            return None
        count, caller = count * trips, code.callers.get(caller.computation)
    return count


def count_by_kind(several: Sequence[Collective]) -> dict[str, int]:
    """Return the number of collectives of each kind in the code."""
    return {
        kind: n
        for kind in KINDS
        if (n := sum(collective.kind == kind for collective in several))
    }
