"""Permitted targets and inputs of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br


def test_parameters_are_given_as_the_program_lists_them() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        loss = br.mean(br.square(br.fc(x, 2)))
        by_info = br.gradients(loss, prog.parameters)
        by_handle = br.gradients(loss, [prog.var(info.name) for info in prog.parameters])
        with pytest.raises(br.UnknownNameError, match="Did you mean `x`"):
            prog.var("xx")
    assert [var.type for var in by_info] == [info.type for info in prog.parameters]
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=0)
    left, right = exe.run(
        prog, scope, feed={"x": np.ones((2, 3), "float32")}, fetch=[by_info[0], by_handle[0]]
    )
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("mode", ["compile", "interpret"])
@pytest.mark.parametrize("by_row", [False, True])
def test_what_nested_blocks_carry_beside_a_variable_has_no_slope_of_it(
    mode: str, by_row: bool
) -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        outer = br.create_rnn(steps=2)
        with outer.stepnet() as net:
            value, power = net.add_memory(init=x), net.add_memory(init=br.full([2], 2.0))
            inner = br.create_while()
            with inner.block() as body:
                trip = body.add_memory(init=br.constant(0))
                v, p = body.add_memory(init=value), body.add_memory(init=power)
                body.set_condition(trip < 2)
                chosen = br.create_if_else(v < 9.0 if by_row else trip < 9)
                with chosen.true_block() as case:
                    v_in, p_in = case.add_input(v), case.add_input(p)
                    case.add_output(-(v_in**p_in))  # the slope by the power is NaN
                    case.add_output(p_in * 1.0)
                with chosen.false_block() as case:
                    case.add_output(case.add_input(v))
                    case.add_output(case.add_input(p))
                for memory, after in zip((v, p), chosen(), strict=True):
                    memory.update(after)
                trip.update(trip + 1)
            value.update(inner.final(v))
            power.update(inner.final(p))
        (pushed,) = br.jvp([outer.final(value)], [x], [br.ones_like(x)])
        (pulled,) = br.gradients([outer.final(value)], [x])
        assert br.jvp([outer.final(power)], [x], [br.ones_like(x)])[0] is None
    values = np.array([-0.9, -0.8], "float32")
    for got in br.Executor(mode=mode).run(prog, br.Scope(), {"x": values}, [pushed, pulled]):
        np.testing.assert_allclose(got, -16 * values**15, rtol=1e-5)


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_what_loops_carry_and_the_target_does_not_need_has_no_slope(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        outer = br.create_rnn(steps=2)
        with outer.stepnet() as net:
            value, far = net.add_memory(init=x), net.add_memory(init=br.constant(0.0))
            inner = br.create_while()
            with inner.block() as body:
                trip = body.add_memory(init=br.constant(0))
                v, d = body.add_memory(init=value), body.add_memory(init=far)
                body.set_condition(trip < 2)
                after = v * 1.0
                v.update(after)
                d.update(br.sqrt(br.square(after - v.pre(1))))  # its slope at 0 is NaN
                trip.update(trip + 1)
            value.update(inner.final(v))
            far.update(inner.final(d))
        slopes = br.gradients([outer.final(value)], [x])
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": 0.5}, slopes)
    assert got == [1.0]


# ---- higher orders ---------------------------------------------------------------------------

POINT = np.array([0.93, 1.2, 0.81])
MOVES = np.random.default_rng(0).normal(size=(4, 3))
TWINS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tanh": (br.tanh, jnp.tanh),  # reads its own result
    "erf": (br.special.erf, jax.scipy.special.erf),
    "cumprod": (br.cumprod, jnp.cumprod),  # nothing of it is written
    "logaddexp": (lambda x: br.logaddexp(x, x * x), lambda x: jnp.logaddexp(x, x * x)),
    "logsumexp": (br.logsumexp, jax.nn.logsumexp),
}


@pytest.mark.parametrize("orders", ["rrr", "rrrr", "ff", "fff", "rff", "frr", "rfrf"])
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.unoptimized
def test_reverse_and_forward_mode_nest_in_each_other(name: str, orders: str) -> None:
    ours, theirs = TWINS[name]
    with br.Program() as program:
        x = br.data("x", [3], dtype="float64")
        target = br.sum(br.square(ours(x)))
        for mode, move in zip(orders, MOVES, strict=False):
            way = br.constant(move, dtype="float64")
            if mode == "r":
                target = br.sum(br.gradients(target, x)[0] * way)
            else:
                (target,) = br.jvp(target, x, way)
    got = br.Executor(mode="interpret").run(
        program, br.Scope(), feed={"x": POINT}, fetch=target
    )

    def along(function: Callable[..., Any], move: Any) -> Callable[..., Any]:
        return lambda x: jax.jvp(function, (x,), (move,))[1]

    with jax.enable_x64(True):
        want: Callable[..., Any] = lambda x: jnp.sum(jnp.square(theirs(x)))  # noqa: E731
        for move in MOVES[: len(orders)]:
            want = along(want, move)
        np.testing.assert_allclose(got, want(POINT), rtol=1e-9)


@pytest.mark.usefixtures("registry")
def test_an_input_may_be_called_as_an_output_is() -> None:
    @br.op
    def cubed(out: br.Tensor) -> br.Tensor:
        return out**3

    with br.Program() as program:
        x = br.data("x", [])
        (slope,) = br.gradients(cubed(x), x)
    got = br.Executor().run(program, br.Scope(), feed={"x": 2.0}, fetch=slope)
    assert got == 12.0
