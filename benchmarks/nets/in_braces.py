"""The networks in Braces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import braces as br
from benchmarks.anew import program_anew
from benchmarks.nets.data import RATE, Arrays, Cnn, Mlp, Net, Transformer, first_values


def program(net: Net) -> tuple[br.Program, br.Var]:
    """A training program, and its loss."""
    with br.Program() as prog:
        given = {
            name: br.data(name, ["rows", *value.shape[1:]], dtype=value.dtype.name)
            for name, value in net.batch().items()
        }
        logits = LOGITS[type(net)](net, given["x"])
        loss = br.softmax_cross_entropy(logits, given["y"])
        br.optimizer.adam(RATE).minimize(loss)
    return prog, loss


def train_step(net: Net) -> Callable[[], float]:
    """One step of Adam; returns the loss before it."""
    (prog, loss), exe, scope, feed = program(net), br.Executor(), br.Scope(), net.batch()
    exe.init(prog, scope)
    scope.update(named_here(first_values(net)))
    return lambda: float(exe.run(prog, scope, feed=feed, fetch=loss))


def compiling(net: Net) -> Callable[[], None]:
    """From building the program to its executable."""
    return program_anew(lambda: program(net), named_here(first_values(net)), net.batch())


# ---- names -----------------------------------------------------------------------------------

LAYER = {
    "norm0": "norm1",
    "norm1": "norm2",
    "out": "attention/out",
    "up": "hidden",
    "down": "out",
}
"""What the parts of a layer of a transformer are called here."""


def named_here(values: Arrays) -> Arrays:
    """Initial values by the names of parameters in Braces."""
    found = Arrays()
    for name, value in values.items():
        layer, _, last = name.rpartition("/")
        part, _, kind = last.partition(".")
        if part == "qkv":
            parts = np.split(value, 3, axis=-1)
            found |= {
                f"{layer}/attention/{n}.{kind}": v for n, v in zip("qkv", parts, strict=True)
            }
        elif layer:
            found[f"{layer}/{LAYER[part]}.{kind}"] = value
        else:
            found[name] = value
    return found


# ---- nets ------------------------------------------------------------------------------------


def mlp(net: Mlp, x: br.Var) -> br.Var:
    """Three products."""
    x = br.fc(x, net.hidden, act="relu", name="fc0")
    x = br.fc(x, net.hidden, act="relu", name="fc1")
    return br.fc(x, net.classes, name="fc2")


def cnn(net: Cnn, x: br.Var) -> br.Var:
    """Channels last, as the images."""
    for i, filters in enumerate(net.channels):
        convolved = br.conv2d(
            x, filters, 3, padding="same", layout="NHWC", act="relu", name=f"conv{i}"
        )
        x = br.max_pool2d(convolved, 2, layout="NHWC")
    return br.fc(br.flatten(x), net.classes, name="fc")


def transformer(net: Transformer, x: br.Var) -> br.Var:
    """The layers that Braces has, with the products for queries, keys and values apart."""
    h = br.embedding(x, [net.words, net.width], name="words")
    h = h + br.parameter("positions", [net.length, net.width])
    for i in range(net.layers):
        h = br.layers.transformer_encoder_layer(
            h, net.heads, norm_first=True, causal=True, act=_gelu, name=f"layer{i}"
        )
    return br.fc(br.layer_norm(h, name="norm"), net.words, name="logits")


def _gelu(x: br.Var) -> br.Var:
    return br.gelu(x, approximate=True)


LOGITS: dict[type[Any], Callable[[Any, br.Var], br.Var]] = {
    Mlp: mlp,
    Cnn: cnn,
    Transformer: transformer,
}
