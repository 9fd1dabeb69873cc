"""Operators in functions of JAX that users compile without 64-bit numbers, as JAX does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.dtypes import carrier_of
from tests.ops.cases import Case, build_together, cases

pytestmark = pytest.mark.unoptimized


def has_whole_numbers(case: Case) -> bool:
    """Return whether the first result is integers."""
    (built,) = build_together([case])
    return next(iter(built.fetch.values())).dtype.kind in "iu"


def whole() -> list[Case]:
    """One example of each operator that gives integers."""
    first = {case.op: case for case in reversed(cases())}
    asked = [case for case in first.values() if case.op != "as_size"]
    return [case for case in asked if has_whole_numbers(case)]


def together(chosen: Sequence[Case]) -> tuple[br.Program, list[br.Var], dict[str, Any]]:
    """One program of all of them, what it gives and what it is fed."""
    built = build_together(chosen)
    feed = dict[str, Any]()
    for one in built:
        sizes = one.case.sizes()
        feed |= one.feed(one.case.values(sizes), {}, sizes)
    outs = [var for one in built for var in one.wanted().values()]
    return built[0].program, outs, feed


def test_every_operator_of_integers_is_compiled_by_a_jit_of_the_user() -> None:
    assert not jax.config.read("jax_enable_x64")
    program, outs, feed = together(whole())
    function = program.to_jax(outs)
    given = {name: feed[name] for name in function.feeds}
    found, _, _ = jax.jit(lambda given: function({}, given))(given)
    wanted = br.Executor().run(program, br.Scope(), feed=feed, fetch=outs)
    for want, got, var in zip(wanted, found, outs, strict=True):
        assert got.dtype == want.dtype == var.dtype
        np.testing.assert_allclose(got, want, 1e-6, err_msg=var.name)


FAMILIES = sorted({case.definition.kernel.__module__ for case in cases()})


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_so_is_every_operator(family: str) -> None:
    ours = [case for case in cases() if case.definition.kernel.__module__ == family]
    program, outs, feed = together([case for case in ours if case.op != "as_size"])
    function = program.to_jax(outs, room=8)
    given = {name: feed[name] for name in function.feeds}
    found, _, _ = jax.jit(lambda given: function({}, given))(given)
    assert [one.dtype for one in found] == [carrier_of(var.dtype) for var in outs]


# ---- JAX's transformations of what is computed with 64-bit numbers ---------------------------

A, X = (np.random.default_rng(at).uniform(0.5, 1.5, (4, 3)).astype("f") for at in (0, 1))


def mixed() -> Callable[..., Any]:
    """A function of two arrays that computes with integers and floats of 64 bits."""
    with br.Program() as program:
        a, x = (br.data(name, ["b", 3], dtype="float64") for name in "ax")
        best = br.argmax(x, axis=1)
        weights = br.cast(br.expand_dims(best, 1) + 1, "float64")
        rows = br.take(x, best, axis=0)
        sums = br.sum(br.special.gammainc(a, x) * br.sin(x) * weights) + br.sum(rows * rows)
        out = br.cast(sums, "float32")
    function = program.to_jax([out])
    return lambda a, x: function({}, {"a": a, "x": x})[0][0]


def scanned(a: Any, x: Any) -> Any:
    """Several calls in a loop of JAX."""
    return jax.lax.scan(lambda c, _: (c * 0.9, mixed()(a, c)), x, None, length=3)[1].sum()


TRANSFORMED: dict[str, Callable[..., Any]] = {
    "value": lambda a, x: mixed()(a, x),
    "reverse": lambda a, x: jax.grad(mixed(), 1)(a, x),
    "reverse twice": lambda a, x: jax.jacrev(jax.grad(mixed(), 1), 1)(a, x),
    "forward": lambda a, x: jax.jvp(lambda x: mixed()(a, x), (x,), (x,))[1],
    "forward of reverse": lambda a, x: jax.hessian(mixed(), 1)(a, x),
    "rows": lambda a, x: jax.vmap(mixed(), (None, 1))(a, jnp.stack([x, x * 1.1], 1)),
    "reverse of rows": lambda a, x: jax.grad(
        lambda x: jax.vmap(mixed(), (None, 0))(a, jnp.stack([x, x * 1.1])).sum()
    )(x),
    "checkpoint": lambda a, x: jax.grad(jax.checkpoint(mixed()), 1)(a, x),
    "loop": lambda a, x: jax.grad(scanned, 1)(a, x),
}


@pytest.mark.parametrize("compiled", [True, False])
def test_transformations_are_those_with_64_bits(compiled: bool) -> None:
    for name, function in TRANSFORMED.items():
        found = (jax.jit(function) if compiled else function)(A, X)
        with jax.enable_x64(True):
            wanted = jax.jit(function)(A.astype("d"), X.astype("d"))
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6, err_msg=name)


def test_integers_have_no_tangents() -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        outs = [br.argmax(x, axis=0), x * x]
    function = program.to_jax(outs)
    found, tangents = jax.jvp(lambda x: function({}, {"x": x})[0], (X[0],), (X[1],))
    assert (tangents[0].dtype, found[0].dtype) == (jax.dtypes.float0, "int64")
    np.testing.assert_allclose(tangents[1], 2 * X[0] * X[1], 1e-6)
    assert not jax.grad(lambda x: jnp.float32(function({}, {"x": x})[0][0]))(X[0]).any()
