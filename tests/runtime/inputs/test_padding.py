"""Padding of feeds to multiples of named dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized


def recurrent() -> tuple[br.Program, list[br.Var]]:
    """Steps with lengths, a masked mean, and their gradient."""
    with br.Program() as prog:
        x = br.data("x", ["batch", "t", 3])
        lengths = br.data("lengths", ["batch"], dtype="int32")
        mask = br.data("mask", ["batch", "t"], dtype="bool")
        rnn = br.create_rnn(lengths=lengths)
        with rnn.stepnet() as net:
            row = net.add_input(x, axis=1)
            h = net.add_memory(shape=[3], batch_like=x)
            h.update(br.tanh(row + h))
        last = rnn.final(h)
        weights = br.cast(mask, "float32")
        mean = br.sum(br.sum(x, axis=2) * weights) / br.sum(weights)
        (slope,) = br.gradients([br.sum(last) + mean], [x])
    return prog, [last, mean, slope]


def batch(t: int, rng: np.random.Generator) -> dict[str, Any]:
    lengths = np.array([t, max(t - 2, 0)], np.int32)
    return {
        "x": rng.normal(size=(2, t, 3)).astype("float32"),
        "lengths": lengths,
        "mask": np.arange(t) < lengths[:, None],
    }


def test_lengths_and_masks_leave_padding_out(mode: str, rng: np.random.Generator) -> None:
    prog, wanted = recurrent()
    exe, scope = br.Executor(mode), br.Scope()
    batches = [batch(t, rng) for t in (3, 5, 16, 17, 1)]
    plain = [exe.run(prog, scope, one, wanted) for one in batches]
    before = exe.stats.compilations
    with exe.feeds(prog, batches, pad={"t": 16}) as feeds:
        for one, (last, mean, slope), feed in zip(batches, plain, feeds, strict=True):
            t = one["x"].shape[1]
            room = -(-t // 16) * 16
            assert feed["x"].shape == (2, room, 3)
            assert feed["mask"].shape == (2, room)
            assert feed["lengths"].tolist() == one["lengths"].tolist()
            got = exe.run(prog, scope, feed, wanted)
            np.testing.assert_allclose(got[0], last, 1e-6)
            np.testing.assert_allclose(got[1], mean, 1e-6)
            np.testing.assert_allclose(got[2][:, :t], slope, 1e-6, 1e-7)
            assert not np.any(got[2][:, t:])
    assert exe.stats.compilations - before == (1 if mode == "compile" else 0)  # 16 was there


def test_only_the_axes_of_the_dimension_grow() -> None:
    with br.Program() as prog:
        t = br.data("x", ["t", "b"]).shape[0]
        br.data("bounds", [t + 1], dtype="int64")
        br.data("other", [None, 2], dtype="bool")
        br.data("square", ["t", "t"], dtype="int8")
    feed = {
        "x": np.ones((5, 3), "f4"),
        "bounds": np.arange(6),
        "other": np.ones((5, 2), bool),
        "square": np.ones((5, 5), "i1"),
    }
    (got,) = br.Executor().feeds(prog, [feed], pad={"t": 4, "b": 3})
    shapes = {name: value.shape for name, value in got.items()}
    assert shapes == {"x": (8, 3), "bounds": (9,), "other": (5, 2), "square": (8, 8)}
    assert np.asarray(got["x"]).sum() == 15
    assert np.asarray(got["bounds"]).tolist() == [0, 1, 2, 3, 4, 5, 0, 0, 0]


def test_nothing_is_padded_where_sizes_are_multiples() -> None:
    with br.Program() as prog:
        br.data("x", ["t"])
    exe = br.Executor()
    for size in (0, 4, 8):
        (got,) = exe.feeds(prog, [{"x": np.ones(size, "f4")}], pad={"t": 4})
        assert got["x"].shape == (size,)


@pytest.mark.parametrize(
    ("pad", "error"),
    [
        ({"z": 4}, br.UnknownNameError),
        ({"t": 0}, br.ProgramError),
        ({"t": 2.0}, br.ProgramError),
        ({"t": True}, br.ProgramError),
        (16, br.ProgramError),
    ],
)
def test_wrong_paddings_are_refused_at_once(pad: Any, error: type[Exception]) -> None:
    with br.Program() as prog:
        br.data("x", ["t"])
    with pytest.raises(error):
        br.Executor().feeds(prog, [], pad=pad)


def test_a_batch_without_the_dimension_is_refused() -> None:
    with br.Program() as prog:
        br.data("x", ["t"])
        br.data("y", [3])

    def batches() -> Iterator[dict[str, Any]]:
        yield {"x": [1.0]}
        yield {"y": [1.0, 2.0, 3.0]}
        yield {"x": [[1.0]]}

    feeds = br.Executor().feeds(prog, batches(), pad={"t": 4})
    assert next(feeds)["x"].shape == (4,)
    with pytest.raises(br.FeedError, match="`t`"):
        next(feeds)


def test_several_devices_are_fed_padded_batches() -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", 3])
        total = br.sum(x * x)
    exe = br.Executor(layout=br.Layout(br.Mesh({"data": 2}), {"batch": "data"}))
    batches = [{"x": np.ones((n, 3), "f4")} for n in (1, 3, 4)]
    found = [
        float(exe.run(prog, br.Scope(), feed, total))
        for feed in exe.feeds(prog, batches, pad={"batch": 4})
    ]
    assert found == [3.0, 9.0, 12.0]
    assert exe.stats.compilations == 1
