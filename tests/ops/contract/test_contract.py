"""The contract of operators, checked on every example of every operator.

types       the inferred types are those of the results, whatever the float dtype
values      both modes compute what the NumPy reference does, symbolic and empty sizes too
gradients   equal the kernel's own by `jax.vjp`, and finite differences; to second order
tangents    equal finite differences
documents   every slot and attribute is described; there are a reference and examples
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from braces import Executor, Program, Var, gradients
from braces.dtypes import carrier_of
from braces.errors import DTypeError
from braces.extend.operators import OPS, OpDef
from braces.extend.types import SHORT_NAMES, TensorType
from tests.ops.cases import (
    MODES,
    REFERENCES,
    Built,
    Case,
    build,
    build_together,
    cases,
    definitions,
    differentiable_cases,
    number,
    numbered,
    run_together,
    with_floats,
)
from tests.ops.differentiated import STEP, Differentiated, floats, together
from tests.ops.reference import is_float

by_name = pytest.mark.parametrize("definition", definitions(), ids=lambda d: d.type)
by_case = pytest.mark.parametrize("case", cases(), ids=str)


@pytest.fixture(autouse=True)
def strict_dtypes() -> Iterator[None]:
    """Kernels name their dtypes: nothing is promoted for them."""
    with jax.numpy_dtype_promotion("strict"):
        yield


# ---- comparing -------------------------------------------------------------------------------


def assert_close(got: Any, want: Any, tolerance: float, what: str) -> None:
    """Equal up to rounding; integers and bools are equal."""
    want = np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if not is_float(got.dtype):
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    epsilon = ml_dtypes.finfo(got.dtype).eps / np.finfo(np.float32).eps
    allowed = max(tolerance * float(epsilon), 1e-12)
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), allowed, allowed, err_msg=what
    )


def assert_type(got: Any, var: Var, sizes: Mapping[str, int], inside: bool = False) -> None:
    """A result has the inferred type of its variable; that of a kernel as runs have it."""
    type_ = var.type
    assert isinstance(type_, TensorType)
    dtype = carrier_of(type_.dtype) if inside else type_.dtype
    want = (dtype, number(type_.shape, sizes))
    assert (got.dtype, got.shape) == want, f"{var.name} is {got.dtype}{got.shape}, not {want}"


def sizes_to_try(case: Case) -> list[dict[str, int]]:
    """Numbers for the symbolic dimensions, and zeros where the operator takes those."""
    if case.symbols and case.reference.empty:
        return [case.sizes(), case.sizes(zero=True)]
    return [case.sizes()]


# ---- documents -------------------------------------------------------------------------------


@by_name
def test_every_slot_and_attribute_is_described(definition: OpDef) -> None:
    for part in (*definition.inputs, *definition.attrs, *definition.outputs):
        entry = rf"^\s+(`?\w+`?, )*`?{part.name}`?(, `?\w+`?)*:"
        assert re.search(entry, definition.doc, re.MULTILINE), f"`{part.name}` is not described"


@by_name
def test_every_operator_has_a_reference_and_examples(definition: OpDef) -> None:
    assert definition.type in REFERENCES
    found = [Case(definition.type, example) for example in definition.examples]
    assert len(found) >= 2
    if definition.inputs and not definition.random:
        assert any(case.symbols for case in found), "no example has a symbolic dimension"


def test_every_reference_is_of_an_operator() -> None:
    assert REFERENCES.keys() <= OPS.definitions.keys()


# ---- types -----------------------------------------------------------------------------------


@by_case
def test_types_are_those_of_the_kernel(case: Case) -> None:
    for dtype in (None, *map(SHORT_NAMES.get, ("f16", "bf16", "f64"))):
        typed = case if dtype is None else with_floats(case, dtype)
        try:
            built = build(typed)
        except DTypeError:
            assert dtype is not None, "the example itself has a dtype that is refused"
            continue
        for sizes in sizes_to_try(case):
            assert_types_of_kernel(built, sizes)


def assert_types_of_kernel(built: Built, sizes: Mapping[str, int]) -> None:
    """The inferred types are what JAX says of the kernel at these sizes."""
    case = built.case
    attrs = numbered(case.attrs, sizes)
    structs = {
        slot: tuple(
            jax.ShapeDtypeStruct(number(t.shape, sizes), carrier_of(t.dtype)) for t in types
        )
        for slot, types in case.types.items()
    }
    with jax.enable_x64(True):
        found = jax.eval_shape(lambda v: case.definition.compute(v, attrs, ()), structs)
    assert found.keys() == built.outputs.keys()
    for slot, vars_ in built.outputs.items():
        for struct, var in zip(found[slot], vars_, strict=True):
            assert_type(struct, var, sizes, inside=True)


# ---- values ----------------------------------------------------------------------------------


@cache
def examples(op: str) -> list[Built]:
    """All examples of an operator, in one program."""
    return build_together([case for case in cases() if case.op == op])


@lru_cache(maxsize=4)
def results_in_both(op: str, zero: bool) -> dict[Case, dict[str, dict[str, Any]]]:
    """Return the results of both modes for the examples of an operator, or the empty ones."""
    chosen = [built for built in examples(op) if built.case.symbols or not zero]
    feeds = [b.feed(b.case.values(s), {}, s) for b in chosen for s in [b.case.sizes(zero)]]
    found = {mode: run_together(Executor(mode=mode), chosen, feeds) for mode in MODES}
    return {
        built.case: {mode: found[mode][i] for mode in MODES} for i, built in enumerate(chosen)
    }


@by_case
def test_both_modes_compute_what_the_reference_does(case: Case) -> None:
    assert_values(case, zero=False)


EMPTY = {case.op: case for case in cases() if len(sizes_to_try(case)) > 1}


@pytest.mark.parametrize("op", sorted(EMPTY))
def test_both_modes_compute_of_nothing_what_the_reference_does(op: str) -> None:
    for case in (case for case in cases() if case.op == op and len(sizes_to_try(case)) > 1):
        assert_values(case, zero=True)


def assert_values(case: Case, zero: bool) -> None:
    """Both modes compute what the reference does."""
    built = next(built for built in examples(case.op) if built.case == case)
    sizes, results = case.sizes(zero), results_in_both(case.op, zero)[case]
    for name, var in built.fetch.items():
        compiled, interpreted = (results[mode][name] for mode in MODES)
        assert_type(compiled, var, sizes)
        assert_type(interpreted, var, sizes)
        assert_close(interpreted, compiled, case.reference.tolerance, f"modes: {name}")
    if not case.definition.random:
        expected = case.expected(case.values(sizes), sizes)
        for slot, wanted in expected.items():
            for i, want in enumerate(wanted):
                got = results["compile"][f"{slot}.{i}"]
                assert_close(got, want, case.reference.tolerance, f"{slot} at {sizes}")


@by_case
def test_programs_survive_files(case: Case) -> None:
    program = build(case).program
    assert Program.from_bytes(program.to_bytes()).definition == program.definition


RANDOM = [case for case in cases() if case.definition.random]
ONE_DRAW_OF_EACH = list({case.op: case for case in reversed(RANDOM)}.values())


@pytest.mark.unoptimized
@pytest.mark.parametrize("case", ONE_DRAW_OF_EACH, ids=str)
def test_draws_follow_from_the_state_alone(case: Case) -> None:
    built, sizes = build(case), case.sizes()
    values = case.values(sizes)
    feed = built.feed(values, {}, sizes)
    first, again = (built.run(Executor(), feed) for _ in range(2))
    for name in built.fetch:
        np.testing.assert_array_equal(first[name], again[name])


def moments_of(case: Case) -> Any:
    """Mean and standard deviation of what a case draws, where its shape can be chosen."""
    moments = case.reference.moments
    return moments(case.attrs) if moments and "shape" in case.attrs else None


WITH_MOMENTS = [case for case in RANDOM if moments_of(case) is not None]


@pytest.mark.unoptimized
@pytest.mark.parametrize("case", WITH_MOMENTS, ids=str)
def test_draws_have_the_moments_of_their_distribution(case: Case) -> None:
    values = case.values(case.sizes())
    told = [n for trip in values.get("trips", ()) for n in trip.shape]
    attrs = case.attrs | {"shape": (*told, 200, 200)}
    with jax.enable_x64(True):
        (out,) = case.definition.compute(values, attrs, ("out",))["out"]
    drawn = np.asarray(out, np.float64)
    mean, deviation = moments_of(case)
    assert abs(drawn.mean() - mean) < 0.03 * max(deviation, abs(mean))
    assert abs(drawn.std() - deviation) < 0.03 * deviation


# ---- gradients -------------------------------------------------------------------------------


def has_float_outputs(case: Case) -> bool:
    """Return whether there is anything to take the gradient of."""
    return bool(floats(build(case).outputs))


WITH_GRADIENT = [case for case in differentiable_cases() if has_float_outputs(case)]
STILL = [
    case
    for case in cases()
    if not case.definition.differentiable
    and any(is_float(t.dtype) for types in case.types.values() for t in types)
    and has_float_outputs(case)
]
FIRST_OF_EACH = {case.op: case for case in reversed(WITH_GRADIENT)}.values()


@pytest.mark.unoptimized
@pytest.mark.parametrize("case", WITH_GRADIENT, ids=str)
def test_gradients(case: Case) -> None:
    group = together(case.op)
    found, results = group.found[case], group.results[case]
    for name, var in found.built.fetch.items():
        assert_type(results[name], var, found.sizes)
    if case in FIRST_OF_EACH:
        interpreted = found.run(Executor(mode="interpret"), found.values)
        for name in found.built.fetch:
            assert_close(interpreted[name], results[name], 1e-3, f"modes: {name}")
    something = all(value.size for values in found.values.values() for value in values)
    smooth = something and case.reference.smooth and not case.definition.random
    if is_written(case.definition) or not smooth:
        assert_equals_derived(found, results, group.derived[case])
    if smooth:
        assert_equals_differences(found, results)
        if case.reference.second:
            slope = along(found, group.ahead[case]) - along(found, group.behind[case])
            second = along(found, results, "second")
            assert_slope(second, slope / (2 * STEP), "second order")


OF_NOTHING = {c.op: c for c in differentiable_cases() if c.symbols and c.reference.empty}


@pytest.mark.unoptimized
@pytest.mark.parametrize("op", sorted(OF_NOTHING))
def test_gradients_of_nothing(op: str) -> None:
    group = together(op, zero=True)
    for case, found in group.found.items():
        for name, var in found.built.fetch.items():
            assert_type(group.results[case][name], var, found.sizes)


@pytest.mark.parametrize("case", STILL, ids=str)
def test_what_is_not_differentiable_has_no_gradient(case: Case) -> None:
    built = build(case)
    inputs, outputs = floats(built.inputs), floats(built.outputs)
    with built.program:
        assert gradients(outputs, inputs) == [None] * len(inputs)


def test_there_is_something_to_compare() -> None:
    assert len(WITH_GRADIENT) > 450
    assert len({case.op for case in WITH_GRADIENT}) > 115
    assert len({case.op for case in STILL}) >= 5
    assert len(WITH_MOMENTS) >= 10
    assert len(ONE_DRAW_OF_EACH) >= 8


def is_written(definition: OpDef) -> bool:
    """Return whether the gradient is not simply the kernel's own."""
    return definition.vjp_rule is not None or definition.gradient_rule is not None


def assert_equals_derived(
    found: Differentiated, results: Mapping[str, Any], derived: Mapping[str, Any]
) -> None:
    """The gradient is that of the kernel."""
    for name, want in derived.items():
        got = results.get(f"first.{name}", np.zeros_like(found.named[name]))
        np.testing.assert_allclose(got, want, 1e-6, 1e-8, err_msg=f"derived: {name}")


def assert_equals_differences(found: Differentiated, results: Mapping[str, Any]) -> None:
    """Gradient and tangent are what the reference does along one direction."""
    case = found.case
    ahead = case.expected(found.moved(STEP), found.sizes)
    behind = case.expected(found.moved(-STEP), found.sizes)
    total = 0.0
    for slot, vars_ in found.built.outputs.items():
        for i, var in enumerate(vars_):
            if var.name not in found.c:
                continue
            slope = (np.asarray(ahead[slot][i]) - np.asarray(behind[slot][i])) / (2 * STEP)
            total += np.real(np.sum(slope * found.extra[f"{var.name}_c"]))
            if f"tangent.{var.name}" in results and all_move(found):
                tangent = results[f"tangent.{var.name}"]
                np.testing.assert_allclose(tangent, slope, 1e-5, 1e-6, err_msg="tangent")
    assert_slope(along(found, results), total, "first order")


def all_move(found: Differentiated) -> bool:
    """Return whether the tangents are along the same direction as the differences."""
    mixed = [
        {is_float(v.dtype) for v in vars_} for vars_ in found.built.inputs.values() if vars_
    ]
    return all(len(kinds) == 1 for kinds in mixed)


def along(found: Differentiated, results: Mapping[str, Any], order: str = "first") -> float:
    """A gradient times the direction; of complex numbers the real part, as that of slopes."""
    return sum(
        float(np.real(np.sum(results[f"{order}.{v.name}"] * found.direction(v))))
        for v in found.inputs
        if f"{order}.{v.name}" in results
    )


def assert_slope(got: float, want: float, what: str) -> None:
    """Equal as far as finite differences tell."""
    np.testing.assert_allclose(got, want, 2e-5, 2e-6, err_msg=what)
