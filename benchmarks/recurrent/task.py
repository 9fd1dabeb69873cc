"""The computation: cells and sizes by name, and the initial values of all sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

RATE = 0.1

Values: TypeAlias = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Cell:
    """The parts of a cell.

    Attributes:
        name: The name in tables.
        gates: A letter for each, in the order of the products.
        memories: The number of memories.
        vectors: Further parameters, as wide as the memory, with their initial means.
        apart: Whether it needs the products of input and memory before their sum.
        by_gate: Whether its step has a separate product for each gate.
    """

    name: str
    gates: str
    memories: int
    vectors: Mapping[str, float] = field(default_factory=dict)
    apart: bool = False
    by_gate: bool = False


LSTM = Cell("LSTM", "ifou", 2)
GRU = Cell("GRU", "rzn", 1, apart=True)
PEEPHOLE = Cell("peephole LSTM", "ifou", 2, {"pi": 0, "pf": 0, "po": 0}, by_gate=True)
# Its gate begins nearly closed, as is usual: else rounding grows from trip to trip.
HIGHWAY = Cell(
    "highway with layer norm",
    "ts",
    1,
    {"scale_t": 0.5, "shift_t": -2, "scale_s": 0.5, "shift_s": 0},
    by_gate=True,
)
CELLS = {cell.name: cell for cell in (LSTM, GRU, PEEPHOLE, HIGHWAY)}


@dataclass(frozen=True)
class Sizes:
    """Rows, iterations, and the widths of embedding, memory and classes."""

    b: int
    t: int
    d: int
    h: int
    v: int

    def __str__(self) -> str:
        return f"B {self.b}, T {self.t}, D {self.d}, H {self.h}, V {self.v:,}"


@dataclass(frozen=True)
class Task:
    """A cell at some sizes, as names and numbers that can be sent to other interpreters."""

    name: str
    sizes: Sizes

    def __str__(self) -> str:
        return str(self.sizes)

    @property
    def cell(self) -> Cell:
        """The parts of the cell."""
        return CELLS[self.name]

    def values(self) -> Values:
        """The parameters, with all gates concatenated."""
        s, wide, rng = self.sizes, len(self.cell.gates) * self.sizes.h, np.random.default_rng(0)
        shapes: dict[str, tuple[int, ...]] = {
            "emb": (s.v, s.d),
            "wx": (s.d, wide),
            "wh": (s.h, wide),
            "b": (wide,),
            "wo": (s.h, s.v),
            "bo": (s.v,),
            **dict.fromkeys(self.cell.vectors, (s.h,)),
        }
        centres = self.cell.vectors
        made = {n: rng.normal(centres.get(n, 0), 0.08, shape) for n, shape in shapes.items()}
        return {name: value.astype("float32") for name, value in made.items()}

    def feeds(self) -> Values:
        """Ids and labels, a step after the other."""
        rng, shape = np.random.default_rng(1), (self.sizes.t, self.sizes.b)
        made = {name: rng.integers(0, self.sizes.v, shape) for name in ("ids", "labels")}
        return {name: value.astype("int32") for name, value in made.items()}

    def arranged(self, gates: str) -> Values:
        """The parameters, with gates in the order of another library."""
        found = self.values()
        parts = {name: self._gates(found[name]) for name in ("wx", "wh", "b")}
        joined = {
            name: np.concatenate([part[gate] for gate in gates], axis=-1)
            for name, part in parts.items()
        }
        return found | joined

    def gate_by_gate(self) -> Values:
        """The parameters gate by gate: `wx_i`, `wx_f`, ..."""
        found = self.values()
        parts = {name: self._gates(found.pop(name)) for name in ("wx", "wh", "b")}
        return found | {
            f"{name}_{gate}": value
            for name, part in parts.items()
            for gate, value in part.items()
        }

    def _gates(self, value: np.ndarray[Any, Any]) -> Values:
        parts = np.split(value, len(self.cell.gates), axis=-1)
        return dict(zip(self.cell.gates, map(np.ascontiguousarray, parts), strict=True))

    def operations(self) -> int:
        """Floating-point operations of the products: forward, and twice as many backward."""
        s, wide = self.sizes, len(self.cell.gates) * self.sizes.h
        return 6 * s.b * s.t * (s.d * wide + s.h * wide + s.h * s.v)
