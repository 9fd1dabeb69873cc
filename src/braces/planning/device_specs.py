"""Specifications of devices from data sheets: the table behind the estimates.

Memory and rates are those of data sheets: bytes in powers of ten, dense (without sparsity), one
direction of bidirectional links. Programs do not reach them in practice.

Sources: cloud.google.com/tpu/docs/v4, /v5e, /v5p, /v6e; NVIDIA's data sheets of A100 80GB SXM,
H100 SXM, H200 SXM and HGX B200. Networks between hosts are those of NVIDIA's DGX of the same
name (a card of 200 or 400 Gbit/s for each GPU); for TPUs, a chip's share of a pod's network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from braces.errors import DeviceError, suggest

GB, TERA = 10**9, 10**12


@dataclass(frozen=True)
class DeviceSpecs:
    """Memory and peak rates of one device of a kind.

    Attributes:
        name: The kind.
        memory_bytes: Its memory.
        bf16_flops_per_s: Operations per second of matrix products in 16-bit floats.
        f32_flops_per_s: The same in float32 at JAX's default precision: TF32 on GPUs, one pass
            of bfloat16 on TPUs.
        memory_bytes_per_s: Memory bandwidth, reads and writes together.
        link_bytes_per_s: Bandwidth to nearby devices, over all links.
        near: Number of devices joined by such links: a host of GPUs, a pod of TPUs.
        network_bytes_per_s: Bandwidth to all other devices.
    """

    name: str
    memory_bytes: int
    bf16_flops_per_s: float
    f32_flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    near: int
    network_bytes_per_s: float


def _figures(
    name: str, memory: float, flops: tuple[float, float], rates: tuple[float, float, float],
    near: int,
) -> DeviceSpecs:  # fmt: skip
    bf16, f32 = (rate * TERA for rate in flops)
    reads, link, network = (rate * GB for rate in rates)
    return DeviceSpecs(name, int(memory * GB), bf16, f32, reads, link, near, network)


# name, GB, TFLOP/s (bf16, f32), GB/s (memory, links, network), devices joined by links
DEVICES: Mapping[str, DeviceSpecs] = {
    specs.name: specs
    for specs in (
        _figures("v4", 32, (275, 275), (1200, 300, 3.1), 4096),
        _figures("v5e", 16, (197, 197), (819, 200, 3.1), 256),
        _figures("v5p", 95, (459, 459), (2765, 600, 6.2), 8960),
        _figures("v6e", 32, (918, 918), (1600, 400, 12.5), 256),
        _figures("a100", 80, (312, 156), (2039, 300, 25), 8),
        _figures("h100", 80, (989, 494), (3350, 450, 50), 8),
        _figures("h200", 141, (989, 494), (4800, 450, 50), 8),
        _figures("b200", 180, (2250, 1100), (8000, 900, 50), 8),
    )
}
"""Kinds of devices, by name."""


def find_device_specs(name: str) -> DeviceSpecs:
    """Return the specifications of a kind of device.

    Raises:
        DeviceError: If the table has no device of this name.
    """
    if name not in DEVICES:
        raise DeviceError(
            f"unknown device {name!r:.40}.",
            given=f"known: {', '.join(DEVICES)}",
            fix=suggest(str(name), DEVICES),
        )
    return DEVICES[name]
