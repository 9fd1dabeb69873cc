"""Inputs of a run and their shards on devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceValue:
    """An input value of a run and the shard on each device.

    Attributes:
        name: The variable.
        kind: `parameter`, `state` or `data`.
        type: Dtype and sizes.
        sharding: The mesh axes along which each of its axes is sharded.
        bytes: Its global size.
        device_bytes: Size of the shard on one device.
    """

    name: str
    kind: str
    type: str
    sharding: str
    bytes: int
    device_bytes: int
