"""Plain blocks: alone, in each other, in loops and branches, and around them."""

from __future__ import annotations

import numpy as np

import braces as br
from tests.control.battery.cases import RNG, case, counted, trips, vectors
from tests.control.checking import constant, integer


@case()
def block_of_operators(x: br.Var, w: br.Var) -> br.Var:
    with br.block("encoder"):
        h = br.tanh(x * w)
        y = h * h + w
    return br.sum(y * h)


@case()
def block_that_runs_again(x: br.Var, w: br.Var) -> br.Var:
    with br.block("encoder", recompute=True):
        h = br.tanh(x * w)
        y = br.sin(h * h) + w
    return br.sum(y * h * x)


@case()
def blocks_in_blocks(x: br.Var, w: br.Var) -> br.Var:
    with br.block("model"):
        h = x
        for number in range(3):
            with br.block("layer", recompute=number == 1):
                u = br.sin(h * w)
                with br.block("rest", recompute=number == 2):
                    v = br.tanh(u) + h
                h = v * u
        with br.block("head"):
            y = br.sum(h * h)
    return y + br.sum(u * v)


@case()
def block_called_again(x: br.Var, w: br.Var) -> br.Var:
    with br.block("cell") as cell:
        h = br.tanh(x * w)
        y = h * h + x
    first = br.sum(y)
    second = cell(br.sin(y), w)
    third = cell(x=second * 0.5, w=x)
    return first + br.sum(second * third)


@case()
def block_that_runs_again_called_on_what_it_gave(x: br.Var, w: br.Var) -> br.Var:
    with br.block("cell", recompute=True) as cell:
        h = br.tanh(x * w)
        with br.block("inner"):
            y = br.cos(h) * x
    return br.sum(cell(cell(y, x), w) * h)


@case()
def gradient_of_what_a_closed_block_binds(x: br.Var, w: br.Var) -> br.Var:
    with br.block("encoder"):
        q = br.tanh(x * w)
        with br.block("inner", recompute=True):
            r = br.sin(q)
        y = r * q
    loss = br.sum(y * y) + br.sum(q)
    by_q, by_r = br.gradients([loss], [q, r])
    return br.sum(by_q * x) + br.sum(by_r * by_q)


@case()
def what_a_closed_block_binds_moves(x: br.Var, w: br.Var) -> br.Var:
    with br.block("encoder"):
        q = br.tanh(w * 1.0)
        y = br.sin(q) * x
    (moved,) = br.jvp([br.sum(y * q)], [q], [x])
    return moved * br.sum(y)


@case()
def target_gradients_from_the_block_itself(x: br.Var, w: br.Var) -> br.Var:
    with br.block("encoder", recompute=True):
        q = br.tanh(x * w)
        y = br.sin(q) + x
    (grad,) = br.gradients([y], [w], [q])
    return br.sum(grad * x)


@case()
def gradients_inside_an_open_block(x: br.Var, w: br.Var) -> br.Var:
    h = br.sin(x) * w
    with br.block("encoder"):
        a = br.tanh(h)
        b = a * a * w
        by_a, by_x = br.gradients([br.sum(b)], [a, x])
    return br.sum(by_a * by_x) + br.sum(b)


@case()
def only_some_of_a_block_is_used(x: br.Var, w: br.Var) -> br.Var:
    with br.block("encoder"):
        unused = br.exp(x * 100.0) / br.sum(x - x)
        y = br.tanh(x)
        also_unused = unused * w
    with br.block("nothing"):
        br.exp(also_unused)
    return br.sum(y * w)


@case({**vectors("x", "w"), "s": RNG.normal(size=(3, 3))})
def block_in_a_step(x: br.Var, w: br.Var, s: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h, given = net.add_memory(init=x), net.add_input(s)
        with br.block("cell") as cell:
            a = br.tanh(h * w + given)
            n = a * br.cos(a)
        h.update(n)
        net.add_output(cell(a, w, given * 0.5), a)
    first, second = rnn()
    return br.sum(first * second) + br.sum(rnn.final(h))


@case({**vectors("x", "w"), "n": trips(3)}, {**vectors("x", "w"), "n": trips(0)})
def blocks_that_run_again_in_a_while(x: br.Var, w: br.Var, n: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        with br.block("test"):
            more = (i < n) & (br.sum(h * h) < 50.0)
            after = i + 1
        body.set_condition(more)
        with br.block("cell", recompute=True):
            h.update(br.tanh(h * w) + h)
        i.update(after)
        body.add_output(h.pre(1))
    return br.sum(loop.final(h) * w) + br.sum(br.sin(loop()))


@case({**vectors("x", "w"), "n": trips(4)}, {**vectors("x", "w"), "n": trips(0)})
def while_in_a_block(x: br.Var, w: br.Var, n: br.Var) -> br.Var:
    with br.block("search"):
        with counted(2, x) as (inner, k):
            k.update(br.sin(k * w))
        loop = br.create_while()
        with loop.block() as body:
            i, h = body.add_memory(init=integer(0)), body.add_memory(init=inner.final(k))
            body.set_condition(i < n)
            h.update(br.tanh(h * w) + x)
            i.update(i + 1)
        y = loop.final(h)
        z = y * inner.final(k)
    return br.sum(z * w) + br.sum(y)


@case({**vectors("x", "w"), "n": trips(4)}, {**vectors("x", "w"), "n": trips(0)})
def while_in_a_block_that_runs_again(x: br.Var, w: br.Var, n: br.Var) -> br.Var:
    with br.block("search", recompute=True):
        loop = br.create_while()
        with loop.block() as body:
            i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
            body.set_condition(i < n)
            with counted(2, h) as (inner, k):
                k.update(br.sin(k * w))
            h.update(br.tanh(inner.final(k)) + x)
            i.update(i + 1)
        y = loop.final(h)
    return br.sum(y * w)


@case({**vectors("x", "w"), "n": trips(3)}, {**vectors("x", "w"), "n": trips(0)})
def block_with_a_while_called_again(x: br.Var, w: br.Var, n: br.Var) -> br.Var:
    with br.block("search") as search:
        loop = br.create_while()
        with loop.block() as body:
            i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
            body.set_condition(i < n)
            h.update(br.tanh(h * w))
            i.update(i + 1)
            body.add_output(h.pre(1) * x)
        y = loop.final(h) + br.sum(loop(), axis=0)
    return br.sum(y * search(x=br.sin(y), n=n + 1))


@case(
    {**vectors("x", "w"), "k": trips(0)},
    {**vectors("x", "w"), "k": trips(1)},
)
def blocks_in_a_switch_in_a_block(x: br.Var, w: br.Var, k: br.Var) -> br.Var:
    with br.block("outer", recompute=True):
        chooser = br.create_switch(k)
        with chooser.case(0) as a:
            with br.block("first"):
                u = br.tanh(x * w)
                v = u * u
            a.add_output(v + u)
        with chooser.default() as c:
            with br.block("second", recompute=True), counted(2, w) as (loop, h):
                h.update(br.sin(h * x))
            c.add_output(loop.final(h))
        made = chooser()
    return br.sum(made * x)


@case(
    {"m": RNG.normal(size=(4, 3)), **vectors("w")},
    {"m": -np.abs(RNG.normal(size=(3, 3))), **vectors("w")},
    {"m": np.zeros((0, 3)), **vectors("w")},
    m=["b", 3],
)
def blocks_in_a_row_wise_branch(m: br.Var, w: br.Var) -> br.Var:
    with br.block("rows"):
        choice = br.create_if_else(m[:, 0] > 0.0)
        with choice.true_block() as t:
            mine = t.add_input(m)
            with br.block("norm") as norm:
                centred = mine - br.mean(mine, axis=0)
                y = br.tanh(centred @ br.reshape(br.concat([w, w, w]), [3, 3]))
            t.add_output(norm(y, w) + y)
        with choice.false_block() as f:
            mine = f.add_input(m)
            with br.block("other", recompute=True):
                z = br.sin(mine * w)
                out = z * z
            f.add_output(out)
        made = choice()
    return br.sum(made * made) + br.sum(made * w)


@case(
    {"s": RNG.normal(size=(3, 2, 3)), "n": np.array([3, 1], np.int32), **vectors("w")},
    {"s": RNG.normal(size=(3, 2, 3)), "n": np.array([0, 2], np.int32), **vectors("w")},
    s=["t", "b", 3],
    n=["b"],
)
def blocks_in_steps_with_lengths(s: br.Var, n: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn(lengths=n)
    with rnn.stepnet() as net:
        given = net.add_input(s)
        h = net.add_memory(shape=[3], batch_like=s, batch_axis=1)
        with br.block("cell", recompute=True):
            a = br.tanh(given + h * w)
            a = a + br.sum(a * a, axis=0)
        h.update(a)
        net.add_output(a * given)
    return br.sum(rnn() * w) + br.sum(rnn.final(h))


@case({**vectors("x", "w"), "s": RNG.normal(size=(5, 3))})
def blocks_in_steps_that_stop_and_in_segments(x: br.Var, w: br.Var, s: br.Var) -> br.Var:
    total = constant(0.0)
    for options in ({}, {"checkpoint_every": 2}):
        rnn = br.create_rnn(**options)
        with rnn.stepnet() as net:
            h, given = net.add_memory(init=x), net.add_input(s)
            with br.block("cell"):
                a = br.tanh(h * w + given)
                far = br.sum(a) > 2.0
            h.update(a)
            net.add_output(a)
            if not options:
                net.stop_when(far)
        total = total + br.sum(rnn() * w) + br.sum(rnn.final(h))
    return total
