"""Replica groups of collectives, parsed from the text of compiled code.

{{0,1},{2,3}}                          device numbers
[2,4]<=[4,2]T(1,0)                     0, 1, 2, ... in the shape [4,2], its axes swapped
mesh['a'=4,'b'=2] {'a'}                devices along an axis of a mesh, or a part of it
source_target_pairs={{0,0},{1,2}}      sender and receiver; the pair farthest apart is taken
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

_LISTED = re.compile(r"replica_groups=\{\{([\d,]+)\}")
_SENT = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")
_PAIR = re.compile(r"\{(\d+),(\d+)\}")
_COUNTED = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}")
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_PART = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")


def first_group(told: str, devices: int) -> tuple[int, ...]:
    """Return the devices of the first group; all devices if no group is stated.

    Args:
        told: The line of an instruction.
        devices: Number of devices.

    Example:
        >>> first_group("replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}", 8)
        (0, 2, 4, 6)
        >>> first_group("replica_groups=mesh['a'=4,'b'=2] {'a'}", 8)
        (0, 2, 4, 6)
    """
    if match := _LISTED.search(told):
        return tuple(_numbers(match[1]))
    if match := _SENT.search(told):
        pairs = [(int(a), int(b)) for a, b in _PAIR.findall(match[1])]
        return max(pairs, key=lambda pair: abs(pair[0] - pair[1]), default=(0,))
    if match := _COUNTED.search(told):
        shape, order = _numbers(match[3]), _numbers(match[4] or "")
        ids = np.arange(prod(shape)).reshape(shape)
        return tuple(ids.transpose(order or None).reshape(-1, int(match[2]))[0].tolist())
    if match := _MESH.search(told):
        return _group_along(_AXIS.findall(match[1]), _PART.findall(match[2]))
    return tuple(range(devices))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _group_along(
    axes: Sequence[tuple[str, str]], parts: Sequence[tuple[str, str, str]]
) -> tuple[int, ...]:
    """Return devices along mesh axes or parts of axes: `'a':(2)4` are 4 after the first 2."""
    sizes = {name: int(size) for name, size in axes}
    strides = {
        name: prod(list(sizes.values())[index + 1 :]) for index, name in enumerate(sizes)
    }
    ids = np.zeros(1, int)
    for name, before, size in parts:
        count = int(size or sizes[name])
        step = strides[name] * (sizes[name] // (int(before or 1) * count))
        ids = (ids[:, None] + np.arange(count) * step).reshape(-1)
    return tuple(ids.tolist())


def axes_along(group: Sequence[int], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Return the mesh axes of the devices of a group.

    Example:
        >>> axes_along((0, 2, 4, 6), {"data": 4, "model": 2})
        ('data',)
    """
    return tuple(_varying_axes(group, mesh))


def _varying_axes(group: Sequence[int], mesh: Mapping[str, int]) -> Iterator[str]:
    coordinates = np.unravel_index(list(group), tuple(mesh.values()))
    for name, along in zip(mesh, coordinates, strict=True):
        if len(set(along.tolist())) > 1:
            yield name
