"""Scatter: the value at duplicate indices, and the receiver of its cotangent."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, IndexRangeError, ShapeError
from braces.ops.indexing import scatter

pytestmark = pytest.mark.unoptimized

X = np.array([[1.0, 2.0, 3.0, 0.0]], "float32")
PLACES = np.array([[1, -1, 1, 0]], "int64")
UPDATES = np.array([[5.0, 6.0, 5.0, 1.0]], "float32")


def put(mode: str, reduction: str, updates: Any = UPDATES) -> list[Any]:
    """The array with updates, and the gradient of its weighted sum by both."""
    with br.Program() as program:
        x, places = br.data("x", ["b", 4]), br.data("places", ["b", 4], "int64")
        given = br.data("updates", ["b", 4])
        out = br.put_along_axis(x, places, given, axis=1, reduction=reduction)
        weights = br.constant(np.array([1.0, 10.0, 100.0, 1000.0], "float32"))
        grads = br.gradients([br.sum(out * weights)], [x, given])
    feed = {"x": X, "places": PLACES, "updates": updates}
    return br.Executor(mode=mode).run(program, br.Scope(), feed, [out, *grads])


def test_the_last_of_several_stays_and_alone_has_a_gradient(mode: str) -> None:
    out, by_x, by_updates = put(mode, "set", np.array([[5.0, 6.0, 7.0, 8.0]], "float32"))
    np.testing.assert_array_equal(out, [[8, 7, 3, 6]])
    np.testing.assert_array_equal(by_x, [[0, 0, 100, 0]])
    np.testing.assert_array_equal(by_updates, [[0, 1000, 10, 1]])


def test_those_that_are_greatest_share_the_gradient(mode: str) -> None:
    out, by_x, by_updates = put(mode, "max")
    np.testing.assert_array_equal(out, [[1, 5, 3, 6]])
    np.testing.assert_array_equal(by_x, [[0.5, 0, 100, 0]])
    np.testing.assert_array_equal(by_updates, [[5, 1000, 5, 0.5]])


def test_a_factor_beside_a_zero_has_the_product_of_the_others(mode: str) -> None:
    out, by_x, by_updates = put(mode, "mul", np.array([[0.0, 6.0, 5.0, 1.0]], "float32"))
    np.testing.assert_array_equal(out, [[1, 0, 3, 0]])
    np.testing.assert_array_equal(by_x, [[1, 0, 100, 6000]])
    np.testing.assert_array_equal(by_updates, [[100, 0, 0, 1]])


def test_where_all_are_put_at_once_the_last_stays_too() -> None:
    rng = np.random.default_rng(0)
    x, updates = rng.normal(size=(20, 3)), rng.normal(size=(4, 25, 3))
    at = (rng.integers(0, 20, (4, 25)),)
    with jax.enable_x64(True):
        in_order = jax.jit(scatter._put_in_order)(x, updates, *at)
        at_once = jax.jit(scatter._put_the_last)(x, updates, *at)
    np.testing.assert_array_equal(in_order, at_once)


def test_a_step_puts_its_row_into_a_memory_and_is_differentiated(mode: str) -> None:
    with br.Program() as program:
        x, at = br.data("x", [3, 2]), br.data("at", [3], "int64")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row, place = net.add_input(x), net.add_input(at)
            kept = net.add_memory(init=br.zeros([4, 2]))
            kept.update(br.scatter_nd(kept, row * row, [place]))
        last = rnn.final(kept)
        (grad,) = br.gradients([br.sum(last)], [x])
    feed = {"x": np.ones((3, 2), "float32"), "at": np.array([2, 0, 2])}
    got, by_x = br.Executor(mode=mode).run(program, br.Scope(), feed, [last, grad])
    np.testing.assert_array_equal(got, [[1, 1], [0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(by_x, [[0, 0], [2, 2], [2, 2]])


def test_an_index_out_of_range_is_an_error_and_leaves_the_scope_as_it_was(mode: str) -> None:
    with br.Program() as program:
        kept = br.state("kept", [3], init=0.0)
        at = br.data("at", ["k"], "int64")
        moved = br.scatter_nd(kept, br.cast(at, "float32"), [at])
        program.update(kept, moved)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(program, scope)
    exe.run(program, scope, feed={"at": [1, -1]})
    with pytest.raises(IndexRangeError, match="out of range") as caught:
        exe.run(program, scope, feed={"at": [0, 3]})
    assert "test_scatter.py" in str(caught.value)
    np.testing.assert_array_equal(scope.get_var("kept").value, [0, 1, -1])


@pytest.mark.parametrize(
    ("error", "word", "options"),
    [
        (ShapeError, "unknown reduction 'mean'", {"reduction": "mean"}),
        (ShapeError, "Use br.scatter_add or br.scatter_nd_add", {"reduction": "add"}),
        (ShapeError, "axis 2 is out of range", {"axis": 2}),
        (DTypeError, "'mul' is not defined for bools", {"dtype": "bool", "reduction": "mul"}),
        (DTypeError, "have no order", {"dtype": "complex64", "reduction": "max"}),
        (DTypeError, "expected integer indices", {"kind": "float32"}),
        (ShapeError, "an update of the type", {"wide": 3}),
    ],
)
def test_what_cannot_be_put_is_refused(error: Any, word: str, options: Any) -> None:
    given = {"axis": 1, "reduction": "set", "dtype": "float32", "kind": "int64", "wide": 2}
    given |= options
    with br.Program() as program:
        x, places = (
            br.data("x", ["b", 4], given["dtype"]),
            br.data("i", ["b", 2], given["kind"]),
        )
        updates = br.data("u", ["b", given["wide"]], given["dtype"])
        with pytest.raises(error, match=word) as caught:
            br.put_along_axis(
                x, places, updates, axis=given["axis"], reduction=given["reduction"]
            )
        assert "test_scatter.py" in str(caught.value)
        assert not program.block(0).ops
