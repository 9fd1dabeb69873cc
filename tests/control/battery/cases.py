"""The battery: small programs with the control flow that frameworks get wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import braces as br
from tests.control.checking import Build, Feeds, integer


@dataclass
class Case:
    """A program of the battery and what to feed, run after run."""

    build: Build
    feeds: Sequence[Feeds]
    shapes: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])


CASES: dict[str, Case] = {}
RNG = np.random.default_rng(7)


def vectors(*names: str, size: int = 3, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Random vectors by name."""
    return {name: RNG.uniform(-scale, scale, size) for name in names}


def trips(n: int) -> np.ndarray:
    """A number of trips to feed."""
    return np.asarray(n, np.int32)


def case(*feeds: Feeds, **shapes: Sequence[Any]) -> Callable[[Build], Build]:
    """Add a program to the battery."""

    def add(build: Build) -> Build:
        CASES[build.__name__] = Case(build, feeds or [vectors("x", "w")], shapes)
        return build

    return add


@contextmanager
def counted(trips: int, *inits: Any) -> Generator[tuple[Any, ...]]:
    """The block of a while of so many trips: `with counted(3, x, w) as (loop, h, k):`."""
    loop = br.create_while()
    with loop.block() as body:
        memories = [body.add_memory(init=init) for init in inits]
        i = body.add_memory(init=integer(0))
        body.set_condition(i < trips)
        i.update(i + 1)
        yield (loop, *memories)
