"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from benchmarks import (
    build,
    compiling,
    conv_loop,
    first_step,
    loop,
    memory,
    overhead,
    probes,
    remote,
    rows,
    scaling,
    search,
)
from benchmarks.case import Case
from benchmarks.growth import benchmark as growth
from benchmarks.language import benchmark as language
from benchmarks.nets import training
from benchmarks.peers import OPTIONAL, installed
from benchmarks.real import benchmark as real
from benchmarks.recurrent import benchmark as recurrent, unrolled
from benchmarks.trees import benchmark as trees


class Benchmark(Protocol):
    """A module with cases."""

    TITLE: str

    def cases(self, tiny: bool) -> Iterable[Case]:
        """The cases; small ones for a test."""
        ...


BENCHMARKS: Mapping[str, Benchmark] = {
    "overhead": overhead,
    "first_step": first_step,
    "build": build,
    "search": search,
    "probes": probes,
    "loop": loop,
    "recurrent": recurrent,
    "unrolled": unrolled,
    "growth": growth,
    "conv_loop": conv_loop,
    "rows": rows,
    "scaling": scaling,
    "memory": memory,
    "remote": remote,
    "training": training,
    "compiling": compiling,
    "language": language,
    "trees": trees,
    "real": real,
}

BY_NAME_ONLY = ("unrolled",)
"""What takes so long that it is measured only where it is named."""


def missing() -> list[str]:
    """Optional peers that are not installed."""
    return [name for name in OPTIONAL if not installed(name)]
