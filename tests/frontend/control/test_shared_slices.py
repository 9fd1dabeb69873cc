"""Shared functions on parts of a variable, whose sizes are expressions: `min(t, 5)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized


def embedded(ids: br.Var) -> br.Var:
    return br.embedding(ids, [9, 4], name="e")


def padded(ids: br.Var) -> br.Var:
    return br.concat([embedded(ids), br.zeros([ids.shape[0], ids.shape[1] + 1, 4])], axis=1)


def placed(ids: br.Var) -> br.Var:
    return embedded(ids) + br.layers.positional_encoding(br.arange(ids.shape[1]), 4)


def flat(ids: br.Var) -> br.Var:
    return br.reshape(embedded(ids), [-1, 4])


def attended(ids: br.Var) -> br.Var:
    return br.layers.transformer_encoder_layer(embedded(ids), 2, causal=True)


def recurrent(ids: br.Var) -> br.Var:
    return br.lstm(embedded(ids), 4)[0]


def looped(ids: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h = net.add_memory(init=br.zeros([ids.shape[0], 4]))
        h.update(br.tanh(br.fc(h, 4, name="u") + net.add_input(embedded(ids), axis=1)))
        net.add_output(h.next, axis=1)
    return rnn()


def compared(ids: br.Var) -> br.Var:
    e = embedded(ids)
    return br.where((br.arange(ids.shape[1]) < 3)[:, None], e, br.ones([*ids.shape, 4]))


Parts = Callable[[Any], tuple[Any, Any]]
PARTS: list[Parts] = [
    lambda ids: (ids[:, :5], ids[:, 5:]),
    lambda ids: (ids[:, 5:], ids[:, :5]),
    lambda ids: (ids[:, :5], ids),
    lambda ids: (ids[:2], ids[1:]),
    lambda ids: (ids[:, ::2], ids[:, 1::2]),
]


FUNCTIONS = [padded, placed, flat, attended, recurrent, looped, compared]
CASES = [(function, PARTS[0]) for function in FUNCTIONS] + [(placed, p) for p in PARTS[1:]]


@pytest.mark.parametrize(("function", "parts"), CASES)
def test_a_shared_function_takes_parts_of_a_variable(
    mode: str, function: Callable[[br.Var], br.Var], parts: Parts
) -> None:
    with br.Program() as prog:
        ids = br.data("ids", ["n", "t"], dtype="int32")
        shared = br.shared(function)
        first, second = (shared(part) for part in parts(ids))
        br.optimizer.sgd(0.1).minimize(br.sum(first) + br.sum(second))
        alone = shared(br.data("other", ["m", "s"], dtype="int32"))
    exe = br.Executor(mode)
    scope = exe.init(prog, seed=0)
    given = np.arange(3 * 8, dtype="int32").reshape(3, 8) % 9
    for fetched, part in zip((first, second), parts(given), strict=True):
        got = exe.evaluate(prog, scope, {"ids": given}, fetched)
        wanted = exe.evaluate(prog, scope, {"other": part}, alone)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    exe.run(prog, scope, {"ids": given}, fetch=())


def test_two_inputs_of_one_size_are_still_checked() -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", "t"]), br.data("y", ["n", "s"])
        shared = br.shared(lambda a, b: a + b * br.ones(a.shape), name="sum")  # pyright: ignore[reportUnknownLambdaType]
        shared(x[:, :5], x[:, :5])
        rest, before = x[:, 2:], str(prog)
        with pytest.raises(br.ShapeError, match=r"size `min\(t, 5\)`"):
            shared(rest, y)
    assert str(prog) == before


def test_a_block_that_was_built_for_a_fixed_size_says_so() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 8], dtype="int32")
        shared = br.shared(placed)
        shared(x[:, :5])
        rest, before = x[:, 5:], str(prog)
        with pytest.raises(br.ShapeError, match="built for the size 5, and this call has 3"):
            shared(rest)
    assert str(prog) == before
