"""Warnings about the step of a decoder that does not share its parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
Step = Callable[[Any, Any], tuple[Any, Any]]


def step(last: Any, state: Any) -> tuple[Any, Any]:
    h = br.layers.gru_cell(br.embedding(last, [9, 8]), state, name="cell")
    return br.fc(h, 9, name="out"), h


def train(step: Step, ids: br.Var) -> br.Var:
    br.embedding(ids, [4, 2])  # a layer whose generated name has a number
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h = net.add_memory(init=br.zeros([ids.shape[0], 8]))
        logits, after = step(net.add_input(ids, axis=1), h)
        h.update(after)
        net.add_output(logits, axis=1)
    return br.softmax_cross_entropy(rnn()[:, :-1], ids[:, 1:])


def greedy(step: Step, first: br.Var) -> br.Var:
    state = br.zeros([first.shape[0], 8])
    return br.decoding.greedy(step, state, start=first, end=8, max_length=4).ids


def beam_search(step: Step, first: br.Var) -> br.Var:
    state = br.zeros([first.shape[0], 8])
    return br.decoding.beam_search(step, state, 2, start=first, end=8, max_length=4).ids


def sample(step: Step, first: br.Var) -> br.Var:
    state = br.zeros([first.shape[0], 8])
    return br.decoding.sample(step, state, start=first, end=8, max_length=4).ids


DECODERS = [greedy, beam_search, sample]


@pytest.mark.parametrize("decode", DECODERS)
def test_a_step_with_parameters_of_its_own_is_reported(
    mode: str, decode: Callable[[Step, br.Var], br.Var]
) -> None:
    with br.Program() as prog:
        ids = br.data("ids", ["n", "t"], dtype="int32")
        with br.block("model"):
            loss = train(step, ids)
        br.optimizer.sgd(0.1).minimize(loss)
        with pytest.warns(br.BracesWarning) as caught:
            found = decode(step, ids[:, 0])
    message, name = str(caught[0].message), decode.__name__
    assert caught[0].filename == __file__
    assert f"the step of `{name}` creates 7 parameters" in message
    assert f"{name}/embedding_0.w: f32[9,8]   model/embedding_1.w: f32[9,8]" in message
    assert "@br.shared" in message
    exe = br.Executor(mode)
    feed = {"ids": np.zeros((2, 3), "int32")}
    assert exe.run(prog, exe.init(prog), feed, found).shape[0] == 2


def test_numbers_of_generated_names_do_not_matter() -> None:
    with br.Program():
        x = br.data("x", ["n", 8])
        for _ in range(3):
            logits = br.fc(x, 9)
        br.optimizer.sgd(0.1).minimize(br.mean(logits))
        with pytest.warns(br.BracesWarning, match="creates 2 parameters"):
            greedy(
                lambda last, state: (br.fc(state, 9), state), br.data("first", ["n"], "int32")
            )


def shared_step(ids: br.Var) -> None:
    own = br.shared(step)
    train(own, ids)
    for decode in DECODERS:
        decode(own, ids[:, 0])


def decoder_alone(ids: br.Var) -> None:
    greedy(step, ids[:, 0])


def another_model(ids: br.Var) -> None:
    train(lambda last, state: step(last, br.fc(state, 8, name="other")), ids)
    greedy(lambda last, state: (br.fc(state, 9, name="head"), state), ids[:, 0])


def other_sizes(ids: br.Var) -> None:
    br.fc(br.zeros([ids.shape[0], 1]), 9, name="out")
    greedy(lambda last, state: (br.fc(state, 9, name="out"), state), ids[:, 0])


def captured(ids: br.Var) -> None:
    table = br.parameter("table", [9, 9])
    train(lambda last, state: (br.embedding(last, table), state), ids)
    greedy(lambda last, state: (br.embedding(last, table), state), ids[:, 0])


@pytest.mark.parametrize(
    "build", [shared_step, decoder_alone, another_model, other_sizes, captured]
)
def test_shared_and_different_parameters_cause_no_warning(
    build: Callable[[br.Var], None],
) -> None:
    with br.Program(), warnings.catch_warnings():
        warnings.simplefilter("error")
        build(br.data("ids", ["n", "t"], dtype="int32"))
