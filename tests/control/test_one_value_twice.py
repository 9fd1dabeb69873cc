"""One value as two operands or two results of a construct equals two copies of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

X = np.random.default_rng(0).normal(size=(4, 3))
Use = Callable[[br.Var, br.Var, bool], list[br.Var]]


def _copied(x: br.Var, apart: bool) -> br.Var:
    """A value, or a copy of it."""
    return x * 1.0 if apart else x


def stepped(x: br.Var, y: br.Var, apart: bool) -> list[br.Var]:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        a, b = net.add_input(x), net.add_input(y)
        h = net.add_memory(init=x[0])
        k = net.add_memory(init=x[0])
        z = br.tanh(a * b + h.pre(1) * k.pre(1) + a)
        h.update(z)
        k.update(_copied(z, apart))
        net.add_output(z, _copied(z, apart))
    return [*rnn(), rnn.final(h) * rnn.final(k)]


def with_lengths(x: br.Var, y: br.Var, apart: bool) -> list[br.Var]:
    rnn = br.create_rnn(lengths=br.constant([3, 0, 2], dtype="int32"))
    with rnn.stepnet() as net:
        a, b = net.add_input(x), net.add_input(y)
        h = net.add_memory(init=x[0])
        z = br.tanh(br.einsum("b,c->b", a, b) + h.pre(1) * b)
        h.update(z)
        net.add_output(z, _copied(z, apart))
    return [*rnn(), rnn.final(h)]


def looping(x: br.Var, y: br.Var, apart: bool) -> list[br.Var]:
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        s = body.add_memory(init=x)
        u = body.add_memory(init=y)
        body.set_condition(i < 3)
        v = s.pre(1) * u.pre(1) * 0.3 + s.pre(1)
        s.update(v)
        u.update(_copied(v, apart))
        i.update(i + 1)
        body.add_output(v, _copied(v, apart))
    return [*loop(), loop.final(s) + loop.final(u)]


def of_rows(x: br.Var, y: br.Var, apart: bool) -> list[br.Var]:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        a, b = t.add_input(x), t.add_input(y)
        product = a * b + br.einsum("bi,ci->b", a, b)[:, None]
        t.add_output(product, _copied(product, apart))
    with choice.false_block() as f:
        a, b = f.add_input(x), f.add_input(y)
        f.add_output(a, b)
    return [*choice()]


def chosen(x: br.Var, y: br.Var, apart: bool) -> list[br.Var]:
    switch = br.create_switch(br.constant(1, dtype="int32"))
    for case in range(2):
        with switch.case(case) as block:
            made = block.add_input(x) * block.add_input(y)
            block.add_output(made, _copied(made, apart))
    return [*switch()]


def called_again(x: br.Var, y: br.Var, apart: bool) -> list[br.Var]:
    with br.block("twice") as block:
        made = br.tanh(x * 2.0 - y)
    return [made, block(y, y) if apart else block(y)]


USES: list[Use] = [stepped, with_lengths, looping, of_rows, chosen, called_again]


@pytest.mark.parametrize("use", USES)
def test_one_value_twice_is_two_copies(use: Use, mode: str) -> None:
    found = list[list[np.ndarray]]()
    for apart in (False, True):
        with br.Program() as program:
            x = br.data("x", [4, 3], dtype="float64")
            outs = use(x, _copied(x, apart), apart)
            loss = sum(br.sum(out * out) for out in (*outs, *outs[:1]))
            first, same = br.gradients([loss], [x, x])
            (second,) = br.gradients([br.sum(br.sin(first))], [x])
        fetch = [*outs, outs[0], first, same, second]
        found.append(
            br.Executor(mode=mode).run(program, br.Scope(), feed={"x": X}, fetch=fetch)
        )
    for once, copied in zip(*found, strict=True):
        np.testing.assert_allclose(once, copied, rtol=1e-9, atol=1e-12)
