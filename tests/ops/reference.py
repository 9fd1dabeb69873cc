"""NumPy references: the values of each operator, written independently of its kernel.

Each module under `references/` covers one module of operators and holds
`REFERENCES: dict[str, Reference]`, by operator type. The contract test runs every example of
every operator against its reference; an operator without one fails.

    REFERENCES = {
        "exp": Reference(np.exp),
        "log": Reference(np.log, inputs={"x": positive}),
        "take": Reference(take, inputs={"indices": indices_below(3)}),
    }
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Generator: TypeAlias = np.random.Generator
Maker: TypeAlias = "Callable[[Generator, tuple[int, ...], np.dtype[Any]], Array]"
Values: TypeAlias = "dict[str, tuple[Array, ...]]"

HERE = Path(__file__).parent
SIZES = {"b": 3, "t": 5, "h": 6, "w": 7, "c": 2}
"""Numbers for symbolic dimensions; 4 for all others."""


@dataclass(frozen=True)
class Reference:
    """How to test one operator.

    Attributes:
        function: The operator in NumPy: inputs by position (`None` where one is absent, all of
            a many-slot spread out), attributes by keyword. One array, or a tuple of them in the
            order of the output slots (a list for an output slot that holds many).
        inputs: By input slot, what makes suitable values from a generator, a shape and a dtype;
            `numbers` where none is given.
        adjust: Changes the made inputs where they depend on each other or on attributes:
            `adjust(values, attrs)` gives the values by slot anew.
        tolerance: The relative and absolute error that is allowed in float32; scaled by the
            epsilon of other dtypes, as far as 1e-12 in float64.
        smooth: Whether finite differences show the gradient (first and second order). False
            for piecewise constant operators and for random ones; of operators with kinks it
            stays True, for random inputs do not hit them.
        second: Whether finite differences show the second order too.
        empty: Whether an example with symbolic dimensions is run with all of them zero as well.
        sizes: Numbers for symbolic dimensions, where those of `SIZES` do not fit.
        moments: For random operators: from the attributes to the expected mean and standard
            deviation of the output (of large samples), `None` where there is none.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, Maker] = field(default_factory=dict[str, Maker])
    adjust: Callable[[Values, Mapping[str, Any]], Values] | None = None
    tolerance: float = 2e-5
    smooth: bool = True
    second: bool = True
    empty: bool = True
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    moments: Callable[[Mapping[str, Any]], tuple[float, float] | None] | None = None


# ---- making inputs ---------------------------------------------------------------------------


def numbers(rng: Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Any numbers: normal floats and complex numbers, small integers, bools."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def between(low: float, high: float) -> Maker:
    """Numbers of an interval, evenly spread; integers from `low` to below `high`."""

    def make(rng: Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if dtype.kind in "iu":
            return rng.integers(math.ceil(low), math.ceil(high), shape).astype(dtype)
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype)

    return make


def apart(rng: Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Different numbers, at least 0.1 apart and as far from zero, in random order."""
    size = int(np.prod(shape))
    values = rng.permutation(size) - size // 2
    if dtype.kind in "iu":
        return np.abs(values).reshape(shape).astype(dtype)
    jitter = rng.uniform(-0.03, 0.03, size)
    return (0.2 * values + 0.1 + jitter).reshape(shape).astype(dtype)


positive = between(0.5, 2.0)
away_from_zero: Maker = apart


def indices_below(count: int) -> Maker:
    """Indices that are in range of an axis of this size."""
    return between(0, count)


def negative_too(count: int) -> Maker:
    """Indices in range of an axis of this size, some of them counted from its end."""
    return between(-count, count)


def fixed(value: Any) -> Maker:
    """Always this value, broadcast to the shape."""

    def make(rng: Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        del rng
        return np.broadcast_to(np.asarray(value, dtype), shape).copy()

    return make


# ---- common to several references ------------------------------------------------------------


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a dtype that has gradients."""
    return (dtype.kind in "fc" and dtype.itemsize > 1) or dtype == ml_dtypes.bfloat16


def floating(x: Array) -> Array:
    """Integers and bools as float32; the rest as it is."""
    return x if is_float(x.dtype) else x.astype(np.float32)


def collect() -> dict[str, Reference]:
    """The references of all modules, by operator type.

    Raises:
        ValueError: If two modules have a reference for one operator.
    """
    references: dict[str, Reference] = {}
    for path in sorted((HERE / "references").rglob("*.py")):
        module = ".".join(path.relative_to(HERE).with_suffix("").parts)
        held = importlib.import_module(f"tests.ops.{module}").REFERENCES
        if twice := references.keys() & held.keys():
            raise ValueError(f"Two references for {sorted(twice)}; the second in {module}.")
        references |= held
    return references
