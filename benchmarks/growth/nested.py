"""Nested loops with one recurrence through all of them, so that their work is equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import braces as br
from benchmarks.growth.nested_data import values
from benchmarks.recurrent.in_jax import training_step
from benchmarks.recurrent.task import RATE


def braces_step(shape: tuple[int, ...]) -> Callable[[], float]:
    """RNNs in the step blocks of RNNs; each call returns the loss before its update."""
    given, weight = values(shape)
    with br.Program() as prog:
        x, w = br.data("x", given.shape), br.parameter("w", weight.shape)

        def last(x: Any, h: Any, depth: int) -> Any:
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                row, memory = net.add_input(x), net.add_memory(init=h)
                inner = last(row, memory, depth - 1) if depth > 1 else br.tanh(memory @ w + row)
                memory.update(inner)
            return rnn.final(memory)

        loss = br.mean(br.square(last(x, br.zeros(given.shape[-2:]), len(shape))))
        br.optimizer.sgd(RATE).minimize(loss)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    scope.var("w").set(weight)
    return lambda: float(exe.run(prog, scope, feed={"x": given}, fetch=loss))


def jax_step(shape: tuple[int, ...]) -> Callable[[], float]:
    """Scans in scans."""
    given, weight = values(shape)

    def last(x: Any, h: Any, w: Any, depth: int) -> Any:
        def body(h: Any, row: Any) -> Any:
            return (last(row, h, w, depth - 1) if depth > 1 else jnp.tanh(h @ w + row)), None

        return jax.lax.scan(body, h, x)[0]

    def loss(w: Any, x: Any) -> Any:
        return jnp.mean(last(x, jnp.zeros(x.shape[-2:]), w, len(shape)) ** 2)

    return training_step(loss, weight, given)
