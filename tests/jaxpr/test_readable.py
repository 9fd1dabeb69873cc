"""Imports without operators that only copy: selections, known numbers, bits, and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br
from braces.jaxpr.core.literal_folding import FOLDED, fold_literals

X = np.array([0.5, -1.5, 2.0], "float32")
Y = np.array([1.0, 3.0, -0.25], "float32")


def types_of(program: Any) -> Counter[str]:
    return Counter(op.type for op in program.find())


def check(mode: str, function: Callable[..., Any], *feeds: Any) -> Any:
    """Compare the values, and the gradients for the first and second argument, with JAX."""
    program, _ = br.from_jax(function, *feeds)
    with program:
        loss = br.sum(br.square(program.var(program.fetches[0])))
        grads = br.gradients([loss], [program.var(name) for name in program.feeds[:2]])
    feed = dict(zip(program.feeds, feeds, strict=True))
    found = br.Executor(mode=mode).run(program, br.Scope(), feed, [*program.fetches, *grads])
    wanted = jax.tree.leaves(function(*feeds))
    wanted += jax.grad(lambda *xs: jnp.sum(jax.tree.leaves(function(*xs))[0] ** 2), (0, 1))(
        *feeds
    )
    for got, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, value, 1e-6)
    return program


def ordered(x: Any, y: Any, on: Any) -> Any:
    return lax.cond(on, lambda x, y: (x, y), lambda x, y: (y, x), x, y)


def three(x: Any, y: Any, which: Any) -> Any:
    cases = [lambda x, y: (x, 1.0), lambda x, y: (y, 2.0), lambda x, y: (x, 3.0)]
    return lax.switch(which, cases, x, y)


def partly(x: Any, y: Any, on: Any) -> Any:
    return lax.cond(on, lambda x, y: (x, y * 2, x), lambda x, y: (y, y + x, x), x, y)


@pytest.mark.parametrize(
    ("function", "index", "switches", "selections"),
    [
        (ordered, True, 0, 2),
        (ordered, False, 0, 2),
        (three, np.int32(-4), 0, 4),
        (three, np.int32(1), 0, 4),
        (three, np.int32(9), 0, 4),
        (partly, True, 1, 1),
        (partly, False, 1, 1),
    ],
)
def test_operands_that_branches_pass_on_are_selected(
    mode: str, function: Any, index: Any, switches: int, selections: int
) -> None:
    program = check(mode, function, X, Y, np.asarray(index))
    found = types_of(br.prune(program, program.fetches))
    assert (found["switch"], found["where"]) == (switches, selections)


def test_branches_with_equal_results_are_no_operator() -> None:
    def same(x: Any, on: Any) -> Any:
        return lax.cond(on, lambda x: (x, 1.0), lambda x: (x, 1.0), x)

    program, _ = br.from_jax(same, X, np.asarray(True))
    found = types_of(program)
    assert not found["switch"]
    assert not found["where"]
    out, one = br.Executor(mode="interpret").run(
        program, br.Scope(), {"x": X, "on": np.asarray(True)}, program.fetches
    )
    assert np.array_equal(out, X)
    assert one == 1.0


NUMBERS: dict[str, list[Any]] = {
    "int32": [0, 1, -1, 7, 2**31 - 1, -(2**31)],
    "uint8": [0, 1, 200, 255],
    "bool": [False, True],
    "float32": [0.0, -0.0, 1.5, -3e38, 1e-38, 1e-45, np.inf, np.nan],
}


@pytest.mark.parametrize("name", sorted(FOLDED))
def test_numbers_are_folded_to_the_values_of_jax(name: str) -> None:
    primitive = getattr(lax, f"{name}_p")
    folded = 0
    for dtype, numbers in NUMBERS.items():
        values = [np.asarray(number, dtype) for number in numbers]
        for left in values:
            for right in values:
                operands = {"neg": (left,), "not": (left,)}.get(name, (left, right))
                if name == "select_n":
                    operands = (np.asarray(bool(left)), left, right)
                try:
                    closed = jax.make_jaxpr(primitive.bind)(*operands)
                except TypeError:  # not for this dtype
                    continue
                got = fold_literals(closed.jaxpr.eqns[0], operands)
                if got is not None:
                    wanted = np.asarray(primitive.bind(*operands))
                    assert (got[0].dtype, got[0].tobytes()) == (wanted.dtype, wanted.tobytes())
                    folded += 1
    assert folded


def test_constant_indices_and_shifts_need_no_arithmetic(mode: str) -> None:
    def function(x: Any, words: Any, at: Any) -> Any:
        row = lax.dynamic_slice(x, (at, 0), (1, 2))
        shift = jnp.asarray(3, words.dtype)
        return row, lax.shift_right_logical(words, shift), lax.population_count(words)

    signed = np.array([-1, 77], "int32")
    for words in (signed, signed.view("uint32")):
        args = np.arange(8, dtype="float32").reshape(4, 2), words, np.asarray(2, "int32")
        program, _ = br.from_jax(function, *args)
        feed = dict(zip(program.feeds, args, strict=True))
        found = br.Executor(mode=mode).run(program, br.Scope(), feed, program.fetches)
        for got, value in zip(found, jax.jit(function)(*args), strict=True):
            assert np.array_equal(got, value)
        assert types_of(program)["bitcast"] == (0 if words.dtype == np.uint32 else 3)


def test_scopes_named_like_results_or_by_digits_import(mode: str) -> None:
    def function(x: Any) -> Any:
        for name in ("out", "0"):
            with jax.named_scope(name):
                x = jnp.exp(jnp.tanh(x))
        return x

    program, _ = br.from_jax(function, X)
    assert program.fetches == ("out",)
    (found,) = br.Executor(mode=mode).run(program, br.Scope(), {"x": X}, ["out"])
    np.testing.assert_allclose(found, function(X), 1e-6)
