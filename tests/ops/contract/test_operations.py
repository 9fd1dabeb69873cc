"""Declared operation counts equal those that XLA counts in kernels.

XLA counts one for each element of what works element by element, and calls functions as `exp`
transcendentals; conversions, index arithmetic and masks are operations to it, too. So each
operator may be off by `FACTOR`, and by `BESIDE` operations for each number that it reads or
gives. What differs by more is listed with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from braces.define.axes.axis_map import shape_of
from braces.define.definition import Types
from braces.extend.operators import OPS, OpDef
from braces.extend.types import Size, TensorType, substitute
from braces.lazy import jax
from braces.passes.analysis.flops import cost_of
from tests.ops.cases import Case, build, cases, definitions, numbered
from tests.ops.reference import is_float

FACTOR, BESIDE, SIZE = 2.5, 2, 12
DERIVED = 2
"""So many examples of an operator are differentiated."""

FUNCTION = "one function to us, which XLA computes with several"
POLYNOMIAL = "a function that JAX writes out as a polynomial"
PLACES = "finding places takes integers, which move no float"
PAIRS = "XLA reduces pairs of a number and its place, with several comparisons"
PLACE_BY_PLACE = "each place of a window is compared with the result, by four operations"
NUMBERS_ALONE = "XLA leaves out the places, which no derivative needs"
OVERLAPS = "what windows that overlap give is added to all elements, place by place"
LINEAR = "of what is linear, the tangent alone is computed"
CALLED = "a decomposition that XLA calls, and does not count, or writes out for small ones"
WINDOWS = "XLA counts all windows before each place, and computes sums by halves"
APPROXIMATIONS = "of a batch, XLA computes all approximations that matrices could need"
PUT = "ties and zeros of each place are counted, to tell what a change follows from"

EXCEPTIONS = {
    "accuracy": PAIRS,
    "arcsin": FUNCTION,
    "argmax": PAIRS,
    "argmin": PAIRS,
    "cholesky.jvp": CALLED,
    "cholesky.vjp": CALLED,
    "cosh.jvp": FUNCTION,
    "cosh.vjp": FUNCTION,
    "cumlogsumexp": WINDOWS,
    "cumlogsumexp.jvp": WINDOWS,
    "cumlogsumexp.vjp": WINDOWS,
    "cummax": WINDOWS,
    "cummax.jvp": WINDOWS,
    "cummax.vjp": WINDOWS,
    "cummin": WINDOWS,
    "cummin.jvp": WINDOWS,
    "cummin.vjp": WINDOWS,
    "cumprod": WINDOWS,
    "cumsum": WINDOWS,
    "det": CALLED,
    "det.vjp": CALLED,
    "diag": PLACES,
    "diag.jvp": PLACES,
    "diag.vjp": PLACES,
    "digamma": POLYNOMIAL,
    "digamma.jvp": POLYNOMIAL,
    "digamma.vjp": POLYNOMIAL,
    "eig": CALLED,
    "eigh": CALLED,
    "eigvalsh": CALLED,
    "erfc": POLYNOMIAL,
    "erfinv": POLYNOMIAL,
    "erfinv.jvp": POLYNOMIAL,
    "erfinv.vjp": POLYNOMIAL,
    "eye": PLACES,
    "floor_divide": FUNCTION,
    "gelu": POLYNOMIAL,
    "gelu.jvp": POLYNOMIAL,
    "gelu.vjp": POLYNOMIAL,
    "hessenberg": CALLED,
    "hypot": FUNCTION,
    "expm": APPROXIMATIONS,
    "expm.jvp": APPROXIMATIONS,
    "expm.vjp": APPROXIMATIONS,
    "hypot.jvp": FUNCTION,
    "hypot.vjp": FUNCTION,
    "inv.jvp": CALLED,
    "inv.vjp": CALLED,
    "lgamma": POLYNOMIAL,
    "lgamma.jvp": POLYNOMIAL,
    "lgamma.vjp": POLYNOMIAL,
    "lu": CALLED,
    "max_pool1d.vjp": OVERLAPS,
    "max_pool2d.jvp": PLACE_BY_PLACE,
    "max_pool2d.vjp": OVERLAPS,
    "max_pool3d.jvp": PLACE_BY_PLACE,
    "max_pool3d.vjp": OVERLAPS,
    "max_pool_with_indices1d.jvp": NUMBERS_ALONE,
    "max_unpool1d.vjp": PLACES,
    "max_unpool2d.vjp": PLACES,
    "nonzero": WINDOWS,
    "pinv": CALLED,
    "pow": FUNCTION,
    "pow.jvp": FUNCTION,
    "put_along_axis.jvp": PUT,
    "put_along_axis.vjp": PUT,
    "qr": CALLED,
    "remainder": FUNCTION,
    "remainder.jvp": FUNCTION,
    "remainder.vjp": FUNCTION,
    "resize_back.jvp": LINEAR,
    "roi_pool": PAIRS,
    "roi_pool.jvp": PAIRS,
    "roi_pool.vjp": PAIRS,
    "schur": CALLED,
    "sinh": FUNCTION,
    "slogdet": CALLED,
    "solve": CALLED,
    "svd": CALLED,
    "svdvals": CALLED,
    "top_k_accuracy": PAIRS,
    "tridiagonal": CALLED,
    "tridiagonal_solve.vjp": CALLED,
    "unique_places": WINDOWS,
}


HALVING = ("argsort", "fft", "fftn", "ifft", "ifftn", "irfft", "rfft", "searchsorted", "sort")
"""Operators that work as often as their axis can be halved, which no polynomial tells."""

Values = Mapping[str, tuple[Any, ...]]


def types_of(values: Values) -> Types:
    return {
        slot: tuple(TensorType(np.dtype(x.dtype), tuple(x.shape)) for x in given)
        for slot, given in values.items()
    }


def counted(
    definition: OpDef, values: Values, attrs: Mapping[str, Any], wanted: Sequence[str]
) -> tuple[int, float, int]:
    """Return the operation counts of the definition and of XLA, and the number of elements."""
    compute = jax.jit(lambda given: definition.compute(given, attrs, wanted))
    with jax.enable_x64(True):
        analysed: Any = compute.lower(dict(values)).cost_analysis() or {}
    outputs = types_of(shapes(definition, values, attrs, wanted))
    ours = definition.count(types_of(values), outputs, attrs)
    assert isinstance(ours, int)
    if not numbers_in(outputs):
        return 0, 0.0, 0
    theirs = sum(analysed.get(name, 0.0) for name in ("flops", "transcendentals"))
    return ours, theirs, numbers_in(types_of(values)) + numbers_in(outputs)


def shapes(
    definition: OpDef, values: Values, attrs: Mapping[str, Any], wanted: Sequence[str]
) -> Values:
    """Numbers in the shapes of what a kernel gives."""
    with jax.enable_x64(True):
        found: Any = jax.eval_shape(
            lambda given: definition.compute(given, attrs, wanted), dict(values)
        )
    return {s: tuple(np.ones(x.shape, x.dtype) for x in given) for s, given in found.items()}


def numbers_in(types: Types) -> int:
    each = (shape_of(type_) for found in types.values() for type_ in found)
    return sum(math.prod(map(int, shape)) for shape in each)


def kernels(case: Case, derive: bool) -> Iterator[tuple[OpDef, Values, Sequence[str]]]:
    """An example and its derivatives: what computes, from which values, and what of it."""
    definition, sizes = case.definition, sizes_of(case)
    values, attrs = case.values(sizes), numbered(case.attrs, sizes)
    every = [slot.name for slot in definition.outputs]
    yield definition, values, every
    floats = [s for s, given in values.items() if all(is_float(x.dtype) for x in given)]
    if not (derive and definition.differentiable and floats and not definition.random):
        return
    outs = shapes(definition, values, attrs, every)
    ends = {s: given for s, given in outs.items() if is_float(given[0].dtype)}
    yield derived(definition, "vjp", {**outs, **values}, ends, floats)
    yield derived(definition, "jvp", values, {s: values[s] for s in floats}, list(ends))


def sizes_of(case: Case) -> dict[str, int]:
    """Numbers that are large enough to tell what grows with them from what does not."""
    known = case.reference.sizes
    return {name: known.get(name, SIZE) for name in case.symbols}


def derived(
    base: OpDef, transform: str, values: Values, beside: Values, of: Sequence[str]
) -> tuple[OpDef, Values, Sequence[str]]:
    definition = OPS.get(f"{base.type}.{transform}")
    suffix = definition.suffix
    given = {**values, **{slot + suffix: found for slot, found in beside.items()}}
    inputs = {s.name: given[s.name] for s in definition.inputs if s.name in given}
    known = [slot.name for slot in definition.outputs]
    return definition, inputs, [slot + suffix for slot in of if slot + suffix in known]


def off(case: Case, derive: bool) -> dict[str, str]:
    """The kernels of an example of which XLA says something else."""
    found, attrs = dict[str, str](), numbered(case.attrs, sizes_of(case))
    for definition, values, wanted in kernels(case, derive):
        ours, theirs, numbers = counted(definition, values, attrs, wanted)
        slack = BESIDE * numbers + SIZE
        if not (ours - slack) / FACTOR <= theirs <= ours * FACTOR + slack:
            found[definition.type] = f"{case}: {ours} operations, XLA says {theirs:.0f}"
    return found


BY_OPERATOR = {d.type: [case for case in cases() if case.op == d.type] for d in definitions()}


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_definitions_and_xla_count_alike(op: str) -> None:
    found: dict[str, str] = {}
    for i, case in enumerate(BY_OPERATOR[op]):
        found |= off(case, derive=i < DERIVED)
    allowed = {name for name in EXCEPTIONS if name.partition(".")[0] == op}
    assert found.keys() == allowed, "\n".join(f"{n} of {x}" for n, x in found.items())


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_sizes_may_come_later(op: str) -> None:
    for case in BY_OPERATOR[op]:
        built = build(case)
        (made,) = [one for one in built.program.definition.main.ops if one.type == op][-1:]
        infos, sizes = built.program.definition.main.vars, sizes_of(case)
        symbolic, told = cost_of(made, infos)
        assert told
        numbers = {n: i.with_(type=i.type.map_sizes(fixed(sizes))) for n, i in infos.items()}
        attrs = numbered(made.attrs, sizes)
        found, _ = cost_of(made.with_(attrs=attrs), numbers)
        if op not in HALVING:
            assert symbolic.at(sizes).operations == found.operations


def fixed(sizes: Mapping[str, int]) -> Callable[[Size], Size]:
    return lambda size: substitute(size, sizes)


def test_every_operator_tells_its_operations() -> None:
    ours = [d for d in OPS.definitions.values() if d.kernel.__module__.startswith("braces.")]
    kernels = [d for d in ours if not (d.owns_blocks or d.changes_only)]
    assert len(kernels) > 150
    assert not [d.type for d in kernels if d.operations is None and d.axes_rule is None]
