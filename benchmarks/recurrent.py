"""One training step of a tagger with a recurrent cell: ids in, cross-entropy out, SGD.

The cell is written step by step, with embedding, products and logits in the step. JAX is
written the same way, and as a good user does, who takes out of the scan what does not recur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, Goal, check_close, clocked
from benchmarks.peers import installed

TITLE = "a training step of an own LSTM cell, everything in the step"
SAME = "JAX scan, everything in it"
GOOD = "JAX scan, as a good user writes it"
TORCH = "PyTorch nn.LSTM, fused"
GOALS = {SAME: Goal(1.0), GOOD: Goal(1 / 2), TORCH: Goal(1.1)}
RATE = 0.1

Values: TypeAlias = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Sizes:
    """Rows, trips, and the widths of embedding, memory and classes."""

    b: int
    t: int
    d: int
    h: int
    v: int

    def __str__(self) -> str:
        return f"B {self.b}, T {self.t}, D {self.d}, H {self.h}, V {self.v:,}"

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shape of each."""
        gates = 4 * self.h
        weights = {"emb": (self.v, self.d), "wx": (self.d, gates), "wh": (self.h, gates)}
        return weights | {"b": (gates,), "wo": (self.h, self.v), "bo": (self.v,)}

    def values(self) -> tuple[Values, Values]:
        """Parameters, and ids with labels."""
        rng = np.random.default_rng(0)
        shapes = self.parameters().items()
        made = {name: rng.normal(0, 0.08, shape).astype("float32") for name, shape in shapes}
        feeds = {n: rng.integers(0, self.v, (self.t, self.b)) for n in ("ids", "labels")}
        return made, {name: x.astype("int32") for name, x in feeds.items()}


SIZES = (
    Sizes(32, 64, 128, 128, 1000),
    Sizes(16, 256, 64, 64, 100),
    Sizes(20, 35, 200, 200, 10000),
    Sizes(1, 512, 128, 128, 100),
    Sizes(64, 100, 32, 32, 10),
)


def cases(tiny: bool) -> list[Case]:
    """The step at five sizes."""
    return [_case(sizes) for sizes in ((Sizes(2, 3, 4, 5, 6),) if tiny else SIZES)]


def _case(sizes: Sizes) -> Case:
    loops = {SAME: _all_in, GOOD: _good}
    steps = {OURS: braces_step(sizes)} | {n: jax_step(sizes, one) for n, one in loops.items()}
    if installed("torch"):
        steps[TORCH] = torch_step(sizes)

    def agree() -> None:
        losses = {name: [step() for _ in range(3)] for name, step in steps.items()}
        for found in losses.values():
            check_close(found, losses[OURS], 1e-4)

    return Case(
        what=str(sizes),
        sides={name: clocked(step) for name, step in steps.items()},
        comparisons=[Comparison(OURS, name, GOALS[name]) for name in steps if name != OURS],
        agree=agree,
    )


# ---- sides: each call takes one more step and gives the loss before it ----------------------


def braces_step(sizes: Sizes) -> Callable[[], float]:
    """An RNN with all of it in the step block."""
    with br.Program() as prog:
        ids, labels = (br.data(n, [sizes.t, sizes.b], dtype="int32") for n in ("ids", "labels"))
        p = {name: br.parameter(name, shape) for name, shape in sizes.parameters().items()}
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h, c = (net.add_memory(shape=[sizes.b, sizes.h]) for _ in range(2))
            x = br.embedding(net.add_input(ids), p["emb"])
            i, f, o, u = br.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, axis=-1)
            after = br.sigmoid(f) * c + br.sigmoid(i) * br.tanh(u)
            out = br.sigmoid(o) * br.tanh(after)
            h.update(out)
            c.update(after)
            logits = out @ p["wo"] + p["bo"]
            net.add_output(br.softmax_cross_entropy(logits, net.add_input(labels)))
        loss = br.mean(rnn())
        br.optimizer.sgd(RATE).minimize(loss)
    exe, scope, (values, feeds) = br.Executor(), br.Scope(), sizes.values()
    exe.init(prog, scope)
    for name, value in values.items():
        scope.var(name).set(value)
    return lambda: float(exe.run(prog, scope, feed=feeds, fetch=loss))


def _cell(gates: Any, c: Any) -> tuple[Any, Any]:
    i, f, o, u = jnp.split(gates, 4, axis=-1)
    after = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(u)
    return jax.nn.sigmoid(o) * jnp.tanh(after), after


def _losses(logits: Any, labels: Any) -> Any:
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def _start(p: Any, ids: Any) -> tuple[Any, Any]:
    zeros = jnp.zeros((ids.shape[1], p["wh"].shape[0]))
    return zeros, zeros


def _all_in(p: Any, ids: Any, labels: Any) -> Any:
    def step(carry: Any, given: Any) -> Any:
        (h, c), (one, label) = carry, given
        h, c = _cell(p["emb"][one] @ p["wx"] + h @ p["wh"] + p["b"], c)
        return (h, c), _losses(h @ p["wo"] + p["bo"], label)

    return jax.lax.scan(step, _start(p, ids), (ids, labels))[1].mean()


def _good(p: Any, ids: Any, labels: Any) -> Any:
    def step(carry: Any, gates: Any) -> Any:
        h, c = carry
        h, c = _cell(gates + h @ p["wh"], c)
        return (h, c), h

    _, hs = jax.lax.scan(step, _start(p, ids), p["emb"][ids] @ p["wx"] + p["b"])
    return _losses(hs @ p["wo"] + p["bo"], labels).mean()


def jax_step(sizes: Sizes, loss: Callable[..., Any]) -> Callable[[], float]:
    """Value, gradient and update in one jitted function, with donated parameters."""

    def step(p: Any, ids: Any, labels: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, ids, labels)
        return jax.tree.map(lambda x, g: x - RATE * g, p, grads), value

    jitted, (values, feeds) = jax.jit(step, donate_argnums=0), sizes.values()
    state = [{name: jnp.asarray(value) for name, value in values.items()}]

    def run() -> float:
        state[0], value = jitted(state[0], feeds["ids"], feeds["labels"])
        return float(jax.block_until_ready((state[0], value))[1])

    return run


def torch_step(sizes: Sizes) -> Callable[[], float]:
    """`nn.LSTM` between an embedding and a linear layer."""
    import torch

    values, feeds = sizes.values()
    emb, lstm = torch.nn.Embedding(sizes.v, sizes.d), torch.nn.LSTM(sizes.d, sizes.h)
    out = torch.nn.Linear(sizes.h, sizes.v)
    parts = [*emb.parameters(), *lstm.parameters(), *out.parameters()]
    order = np.r_[0 : 2 * sizes.h, 3 * sizes.h : 4 * sizes.h, 2 * sizes.h : 3 * sizes.h]
    gates = [values[name].T[order] for name in ("wx", "wh")]
    given = [values["emb"], *gates, values["b"][order], np.zeros(4 * sizes.h, "float32")]
    with torch.no_grad():
        for part, value in zip(parts, [*given, values["wo"].T, values["bo"]], strict=True):
            part.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    lstm.bias_hh_l0.requires_grad_(False)
    optimizer = torch.optim.SGD([part for part in parts if part.requires_grad], lr=RATE)
    ids, labels = (torch.from_numpy(feeds[name]).long() for name in ("ids", "labels"))

    def run() -> float:
        optimizer.zero_grad()
        logits = out(lstm(emb(ids))[0]).reshape(-1, sizes.v)
        loss = torch.nn.functional.cross_entropy(logits, labels.reshape(-1))
        loss.backward()
        optimizer.step()
        return float(loss)

    return run
