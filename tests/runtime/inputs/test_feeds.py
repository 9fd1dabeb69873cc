"""Conversion of feeds with another dtype than the declared one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from benchmarks.loop import compilations
from braces.extend.types import SHORT_NAMES, is_float, is_integer
from braces.lazy import jnp


def jax_array(value: Any) -> Any:
    """An array that JAX holds."""
    numpy: Any = jnp
    return numpy.asarray(value)


def fed(value: Any, dtype: str, mode: str = "interpret") -> Any:
    """What a variable of a dtype holds where a value is fed to it."""
    with br.Program() as prog:
        x = br.data("x", np.shape(value), dtype)
    return br.Executor(mode=mode).run(prog, br.Scope(), {"x": value}, fetch=x)


def may_become(given: Any, declared: Any) -> bool:
    """The rule: float to float, integer to integer, bool to either, real to complex."""
    if given == declared:
        return True
    if is_float(declared):
        return given.kind == "b" or (
            is_float(given) and (given.kind != "c" or declared.kind == "c")
        )
    return is_integer(declared) and given.kind in "biu"


WITH_ZERO = [name for name in SHORT_NAMES if name != "f8e8m0fnu"]


@pytest.mark.parametrize("given", WITH_ZERO)
@pytest.mark.parametrize("declared", WITH_ZERO)
def test_an_array_is_converted_where_its_kind_allows_it(given: str, declared: str) -> None:
    array = np.array([0, 1], SHORT_NAMES[given])
    if may_become(array.dtype, SHORT_NAMES[declared]):
        got = fed(array, declared)
        assert got.dtype == SHORT_NAMES[declared]
        assert got.tolist() == [0, 1]
    else:
        with pytest.raises(br.FeedError, match=r"cannot convert the feed (.|\n)*astype"):
            fed(array, declared)


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (np.array([0.1, 2.0]), "f32", np.array([0.1, 2.0], "f4")),
        (np.array([1, 2**31 - 1]), "i32", np.array([1, 2**31 - 1], "i4")),
        (np.array([np.inf, np.nan]), "f16", np.array([np.inf, np.nan], "f2")),
        (np.array([1.5], ">f8"), "f64", np.array([1.5])),
        (np.arange(4.0)[::2], "f32", np.array([0.0, 2.0], "f4")),
        (np.array([1.5], ml_dtypes.bfloat16), "f32", np.array([1.5], "f4")),
        (jax_array(np.array([1, 2], "i4")), "i64", np.array([1, 2])),
        (jax_array(np.array([1.5], "f4")), "f16", np.array([1.5], "f2")),
        ([1, 2], "f32", np.array([1, 2], "f4")),
        (np.int64(3), "f32", np.array(3, "f4")),
        (np.float64(0.1), "f32", np.array(0.1, "f4")),
        (3, "i8", np.array(3, "i1")),
        (np.zeros((0, 2)), "f32", np.zeros((0, 2), "f4")),
        (np.zeros(0, "i8"), "u8", np.zeros(0, "u1")),
    ],
)
def test_what_fits_is_converted(mode: str, value: Any, dtype: str, want: Any) -> None:
    got = fed(value, dtype, mode)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([1e300]), "f32"),
        (np.array([7e4], "f4"), "f16"),
        (jax_array(np.array([7e4], "f4")), "f16"),
        (np.array([2**31]), "i32"),
        (np.array([-1]), "u8"),
        (np.array([300]), "i8"),
        (np.array([2**63], "u8"), "i64"),
        ([2**24 + 1], "f32"),
        (np.int64(2**24 + 1), "f32"),
    ],
)
def test_a_number_out_of_range_is_refused(mode: str, value: Any, dtype: str) -> None:
    with pytest.raises(br.FeedError, match="a value is not representable in"):
        fed(value, dtype, mode)


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), np.array([1], "m8[s]")])
def test_an_array_of_anything_but_numbers_is_refused(value: Any) -> None:
    with pytest.raises(br.FeedError, match="expected a numeric dtype, got"):
        fed(value, "f32")


def test_feeds_of_any_dtype_share_one_compilation_and_stay_as_they_are() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        y = x * 2.0
    exe, scope, wide = br.Executor(), br.Scope(), np.array([1.0, 2.0])
    exe.run(prog, scope, {"x": wide.astype("f4")}, fetch=y)

    def run_all() -> None:
        for feed in (wide, [1.0, 2.0], wide.astype("f2"), wide == 1.0):
            exe.run(prog, scope, {"x": feed}, fetch=y)

    assert compilations(run_all)() == 0
    assert wide.dtype == np.float64


def test_labels_and_features_of_numpy_train_a_model(mode: str) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", 3]), br.data("y", ["n"], "int32")
        loss = br.softmax_cross_entropy(br.fc(x, 4), y)
        br.optimizer.sgd(0.1).minimize(loss)
    exe, scope, rng = br.Executor(mode=mode), br.Scope(), np.random.default_rng(0)
    exe.init(prog, scope, seed=0)
    feed = {"x": rng.normal(size=(8, 3)), "y": rng.integers(0, 4, 8)}
    losses = [float(exe.run(prog, scope, feed, fetch=loss)) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)


def test_a_model_and_a_block_convert_too(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        y = x + 1.0
    scope = br.Scope()
    br.save_model(tmp_path / "model", prog, scope, feeds=["x"], fetches=[y])
    model = br.load_model(tmp_path / "model")
    assert model.run(x=np.array([1.0])).dtype == np.float32
    scope.var("x").set(np.array([1.0]))
    assert br.Block(prog.block(0).desc).eval([y.name], scope)[0].dtype == np.float32


def test_a_state_is_not_converted_and_the_error_has_the_fix(mode: str) -> None:
    with br.Program() as prog:
        y = br.parameter("w", [2]) * 2.0
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    scope.var("w").set(np.ones(2))
    with pytest.raises(
        br.ShapeError, match=r"scope.var\('w'\).set\(array.astype\('float32'\)\)"
    ):
        exe.run(prog, scope, fetch=y)
    assert scope.var("w").dtype == np.float64


def test_a_tuple_of_arrays_is_refused_with_the_names_of_the_data() -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n"]), br.data("y", ["n"])
        total = br.sum(x * y)
    batch: Any = (np.ones(2), np.ones(2))
    with pytest.raises(br.FeedError, match="expected a dict for feed") as caught:
        br.Executor().run(prog, br.Scope(), batch, total)
    assert "feed=dict(zip(['x', 'y'], batch))" in str(caught.value)
