"""Sizes that are equal for sensible inputs only: read as equal, looked at in each run."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.exchange.onnx.runtime import session

parser = pytest.importorskip("onnx.parser")

pytestmark = pytest.mark.unoptimized

HEAD = '<ir_version: 9, opset_import: ["" : 18]>'
HALVED = """
    model (float[n, 1, h, w] x, float[m, 1, 1, 1] bias) => (float[n, 1, a, b] y)
        <float[1, 1, 2, 2] k = {0.25, 0.25, 0.25, 0.25}, float[4] twice = {1, 1, 2, 2}> {
        half = Conv<strides = [2, 2]>(x, k)
        back = Resize<mode = "nearest">(half, , twice)
        sum = Add(back, x)
        less = Sub(bias, sum)
        kept = Less(less, back)
        y = Where(kept, x, back)
    }"""


def read(text: str) -> tuple[br.Program, br.Scope]:
    program, values = br.from_onnx(parser.parse_model(HEAD + text))
    scope = br.Scope()
    scope.update(values)
    return program, scope


def test_a_sum_of_sizes_that_only_even_images_share_is_read(mode: str) -> None:
    program, scope = read(HALVED)
    exe = br.Executor(mode=mode)
    x = np.arange(24, dtype="float32").reshape(1, 1, 4, 6)
    (y,) = exe.run(program, scope, {"x": x, "bias": np.zeros((1, 1, 1, 1), "f4")}, ["y"])
    half = x.reshape(1, 1, 2, 2, 3, 2).mean(axis=(3, 5))
    back = half.repeat(2, axis=2).repeat(2, axis=3)
    np.testing.assert_allclose(y, np.where(-back - x < back, x, back))
    for shape, size in (((1, 1, 5, 6), 4), ((1, 1, 4, 7), 6)):
        feed = {"x": np.ones(shape, "f4"), "bias": np.zeros((1, 1, 1, 1), "f4")}
        with pytest.raises(
            br.RunError, match="differs from the shape of ensure_shape"
        ) as caught:
            exe.run(program, scope, feed, ["y"])
        assert "sum/ensure_shape" in str(caught.value)
        assert caught.value.given in (str(size), str(size + 1))


def test_sizes_that_never_agree_are_refused() -> None:
    with pytest.raises(br.ProgramError, match=r"Add-18, 1 time: .*expected shape"):
        read(
            """model (float[n] x) => (float[m] y) {
            longer = Concat<axis = 0>(x, x, x)
            even = Concat<axis = 0>(longer, longer)
            more = Concat<axis = 0>(even, one)
            y = Add(even, more)
        }""".replace("=> (float[m] y)", "=> (float[m] y) <float[1] one = {1}>")
        )


def test_parts_that_are_as_long_in_sensible_runs_follow_one_another(mode: str) -> None:
    program, scope = read("""model (float[n, 2] x, float[m, 3] y) => (float[k, 5] z) {
        z = Concat<axis = 1>(x, y)
    }""")
    exe, x, y = br.Executor(mode=mode), np.ones((2, 2), "f4"), np.zeros((2, 3), "f4")
    (z,) = exe.run(program, scope, {"x": x, "y": y}, ["z"])
    np.testing.assert_array_equal(z, np.concatenate([x, y], axis=1))
    with pytest.raises(br.RunError, match="differs from the shape of ensure_shape"):
        exe.run(program, scope, {"x": x, "y": y[:1]}, ["z"])


TOLD_BY_WEIGHTS = (
    ("N,C,H", "float[2,2,1] w = {1,2,3,4}", "Conv(x,w)", (4, 2, 3)),
    ("N,C,H", "float[2,1,1] w = {1,2}", "Conv<group=2>(x,w)", (1, 2, 3)),
    ("N,C,H", "float[2,1,1] w = {1,2}", "ConvTranspose(x,w)", (1, 2, 3)),
    ("N,C", "float[2,3] w = {1,2,3,4,5,6}", "MatMul(x,w)", (4, 2)),
    ("C,N", "float[3,2] w = {1,2,3,4,5,6}", "MatMul(w,x)", (2, 4)),
    ("C", "float[2,1] w = {1,2}", "MatMul(x,w)", (2,)),
    ("C,N", "float[1,2] w = {1,2}", "Gemm<transA=1,transB=1>(x,w)", (2, 4)),
    ("N,C,H", "float[2] w = {1,2}", "BatchNormalization(x,w,w,w,w)", (3, 2, 3)),
    ("N,C,H", "float[2] w = {1,2}", "InstanceNormalization(x,w,w)", (3, 2, 4)),
    ("N,C,H", "float[2,3] w = {1,2,3,4,5,6}", "LayerNormalization<axis=-2>(x,w,w)", (3, 2, 3)),
    ("T,N,C", "float[1,1,2] w = {1,2}", "RNN<hidden_size=1>(x,w,r)", (3, 1, 2)),
)  # fmt: skip


@pytest.mark.parametrize(("sizes", "weights", "made", "shape"), TOLD_BY_WEIGHTS)
def test_a_symbolic_size_is_what_weights_say(
    sizes: str, weights: str, made: str, shape: tuple[int, ...]
) -> None:
    more = "float[1,1,1] r = {1}"
    text = f"model (float[{sizes}] x) => (float[] y) <{weights}, {more}> {{ y = {made} }}"
    model = parser.parse_model(HEAD + text)
    program, values = br.from_onnx(model)
    scope = br.Scope()
    scope.update(values)
    exe = br.Executor(mode="interpret")
    x = np.random.default_rng(0).normal(size=shape).astype("f4")
    wanted = session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(exe.run(program, scope, {"x": x}, ["y"]), wanted, 1e-5, 1e-5)
    axis = shape.index(2)
    other = np.ones([*shape[:axis], 3, *shape[axis + 1 :]], "f4")
    with pytest.raises(br.RunError, match="differs from the shape of ensure_shape"):
        exe.run(program, scope, {"x": other}, ["y"])
