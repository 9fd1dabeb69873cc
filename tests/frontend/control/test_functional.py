"""Loops and branches as functions: their values, gradients and structures."""

from __future__ import annotations

import traceback
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.frontend.core import pytree as tree
from tests.support.running import run

pytestmark = pytest.mark.unoptimized

Pair = namedtuple("Pair", ["first", "second"])


# ---- structures ------------------------------------------------------------------------------


def test_leaves_have_paths() -> None:
    carry = {"h": [1, (2, None)], 3: Pair(4, {})}
    paths = [path for path, _ in tree.leaves_with_paths(carry, "carry")]
    assert paths == ['carry["h"][0]', 'carry["h"][1][0]', "carry[3][0]"]
    assert tree.tree_unflatten(carry, "abc") == {"h": ["a", ("b", None)], 3: Pair("c", {})}
    assert isinstance(tree.tree_unflatten(carry, "abc")[3], Pair)


@pytest.mark.parametrize("init", [1.0, (1.0,), [1.0, (2.0, 3)], {"b": 1.0, "a": [None, 2.0]}])
def test_a_carry_keeps_its_structure(mode: str, init: Any) -> None:
    with br.Program() as prog:
        double = lambda c: tree.tree_unflatten(c, [leaf * 2 for leaf in tree.tree_leaves(c)])  # noqa: E731
        first = lambda c: tree.tree_leaves(c)[0] < 8.0  # noqa: E731
        end = br.while_loop(first, double, init)
        last, _ = br.scan(lambda c, _: (double(c), None), init, None, 3)
    for got in (end, last):
        assert tree.tree_unflatten(got, tree.tree_leaves(init)) == init
        values = run(mode, prog, tree.tree_leaves(got))
        np.testing.assert_array_equal(values, [8 * one for one in tree.tree_leaves(init)])


def test_the_order_of_a_dict_does_not_matter(mode: str) -> None:
    with br.Program() as prog:
        end = br.while_loop(
            lambda c: c["a"] < 3, lambda c: {"b": c["b"] * 2, "a": c["a"] + 1}, {"a": 0, "b": 5}
        )
    assert run(mode, prog, end) == {"a": 3, "b": 40}


# ---- while_loop ------------------------------------------------------------------------------


def power(x: Any, n: Any) -> Any:
    """x ** n by multiplying."""
    return br.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, br.ones_like(x))
    )[1]


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_while_loop_and_its_gradient(mode: str, trips: int) -> None:
    with br.Program() as prog:
        x, n = br.data("x", [3], "float64"), br.data("n", [], "int64")
        y = power(x, n)
        grad = br.gradients([y], [x])[0]
        second = br.gradients([grad], [x])[0]
    fed = np.array([0.5, -1.5, 2.0])
    got = run(mode, prog, [y, grad, second], x=fed, n=trips)
    want = [np.poly1d([1] + [0] * trips).deriv(m)(fed) for m in range(3)]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_carry_swaps(mode: str) -> None:
    with br.Program() as prog:
        end = br.while_loop(lambda c: c[2] < 3, lambda c: (c[1], c[0], c[2] + 1), (1.0, 2.0, 0))
    assert run(mode, prog, end[:2]) == [2.0, 1.0]


def test_max_trips_is_a_guard(mode: str) -> None:
    with br.Program() as prog:
        end = br.while_loop(lambda c: c < 10, lambda c: c + 1, 0, max_trips=4)
    with pytest.raises(br.TripLimitError, match="max_trips = 4"):
        run(mode, prog, end)


# ---- scan ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_scan_and_its_gradient(
    mode: str, rng: np.random.Generator, reverse: bool, steps: int
) -> None:
    """Discounted sums: c' = c * g + x."""
    with br.Program() as prog:
        x, g = br.data("x", ["t", 2], "float64"), br.data("g", [], "float64")

        def step(carry: Any, row: Any) -> Any:
            after = carry * g + row["x"]
            return after, (after, {"twice": row["x"] * 2.0})

        last, (sums, twice) = br.scan(step, br.zeros([2], "f64"), {"x": x}, reverse=reverse)
        grads = br.gradients([last], [x, g])
    fed = rng.normal(size=(steps, 2))
    got = run(mode, prog, [last, sums, twice["twice"], *grads], x=fed, g=0.5)
    rows, carry, slope = [], np.zeros(2), np.zeros(2)
    for row in fed[::-1] if reverse else fed:
        slope = slope * 0.5 + carry
        carry = carry * 0.5 + row
        rows.append(carry)
    rows = np.reshape(rows[::-1] if reverse else rows, (steps, 2))
    weights = np.repeat(0.5 ** np.arange(steps)[:, None], 2, axis=1)
    want = [carry, rows, fed * 2, weights if reverse else weights[::-1], slope.sum()]
    for one, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(one, expected, atol=1e-12)


def test_scan_over_an_array_with_the_batch_first_names_swapaxes() -> None:
    with br.Program():
        x, h = br.data("x", ["n", "t", 4]), br.data("h", ["n", 4])
        with pytest.raises(br.ShapeError, match="cannot broadcast n with t") as caught:
            br.scan(lambda c, row: (c + row, c), h, x)
        assert "pass br.swapaxes(xs, 0, 1) if the batch axis is first" in str(caught.value)
        with pytest.raises(br.ShapeError) as caught:
            br.scan(lambda c, row: (c + row[:2], c), br.zeros([5]), x)
        assert "swapaxes" not in str(caught.value)


def test_scan_without_xs_needs_a_length(mode: str) -> None:
    with br.Program() as prog:
        last, ys = br.scan(lambda c, _: (c + 1, c), 0, length=4)
        with pytest.raises(br.ProgramError, match="length="):
            br.scan(lambda c, _: (c + 1, c), 0)
    got = run(mode, prog, [last, ys])
    assert got[0] == 4
    np.testing.assert_array_equal(got[1], range(4))


def test_scan_without_a_carry(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", 3])
        carry, ys = br.scan(lambda c, row: (c, br.exp(row)), None, x)
    assert carry is None
    fed = np.ones((2, 3), "f4")
    np.testing.assert_allclose(run(mode, prog, ys, x=fed), np.exp(fed), rtol=1e-6)


def test_loops_nest_in_loops(mode: str) -> None:
    """Row sums of powers, with a while whose trips differ from row to row."""
    with br.Program() as prog:
        x, n = br.data("x", ["t"], "float64"), br.data("n", ["t"], "int64")
        total, rows = br.scan(
            lambda c, row: (c + power(row[0], row[1]), power(row[0], row[1])),
            br.zeros([], "f64"),
            (x, n),
        )
        grad = br.gradients([total], [x])[0]
    fed, trips = np.array([2.0, 3.0, 0.5]), np.array([3, 0, 2])
    got = run(mode, prog, [total, rows, grad], x=fed, n=trips)
    np.testing.assert_allclose(got[1], fed**trips)
    np.testing.assert_allclose(got[0], (fed**trips).sum())
    np.testing.assert_allclose(got[2], trips * fed ** np.maximum(trips - 1, 0))


# ---- branches --------------------------------------------------------------------------------


def test_cond_and_its_gradient(mode: str) -> None:
    """The branch that is not taken would give NaN."""
    with br.Program() as prog:
        x = br.data("x", [], "float64")
        out = br.cond(x > 0.0, lambda: {"y": br.log(x)}, lambda: {"y": x * x})
        grad = br.gradients([out["y"]], [x])[0]
    assert run(mode, prog, [out["y"], grad], x=4.0) == [np.log(4.0), 0.25]
    assert run(mode, prog, [out["y"], grad], x=-3.0) == [9.0, -6.0]


def test_cond_hands_over_operands(mode: str) -> None:
    with br.Program() as prog:
        x, y = br.data("x", [3]), br.data("y", [3])
        out = br.cond(br.sum(x) > 0.0, lambda a, b: a["x"] + b, lambda a, b: b, {"x": x}, y)
    ones = np.ones(3, "f4")
    np.testing.assert_array_equal(run(mode, prog, out, x=ones, y=ones), [2, 2, 2])
    np.testing.assert_array_equal(run(mode, prog, out, x=-ones, y=ones), [1, 1, 1])


def test_cond_chooses_by_rows(mode: str) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["rows"], "float64"), br.data("y", ["rows", 2], "float64")
        out = br.cond(
            x > 0.0,
            lambda a, b: {"x": br.log(a), "y": b * 2.0},
            lambda a, b: {"x": -a, "y": b},
            x,
            y,
        )
        grad = br.gradients([out["x"]], [x])[0]
        with pytest.raises(br.BracesError, match="rows"):
            br.cond(x > 0.0, lambda: br.log(x), lambda: x)
    fed = {"x": np.array([1.0, -2.0, 3.0, 0.0]), "y": np.ones((4, 2))}
    got = run(mode, prog, [out["x"], out["y"], grad], **fed)
    np.testing.assert_allclose(got[0], [0, 2, np.log(3), 0], rtol=1e-12)
    np.testing.assert_allclose(got[1], np.array([2, 1, 2, 1])[:, None] * fed["y"])
    np.testing.assert_allclose(got[2], [1, -1, 1 / 3, -1], rtol=1e-12)


def test_a_number_takes_the_dtype_of_the_other_branch() -> None:
    with br.Program():
        x = br.data("x", [], "float64")
        assert br.cond(x > 0.0, lambda: x, lambda: 0).type == x.type


@pytest.mark.parametrize("index", [0, 1, 2])
def test_switch_runs_the_function_of_its_index(mode: str, index: int) -> None:
    functions: list[Callable[[Any], Any]] = [lambda v: v, lambda v: v * v, br.exp]
    with br.Program() as prog:
        i, x = br.data("i", [], "int32"), br.data("x", [2], "float64")
        out = br.switch(i, functions, x)
        grad = br.gradients([out], [x])[0]
    fed = np.array([0.5, 2.0])
    got = run(mode, prog, [out, grad], i=index, x=fed)
    want = [(fed, np.ones(2)), (fed * fed, 2 * fed), (np.exp(fed), np.exp(fed))][index]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("index", [-1, 2])
def test_switch_refuses_other_indices_unless_there_is_a_default(mode: str, index: int) -> None:
    with br.Program() as prog:
        i = br.data("i", [], "int32")
        out = br.switch(i, [lambda: 1.0, lambda: 2.0])
    with br.Program() as other:
        i = br.data("i", [], "int32")
        safe = br.switch(i, {0: lambda: 1.0, 7: lambda: 2.0}, default=lambda: 3.0)
    with pytest.raises(br.NoMatchError):
        run(mode, prog, out, i=index)
    assert run(mode, other, safe, i=index) == 3.0
    assert run(mode, other, safe, i=7) == 2.0


# ---- what is refused -------------------------------------------------------------------------

SCALARS: dict[str, Callable[[Any], Any]] = {
    "length": lambda x: br.while_loop(lambda c: c[0] < 3, lambda c: c[:1], (0, 1)),
    "keys": lambda x: br.while_loop(lambda c: c["a"] < 3, lambda c: {"b": c["a"]}, {"a": 0}),
}


@pytest.mark.parametrize(
    ("build", "error", "parts"),
    [
        (SCALARS["length"], br.ProgramError, ["`carry` is a tuple of 2", "tuple of 1"]),
        (SCALARS["keys"], br.ProgramError, ['a dict with "a"', 'a dict with "b"']),
        (
            lambda x: br.while_loop(
                lambda c: True, lambda c: {"h": [x, x]}, {"h": [x, (x, x)]}
            ),
            br.ProgramError,
            ['`carry["h"][1]` is a tuple of 2', "body_fn returns a variable (f32[t,2])"],
        ),
        (
            lambda x: br.while_loop(
                lambda c: True, lambda c: {"h": [c["h"][0][0]]}, {"h": [x]}
            ),
            br.ShapeError,
            ['`carry["h"][0]`', "init: f32[t,2]", "body_fn: f32[2]", "br.reshape"],
        ),
        (
            lambda x: br.while_loop(lambda c: True, lambda c: c + 0.5, 0),
            br.DTypeError,
            ["`carry`", "init: i64[]", "body_fn: f32[]", "br.cast"],
        ),
        (
            lambda x: br.while_loop(lambda a, b: True, lambda a, b: (a, b), (0, 1)),
            br.ProgramError,
            ["cond_fn cannot be called with 1 argument", "`i, total = carry`"],
        ),
        (
            lambda x: br.switch(br.argmax(x, axis=1), [br.tanh, br.tanh], x, x),
            br.ProgramError,
            ["cannot be called with 2 arguments", "one parameter for each operand"],
        ),
        (lambda x: br.while_loop(lambda c: c, lambda c: c, 0), br.ShapeError, ["bool scalar"]),
        (
            lambda x: br.while_loop(True, lambda c: c, 0),
            br.ProgramError,
            ["expected a function for cond_fn, got True"],
        ),
        (
            lambda x: br.while_loop(lambda c: True, lambda c: c, ()),
            br.ProgramError,
            ["without memories", "never end"],
        ),
        (lambda x: br.while_loop(lambda c: True, lambda c: c, "no"), br.ProgramError, ["'no'"]),
        (lambda x: br.scan(lambda c, row: c, 0, x), br.ProgramError, ["pair", "None"]),
        (lambda x: br.switch(0, lambda: x), br.ProgramError, ["a list or a dict of functions"]),
        (
            lambda x: br.cond(x[:, 0] > 0, lambda: x, lambda: -x),
            br.ShapeError,
            ["is not the batch axis", "from an operand of br.cond or br.switch"],
        ),
        (
            lambda x: br.scan(lambda c: (c, c), 0, x),
            br.ProgramError,
            ["called with 2 arguments"],
        ),
        (
            lambda x: br.scan(lambda c, row: (row, c), 0.0, x),
            br.ShapeError,
            ["step_fn: f32[2]"],
        ),
        (
            lambda x: br.scan(lambda c, row: (c, row), 0, (x, x[0])),
            br.ShapeError,
            ["2 steps", "t"],
        ),
        (lambda x: br.scan(lambda c, row: (c, row), 0, x, 3), br.ShapeError, ["t steps", "3"]),
        (
            lambda x: br.scan(lambda c, row: (c, row), 0, 1.0),
            br.ShapeError,
            ["expected an axis of steps"],
        ),
        (
            lambda x: br.cond(br.any(x > 0.0), lambda: (x, x), lambda: x),
            br.ProgramError,
            ["`result` is a tuple of 2 in true_fn, but false_fn returns a variable (f32[t,2])"],
        ),
        (
            lambda x: br.cond(br.any(x > 0.0), lambda: {"a": [x]}, lambda: {"a": [x[0]]}),
            br.ShapeError,
            ['type mismatch of `result["a"][0]`', "true_fn: f32[t,2]", "false_fn: f32[2]"],
        ),
        (
            lambda x: br.cond(br.any(x > 0.0), lambda: x, lambda: br.cast(x, "f64")),
            br.DTypeError,
            ["true_fn: f32[t,2]", "false_fn: f64[t,2]"],
        ),
        (lambda x: br.cond(br.sum(x), lambda: x, lambda: x), br.BracesError, ["bool"]),
        (
            lambda x: br.cond(br.any(x > 0.0), lambda: None, lambda: None),
            br.ProgramError,
            ["output"],
        ),
        (lambda x: br.switch(br.sum(x), [lambda: x]), br.ShapeError, ["integer scalar"]),
        (lambda x: br.switch(br.arange(3)[0], []), br.ProgramError, ["at least one function"]),
        (
            lambda x: br.switch(br.arange(3)[0], [lambda: x, lambda: (x, x)]),
            br.ProgramError,
            ["in fns[0], but fns[1] returns a tuple of 2"],
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_its_path(
    build: Callable[[Any], Any], error: type[Exception], parts: list[str]
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", 2])
        with pytest.raises(error) as caught, prog.transaction():
            build(x)
        assert prog.definition == one_data().definition
        assert br.exp(x).type == x.type
    for part in [*parts, "test_functional.py:"]:
        assert part in str(caught.value), caught.value


def one_data() -> br.Program:
    with br.Program() as prog:
        br.data("x", ["t", 2])
    return prog


# ---- tracebacks ----


def test_a_traceback_has_the_lines_of_the_user_and_few_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def step(carry: br.Var, row: br.Var) -> tuple[br.Var, br.Var]:
        return carry + row, carry

    def names() -> list[str]:
        with br.Program(), pytest.raises(br.ShapeError) as caught:
            br.scan(step, br.zeros([5]), br.data("x", ["t", 4]))
        return [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]

    monkeypatch.setenv("BRACES_FULL_TRACEBACK", "1")
    assert len(names()) > 12
    monkeypatch.delenv("BRACES_FULL_TRACEBACK")
    short = names()
    assert "step" in short
    assert len(short) <= 6
