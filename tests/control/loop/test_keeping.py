"""Residuals of loops: the values that gradients save, and the values that they recompute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import braces as br
from braces.extend.building import call
from braces.extend.constructs import LoopView
from braces.extend.operators import OPS

pytestmark = pytest.mark.unoptimized

Step = Callable[[br.Var, br.Var, br.Var], br.Var]


@pytest.fixture(autouse=True)
def refined(registry: None) -> None:
    """An operator that computes much for each number."""

    @br.op(axes="... -> ...", costly=True)
    def _refined(x: br.Tensor) -> br.Tensor:
        for _ in range(4):
            x = np.float32(0.5) * (x + 2.0 / (1.0 + x * x))
        return x


def kept(step: Step, counted: bool) -> list[str]:
    """What made the values that the gradient of a loop keeps; it is run in both modes, too."""
    with br.Program() as prog:
        x, w = br.data("x", [4, 2, 3]), br.data("w", [3, 3])
        start = br.data("start", [2, 3])
        if counted:
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                row, h = net.add_input(x), net.add_memory(init=start)
                h.update(step(h.pre(1), row, w))
            end = rnn.final(h)
        else:
            loop, row = br.create_while(), x[0]
            with loop.block() as body:
                i = body.add_memory(init=br.constant(0, dtype="int32"))
                h = body.add_memory(init=start)
                body.set_condition(i < 4)
                h.update(step(h, row, w))
                i.update(i + 1)
            end = loop.final(h)
        slopes = [s for s in br.gradients([br.sum(end)], [x, start, w]) if s is not None]
    rng = np.random.default_rng(0)
    shapes = {"x": (4, 2, 3), "w": (3, 3), "start": (2, 3)}
    feed = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    compiled, interpreted = (
        br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=slopes)
        for mode in ("compile", "interpret")
    )
    for one, two in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-4, atol=1e-5)
    return _kept_of(prog)


def _kept_of(prog: br.Program) -> list[str]:
    (loop,) = (op for op in prog.definition.main.ops if op.name == "loop_0")
    view = LoopView.of(loop)
    made = {name: op for op in view.content.ops for name in op.binds()}
    pushed = [op.inputs["value"][0] for op in view.content.ops if op.type == "list_push"]
    names = [*pushed, *(row.result for row in view.rows)]
    return sorted(made[name].type if name in made else "memory" for name in names)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(
    ("step", "found"),
    [
        (lambda h, x, w: br.sigmoid(h * x) * br.tanh(h + x), ["memory"]),
        (lambda h, x, w: br.silu(h @ w) * br.tanh(h @ w), ["matmul", "memory", "tanh"]),
        (lambda h, x, w: br.tanh(br.exp((h @ w) * 0.1 + x) @ w), ["exp", "memory"]),
        (lambda h, x, w: call("_refined", h * x) * h, ["_refined", "memory"]),
        (lambda h, x, w: br.cumsum(h * h, axis=0) * h, ["cumsum", "memory"]),
    ],
    ids=["cheap", "of products", "products that nobody reads", "costly", "mixed"],
)
def test_what_works_element_by_element_is_made_again(
    step: Step, found: list[str], counted: bool
) -> None:
    assert kept(step, counted) == found


def test_whether_an_operator_is_cheap_follows_from_its_axes() -> None:
    assert OPS.get("tanh").cheap
    assert OPS.get("where").cheap
    assert not OPS.get("_refined").cheap
    assert not OPS.get("matmul").cheap
    assert not OPS.get("softmax").cheap
    assert not OPS.get("list_push").cheap
