"""A transformer of twelve layers that sorts digits; each layer is a block of the program.

    with br.block("layer_3"):
        with br.block("attention"):        softmax(q k^T / sqrt(size)) v, for each head
        with br.block("forward"):          fc(relu(fc(x)))

The text form and the viewer show the program as twelve blocks, and a parameter has a name such
as `layer_3/attention/q.w`. With `--recompute` the gradient recomputes each layer and saves only
the values between layers.

    python -m examples.sorting --show
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import braces as br

DIGITS = 10


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        layers: The number of layers.
        width: The features of one digit.
        heads: The heads of each attention; they divide the width.
        length: Digits to sort.
        batch: Sequences in a step.
        steps: The training steps.
        learning_rate: The maximum; it rises for a tenth of the steps, and falls to 0 along a
            cosine.
        recompute: Whether the gradient recomputes layers.
        seed: The seed of parameters and digits.
    """

    layers: int = 12
    width: int = 32
    heads: int = 4
    length: int = 8
    batch: int = 64
    steps: int = 400
    learning_rate: float = 3e-3
    recompute: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Net:
    """The program and the variables to fetch.

    Attributes:
        program: It trains; `program.for_test()` predicts.
        logits: [batch, length, 10].
        loss: The mean cross-entropy.
    """

    program: br.Program
    logits: br.Var
    loss: br.Var


def attention(x: br.Var, settings: Settings) -> br.Var:
    """The attention of each position to all positions."""
    size = settings.width // settings.heads
    parts = [x.shape[0], settings.length, settings.heads, size]
    q, k, v = (br.reshape(br.fc(x, name=name, bias=False), parts) for name in "qkv")
    weights = br.softmax(br.einsum("bqhk,bshk->bhqs", q, k) * size**-0.5)
    mixed = br.einsum("bhqs,bshk->bqhk", weights, v)
    return br.fc(br.reshape(mixed, x.shape), name="out")


def forward(x: br.Var, settings: Settings) -> br.Var:
    """The feed-forward part, position by position."""
    wide = br.fc(x, 4 * settings.width, act="relu", name="up")
    return br.fc(wide, settings.width, name="down")


def build(settings: Settings) -> Net:
    """The network, with its training step."""
    with br.Program() as program:
        digits = br.data("digits", ["batch", settings.length], dtype="int32")
        shape = [settings.length, settings.width]
        places = br.parameter("places", shape, init=br.init.normal(0.1))
        h = br.embedding(digits, [DIGITS, settings.width], name="digit") + places
        for number in range(settings.layers):
            with br.block(f"layer_{number}", recompute=settings.recompute):
                with br.block("attention"):
                    h = h + attention(br.layer_norm(h, name="norm"), settings)
                with br.block("forward"):
                    h = h + forward(br.layer_norm(h, name="norm"), settings)
        with br.block("head"):
            logits = br.fc(br.layer_norm(h, name="norm"), DIGITS, name="out")
            loss = br.softmax_cross_entropy(logits, br.sort(digits))
        rises = settings.steps // 10 + 1
        rate = br.optimizer.warmup_cosine_decay_schedule(
            0.0, settings.learning_rate, rises, settings.steps
        )
        step = br.optimizer.adam(rate)
        br.optimizer.chain(br.optimizer.clip_by_global_norm(1.0), step).minimize(loss)
    return Net(program, logits, loss)


def train(settings: Settings) -> tuple[Net, br.Scope, list[float]]:
    """Train on random digits; return the losses of all steps."""
    net, scope, exe = build(settings), br.Scope(), br.Executor()
    exe.init(net.program, scope, seed=settings.seed)
    draw = np.random.default_rng(settings.seed)
    losses = list[float]()
    for step in range(settings.steps):
        digits = draw.integers(0, DIGITS, (settings.batch, settings.length), np.int32)
        losses.append(float(exe.run(net.program, scope, {"digits": digits}, net.loss)))
        if step % 50 == 0:
            print(f"step {step:4}: loss {losses[-1]:.3f}")
    return net, scope, losses


def accuracy(net: Net, scope: br.Scope, digits: np.ndarray) -> float:
    """The share of digits at their correct positions."""
    logits = br.Executor().run(net.program.for_test(), scope, {"digits": digits}, net.logits)
    return float(np.mean(logits.argmax(-1) == np.sort(digits)))


def outline(program: br.Program) -> str:
    """The plain blocks of the main block."""
    boxes = [op for op in program.block(0).ops if op.bodies() and "_grad" not in op.name]
    return "\n".join(f"{op.name}: {len(op.captures())} inputs" for op in boxes)


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument(
        "--recompute", action="store_true", help="recompute layers in the gradient"
    )
    parser.add_argument("--show", action="store_true", help="list the blocks of the program")
    given = parser.parse_args()
    settings = Settings(recompute=given.recompute)
    if given.show:
        print(outline(build(settings).program))
        return
    net, scope, _ = train(settings)
    digits = np.random.default_rng(1).integers(0, DIGITS, (500, settings.length), np.int32)
    print(f"sorted: {accuracy(net, scope, digits):.1%}")


if __name__ == "__main__":
    main()
