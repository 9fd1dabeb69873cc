"""What a run is given, as it lies on devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """A value that a run is given, and the part of it that each device has.

    Attributes:
        name: The variable.
        kind: `parameter`, `state` or `data`.
        type: Dtype and sizes.
        lies: Along which axes of the mesh each of its axes is cut.
        bytes: All of it.
        device_bytes: What one device has of it.
    """

    name: str
    kind: str
    type: str
    lies: str
    bytes: int
    device_bytes: int
