"""A recurrent network with a convolution in its step: h <- tanh(conv(h, W) + x_t)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, Goal, check_close, clocked

TITLE = "convolution in a loop: h <- tanh(conv(h, W) + x_t) of images, 3x3 windows"
SCAN = "JAX scan"
UNROLLED = "JAX, each step written out"
TOGETHER = {SCAN: Goal(1 / 4), UNROLLED: Goal(1.3)}
APART = {SCAN: Goal(1.3), UNROLLED: Goal(1 / 2)}
"""Goals for all channels together, and for each alone, which JAX is quicker with in loops."""

Call: TypeAlias = Callable[[], Any]


def cases(tiny: bool) -> list[Case]:
    """Values and gradients, of all channels together and of each one alone."""
    steps, batch, channels, size = (3, 2, 4, 5) if tiny else (4, 16, 16, 28)
    found = []
    for groups in (1, channels):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(steps, batch, channels, size, size))
        w = rng.normal(size=(channels, channels // groups, 3, 3)) / 12
        values = x.astype("float32"), w.astype("float32")
        found += [_case(*values, groups, grad) for grad in (False, True)]
    return found


def _case(x: Any, w: Any, groups: int, grad: bool) -> Case:
    calls = {
        OURS: braces_net(x, w, groups, grad),
        SCAN: jax_net(x, w, groups, grad, unrolled=False),
        UNROLLED: jax_net(x, w, groups, grad, unrolled=True),
    }

    def agree() -> None:
        for other in (SCAN, UNROLLED):
            check_close(calls[OURS](), calls[other](), 1e-3)

    kind = "gradient" if grad else "forward"
    goals = TOGETHER if groups == 1 else APART
    return Case(
        what=f"{kind}, {groups} group{'s' * (groups > 1)}",
        sides={name: clocked(call) for name, call in calls.items()},
        comparisons=[Comparison(OURS, name, goal) for name, goal in goals.items()],
        agree=agree,
    )


# ---- sides -----------------------------------------------------------------------------------


def braces_net(x: Any, w: Any, groups: int, grad: bool) -> Call:
    """The last h, or the gradients of the sum of its squares by `x` and `W`."""
    with br.Program() as prog:
        inputs, weight = br.data("x", x.shape), br.data("w", w.shape)
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(inputs)
            h = net.add_memory(init=br.zeros(x.shape[1:]))
            h.update(br.tanh(br.conv2d(h, weight, padding="same", groups=groups) + row))
        last = rnn.final(h)
        loss = br.sum(br.square(last))
        fetch = br.gradients([loss], [inputs, weight]) if grad else [last]
    exe, scope, feed = br.Executor(), br.Scope(), {"x": x, "w": w}
    return lambda: exe.run(prog, scope, feed=feed, fetch=fetch)


def jax_net(x: Any, w: Any, groups: int, grad: bool, *, unrolled: bool) -> Call:
    """The same, with the convolution of JAX."""

    def step(h: Any, row: Any, w: Any) -> Any:
        convolved = jax.lax.conv_general_dilated(
            h, w, (1, 1), "SAME", feature_group_count=groups
        )
        return jnp.tanh(convolved + row)

    def last(x: Any, w: Any) -> Any:
        h = jnp.zeros(x.shape[1:], x.dtype)
        if not unrolled:
            return jax.lax.scan(lambda h, row: (step(h, row, w), None), h, x)[0]
        for row in x:
            h = step(h, row, w)
        return h

    def loss(x: Any, w: Any) -> Any:
        return jnp.sum(last(x, w) ** 2)

    jitted = jax.jit(jax.grad(loss, argnums=(0, 1)) if grad else last)
    return lambda: [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(x, w))]
