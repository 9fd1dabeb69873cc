"""Sums at places in 16 bits: added up in float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend import core

import braces as br
from braces import gradients
from braces.dtypes import parse_type
from braces.extend.building import emit
from tests.ops.cases import Case, build, cases

pytestmark = pytest.mark.unoptimized

BFLOAT16 = parse_type("bf16[]").dtype
COUNT = 4096

ADDING: dict[str, Callable[[br.Var, br.Var], br.Var]] = {
    "scatter_add": lambda x, at: br.scatter_add(br.zeros([3], x.dtype), at, x),
    "scatter_nd_add": lambda x, at: br.scatter_nd_add(br.zeros([3], x.dtype), x, at),
    "put_along_axis_add": lambda x, at: emit(
        "put_along_axis_add", br.zeros([3], x.dtype), at, x, axis=0
    ),
    "segment_sum": lambda x, at: br.segment_sum(x, at, 3),
    "segment_mean": lambda x, at: br.segment_mean(x, at, 3) * COUNT,
}
TAKING: dict[str, Callable[[br.Var, br.Var], br.Var]] = {
    "take": lambda x, at: br.take(x, at, axis=0),
    "embedding": lambda x, at: emit("embedding", br.expand_dims(x, 1), at),
    "gather_nd": br.gather_nd,
    "take_along_axis": lambda x, at: br.take_along_axis(x, at, axis=0),
}


def check(found: Any, x: np.ndarray, at: np.ndarray) -> None:
    """Hold sums against those in float64, rounded."""
    wanted = np.zeros(3)
    np.add.at(wanted, at, x.astype("d"))
    np.testing.assert_allclose(np.asarray(found, "d"), wanted, np.finfo("f2").eps * 8)


def values(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    numbers = np.where(np.arange(COUNT) % 2, 1 / 64, rng.uniform(0, 0.02, COUNT))
    return numbers.astype(np.dtype(parse_type(f"{dtype}[]").dtype)), np.zeros(COUNT, "int32")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_many_numbers_at_one_place_add_up(dtype: str, mode: str) -> None:
    x, at = values(dtype)
    with br.Program() as program:
        given = br.data("x", [COUNT], x.dtype), br.data("at", [COUNT], "int32")
        outs = [add(*given) for add in ADDING.values()]
    found = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": x, "at": at}, fetch=outs)
    for total in found:
        assert total.dtype == x.dtype
        check(total, x, at)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_cotangents_of_one_place_that_is_taken_often_add_up(dtype: str, mode: str) -> None:
    x, at = values(dtype)
    with br.Program() as program:
        table, places = br.data("table", [3], x.dtype), br.data("at", [COUNT], "int32")
        weights = br.data("x", [COUNT], x.dtype)
        taken = [br.reshape(take(table, places), [COUNT]) for take in TAKING.values()]
        grads = [gradients([br.sum(part * weights)], [table])[0] for part in taken]
    feed = {"table": np.ones(3, x.dtype), "at": at, "x": x}
    for total in br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=grads):
        assert total.dtype == x.dtype
        check(total, x, at)


# ---- every operator --------------------------------------------------------------------------

APART = {"diag", "max_unpool1d", "max_unpool2d", "max_unpool3d"}
"""Operators whose gradient adds one number to each place."""
FEW = {"roi_pool", "max_pool_with_indices3d"}
"""Operators whose gradient adds a number for each window over a place: there are few."""


def primitives(code: Any) -> Iterator[tuple[str, Any]]:
    """The primitives of a traced computation and the dtypes of their first results."""
    for equation in code.eqns:
        yield equation.primitive.name, getattr(equation.outvars[0].aval, "dtype", None)
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else [value]:
                if isinstance(part, core.ClosedJaxpr | core.Jaxpr):
                    yield from primitives(part)


def gradients_too(case: Case) -> tuple[Any, list[br.Var]]:
    built = build(case)
    floats = [x for each in built.inputs.values() for x in each if x.dtype == BFLOAT16]
    outs = [x for each in built.outputs.values() for x in each if x.dtype == BFLOAT16]
    fetch = [*built.wanted().values()]
    if floats and outs and case.definition.differentiable:
        with built.program:
            found = gradients([br.sum(out) for out in outs], floats)
        fetch += [grad for grad in found if grad is not None]
    return built, fetch


def moves_rows(case: Case) -> bool:
    """Return whether an operator reads or adds at places that are values."""
    return bool(case.definition.picks or case.definition.adds_to)


@pytest.mark.parametrize("op", [*sorted({c.op for c in cases() if moves_rows(c)}), "frame"])
def test_no_operator_adds_up_at_places_in_16_bits(op: str) -> None:
    for case in [case for case in cases(BFLOAT16) if case.op == op]:
        built, fetch = gradients_too(case)
        function, sizes = built.program.to_jax(fetch, room=8), case.sizes()
        feed = built.feed(case.values(sizes), {}, sizes)
        given = {name: feed[name] for name in function.feeds}
        code = jax.make_jaxpr(lambda given, run=function: run({}, given))(given).jaxpr
        adding = {name for name, dtype in primitives(code) if dtype == BFLOAT16}
        assert op in APART | FEW or not adding & {"scatter-add", "select_and_scatter_add"}
