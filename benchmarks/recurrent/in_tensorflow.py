"""TensorFlow: layers of Keras in a `tf.function`, as a graph or compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.recurrent.cells import Maths, step
from benchmarks.recurrent.task import GRU, LSTM, RATE, Task

Run = Callable[[Any], Any]
"""From the embedded ids, rows first, to the first memory at all steps."""


def norm(x: Any, scale: Any, shift: Any) -> Any:
    """Mean 0 and variance 1 along the last axis, then scaled and shifted."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, shift, scale, 1e-5)


MATHS = Maths(tf.sigmoid, tf.tanh, lambda x, count: tf.split(x, count, axis=-1), norm)


class OwnCell(tf.keras.layers.Layer):
    """A cell that Keras lacks, on products of the inputs."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.output_size = task.sizes.h
        self.state_size = [task.sizes.h] * task.cell.memories
        self.kind, self.p = task.cell, _variables(task, ("wh", *task.cell.vectors))

    def call(self, inputs: Any, states: Any) -> Any:
        """One step."""
        after = step(MATHS, self.kind, inputs, states, self.p)
        return after[0], list(after)


def graph(task: Task) -> Callable[[], float]:
    """A `tf.function`."""
    return _training_step(task, jit_compile=False)


def xla(task: Task) -> Callable[[], float]:
    """The same with `jit_compile=True`."""
    return _training_step(task, jit_compile=True)


# ---- parts -----------------------------------------------------------------------------------


def _variables(task: Task, names: tuple[str, ...]) -> dict[str, tf.Variable]:
    values = task.values()
    return {name: tf.Variable(values[name], name=name) for name in names}


def _dense(x: Any, w: Any, b: Any) -> Any:
    """One product for all steps; `@` would run one per row."""
    return tf.nn.bias_add(tf.tensordot(x, w, 1), b)


def _run(task: Task) -> tuple[Run, list[Any]]:
    if task.cell not in (LSTM, GRU):
        p, cell = _variables(task, ("wx", "b")), OwnCell(task)
        layer = tf.keras.layers.RNN(cell, return_sequences=True)
        return (lambda x: layer(_dense(x, p["wx"], p["b"]))), [*p.values(), *cell.p.values()]
    kind, order = (
        (tf.keras.layers.LSTM, "ifuo") if task.cell is LSTM else (tf.keras.layers.GRU, "zrn")
    )
    values, layer = task.arranged(order), kind(task.sizes.h, return_sequences=True)
    layer.build((task.sizes.b, task.sizes.t, task.sizes.d))
    bias = values["b"] if task.cell is LSTM else _two_biases(values["b"])
    layer.set_weights([values["wx"], values["wh"], bias])
    return layer, [weight.value for weight in layer.trainable_weights]


def _trained(task: Task, grads: list[Any]) -> list[Any]:
    """The gradients; the second bias of a GRU, an additional parameter, stays 0."""
    if task.cell is GRU:
        grads[-1] *= tf.constant([[1.0], [0.0]])
    return grads


def _two_biases(bias: Any) -> Any:
    """A GRU of Keras has a bias for each of its two products in one variable."""
    return np.stack([bias, np.zeros_like(bias)])


def _training_step(task: Task, *, jit_compile: bool) -> Callable[[], float]:
    p = _variables(task, ("emb", "wo", "bo"))
    run, inner = _run(task)
    trained = [*p.values(), *inner]
    optimizer = tf.keras.optimizers.SGD(RATE)
    optimizer.build(trained)
    ids, labels = (tf.constant(task.feeds()[name].T.copy()) for name in ("ids", "labels"))

    @tf.function(jit_compile=jit_compile)
    def one(ids: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = _dense(run(tf.gather(p["emb"], ids)), p["wo"], p["bo"])
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            )
        grads = _trained(task, tape.gradient(loss, trained))
        optimizer.apply_gradients(zip(grads, trained, strict=True))
        return loss

    return lambda: float(one(ids, labels))
