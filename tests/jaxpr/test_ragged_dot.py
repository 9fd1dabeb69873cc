"""Contractions of groups of rows, as layers of experts compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br
from tests.support.from_jax import hold

pytestmark = pytest.mark.unoptimized

RANDOM = np.random.default_rng(0)
ROWS, EXPERTS = RANDOM.normal(size=(5, 4)), RANDOM.normal(size=(3, 4, 2))
Function = Callable[..., Any]


def experts(x: Any, y: Any, sizes: Sequence[int]) -> Any:
    """The rows of each group by the matrix of the group, and zeros for the others."""
    ends = np.cumsum(sizes)
    parts = [
        x[max(end - size, 0) : end] @ matrix
        for end, size, matrix in zip(ends, sizes, y, strict=True)
    ]
    rest = jnp.zeros((max(len(x) - ends[-1], 0), y.shape[-1]), x.dtype)
    return jnp.concatenate([*parts, rest])


def params(*shape: int) -> dict[str, Any]:
    return {"x": ROWS.astype("f"), "y": EXPERTS.astype("f"), "n": np.asarray(shape, "i4")}


@pytest.mark.parametrize(
    "sizes", [(2, 1, 2), (2, 0, 2), (0, 0, 0), (0, 5, 0), (0, 0, 1)], ids=str
)
def test_groups_may_be_empty_and_rows_may_have_no_group(
    sizes: tuple[int, ...], mode: str
) -> None:
    hold(
        lambda p: lax.ragged_dot(p["x"], p["y"], p["n"]), params(*sizes),
        reference=lambda p: experts(p["x"], p["y"], sizes), mode=mode, second=mode == "compile",
    )  # fmt: skip


def numbers(
    contracting: Any, batch: Any, ragged: int, groups: Sequence[int] = ()
) -> lax.RaggedDotDimensionNumbers:
    return lax.RaggedDotDimensionNumbers((contracting, batch), [ragged], list(groups))


X3, Y3 = RANDOM.normal(size=(2, 5, 4)), RANDOM.normal(size=(3, 4, 2, 6))
SIZES = np.array([[2, 0, 2], [1, 3, 1]], "i4")
GENERAL: dict[str, tuple[Any, Any, Any, Any]] = {
    "batch": (X3, Y3, SIZES, numbers(([2], [1]), ([0], [2]), 1, [0])),
    "same groups": (X3, Y3, SIZES[0], numbers(([2], [1]), ([0], [2]), 1, [0])),
    "rows in rows": (
        RANDOM.normal(size=(2, 4, 5)), EXPERTS, SIZES, numbers(([1], [1]), ([], []), 2, [0]),
    ),
    "contracted": (ROWS, ROWS[:, :3], SIZES[0], numbers(([0], [0]), ([], []), 0)),
    "contracted in a batch": (X3, X3[:, :, :3], SIZES, numbers(([1], [1]), ([0], [0]), 1)),
    "two contracted": (
        X3, RANDOM.normal(size=(5, 3, 2)), SIZES, numbers(([0, 1], [2, 0]), ([], []), 1),
    ),
    "of batches": (X3, X3[:, :3], np.array([1, 1], "i4"), numbers(([2], [2]), ([0], [0]), 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", GENERAL)
def test_groups_of_any_axis(name: str, mode: str) -> None:
    x, y, sizes, axes = GENERAL[name]
    given = {"x": x.astype("f"), "y": y.astype("f")}

    def function(p: Any) -> Any:
        return lax.ragged_dot_general(p["x"], p["y"], jnp.asarray(sizes), axes)

    in_jax = name in ("batch", "same groups", "rows in rows")
    hold(function, given, mode=mode, gradient=in_jax)


def test_gradients_of_a_training_step_and_of_a_batch(mode: str) -> None:
    def step(p: Any) -> Any:
        return jax.grad(lambda x, y: (lax.ragged_dot(x, y, p["n"]) ** 2).sum(), (0, 1))(
            p["x"], p["y"]
        )

    hold(step, params(2, 0, 2), mode=mode, gradient=False)
    given = {"x": X3.astype("f"), "y": np.stack([EXPERTS, EXPERTS * 2]).astype("f")}
    batched = jax.vmap(lax.ragged_dot)
    hold(lambda p: batched(p["x"], p["y"], jnp.asarray(SIZES)), given, mode=mode)


def test_rows_may_be_known_to_a_run_only_and_may_be_integers(mode: str) -> None:
    x, y, n = params(2, 0, 1).values()
    prog, _ = br.from_jax(lax.ragged_dot, x, y, n, sizes={"lhs": ["rows", None]})
    for rows in (1, 3, 5):
        feed = dict(zip(prog.feeds, (x[:rows], y, n), strict=True))
        (got,) = br.Executor(mode=mode).run(prog, br.Scope(), feed, list(prog.fetches))
        np.testing.assert_allclose(got, lax.ragged_dot(x[:rows], y, n), rtol=1e-5)
    x, y = (x * 50).astype("i1"), (y * 50).astype("i1")

    def wide(x: Any, y: Any, n: Any) -> Any:
        return lax.ragged_dot(x, y, n, preferred_element_type=np.dtype("i4"))

    prog, _ = br.from_jax(wide, x, y, n)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": x, "y": y, "n": n}, ["out"])
    np.testing.assert_array_equal(got[0], wide(x, y, n))


def test_other_rows_of_a_group_are_not_read(mode: str) -> None:
    """Numbers that are not finite stay in the rows of their group."""
    x, y, n = params(2, 0, 2).values()
    x[-1] = np.nan
    prog, _ = br.from_jax(lax.ragged_dot, x, y, n)
    feed = dict(zip(prog.feeds, (x, y, n), strict=True))
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), feed, list(prog.fetches))
    np.testing.assert_allclose(got, lax.ragged_dot(x, y, n), rtol=1e-5)
