"""Declared algebraic properties of operators, such as neutral values, hold to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.define.definition import AXES, SHAPE, TYPE
from braces.errors import OpDefinitionError
from braces.extend.building import emit
from braces.extend.operators import OPS, OpDef
from braces.extend.programs import Literal
from braces.extend.types import TensorType
from tests.ops.cases import Case, build, cases, numbered
from tests.ops.reference import Values

pytestmark = pytest.mark.unoptimized

NUMBERS = itertools.count()
FLOATS = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 6e-8, 3.14159]
ARRAYS: dict[str, Any] = {
    **{dtype: np.array(FLOATS, dtype) for dtype in ("float16", "float32", "float64")},
    "int32": np.array([0, 1, -7, 2**31 - 1, -(2**31)], "int32"),
    "uint8": np.array([0, 1, 255], "uint8"),
    "bool": np.array([True, False]),
}
COMMUTATIVE = [d.type for d in OPS.definitions.values() if d.commutative]
NEUTRAL = [(d.type, slot) for d in OPS.definitions.values() for slot in d.neutral]
UNIFORM = [case for case in cases() if case.definition.number(case.attrs) is not None]


def run(program: br.Program, feed: Mapping[str, Any], fetch: list[br.Var], mode: str) -> Any:
    return br.Executor(mode=mode, passes=()).run(program, br.Scope(), feed, fetch)


def bits(array: Any) -> bytes:
    """An array, dtype and shape included; any NaN is one."""
    array = np.array(array)
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    return f"{array.dtype} {array.shape} ".encode() + array.tobytes()


def inputs_of(definition: OpDef) -> tuple[str, str]:
    first, second = definition.inputs
    return first.name, second.name


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("type_", COMMUTATIVE)
def test_inputs_may_change_places_where_the_definition_says_so(type_: str, mode: str) -> None:
    fetch, fed = list[br.Var](), dict[str, Any]()
    with br.Program() as program:
        for dtype, array in ARRAYS.items():
            x = br.data(dtype, array.shape, dtype)
            y = br.expand_dims(x, -1)
            try:
                fetch += [emit(type_, x, y), emit(type_, y, x)]
            except br.DTypeError:
                continue
            fed[dtype] = array
    found = run(program, fed, fetch, mode)
    assert found
    for left, right in zip(found[::2], found[1::2], strict=True):
        assert bits(left) == bits(right)


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize(("type_", "slot"), NEUTRAL)
def test_a_neutral_number_changes_no_bit(type_: str, slot: str, mode: str) -> None:
    definition, kept = OPS.get(type_), dict[str, br.Var]()
    with br.Program() as program:
        for dtype, array in ARRAYS.items():
            x = br.data(dtype, array.shape, dtype)
            number = br.full([], definition.neutral[slot], dtype)
            first = inputs_of(definition)[0] == slot
            try:
                out = emit(type_, *((number, x) if first else (x, number)))
            except br.DTypeError:
                continue
            if out.type == x.type:
                kept[dtype] = out
    assert {"float16", "float32", "float64"} <= kept.keys()
    found = run(program, {name: ARRAYS[name] for name in kept}, list(kept.values()), mode)
    for name, out in zip(kept, found, strict=True):
        assert bits(out) == bits(ARRAYS[name]), name


def changing(only: str) -> list[Case]:
    """The examples of operators that change this alone."""
    return [case for case in cases() if case.definition.changes_only == only]


def result_of(case: Case, values: Values) -> Any:
    """The only result of an example, interpreted."""
    built = build(case)
    executor = br.Executor(mode="interpret", passes=())
    found = built.run(executor, built.feed(values, {}, case.sizes()))
    (out,) = (np.asarray(value) for name, value in found.items() if name != "sizes")
    return out


def order_of(case: Case, x: Any) -> list[int]:
    """Return the input axis of each axis of the result."""
    (slot,), rule = case.types, case.definition.axes_rule
    assert rule is not None
    axes = rule({slot: (TensorType(x.dtype, x.shape),)}, numbered(case.attrs, case.sizes()))
    return [axes.of(slot).index(index) for index in axes.of_output("out")]


def keeps_its_type(case: Case) -> bool:
    """Return whether the result of an example has the type of its input."""
    built = build(case)
    return built.outputs["out"][0].type == built.inputs["x"][0].type


TYPED = [case for case in changing(TYPE) if keeps_its_type(case)]


@pytest.mark.parametrize("case", TYPED, ids=map(str, TYPED))
def test_what_changes_the_type_alone_gives_its_input_where_that_stays(case: Case) -> None:
    values = case.values(case.sizes())
    assert bits(result_of(case, values)) == bits(values["x"][0])


@pytest.mark.parametrize("case", changing(SHAPE), ids=str)
def test_what_changes_the_shape_alone_keeps_all_numbers_row_by_row(case: Case) -> None:
    values = case.values(case.sizes())
    assert bits(result_of(case, values).ravel()) == bits(np.ravel(values["x"][0]))


@pytest.mark.parametrize("case", changing(AXES), ids=str)
def test_the_declared_order_of_axes_describes_the_permutation(case: Case) -> None:
    values = case.values(case.sizes())
    x = values["x"][0]
    order = order_of(case, x)
    assert sorted(order) == list(range(x.ndim))
    assert bits(result_of(case, values)) == bits(np.transpose(x, order))


def test_each_way_to_change_an_array_has_an_example() -> None:
    assert all((TYPED, changing(SHAPE), changing(AXES)))


@pytest.mark.parametrize("case", UNIFORM, ids=map(str, UNIFORM))
def test_a_declared_number_equals_the_result(case: Case) -> None:
    out = result_of(case, case.values(case.sizes()))
    assert bits(out) == bits(np.full(out.shape, case.definition.number(case.attrs), out.dtype))


def test_an_array_of_several_numbers_is_none() -> None:
    attrs = {"value": Literal.of(np.ones(2, "float32"))}
    assert OPS.get("constant").number(attrs) is None


# ---- operators of users ----------------------------------------------------------------------


def kernel(x: br.Tensor, *, way: int = 0) -> br.Tensor:
    """Return the results of all these."""
    del way
    return x


def other(x: br.Tensor, y: br.Tensor) -> br.Tensor:
    """Return the operators with two operands."""
    del y
    return x


@pytest.mark.parametrize(
    ("function", "said", "what"),
    [
        (kernel, {"neutral": {"x": 0}}, "neutral"),
        (other, {"neutral": {"z": 0}}, "neutral"),
        (kernel, {"uniform": "value"}, "unknown attribute `value`"),
        (other, {"changes_only": "shape"}, "changes_only='shape'"),
        (kernel, {"changes_only": "size"}, "changes_only='size'"),
        (kernel, {"changes_only": "axes"}, "changes_only='axes' requires axes="),
        (kernel, {"joins": "axis"}, "unknown attribute `axis`"),
    ],
)
def test_what_does_not_fit_the_parameters_is_refused(
    function: Any, said: dict[str, Any], what: str
) -> None:
    before = set(OPS.definitions)
    with pytest.raises(OpDefinitionError, match=what):
        br.op(function, **said)
    assert set(OPS.definitions) == before


def test_what_users_say_of_their_operators_is_used() -> None:
    @br.op(commutative=True, neutral={"y": 0.0}, axes="..., ... -> ...")
    def further(x: br.Tensor, y: br.Tensor) -> br.Tensor:
        return (x * x + y * y) ** 0.5

    @br.op(changes_only="axes", axes="i j -> j i")
    def turned(x: br.Tensor) -> br.Tensor:
        return x.T

    with br.Program() as program:
        x = br.data("x", [2, 3])
        z = further(turned(turned(x)), br.zeros([2, 3]))
        program.give(br.add(further(z, x), further(x, z)).name)
    made = br.passes.dce(br.passes.cse(br.passes.canonicalize(program)))
    assert [op.type for op in made.definition.main.ops] == ["further", "add"]
    assert br.parse(str(made)).definition == made.definition
