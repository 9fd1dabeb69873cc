"""Convolutional recurrent layers, compared with convolutions by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import refuse_here

pytestmark = pytest.mark.unoptimized

SIZE, SHAPE = 2, [3, 2, 3, 4, 3]
ROLES = "w", "u", "b"


def convolved(x: Any, w: Any) -> Any:
    """[rows, channels, height, width] with [filters, channels, 3, 3], padded with zeros."""
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,fcij->nfhw", views, w)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def by_hand(x: Any, w: Any, u: Any, b: Any, h: Any, lengths: Any) -> list[Any]:
    """Outputs and the last memories, of a memory that both begin with."""
    c, outs = h, list[Any]()
    for t in range(x.shape[1]):
        active = (t < lengths)[:, None, None, None]
        step = np.where(active, x[:, t], 0.0)
        gates = convolved(step, w) + convolved(h, u) + b[:, None, None]
        i, f, g, o = np.split(gates, 4, axis=1)
        after = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        out = sigmoid(o) * np.tanh(after)
        h, c = np.where(active, out, h), np.where(active, after, c)
        outs.append(np.where(active, out, 0.0))
    return [np.stack(outs, axis=1), h, c]


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_an_lstm_of_pictures_is_its_formula_in_both_layouts_and_on_rows_of_all_lengths(
    mode: Any,
) -> None:
    rng = np.random.default_rng(0)
    with br.Program() as program:
        x = br.data("x", ["b", "t", *SHAPE[2:]], dtype="float64")
        n = br.data("n", ["b"], dtype="int32")
        h = br.data("h", ["b", SIZE, *SHAPE[3:]], dtype="float64")
        out, state = br.layers.conv_lstm(x, SIZE, 3, lengths=n, state=(h, h), name="enc")
        names = [f"enc/cell.{role}" for role in ROLES]
        assert {p.name for p in program.parameters} == {*names}
        w, u, b = map(br.get_variable, names)
        grads = br.gradients([br.sum(br.sin(out))], [x, w, u, b])
        rows, last = br.moveaxis(x, 2, -1), br.moveaxis(h, 1, -1)
        turned, _ = br.layers.conv_lstm(
            br.swapaxes(rows, 0, 1), *(SIZE, 3), layout="NHWC", lengths=n, axis=0,
            state=(last, last), name="last",
        )  # fmt: skip
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(program, scope)
    values = {
        role: rng.normal(size=scope.var(f"enc/cell.{role}").value.shape) for role in ROLES
    }
    for role, value in values.items():
        scope.var(f"enc/cell.{role}").set(value)
        moved = value if role == "b" else np.transpose(value, [2, 3, 1, 0])
        scope.var(f"last/cell.{role}").set(moved)
    images, lengths = rng.normal(size=SHAPE), np.array([2, 0, 1], "int32")
    first = rng.normal(size=[3, SIZE, *SHAPE[3:]])
    padded = images.copy()
    padded[1], padded[2, 1] = np.nan, np.nan
    feed = {"x": padded, "h": first, "n": lengths}
    found = exe.run(program, scope, feed, [out, *state, turned, *grads])
    wanted = by_hand(images, *values.values(), first, lengths)
    for left, right in zip(found, wanted, strict=False):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
    back = np.moveaxis(np.swapaxes(found[3], 0, 1), -1, 2)
    np.testing.assert_allclose(back, wanted[0], rtol=1e-9, atol=1e-12)
    given = {"x": images, **values}
    for name, grad in zip(given, found[4:], strict=True):
        way = rng.normal(size=grad.shape)
        up, down = (
            np.sin(
                by_hand(*(given | {name: given[name] + by * way}).values(), first, lengths)[0]
            )
            for by in (1e-5, -1e-5)
        )
        slope = np.sum(up - down) / 2e-5
        np.testing.assert_allclose(np.sum(grad * way), slope, rtol=1e-5, atol=1e-8)


def test_what_does_not_fit_an_lstm_of_pictures_is_refused_at_the_users_line() -> None:
    with br.Program() as program:
        x, flat = br.data("seq", ["b", "t", 2, 4, 4]), br.data("x", ["b", 4])
        ids = br.data("ids", ["b", "t", 2, 4, 4], dtype="int32")
        many = br.data("many", ["b", "t", "c", 4, 4])
        few, h = br.data("few", [2], dtype="int32"), br.data("h", ["b", 3, 4, 5])
        step = br.data("step", ["b", 2, 4, 4])
        br.sum(flat, name="loss")
    shape, dtype, wrong = br.ShapeError, br.DTypeError, br.ProgramError

    def refused(error: type[Exception], do: Any, *words: str) -> None:
        refuse_here(program, error, do, *words)

    refused(dtype, lambda: br.layers.conv_lstm(ids, 3, 3), "conv_lstm", "int32")
    refused(shape, lambda: br.layers.conv_lstm(flat, 3, 3), "conv_lstm", "rank 5, got 2")
    refused(shape, lambda: br.layers.conv_lstm(many, 3, 3), "axis 1")
    refused(
        shape, lambda: br.layers.conv_lstm(x, 3, 3, lengths=few), "each batch element", "few"
    )
    refused(shape, lambda: br.layers.conv_lstm(x, 3, 3, state=(h, h)), "h of shape [b,3,4,4]")
    refused(wrong, lambda: br.layers.conv_lstm(x, 3, 3, state=h), "(h, c)")
    refused(wrong, lambda: br.layers.conv_lstm(x, 0, 3), "size=0")
    refused(wrong, lambda: br.layers.conv_lstm(x, 3, 3, layout="CHWN"), "CHWN")
    refused(shape, lambda: br.layers.conv_lstm(x, 3, [3, 3, 3]), "window")
    refused(
        shape, lambda: br.layers.conv_lstm_cell(step, (h, h), 3), "conv_lstm_cell", "[b,3,4,4]"
    )
    refused(wrong, lambda: br.layers.conv_lstm_cell(step, h, 3), "(h, c)")
