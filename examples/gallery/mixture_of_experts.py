"""Mixture of experts: each digit goes to one of eight networks, chosen by a trained router.

    scores = softmax(router(x))              f32[n, experts]
    chosen = argmax(scores)                  i64[n]
    out    = scores[chosen] * experts[chosen](x)

`br.switch` with an index for each batch element runs each expert on its own batch elements only
(top-1 routing, as in the Switch Transformer: Fedus, Zoph, Shazeer, 2022). Without a further
loss one expert gets nearly all images; the balance loss is least when all get the same share:

    balance = experts * sum over experts of (share of images) * (mean score)

    python -m examples.gallery.mixture_of_experts
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart

PIXELS, CLASSES = 64, 10


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        experts: The number of experts.
        hidden: The hidden units of an expert.
        epochs: Passes over the training images.
        batch: Images in a step.
        learning_rate: The learning rate of Adam.
        balance: The weight of the balance loss.
        rows: The images of a prediction whose time is measured.
    """

    experts: int = 8
    hidden: int = 1024
    epochs: int = 30
    batch: int = 64
    learning_rate: float = 1e-3
    balance: float = 1.0
    rows: int = 4096


SMALL = Settings(experts=3, hidden=16, epochs=2, rows=64)


@dataclass(frozen=True)
class Mixture:
    """The program, with the variables to fetch.

    Attributes:
        program: The program.
        logits: f32[n, 10].
        load: f32[experts]: the share of images of each expert.
        accuracy: The accuracy since the last reset.
    """

    program: br.Program
    logits: br.Var
    load: br.Var
    accuracy: br.metrics.Metric


def build(settings: Settings, *, routed: bool = True) -> Mixture:
    """Build the program; without `routed` all experts run on all images, with equal results."""

    def expert(number: int) -> Callable[[br.Var], br.Var]:
        def run(x: br.Var) -> br.Var:
            h = br.fc(x, settings.hidden, act="relu", name=f"expert_{number}/hidden")
            return br.fc(h, CLASSES, name=f"expert_{number}/out")

        return run

    experts = [expert(number) for number in range(settings.experts)]
    with br.Program() as program:
        image, digit = br.data("image", ["n", PIXELS]), br.data("digit", ["n"], dtype="int32")
        scores = br.softmax(br.fc(image, settings.experts, name="router"))
        chosen = br.argmax(scores, axis=1)
        shares = br.one_hot(chosen, settings.experts)
        if routed:
            outputs = br.switch(chosen, experts, image)
        else:
            every = br.stack([run(image) for run in experts], axis=1)
            outputs = br.sum(shares[:, :, None] * every, axis=1)
        logits = br.max(scores, axis=1, keepdims=True) * outputs
        load = br.mean(shares, axis=0)
        balance = settings.experts * br.sum(load * br.mean(scores, axis=0))
        loss = br.softmax_cross_entropy(logits, digit) + settings.balance * balance
        accuracy = br.metrics.accuracy(logits, digit)
        br.optimizer.adam(settings.learning_rate).minimize(loss)
    return Mixture(program, logits, load, accuracy)


def load_images() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """1,347 training images and 450 others, with their digits."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    parts = (order[:1347], order[1347:])
    train, test = (
        {"image": (images[part] / 16).astype("float32"), "digit": digits[part].astype("int32")}
        for part in parts
    )
    return train, test


def train(settings: Settings) -> tuple[Mixture, br.Scope, br.History]:
    """Train a mixture."""
    made, (images, test) = build(settings), load_images()
    run = br.fit(
        made.program,
        br.batches(images, settings.batch, drop_last=True),
        epochs=settings.epochs,
        validation=br.batches(test, len(test["digit"]), shuffle=False),
        metrics={"accuracy": made.accuracy, "largest": br.max(made.load)},
    )
    return made, run.scope, run.history


def seconds(made: Mixture, scope: br.Scope, images: np.ndarray) -> float:
    """The median time of a prediction."""
    program, exe, taken = br.prune(made.program.for_test(), [made.logits]), br.Executor(), []
    for _ in range(12):
        start = time.perf_counter()
        exe.run(program, scope, {"image": images}, made.logits)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken[2:]))


def example(small: bool) -> tuple[str, str]:
    """Train with and without the balance loss; return the results and a chart of the load."""
    settings = SMALL if small else Settings()
    _, test = load_images()
    images = np.tile(test["image"], (10, 1))[: settings.rows]
    lines, curves = list[str](), {}
    for name, balance in (("balanced", settings.balance), ("not balanced", 0.0)):
        chosen = replace(settings, balance=balance)
        _, scope, history = train(chosen)
        times = [
            1e3 * seconds(build(chosen, routed=routed), scope, images)
            for routed in (True, False)
        ]
        curves[name] = [100 * share for share in history["val_largest"]]
        lines.append(
            f"{name}: accuracy {history['val_accuracy'][-1]:.1%}, "
            f"the busiest expert has {curves[name][-1]:.0f} % of the images; "
            f"{len(images)} images take {times[0]:.1f} ms, with all experts {times[1]:.1f} ms"
        )
    return "\n".join(lines), line_chart(curves, x="epoch", y="% of images, busiest expert")


if __name__ == "__main__":
    run_example(__doc__, example)
