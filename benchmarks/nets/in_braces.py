"""The nets for Braces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import braces as br
from benchmarks.anew import program_anew
from benchmarks.nets.data import RATE, Cnn, Mlp, Net, Transformer, first_values


def program(net: Net) -> tuple[br.Program, br.Var]:
    """A training program, and its loss."""
    with br.Program() as prog:
        given = {
            name: br.data(name, ["rows", *value.shape[1:]], dtype=value.dtype.name)
            for name, value in net.batch().items()
        }
        logits = LOGITS[type(net)](net, given["x"])
        loss = br.mean(br.softmax_cross_entropy(logits, given["y"]))
        br.optimizer.adam(RATE).minimize(loss)
    return prog, loss


def train_step(net: Net) -> Callable[[], float]:
    """One step of Adam; gives the loss before it."""
    (prog, loss), exe, scope, feed = program(net), br.Executor(), br.Scope(), net.batch()
    exe.init(prog, scope)
    for name, value in first_values(net).items():
        scope.var(name).set(value)
    return lambda: float(exe.run(prog, scope, feed=feed, fetch=loss))


def compiling(net: Net) -> Callable[[], None]:
    """From building the program to its executable."""
    return program_anew(lambda: program(net), first_values(net), net.batch())


# ---- nets ------------------------------------------------------------------------------------


def mlp(net: Mlp, x: br.Var) -> br.Var:
    """Three products."""
    x = br.fc(x, net.hidden, act="relu", name="fc0")
    x = br.fc(x, net.hidden, act="relu", name="fc1")
    return br.fc(x, net.classes, name="fc2")


def cnn(net: Cnn, x: br.Var) -> br.Var:
    """Channels last, as its images are."""
    for i, filters in enumerate(net.channels):
        convolved = br.conv2d(
            x, filters, 3, padding="same", layout="NHWC", act="relu", name=f"conv{i}"
        )
        x = br.max_pool2d(convolved, 2, layout="NHWC")
    return br.fc(br.flatten(x), net.classes, name="fc")


def transformer(net: Transformer, x: br.Var) -> br.Var:
    """One block for each layer."""
    h = br.embedding(x, [net.words, net.width], name="words")
    h = h + br.parameter("positions", [net.length, net.width])
    causal = br.tril(br.ones([net.length, net.length], dtype="bool"))
    for i in range(net.layers):
        with br.block(f"layer{i}"):
            h = h + attention(net, br.layer_norm(h, name="norm0"), causal)
            up = br.fc(br.layer_norm(h, name="norm1"), 4 * net.width, name="up")
            h = h + br.fc(br.gelu(up, approximate=True), net.width, name="down")
    return br.fc(br.layer_norm(h, name="norm"), net.words, name="logits")


def attention(net: Transformer, x: br.Var, causal: br.Var) -> br.Var:
    """Each word looks at those before it."""
    each = net.width // net.heads
    heads = br.reshape(
        br.fc(x, 3 * net.width, name="qkv"), [-1, net.length, 3, net.heads, each]
    )
    q, k, v = br.unstack(heads, axis=2)
    scores = br.einsum("bqhd,bkhd->bhqk", q, k) * each**-0.5
    weights = br.softmax(br.where(causal, scores, -1e9))
    mixed = br.einsum("bhqk,bkhd->bqhd", weights, v)
    return br.fc(br.reshape(mixed, [-1, net.length, net.width]), net.width, name="out")


LOGITS: dict[type[Any], Callable[[Any, br.Var], br.Var]] = {
    Mlp: mlp,
    Cnn: cnn,
    Transformer: transformer,
}
