"""Independence of batch elements: joined requests equal separate ones, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.passes.analysis.batch_independence import explain_dependence, find_batch_axis
from braces.passes.cleanup.prune import prune

pytestmark = pytest.mark.unoptimized


def network(x: Any) -> Any:
    return br.softmax(br.fc(br.relu(br.fc(x, 8)), 3))


def sequence(x: Any) -> Any:
    return br.lstm(br.reshape(x, ["n", 2, 2]), 5)[0]


def branch(x: Any) -> Any:
    choice = br.create_if_else(br.max(x, axis=1) > 0.0)
    with choice.true_block() as case:
        case.add_output(case.add_input(x) * 2.0)
    choice.pass_through(x)
    return choice()


def counted_loop(x: Any) -> Any:
    loop = br.create_while()
    with loop.block() as body:
        i, value = body.add_memory(init=br.constant(0)), body.add_memory(init=x)
        body.set_condition(i < 3)
        i.update(i + 1)
        value.update(value * 2.0 + 1.0)
    return loop.final(value)


def attention(x: Any) -> Any:
    return br.multi_head_attention(br.reshape(x, ["n", 2, 2]), heads=1)


def picture(x: Any) -> Any:
    pixels = br.conv2d(br.reshape(x, ["n", 1, 2, 2]), 3, 2)
    return br.fc(br.reshape(pixels, ["n", 3]), 2)


@pytest.mark.parametrize("build", [network, sequence, branch, counted_loop, attention, picture])
def test_independent_batch_elements(build: Callable[[Any], Any]) -> None:
    assert reason(build) is None
    with br.Program() as prog:
        y = build(br.data("x", ["n", 4]))
    exe = br.Executor()
    scope, x = exe.init(prog), np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    whole = exe.run(prog, scope, {"x": x}, y)
    parts = [exe.run(prog, scope, {"x": x[i : i + 1]}, y) for i in range(3)]
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-5, atol=1e-6)


def reason(build: Callable[[Any], Any]) -> str | None:
    with br.Program() as prog:
        y = build(br.data("x", ["n", 4]))
    definition = prune(prog, [y.name]).definition
    rows = find_batch_axis([definition.main.vars["x"].type])
    assert str(rows) == "n"
    return explain_dependence(definition, rows, [y.name])


def mixed_branch(x: Any) -> Any:
    choice = br.create_if_else(br.max(x, axis=1) > 0.0)
    with choice.true_block() as case:
        mine = case.add_input(x)
        case.add_output(mine / br.sum(mine, axis=0))
    choice.pass_through(x)
    return choice()


def common_condition(x: Any) -> Any:
    loop = br.create_while()
    with loop.block() as body:
        value = body.add_memory(init=x)
        body.set_condition(br.any(value < 10.0))
        value.update(value * 2.0 + 1.0)
    return loop.final(value)


def loop_over_elements(x: Any) -> Any:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        total = net.add_memory(init=br.constant(np.zeros(4, "float32")))
        total.update(total + net.add_input(x, axis=0))
        net.add_output(total.next)
    return rnn()


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: x - br.mean(x, axis=0), "mean mixes batch elements"),
        (lambda x: br.sum(x), "sum mixes batch elements"),
        (lambda x: br.cumsum(x, axis=0), "cumsum mixes batch elements"),
        (lambda x: br.sort(x, axis=0), "sort mixes batch elements"),
        (lambda x: br.reshape(x, [-1]), "reshape mixes batch elements"),
        (lambda x: br.matmul(x, x.T), "not axis 0 of the fetch"),
        (lambda x: x.T, "not axis 0 of the fetch"),
        (mixed_branch, "sum mixes batch elements"),
        (common_condition, "any mixes batch elements"),
        (loop_over_elements, "loop"),
    ],
)
def test_dependent_batch_elements(build: Callable[[Any], Any], text: str) -> None:
    found = reason(build)
    assert found is not None
    assert text in found
    assert "row-wise branch" not in found


def test_the_batch_axis_is_axis_0_of_all_symbolic_feeds() -> None:
    def axis(*shapes: Any) -> str:
        with br.Program() as prog:
            names = [br.data(f"x{i}", shape).name for i, shape in enumerate(shapes)]
        return str(find_batch_axis([prog.infos[name].type for name in names]))

    assert axis(["n", 4]) == "n"
    assert axis(["n", 4], [3], []) == "n"
    assert axis(["n", "t"], ["n"]) == "n"
    assert axis(["n", 4], ["m", 4]) == "None"
    assert axis([4, "n"]) == "None"
    assert axis([4, 3]) == "None"
