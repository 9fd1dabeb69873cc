"""Functions of Paddle, one operator each: values by NumPy, and gradients at ties and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import braces as br
from paddle_programs import normal
from paddle_writing import Written
from tests.exchange.paddle.test_from_paddle import close, run

pytestmark = pytest.mark.unoptimized

X = normal(3, 4)
TIED = np.array([[1, 3, 3, 0], [2, 2, 2, -1], [0, 0, 0, 0]], np.float32)
SQUARE = normal(3, 3)
IDS = np.array([2, 0, 1, 0], np.int64)


class Case(NamedTuple):
    """An operator: inputs by slot, the slot of its result, attributes, and the result."""

    kind: str
    given: dict[str, Any]
    out: str
    attrs: dict[str, Any]
    wanted: Any


def histogram_of(x: Any) -> Any:
    return np.histogram(x, bins=4, range=(-1, 1))[0]


CASES = [
    Case("masked_select", {"X": X, "Mask": X > 0}, "Y", {}, X[X > 0]),
    Case("lerp", {"X": X, "Y": X * 3, "Weight": np.float32(0.25)}, "Out", {}, X * 1.5),
    Case("elementwise_fmax", {"X": X, "Y": np.full_like(X, np.nan)}, "Out", {}, X),
    Case("allclose", {"Input": X, "Other": X}, "Out", {"rtol": b"1e-5", "atol": b"1e-8"}, True),
    Case("index_sample", {"X": X, "Index": IDS[:3, None]}, "Out", {},
         X[range(3), IDS[:3]][:, None]),
    Case("bincount", {"X": IDS}, "Out", {"minlength": 5}, [2, 1, 1, 0, 0]),
    Case("histogram", {"X": X}, "Out", {"bins": 4, "min": -1, "max": 1}, histogram_of(X)),
    Case("unique", {"X": IDS}, "Out", {"is_sorted": True, "dtype": 3}, [0, 1, 2]),
    Case("cummax", {"x": TIED}, "indices", {"axis": 1, "dtype": 3},
         [[0, 1, 2, 2], [0, 1, 2, 2], [0, 1, 2, 3]]),
    Case("mode", {"X": TIED}, "Indices", {"axis": 1}, [2, 2, 3]),
    Case("kthvalue", {"X": X}, "Out", {"axis": 1, "k": 2}, np.sort(X)[:, 1]),
    Case("searchsorted", {"SortedSequence": np.sort(X[0]), "Values": X}, "Out", {},
         np.searchsorted(np.sort(X[0]), X)),
    Case("diag_v2", {"X": X[0]}, "Out", {"offset": 1}, np.diag(X[0], 1)),
    Case("diagonal", {"Input": X}, "Out", {"offset": -1, "axis1": 0, "axis2": 1},
         np.diagonal(X, -1)),
    Case("kron", {"X": X, "Y": SQUARE}, "Out", {}, np.kron(X, SQUARE)),
    Case("cross", {"X": SQUARE, "Y": SQUARE.T.copy()}, "Out", {"dim": 1},
         np.cross(SQUARE, SQUARE.T)),
    Case("matrix_power", {"X": SQUARE}, "Out", {"n": 3}, np.linalg.matrix_power(SQUARE, 3)),
    Case("strided_slice", {"Input": X}, "Out",
         {"axes": [1], "starts": [2147483647], "ends": [-1], "strides": [-1]}, X[:, ::-1]),
    Case("set_value", {"Input": X, "ValueTensor": X[:, :2] * 9}, "Out",
         {"axes": [1], "starts": [1], "ends": [4], "steps": [2]},
         np.stack([X[:, 0], X[:, 0] * 9, X[:, 2], X[:, 1] * 9], axis=1)),
    Case("set_value", {"Input": X}, "Out",
         {"axes": [0], "starts": [-1], "ends": [0], "steps": [1], "decrease_axes": [0],
          "fp32_values": [7.0], "shape": [1], "dtype": 5},
         np.concatenate([X[:2], np.full((1, 4), 7.0)])),
    Case("softmax", {"X": np.float32(2.0)}, "Out", {"axis": -1}, 1.0),
    Case("argsort", {"X": np.float32(2.0)}, "Out", {"axis": -1}, 2.0),
    Case("reduce_sum", {"X": X}, "Out", {"reduce_all": True, "out_dtype": 6}, np.sum(X)),
    Case("nll_loss", {"X": X, "Label": IDS[:3]}, "Out", {"reduction": b"sum"},
         -X[range(3), IDS[:3]].sum()),
    Case("huber_loss", {"X": X, "Y": X + 3}, "Out", {"delta": 1.0}, np.full_like(X, 2.5)),
    Case("channel_shuffle", {"X": X.reshape(1, 4, 3, 1)}, "Out", {"groups": 2},
         X.reshape(1, 2, 2, 3, 1).swapaxes(1, 2).reshape(1, 4, 3, 1)),
]  # fmt: skip


def written(case: Case, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    p, feed = Written(), dict[str, Any]()
    for slot, value in case.given.items():
        array = np.asarray(value)
        feed[slot.lower()] = array
        p.feed(slot.lower(), *array.shape, dtype=str(array.dtype))
    names = {slot: slot.lower() for slot in case.given}
    p.op(case.kind, names, {case.out: "made"}, **case.attrs)
    p.fetch("made")
    return p.save(tmp_path), feed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_an_operator_gives_what_numpy_gives(case: Case, tmp_path: Path) -> None:
    folder, feed = written(case, tmp_path)
    (found,) = run(folder, feed)
    close(found, np.asarray(case.wanted))


ONES = np.ones_like(TIED)
GRADIENTS = [
    Case("reduce_max", {"X": TIED}, "Out", {"dim": [1]}, TIED.max(axis=1)[:, None] == TIED),
    Case("reduce_amax", {"X": TIED[1:]}, "Out", {"dim": [1]},
         [[1 / 3, 1 / 3, 1 / 3, 0], [0.25] * 4]),
    Case("elementwise_max", {"X": TIED, "Y": ONES}, "Out", {}, TIED > 1),
    Case("elementwise_fmin", {"X": TIED, "Y": ONES}, "Out", {}, TIED <= 1),
    Case("clip", {"X": TIED}, "Out", {"min": 0.0, "max": 2.0}, (TIED > 0) & (TIED < 2)),
    Case("p_norm", {"X": TIED[:1]}, "Out", {"porder": float("inf"), "axis": 1}, [[0, 1, 1, 0]]),
    Case("pool2d", {"X": TIED.reshape(1, 1, 3, 4)}, "Out",
         {"pooling_type": b"max", "ksize": [1, 1], "adaptive": True},
         np.eye(1, 12, 1).reshape(1, 1, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", GRADIENTS, ids=lambda case: case.kind)
def test_ties_and_bounds_have_the_gradient_of_paddle(case: Case, tmp_path: Path) -> None:
    folder, feed = written(case, tmp_path)
    prog, values = br.from_paddle(folder)
    with prog:
        grads = br.gradients([br.sum(prog.var("made"))], [prog.var("x")])
    scope = br.Scope()
    scope.update(values)
    (found,) = br.Executor().run(prog, scope, feed=feed, fetch=list(grads))
    close(found, np.asarray(case.wanted, np.float32))


def test_the_padding_same_ignores_dilations(tmp_path: Path) -> None:
    x, w = normal(1, 1, 5, 5), normal(1, 1, 3, 3)
    results = []
    for at, dilation in enumerate((1, 2)):
        p = Written()
        p.feed("x", 1, 1, 5, 5)
        p.op("conv2d", {"Input": "x", "Filter": p.weight("w", w)}, {"Output": "y"},
             strides=[1, 1], paddings=[0, 0], dilations=[dilation] * 2,
             padding_algorithm=b"SAME")  # fmt: skip
        p.fetch("y")
        results += run(p.save(tmp_path / str(at)), {"x": x})
    close(*results)


def test_a_transposed_convolution_has_the_wanted_size(tmp_path: Path) -> None:
    p = Written()
    p.feed("x", 1, 1, 4, 4)
    w = p.weight("w", normal(1, 1, 3, 3))
    shared = {"strides": [2, 2], "dilations": [1, 1]}
    given = {"Input": "x", "Filter": w}
    p.op(
        "conv2d_transpose",
        given,
        {"Output": "a"},
        paddings=[1, 1],
        output_size=[8, 7],
        **shared,
    )
    p.op("conv2d_transpose", given, {"Output": "b"}, paddings=[0, 0],
         padding_algorithm=b"SAME", **shared)  # fmt: skip
    p.fetch("a", "b")
    a, b = run(p.save(tmp_path), {"x": normal(1, 1, 4, 4)})
    assert a.shape == (1, 1, 8, 7)
    assert b.shape == (1, 1, 8, 8)
    close(a[..., :7, :7], b[..., 1:, 1:])
