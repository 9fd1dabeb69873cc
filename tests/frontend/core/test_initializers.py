"""Initial values: their distributions, and their dependence on seed and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

SHAPE = [60, 80]


def first_value(
    init: Any,
    shape: list[int] = SHAPE,
    dtype: str = "float32",
    mode: str = "compile",
    seed: int = 0,
) -> Any:
    with br.Program() as prog:
        br.parameter("w", shape, init, dtype)
    return values_of(prog, mode, seed)["w"]


def values_of(prog: br.Program, mode: str = "compile", seed: int = 0) -> dict[str, Any]:
    scope = br.Scope()
    br.Executor(mode=mode).init(prog, scope, seed=seed)
    return {info.name: scope.var(info.name).value for info in prog.persistables}


# ---- fixed values ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "bfloat16"])
def test_zeros_and_ones_have_the_dtype_of_the_parameter(mode: str, dtype: str) -> None:
    for init, want in ((br.init.zeros(), 0), (br.init.ones(), 1)):
        got = first_value(init, [2, 3], dtype, mode)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype("f4"), np.full((2, 3), want, "f4"))


def test_a_constant_is_a_number_or_an_array(mode: str) -> None:
    table = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(first_value(br.init.constant(2.5), [3], mode=mode), [2.5] * 3)
    np.testing.assert_array_equal(
        first_value(br.init.constant(table), [2, 3], mode=mode), table
    )
    np.testing.assert_array_equal(first_value(table, [2, 3], mode=mode), table)
    np.testing.assert_array_equal(first_value(7, [3], "int64", mode=mode), [7] * 3)


@pytest.mark.parametrize("shape", [[3, 3], [2, 4], [4, 2], [0, 0]])
def test_identity_copies(mode: str, shape: list[int]) -> None:
    got = first_value(br.init.identity(2.0), shape, "float64", mode)
    np.testing.assert_array_equal(got, 2 * np.eye(*shape))


# ---- random values ---------------------------------------------------------------------------


DRAWS = {
    "uniform": (br.init.uniform(-1.0, 3.0), 1.0, 4 / 12**0.5, 2.0),
    "normal": (br.init.normal(2.0, loc=-1.0), -1.0, 2.0, 12.0),
    "truncated": (br.init.truncated_normal(2.0), 0.0, 2 * 0.8796, 4.0),
    "glorot_uniform": (br.init.glorot_uniform(), 0.0, (2 / 140) ** 0.5, (6 / 140) ** 0.5),
    "glorot_normal": (br.init.glorot_normal(), 0.0, (2 / 140) ** 0.5, 0.28),
    "he_uniform": (br.init.he_uniform(), 0.0, (2 / 60) ** 0.5, (6 / 60) ** 0.5),
    "he_normal": (br.init.he_normal(), 0.0, (2 / 60) ** 0.5, 0.43),
    "lecun_uniform": (br.init.lecun_uniform(), 0.0, (1 / 60) ** 0.5, (3 / 60) ** 0.5),
    "lecun_normal": (br.init.lecun_normal(), 0.0, (1 / 60) ** 0.5, 0.3),
}
"""Initializer, mean, standard deviation, and the furthest from the mean."""


@pytest.mark.unoptimized
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_have_mean_and_standard_deviation(dtype: str) -> None:
    with br.Program() as prog:
        for name, (init, *_) in DRAWS.items():
            br.parameter(name, SHAPE, init, dtype)
    values = values_of(prog)
    for name, (_, mean, stddev, most) in DRAWS.items():
        got = values[name]
        assert got.dtype == dtype
        assert abs(got.mean() - mean) < 5 * stddev / got.size**0.5, name
        assert abs(got.std() / stddev - 1) < 0.05, name
        assert abs(got - mean).max() <= most * (1 + 1e-6), name


@pytest.mark.unoptimized
@pytest.mark.parametrize("shape", [[30, 40], [40, 30], [4, 5, 6]])
def test_orthogonal_keeps_lengths(shape: list[int]) -> None:
    got = first_value(br.init.orthogonal(3.0), shape, "float64").reshape(-1, shape[-1])
    gram = got @ got.T if len(got) <= shape[-1] else got.T @ got
    np.testing.assert_allclose(gram, 9 * np.eye(len(gram)), atol=1e-5)


@pytest.mark.unoptimized
def test_fans_of_convolution_weights_follow_the_axes() -> None:
    channels_last = first_value(br.init.he_uniform(), [3, 3, 8, 16])
    channels_first = first_value(br.init.he_uniform(in_axis=1, out_axis=0), [16, 8, 3, 3])
    for got in (channels_last, channels_first):
        assert abs(got).max() == pytest.approx((6 / 72) ** 0.5, rel=1e-2)


def test_without_an_initializer_matrices_are_drawn_and_the_rest_is_zero() -> None:
    assert first_value(None).std() == pytest.approx((2 / 140) ** 0.5, rel=0.05)
    np.testing.assert_array_equal(first_value(None, [5]), np.zeros(5))
    np.testing.assert_array_equal(first_value(None, []), 0.0)
    np.testing.assert_array_equal(first_value(None, [2, 2], "int32"), np.zeros((2, 2)))


@pytest.mark.parametrize(
    "init", [br.init.glorot_normal, br.init.orthogonal, br.init.lecun_uniform]
)
def test_empty_parameters_are_drawn_too(init: Callable[[], Any]) -> None:
    assert first_value(init(), [0, 3]).shape == (0, 3)


# ---- what a draw follows from ----------------------------------------------------------------


def test_both_modes_draw_the_same_bits() -> None:
    for init in (br.init.normal(), br.init.glorot_uniform(), br.init.uniform(0.0, 1.0)):
        compiled, interpreted = (first_value(init, mode=m) for m in ("compile", "interpret"))
        np.testing.assert_array_equal(compiled, interpreted)


def test_the_seed_decides() -> None:
    draw = lambda seed: first_value(None, seed=seed)  # noqa: E731
    np.testing.assert_array_equal(draw(3), draw(3))
    assert not np.array_equal(draw(3), draw(4))


def test_a_draw_follows_from_the_name_and_not_from_its_neighbours() -> None:
    with br.Program() as small:
        br.parameter("a", SHAPE)
        br.parameter("b", SHAPE)
    with br.Program() as large:
        br.parameter("z", SHAPE)
        br.parameter("b", SHAPE)
        br.random.normal([3])
        br.parameter("a", SHAPE)
    few, many = values_of(small), values_of(large)
    for name in ("a", "b"):
        np.testing.assert_array_equal(few[name], many[name])
    assert not np.array_equal(few["a"], few["b"])


def test_missing_values_are_filled_with_what_init_would_draw() -> None:
    with br.Program() as prog:
        br.parameter("a", SHAPE)
        br.parameter("b", SHAPE)
    scope, exe = br.Scope(), br.Executor()
    scope.var("a").set(np.ones(SHAPE, "f4"))
    exe.init(prog, scope, seed=5, missing_only=True)
    np.testing.assert_array_equal(scope.var("a").value, np.ones(SHAPE))
    np.testing.assert_array_equal(scope.var("b").value, values_of(prog, seed=5)["b"])


def test_initializers_combine(mode: str) -> None:
    half = lambda *given: 0.5 * br.init.orthogonal()(*given)  # noqa: E731
    got, whole = first_value(half, mode=mode), first_value(br.init.orthogonal(), mode=mode)
    np.testing.assert_allclose(got, 0.5 * whole, rtol=1e-6)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "shape", "dtype", "error", "message"),
    [
        (br.init.identity(), [3], "float32", br.ShapeError, "`w`.*identity"),
        (br.init.orthogonal(), [3], "float32", br.ShapeError, "expected rank 2 or more"),
        (br.init.uniform(1.0, 0.0), [3], "float32", br.ProgramError, "low"),
        (br.init.normal(), [3], "int32", br.DTypeError, "expected a real floating dtype"),
        (br.init.constant(np.ones(2)), [3], "float32", br.ShapeError, "`w`"),
        (lambda *_: br.constant(1.0), [3], "float32", br.ShapeError, "`w`"),
        (lambda *_: br.random.normal([3]), [3], "float32", br.ProgramError, "`random_state`"),
    ],
)
def test_what_does_not_fit_is_refused(
    init: Any, shape: list[int], dtype: str, error: type[Exception], message: str
) -> None:
    with br.Program() as prog:
        before = str(prog), str(prog.startup)
        with pytest.raises(error, match=f"(?s){message}.*test_initializers.py:"):
            br.parameter("w", shape, init, dtype)
        assert (str(prog), str(prog.startup)) == before


def test_a_parameter_called_seed_is_refused_beside_random_ones() -> None:
    with br.Program():
        br.parameter("seed", [3])
        with pytest.raises(br.ProgramError, match="reserved name"):
            br.parameter("w", [3, 3])
