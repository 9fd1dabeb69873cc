"""Adaptive computation time: a recurrent network that looks longer at noisier images.

Each iteration sees an image of a digit under fresh noise, updates a recurrent state, predicts
the digit, and emits a halting probability. The network of an image stops as soon as its
probabilities sum to 1; its output is the mean of its predictions under them (Graves, 2016):

    p[n] = sigmoid(halt(h[n])), at the last step the rest to 1
    logits = sum of p[n] logits[n] over the steps n = 1 .. N
    loss = cross entropy + price (N + p[N])

The loop is a `While` that runs until all images of a batch have halted, so its trip count
depends on the data and on the parameters. `price` is a value of the scope: the cost of a step.

    python -m examples.gallery.adaptive_time
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart

PIXELS, CLASSES, LOUDEST = 64, 10, 2.0


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        units: The size of the recurrent state.
        most: The maximum number of steps of an image.
        epochs: Passes over the training images.
        batch: Images in a step.
        learning_rate: The learning rate of Adam.
        prices: The prices of a step, one training each.
    """

    units: int = 128
    most: int = 32
    epochs: int = 100
    batch: int = 64
    learning_rate: float = 2e-3
    prices: tuple[float, ...] = (0.05, 0.1, 0.2)


SMALL = Settings(units=32, most=8, epochs=3, prices=(0.01,))


def load_images() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """1,347 training images and 450 others, each with a digit and its amount of noise."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    data = {"image": images[order] / 16, "digit": digits[order]}
    data = {"image": data["image"].astype("float32"), "digit": data["digit"].astype("int32")}
    parts = [
        {name: x[part] for name, x in data.items()} for part in (slice(1347), slice(1347, None))
    ]
    return parts[0], parts[1]


def add_noise(batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw the noise level of each image, a standard deviation."""
    return {**batch, "noise": rng.uniform(0, LOUDEST, len(batch["digit"])).astype("float32")}


@dataclass(frozen=True)
class Watcher:
    """The program, with the variables to fetch.

    Attributes:
        program: The program.
        steps: i64[n]: the number of steps of each image.
        loss: The cross entropy and the price of the steps.
        accuracy: The share of correct digits.
    """

    program: br.Program
    steps: br.Var
    loss: br.Var
    accuracy: br.Var


def build(settings: Settings) -> Watcher:
    """Build the program."""
    with br.Program() as program:
        image, noise = br.data("image", ["n", PIXELS]), br.data("noise", ["n"])
        digit = br.data("digit", ["n"], dtype="int32")
        price = br.state("price", [], init=settings.prices[0])
        logits, steps, ponder = watch(image, noise, settings)
        right = br.softmax_cross_entropy(logits, digit)
        loss = right + price * br.mean(ponder)
        accuracy = br.accuracy(logits, digit)
        clip = br.optimizer.clip_by_global_norm(1.0)
        br.optimizer.chain(clip, br.optimizer.adam(settings.learning_rate)).minimize(loss)
    return Watcher(program, steps, loss, accuracy)


def watch(image: br.Var, noise: br.Var, settings: Settings) -> tuple[br.Var, br.Var, br.Var]:
    """Logits, numbers of steps, and ponder costs of images."""
    rows = image.shape[0]
    none = br.zeros([rows])
    loop = br.create_while()
    with loop.block() as body:
        trip = body.add_memory(init=br.constant(1))
        h = body.add_memory(init=br.zeros([rows, settings.units]))
        logits = body.add_memory(init=br.zeros([rows, CLASSES]))
        spent = body.add_memory(init=none)  # the sum of halting probabilities
        steps = body.add_memory(init=br.zeros([rows], dtype="int64"))
        rest = body.add_memory(init=none)  # the probability of the last step
        runs = spent < 1.0
        body.set_condition(br.any(runs))

        seen = image + noise[:, None] * br.random.normal([rows, PIXELS])
        state = br.layers.gru_cell(br.fc(seen, settings.units, act="relu"), h)
        halt = br.sigmoid(br.fc(state, 1, name="halt")[:, 0] - 2.0)
        last = (spent + halt >= 0.99) | (trip >= settings.most)
        share = br.where(runs, br.where(last, 1.0 - spent, halt), 0.0)

        logits.update(logits + share[:, None] * br.fc(state, CLASSES, name="logits"))
        steps.update(steps + br.cast(runs, "int64"))
        rest.update(br.where(runs & last, share, rest))
        spent.update(br.where(runs & last, 1.0, spent + share))
        h.update(state)
        trip.update(trip + 1)
    taken = loop.final(steps)
    return loop.final(logits), taken, br.cast(taken, "float32") + loop.final(rest)


def train(settings: Settings, made: Watcher, price: float) -> tuple[br.Scope, list[float]]:
    """Train at a price; return the values and the loss of each epoch."""
    scope = br.Executor().init(made.program)
    scope["price"] = price
    images, _ = load_images()
    data = br.batches(images, settings.batch, transform=add_noise, drop_last=True)
    run = br.fit(made.program, data, epochs=settings.epochs, scope=scope)
    return scope, run.history["loss"]


def measure(made: Watcher, scope: br.Scope, noise: float, mode: str = "compile"):
    """The accuracy on other images at a noise level, and the steps of each, i64[450]."""
    _, test = load_images()
    feed = {**test, "noise": np.full(len(test["digit"]), noise, "float32")}
    fetches = [made.accuracy, made.steps]
    return br.Executor(mode=mode).evaluate(made.program, scope, feed, fetches)


def example(small: bool) -> tuple[str, str]:
    """Train at each price; return the results and a chart of steps against noise."""
    settings = SMALL if small else Settings()
    made = build(settings)
    levels = np.linspace(0, LOUDEST, 3 if small else 9)
    lines, curves = ["price | " + " | ".join(f"noise {level:g}" for level in levels)], {}
    for price in settings.prices:
        scope, _ = train(settings, made, price)
        found = [measure(made, scope, level) for level in levels]
        curves[f"price {price:g}"] = levels, [steps.mean() for _, steps in found]
        cells = [f"{steps.mean():.1f} steps, {right:.1%}" for right, steps in found]
        lines.append(f"{price:g} | " + " | ".join(cells))
    chart = line_chart(curves, x="standard deviation of the noise", y="mean steps")
    return "\n".join(lines), chart


if __name__ == "__main__":
    run_example(__doc__, example)
