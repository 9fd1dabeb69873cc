"""16-bit floats: each operator equals float64, rounded once or a few times.

The inputs are some 300 or some 1e-4 large: squares of the first overflow float16, of the second
vanish; what is summed, squared or divided on the way must not show that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from braces import Executor, gradients
from braces.define.axes.axis_notation import Notation
from braces.extend.building import tensor_type
from braces.extend.types import FLOAT64, SHORT_NAMES
from tests.ops.cases import (
    Built,
    Case,
    build_together,
    cases,
    number,
    run_together,
    with_floats,
)
from tests.ops.reference import is_float

pytestmark = pytest.mark.unoptimized  # what our kernels round, XLA does not change

NARROW = {name: SHORT_NAMES[name] for name in ("f16", "bf16")}
SCALES = (300.0, 1e-4)

ROUNDINGS = 8
"""How many units in the last place a result may be off; gradients are short programs."""


def takes_floats(case: Case) -> bool:
    """Return whether real floats go in, and something follows from them alone."""
    types = [t.dtype for slot in case.types.values() for t in slot]
    real = any(map(is_float, types)) and not any(dtype.kind == "c" for dtype in types)
    drawn = case.definition.random or "key" in case.types  # other bits in each dtype
    return real and not drawn


FIRST = {case.op: case for case in reversed(cases(FLOAT64)) if takes_floats(case)}
FLOATING = sorted(FIRST.values(), key=lambda case: case.op)


class Scaled:
    """A case at one dtype, with the gradients of a weighted sum of what it gives."""

    def __init__(self, built: Built) -> None:
        self.built = built
        inputs = [v for vars_ in built.inputs.values() for v in vars_ if is_float(v.dtype)]
        outputs = [v for vs in built.outputs.values() for v in vs if is_float(v.dtype)]
        if outputs:
            with built.program:
                weights = [built.declare(f"{v.name}_weight", tensor_type(v)) for v in outputs]
                found = gradients(outputs, inputs, weights)
                for i, grad in enumerate(found):
                    if grad is not None:
                        built.fetch[f"gradient of float {i}"] = grad

    def feed(self, values: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return the feeds of a run for these values, cast to the dtype."""
        fed = {
            slot: tuple(
                value.astype(var.dtype)
                for value, var in zip(given, self.built.inputs[slot], strict=True)
            )
            for slot, given in values.items()
        }
        weights = {
            name: np.resize(np.arange(1, 6) / 4, number(var.shape, sizes)).astype(var.dtype)
            for name, var in self.built.extra.items()
            if name != "sizes"
        }
        return self.built.feed(fed, weights, sizes)


def scaled_to(values: Any, scale: float, dtype: Any) -> Any:
    """Values whose largest is `scale`, as a 16-bit dtype has them; integers stay."""

    def change(value: Any) -> Any:
        if not is_float(value.dtype) or not value.size:
            return value
        return (value * (scale / np.abs(value).max())).astype(dtype)

    return {slot: tuple(map(change, given)) for slot, given in values.items()}


def assert_rounded(got: Any, want: Any, each: bool, what: str) -> None:
    """Equal up to a few roundings: of each number, or of the largest if numbers are summed."""
    finfo: Any = ml_dtypes.finfo
    limits = finfo(got.dtype)
    largest = float(limits.max)
    tiny = max(float(limits.smallest_subnormal), float(np.finfo(np.float32).eps))
    got, want = got.astype(np.float64), np.asarray(want, np.float64)
    finite = np.abs(want) < 0.99 * largest
    with np.errstate(invalid="ignore"):
        assert not np.any(np.abs(got[np.abs(want) > 1.01 * largest]) < 0.99 * largest), what
    assert np.isfinite(got[finite]).all(), f"{what}: {got}, not {want}"
    size = np.abs(want) if each else np.max(np.abs(want[finite]), initial=0.0)
    allowed = ROUNDINGS * (float(limits.eps) * size + tiny)
    with np.errstate(invalid="ignore"):
        wrong = finite & ~(np.abs(got - want) <= allowed)
    assert not wrong.any(), f"{what}: {got[wrong]}, not {want[wrong]}"


def is_elementwise(case: Case) -> bool:
    """Return whether a definition says so, in the notation of axes."""
    rule = case.definition.axes_rule
    terms = (
        (*rule.inputs.values(), *rule.outputs.values()) if isinstance(rule, Notation) else ()
    )
    return bool(terms) and all(term == ("...",) for term in terms)


@pytest.mark.parametrize("case", FLOATING, ids=str)
def test_an_operator_computes_with_16_bits_as_with_64(case: Case) -> None:
    sizes, each = case.sizes(), is_elementwise(case)
    dtypes = [with_floats(case, dtype) for dtype in NARROW.values()]
    found = [Scaled(built) for built in build_together([case, *dtypes])]
    executor, parts = Executor(), [one.built for one in found]
    for i, (name, dtype) in enumerate(NARROW.items(), start=1):
        for scale in SCALES:
            values = scaled_to(case.values(sizes), scale, dtype)
            with np.errstate(all="ignore"):  # what fits one 16-bit dtype may not fit the other
                feeds = [one.feed(values, sizes) for one in found]
            results = run_together(executor, parts, feeds)
            want, got = results[0], results[i]
            assert got.keys() == want.keys()
            for key in parts[i].fetch:
                if is_float(got[key].dtype) and got[key].dtype.itemsize == 2:
                    assert_rounded(got[key], want[key], each, f"{key} of {name} at {scale}")
