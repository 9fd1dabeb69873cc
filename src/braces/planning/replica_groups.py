"""Which devices take part in a collective together, as the text of compiled code says it.

{{0,1},{2,3}}                          their numbers
[2,4]<=[4,2]T(1,0)                     0, 1, 2, ... in the shape [4,2], its axes swapped
mesh['a'=4,'b'=2] {'a'}                those along an axis of a mesh, or a part of it
source_target_pairs={{0,0},{1,2}}      who sends to whom; the two that are farthest apart
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
    """The devices of the first group; all of them where nothing else is said.

    Args:
        told: The line of an instruction.
        devices: How many there are.

    Example:
        >>> first_group("replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}", 8)
        (0, 2, 4, 6)
        >>> first_group("replica_groups=mesh['a'=4,'b'=2] {'a'}", 8)
        (0, 2, 4, 6)
    """
    if found := _LISTED.search(told):
        return tuple(_numbers(found[1]))
    if found := _SENT.search(told):
        pairs = [(int(a), int(b)) for a, b in _PAIR.findall(found[1])]
        return max(pairs, key=lambda pair: abs(pair[0] - pair[1]), default=(0,))
    if found := _COUNTED.search(told):
        shape, order = _numbers(found[3]), _numbers(found[4] or "")
        ids = np.arange(prod(shape)).reshape(shape)
        return tuple(ids.transpose(order or None).reshape(-1, int(found[2]))[0].tolist())
    if found := _MESH.search(told):
        return _along(_AXIS.findall(found[1]), _PART.findall(found[2]))
    return tuple(range(devices))


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",") if one]


def _along(
    axes: Sequence[tuple[str, str]], parts: Sequence[tuple[str, str, str]]
) -> tuple[int, ...]:
    """Those along some axes of a mesh, or parts of axes: `'a':(2)4` are 4 after the first 2."""
    sizes = {name: int(size) for name, size in axes}
    strides = {name: prod(list(sizes.values())[at + 1 :]) for at, name in enumerate(sizes)}
    ids = np.zeros(1, int)
    for name, before, size in parts:
        count = int(size or sizes[name])
        step = strides[name] * (sizes[name] // (int(before or 1) * count))
        ids = (ids[:, None] + np.arange(count) * step).reshape(-1)
    return tuple(ids.tolist())


def axes_along(group: Sequence[int], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes of a mesh along which the devices of a group lie.

    Example:
        >>> axes_along((0, 2, 4, 6), {"data": 4, "model": 2})
        ('data',)
    """
    return tuple(_varying(group, mesh))


def _varying(group: Sequence[int], mesh: Mapping[str, int]) -> Iterator[str]:
    places = np.unravel_index(list(group), tuple(mesh.values()))
    for name, along in zip(mesh, places, strict=True):
        if len(set(along.tolist())) > 1:
            yield name
