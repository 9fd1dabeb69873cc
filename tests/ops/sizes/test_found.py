"""Data-dependent sizes: from indices, from occurring slices, and from sizes as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.runtime.backend.compiled import CompiledPlan

pytestmark = pytest.mark.unoptimized


def rows(*values: float) -> Any:
    return np.array(values, "float32")


def test_places_of_any_number_are_found_and_differentiated_through(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        places = br.nonzero(x > 0.0)
        found = br.gather_nd(x, places)
        total = br.sum(found * found) + br.mean(found)
        (grad,) = br.gradients([total], [x])
    exe, rng = br.Executor(mode=mode), np.random.default_rng(0)
    for count in (4, 2, 9):
        given = rng.normal(size=(count, 3)).astype("float32")
        given[0, 0] = 1.0
        got = exe.run(program, br.Scope(), {"x": given}, [*places, found, total, grad])
        want = given[given > 0]
        np.testing.assert_array_equal(np.stack(got[:2]), np.nonzero(given > 0))
        np.testing.assert_array_equal(got[2], want)
        np.testing.assert_allclose(got[3], (want**2).sum() + want.mean(), rtol=1e-5)
        slope = np.where(given > 0, 2 * given + 1 / len(want), 0)
        np.testing.assert_allclose(got[4], slope, rtol=1e-5)


def test_numbers_of_places_up_to_a_power_of_two_are_compiled_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with br.Program() as program:
        x = br.data("x", [64])
        (places,) = br.nonzero(x)
        kept = br.take(x, places)
        out = [places, br.sum(kept), br.mean(kept), br.max(kept)]
    exe, scope = br.Executor(), br.Scope()

    def run(count: int) -> list[Any]:
        given = np.zeros(64, "float32")
        given[::-1][:count] = np.arange(1, count + 1)
        return exe.run(program, scope, {"x": given}, out)

    made = list[int]()
    compile_ = CompiledPlan._compile

    def compiling(plan: CompiledPlan, *given: Any) -> Any:
        made.append(1)
        return compile_(plan, *given)

    monkeypatch.setattr(CompiledPlan, "_compile", compiling)
    for count in (33, 40, 35, 64, 50, 34):
        at, total, mean, most = run(count)
        np.testing.assert_array_equal(at, np.arange(64 - count, 64))
        np.testing.assert_allclose([total, most], [count * (count + 1) / 2, count])
        np.testing.assert_allclose(mean, (count + 1) / 2)
    assert len(made) <= 2


def test_where_nothing_is_found_there_are_no_rows(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 2])
        (grad,) = br.gradients([br.sum(br.compress(x[:, 0] > 0.0, x, axis=0))], [x])
        kept = br.compress(x[:, 0] > 0.0, x, axis=0, size="kept")
    assert str(kept.type) == "f32[kept,2]"
    exe = br.Executor(mode=mode)
    for given in (-np.ones((3, 2), "float32"), np.ones((3, 2), "float32")):
        got, slope = exe.run(program, br.Scope(), {"x": given}, [kept, grad])
        np.testing.assert_array_equal(got, given[given[:, 0] > 0])
        np.testing.assert_array_equal(slope, given > 0)


UNIQUE: list[tuple[Any, int | None]] = [
    (rows(2, 1, 1, 3, 4, 3), None),
    (np.array([[1, 0, 0], [1, 0, 0], [0, 3, 2]]), 0),
    (np.array([[[1, 1], [0, 1]], [[2, 1], [0, 1]]]), 2),
    (np.array([[5, 5], [4, 5]]), None),
    (rows(np.nan, 1, -0.0, 0.0, np.nan), None),
]


@pytest.mark.parametrize(("x", "axis"), UNIQUE)
def test_slices_that_occur_are_those_of_numpy(mode: str, x: Any, axis: int | None) -> None:
    with br.Program() as program:
        given = br.data("x", x.shape, x.dtype)
        in_order = br.unique(given, axis)
        as_they_appear = br.unique(given, axis, sorted=False)
    got = br.Executor(mode=mode).run(
        program, br.Scope(), {"x": x}, [*in_order, *as_they_appear]
    )
    want = np.unique(x, True, True, True, axis=axis)
    for one, other in zip(got[:4], want, strict=True):
        np.testing.assert_array_equal(
            one, np.ravel(other) if other.ndim > 1 and one.ndim == 1 else other
        )
    order = np.argsort(want[1])
    rank = np.argsort(order)
    np.testing.assert_array_equal(got[4], np.take(want[0], order, axis or 0))
    np.testing.assert_array_equal(got[5], want[1][order])
    np.testing.assert_array_equal(got[6], rank[np.ravel(want[2])])
    np.testing.assert_array_equal(got[7], want[3][order])


def test_the_gradient_of_what_occurs_goes_to_where_it_occurs_first(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["n"])
        (grad,) = br.gradients([br.sum(br.unique(x).values * 2.0)], [x])
    got = br.Executor(mode=mode).run(program, br.Scope(), {"x": rows(3, 1, 3, 1)}, grad)
    np.testing.assert_array_equal(got, [2, 2, 0, 0])


# ---- sizes -----------------------------------------------------------------------------------


def test_a_number_is_the_size_of_axes(mode: str) -> None:
    with br.Program() as program:
        x, n = br.data("x", ["b"]), br.data("n", [], "int64")
        k = br.as_size(n, "k")
        table = br.reshape(br.ensure_shape(x, [k * 2]), [k, 2])
        out = [table, br.arange(k), br.sum(br.ones([k, 2]) * 3.0)]
        (grad,) = br.gradients([br.sum(table[0] * table[0])], [x])
    assert str(out[1].type) == "i64[k]"
    exe = br.Executor(mode=mode)
    for count in (3, 4, 3):
        given = np.arange(2 * count, dtype="float32")
        got = exe.run(program, br.Scope(), {"x": given, "n": count}, [*out, grad])
        np.testing.assert_array_equal(got[0], given.reshape(count, 2))
        np.testing.assert_array_equal(got[1], np.arange(count))
        assert got[2] == 6 * count
        np.testing.assert_array_equal(got[3], np.where(given < 2, 2 * given, 0))


def test_what_tells_a_size_that_only_attributes_have_is_not_pruned(mode: str) -> None:
    with br.Program() as program:
        n, x = br.data("n", [], "int64"), br.data("x", ["b"])
        wide = br.broadcast_to(br.sum(x), [br.as_size(n * 2)])
        br.mean(x)
    small = br.prune(program, [wide])
    assert [op.type for op in small.block(0).ops if op.type in ("as_size", "mean")] == [
        "as_size"
    ]
    again = br.Program.from_bytes(small.to_bytes())
    for program in (small, again, br.parse(str(small))):
        feed = {"n": 2, "x": rows(1, 2)}
        got = br.Executor(mode=mode).run(program, br.Scope(), feed, [wide.name])
        np.testing.assert_array_equal(got[0], [3, 3, 3, 3])


@pytest.mark.parametrize("n", [-1, -(2**40), 2**40, 2**31 - 1])
def test_what_cannot_be_a_size_is_an_error_and_leaves_the_scope_as_it_was(
    mode: str, n: int
) -> None:
    with br.Program() as program:
        kept, given = br.state("kept", [], init=0.0), br.data("n", [], "int64")
        out = br.sum(br.ones([br.as_size(given)]))
        program.update(kept, kept + out)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(program, scope)
    exe.run(program, scope, feed={"n": 3})
    with pytest.raises(ShapeError, match="size of an axis is negative") as caught:
        exe.run(program, scope, feed={"n": n})
    assert "test_found.py" in str(caught.value)
    assert scope.get_var("kept").value == 3
    exe.run(program, scope, feed={"n": 2})
    assert scope.get_var("kept").value == 5


# ---- where it is refused, and where not ------------------------------------------------------


def in_a_step(x: br.Var, start: br.Var) -> None:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        net.add_output(br.sum(br.nonzero(net.add_input(x))[0]))


def in_a_trip(x: br.Var, start: br.Var) -> None:
    br.while_loop(lambda n: n < 3, lambda n: n + br.sum(br.unique(x).counts), start)


def in_a_block_in_a_trip(x: br.Var, start: br.Var) -> None:
    def body(n: br.Var) -> br.Var:
        with br.block("inner"):
            return br.sum(br.arange(br.as_size(n)))

    br.while_loop(lambda n: n < 3, body, start)


@pytest.mark.parametrize("build", [in_a_step, in_a_trip, in_a_block_in_a_trip])
def test_in_a_loop_it_is_refused_with_a_way_out(build: Callable[..., None]) -> None:
    with br.Program() as program:
        x = br.data("x", [4, 4], "int64")
        start = br.sum(x)
        before = str(program)
        with pytest.raises(
            ProgramError, match="data-dependent size, which is unsupported in a loop"
        ) as caught:
            build(x, start)
        assert "Compute it before the loop" in str(caught.value)
        assert "test_found.py" in str(caught.value)
        assert str(program) == before


def test_a_case_may_find_and_a_block_too(mode: str) -> None:
    with br.Program() as program:
        x, flag = br.data("x", ["b"]), br.data("flag", [], "bool")
        total = br.cond(
            flag, lambda: br.sum(br.compress(x > 0.0, x)), lambda: br.constant(-1.0)
        )
        with br.block("inner"):
            (places,) = br.nonzero(x < 0.0)
        last = br.sum(br.take(x, places))
    exe = br.Executor(mode=mode)
    for found, want in ((True, 3.0), (False, -1.0), (True, 3.0)):
        feed = {"x": rows(1, -5, 2), "flag": found}
        got = exe.run(program, br.Scope(), feed, [total, last])
        np.testing.assert_array_equal(got, [want, -5])


@pytest.mark.parametrize(
    ("error", "word", "build"),
    [
        (ShapeError, "expected an array of rank 1 or more", lambda x: br.nonzero(br.sum(x))),
        (ShapeError, "expected a scalar", br.as_size),
        (DTypeError, "expected an integer", lambda x: br.as_size(br.mean(x))),
        (DTypeError, "bool condition", lambda x: br.compress(x, x)),
        (ShapeError, "rank 1", lambda x: br.compress(br.expand_dims(x, 0) > 0, x)),
        (ShapeError, "axis 1 is out of range", lambda x: br.unique(x, axis=1)),
        (DTypeError, "no order", lambda x: br.unique(br.cast(x, "complex64"))),
        (ProgramError, "expected a variable", lambda x: br.nonzero([1, 2])),
    ],
)
def test_what_has_no_such_size_is_refused(error: Any, word: str, build: Any) -> None:
    with br.Program() as program:
        x = br.data("x", ["b"], "int64")
        before = len(program.block(0).ops)
        with pytest.raises(error, match=word) as caught:
            build(x)
        assert "test_found.py" in str(caught.value)
        assert len(program.block(0).ops) >= before


def test_boxes_that_overlap_one_with_a_higher_score_are_left_out(mode: str) -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [1, 6, 0, 5]], "float32")
    with br.Program() as program:
        given, scores = br.data("boxes", ["n", 4]), br.data("scores", ["c", "n"])
        chosen = br.image.non_max_suppression(given, scores, iou_threshold=0.5)
        (_, kept) = br.nonzero(chosen >= 0)
    feed = {"boxes": boxes, "scores": np.array([[0.5, 0.9, 0.1, 0.2], [0, 0, np.nan, 0]], "f4")}
    got, places = br.Executor(mode=mode).run(program, br.Scope(), feed, [chosen, kept])
    np.testing.assert_array_equal(got, [[1, 3, -1, -1], [0, 3, -1, -1]])
    np.testing.assert_array_equal(places, [0, 1, 0, 1])
