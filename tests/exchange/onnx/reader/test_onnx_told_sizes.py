"""Sizes that a model computes from its feeds: none is fixed, in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br
from braces.errors import ProgramError, RunError, ShapeError

pytestmark = pytest.mark.unoptimized


def model(text: str, version: int = 18) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {version}]> {text}')


def runs(text: str, mode: str, *feeds: Sequence[Any]) -> list[list[Any]]:
    prog, values = br.from_onnx(model(text))
    scope, exe = br.Scope(), br.Executor(mode=mode)
    scope.update(values)
    return [
        exe.run(prog, scope, dict(zip(prog.feeds, fed, strict=True)), list(prog.fetches))
        for fed in feeds
    ]


X = np.arange(12, dtype="float32")


def test_a_shape_may_be_fed(mode: str) -> None:
    text = """
        reshaped (float[12] x, int64[2] shape) => (float[A, B] y) { y = Reshape(x, shape) }"""
    shapes = [(3, 4), (6, -1), (-1, 2), (0, 1)]
    for (y,), shape in zip(runs(text, mode, *[(X, s) for s in shapes]), shapes, strict=True):
        np.testing.assert_array_equal(y, X.reshape(12 if shape[0] == 0 else shape[0], shape[1]))


def test_a_shape_of_another_number_is_an_error(mode: str) -> None:
    text = """
        reshaped (float[12] x, int64[2] shape) => (float[A, B] y) { y = Reshape(x, shape) }"""
    with pytest.raises(br.errors.RunError, match="differs from the shape of ensure_shape"):
        runs(text, mode, (X, (5, 2)))


def test_bounds_of_slices_may_be_fed(mode: str) -> None:
    text = """
        cut (float[N] x, int64[1] first, int64[1] last) => (float[A] y, float[B] z) {
            step = Constant<value = int64[1] {-2}>()
            axis = Constant<value = int64[1] {0}>()
            y = Slice(x, first, last)
            z = Slice(x, last, first, axis, step)
        }"""
    bounds = [(2, 7), (-5, -1), (3, 100), (8, 2), (-100, 4), (0, 12)]
    found = runs(text, mode, *[(X, [a], [b]) for a, b in bounds])
    for (y, z), (first, last) in zip(found, bounds, strict=True):
        np.testing.assert_array_equal(y, X[first:last])
        np.testing.assert_array_equal(z, X[last:first:-2])


def test_ranges_copies_and_constants_of_one_number_have_one_size(mode: str) -> None:
    text = """
        table (float[1, 2] x, int64 n) => (float[A, 2] y, int64[B] steps, float[C] some) {
            zero = Constant<value = int64 {0}>()
            one = Constant<value = int64 {1}>()
            axis = Constant<value = int64[1] {0}>()
            two = Constant<value = int64[1] {2}>()
            rows = Unsqueeze(n, axis)
            shape = Concat<axis = 0>(rows, two)
            copies = Expand(x, shape)
            ones = ConstantOfShape<value = float[1] {1.0}>(shape)
            y = Add(copies, ones)
            steps = Range(zero, n, one)
            start = Constant<value = float {1.0}>()
            stop = Cast<to = 1>(n)
            by = Constant<value = float {0.75}>()
            some = Range(start, stop, by)
        }"""
    x = np.array([[1, 2]], "float32")
    for n, (y, steps, some) in zip(
        (3, 1, 4), runs(text, mode, (x, 3), (x, 1), (x, 4)), strict=True
    ):
        np.testing.assert_array_equal(y, np.repeat(x + 1, n, 0))
        np.testing.assert_array_equal(steps, np.arange(n))
        np.testing.assert_array_equal(some, np.arange(1, n, 0.75, dtype="float32"))


def test_widths_repeats_and_depths_may_be_fed(mode: str) -> None:
    text = """
        more (float[2] x, int64[2] w, int64[1] r, int64 d)
            => (float[A] y, float[B] z, float[2, C] c) {
            off_on = Constant<value = float[2] {0.0, 1.0}>()
            y = Pad(x, w)
            z = Tile(x, r)
            c = OneHot(x, d, off_on)
        }"""
    x = np.array([0, 2], "float32")
    ((y, z, c),) = runs(text, mode, (x, [1, 2], [3], 3))
    np.testing.assert_array_equal(y, [0, 0, 2, 0, 0])
    np.testing.assert_array_equal(z, np.tile(x, 3))
    np.testing.assert_array_equal(c, [[1, 0, 0], [0, 0, 1]])


def test_what_is_found_has_a_size_that_models_compute_with(mode: str) -> None:
    text = """
        kept (float[N] x) => (float[A, 2] y) {
            places = NonZero(x)
            shape = Shape(places)
            one = Constant<value = int64 {1}>()
            count = Gather(shape, one)
            axis = Constant<value = int64[1] {0}>()
            rows = Unsqueeze(count, axis)
            two = Constant<value = int64[1] {2}>()
            wanted = Concat<axis = 0>(rows, two)
            wide = Expand(one_f, wanted)
            back = Constant<value = int64[2] {-1, 1}>()
            found = Compress(x, mask)
            column = Reshape(found, back)
            y = Mul(column, wide)
        }""".replace(
        "found = Compress(x, mask)", "flat = Squeeze(places, axis)\n found = Gather(x, flat)"
    )
    text = text.replace("wide = ", "one_f = Constant<value = float[1, 1] {3.0}>()\n wide = ")
    for x in (np.array([0, 2, 0, 5], "float32"), np.array([1, 0], "float32")):
        ((y,),) = runs(text, mode, (x,))
        np.testing.assert_array_equal(y, np.repeat(3 * x[x != 0], 2).reshape(-1, 2))


def test_a_negative_size_is_an_error_of_the_node(mode: str) -> None:
    text = """
        ones (int64[1] n) => (float[A] y) { y = ConstantOfShape(n) }"""
    with pytest.raises(ShapeError, match="size of an axis is negative"):
        runs(text, mode, ([-1],))


def test_in_a_loop_such_a_size_is_refused_with_a_way_out() -> None:
    text = """
        loop (int64 trips, int64 n) => (int64 last) {
            go = Constant<value = bool {1}>()
            last = Loop (trips, go, n) <
                body = step (int64 i, bool on, int64 v) => (bool out, int64 w) {
                    zero = Constant<value = int64 {0}>()
                    one = Constant<value = int64 {1}>()
                    steps = Range(zero, v, one)
                    w = ReduceSum<keepdims = 0>(steps)
                    out = Identity(on)
                }
            >
        }"""
    with pytest.raises(
        ProgramError, match="data-dependent size, which is unsupported in a loop"
    ):
        br.from_onnx(model(text))


def test_blocks_of_a_plane_are_moved_where_only_the_run_knows_its_size(mode: str) -> None:
    text = """
        blocks (float[1, 1, H, W] x, int64[8] pads)
            => (float[A, B, C, D] y, float[E, F, G, I] z) {
            padded = Pad(x, pads)
            y = SpaceToDepth <blocksize = 2> (padded)
            z = DepthToSpace <blocksize = 2> (y)
        }"""
    x = X.reshape(1, 1, 3, 4)
    pads = np.array([0, 0, 0, 0, 0, 0, 1, 2])
    ((y, z),) = runs(text, mode, (x, pads))
    padded = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 2)])
    np.testing.assert_array_equal(z, padded)
    np.testing.assert_array_equal(y[0, 1], padded[0, 0, ::2, 1::2])
    with pytest.raises(RunError, match="shape at run time"):
        runs(text, mode, (x, np.array([0, 0, 0, 0, 0, 0, 0, 0])))
