"""Estimated time of a step on devices of a kind, from their data sheets (roofline model)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from braces.planning.collectives import Collective
from braces.planning.device_specs import DeviceSpecs


@dataclass(frozen=True)
class Estimate:
    """Estimated time of a step on devices of a kind.

        step_s = max(compute_s, memory_s) + collectives_s

    Attributes:
        device: The kind.
        compute_s: The operations of one device at its peak rate of products.
        memory_s: The bytes that it reads and writes, at its memory bandwidth.
        collectives_s: The bytes that it sends in rings (`Collective.sent_bytes`) at the rate of
            its links, or of the network for groups that reach beyond them.
        step_s: The sum above.
        fits: Whether the peak memory of a run is no more than its memory.

    `memory_s` is mostly an overestimate: XLA fuses less on the CPU, for which the code was
    compiled, and intermediate values between kernels are counted. The rest is an underestimate,
    for kernels reach only part of the peak rates. Not modelled: message latency, overlap of
    communication and computation, other collective algorithms, and the host.
    """

    device: str
    compute_s: float
    memory_s: float
    collectives_s: float
    step_s: float
    fits: bool


def estimate_step(
    figures: DeviceSpecs,
    flops: float,
    moved_bytes: float,
    peak_bytes: int,
    collectives: Iterable[Collective],
    narrow: bool,
) -> Estimate:
    """Return the estimate for one kind of device.

    Args:
        figures: The specifications of the kind.
        flops: The operations of one device in a step.
        moved_bytes: Bytes that it reads and writes.
        peak_bytes: Its peak memory.
        collectives: The collectives of a step.
        narrow: Whether most products are of 16-bit floats.
    """
    rate = figures.bf16_flops_per_s if narrow else figures.f32_flops_per_s
    compute, memory = flops / rate, moved_bytes / figures.memory_bytes_per_s
    sent = sum(collective.sent_bytes / _rate(figures, collective) for collective in collectives)
    step = max(compute, memory) + sent
    fits = peak_bytes <= figures.memory_bytes
    return Estimate(figures.name, compute, memory, sent, step, fits)


def _rate(figures: DeviceSpecs, collective: Collective) -> float:
    near = collective.span <= figures.near
    return figures.link_bytes_per_s if near else figures.network_bytes_per_s
