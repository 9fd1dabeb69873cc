"""How long a step would take on devices of a kind: an estimate from their data sheets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from braces.planning.collectives import Collective
from braces.planning.device_specs import DeviceFigures


@dataclass(frozen=True)
class Estimate:
    """What a step may take on devices of a kind.

        step_s = max(compute_s, memory_s) + collectives_s

    Attributes:
        device: The kind.
        compute_s: The operations of one device at its rate for products.
        memory_s: The bytes that it reads and writes, at the rate of its memory.
        collectives_s: What it sends in rings (`Collective.sent_bytes`) at the rate of its
            links, or of the network where a group reaches beyond them.
        step_s: The sum above.
        fits: Whether the peak of a run is no more than its memory.

    Too much is `memory_s` mostly: a CPU, for which the code was made, computes fewer operators
    as one than other devices do, and what is between them is read and written. Too little is
    the rest: kernels reach a part of the rates only. It leaves out how long a message is under
    way, that sending and computing overlap, other choices among collectives, and the host.
    """

    device: str
    compute_s: float
    memory_s: float
    collectives_s: float
    step_s: float
    fits: bool


def estimated(
    figures: DeviceFigures,
    flops: float,
    moved_bytes: float,
    peak_bytes: int,
    collectives: Iterable[Collective],
    narrow: bool,
) -> Estimate:
    """An estimate for one kind of device.

    Args:
        figures: The kind.
        flops: The operations of one device in a step.
        moved_bytes: What it reads and writes.
        peak_bytes: What it needs at once.
        collectives: What the devices tell each other.
        narrow: Whether most products are of 16-bit floats.
    """
    rate = figures.bf16_flops_per_s if narrow else figures.f32_flops_per_s
    compute, memory = flops / rate, moved_bytes / figures.memory_bytes_per_s
    sent = sum(one.sent_bytes / _rate(figures, one) for one in collectives)
    step = max(compute, memory) + sent
    fits = peak_bytes <= figures.memory_bytes
    return Estimate(figures.name, compute, memory, sent, step, fits)


def _rate(figures: DeviceFigures, one: Collective) -> float:
    near = one.span <= figures.near
    return figures.link_bytes_per_s if near else figures.network_bytes_per_s
