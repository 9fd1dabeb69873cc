"""Early exit: a small network classifies most digits, a large one the uncertain images.

The small network, `glance`, runs on all images. Rows with a confidence below a threshold also
run through a large network, `study`, which costs several hundred times as much. The branch is
row-wise: the expensive block runs on these rows only.

    glance = fc(relu(fc(image)))
    hard   = max(softmax(glance)) < threshold          bool[batch]
    logits = where(hard, study(images[hard]), glance)

`threshold` is a number in the scope. During training it falls from above 1, where all rows take
the expensive branch, to its final value; afterwards it can be set for a time budget. It is
chosen on validation images, held out of the training images: the cheapest threshold with the
accuracy of the large network on all rows.

    python -m examples.early_exit
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import braces as br

SIDE, CLASSES = 8, 10
ALL_ROWS = 1.1
"""A threshold above every probability: each row is studied."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        glance: The units of the cheap network.
        units: The units of each layer of the expensive network.
        layers: The layers of the expensive network.
        epochs: Passes over the training images.
        batch: Images in a step.
        learning_rate: The initial learning rate; it falls to 0 along a cosine.
        noise: The standard deviation of the noise on pixels during training.
        threshold: The confidence threshold in the second half of training.
        seed: The seed of the initial parameters, the order of the images, and the noise.
    """

    glance: int = 32
    units: int = 1024
    layers: int = 3
    epochs: int = 30
    batch: int = 32
    learning_rate: float = 2e-3
    noise: float = 0.15
    threshold: float = 0.97
    seed: int = 0


# ---- data ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Images:
    """Images with their labels.

    Attributes:
        pixels: f32[images, 8, 8], between 0 and 1.
        digits: i32[images], from 0 to 9.
    """

    pixels: np.ndarray
    digits: np.ndarray

    def __len__(self) -> int:
        return len(self.pixels)

    def part(self, chosen: np.ndarray) -> Images:
        """Some of the images."""
        return Images(self.pixels[chosen], self.digits[chosen])

    def batches(self, settings: Settings, rng: np.random.Generator) -> Iterator[Images]:
        """All images once, shuffled, with noise on the pixels, less a short last batch."""
        order = rng.permutation(len(self))
        for start in range(0, len(self) - settings.batch + 1, settings.batch):
            batch = self.part(order[start : start + settings.batch])
            noise = settings.noise * rng.standard_normal(batch.pixels.shape, np.float32)
            yield replace(batch, pixels=batch.pixels + noise)


def handwritten() -> tuple[Images, Images, Images]:
    """1,097 training images, 250 validation images for the threshold, 450 test images.

    Raises:
        ImportError: If scikit-learn is not installed.
    """
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = Images((loaded.images / 16).astype(np.float32), loaded.target.astype(np.int32))
    order = np.random.default_rng(0).permutation(len(images))
    return images.part(order[:1097]), images.part(order[1097:1347]), images.part(order[1347:])


def look_alike(count: int, seed: int) -> Images:
    """Synthetic images of the same form: ten patterns, some of them faint."""
    patterns = np.random.default_rng(0).random((CLASSES, SIDE, SIDE))
    rng = np.random.default_rng(seed)
    digits = np.arange(count) % CLASSES
    noise, wear = rng.random((count, SIDE, SIDE)), rng.random((count, 1, 1)) * 0.8
    pixels = (1.0 - wear) * patterns[digits] + wear * noise
    return Images(pixels.astype(np.float32), digits.astype(np.int32))


# ---- program ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """The training program, and the variables to fetch."""

    program: br.Program
    logits: br.Var
    hard: br.Var
    loss: br.Var
    accuracy: br.Var


def build(settings: Settings, steps: int) -> Net:
    """Build the program."""
    with br.Program() as program:
        image = br.data("image", ["batch", SIDE, SIDE])
        digit = br.data("digit", ["batch"], dtype="int32")
        threshold = br.state("threshold", [], init=ALL_ROWS)
        glanced = glance(image, settings)
        sure = br.max(br.softmax(glanced), axis=-1)
        choice = br.create_if_else(sure < threshold)
        with choice.true_block() as hard:
            hard.add_output(study(hard.add_input(image), settings))
        with choice.false_block() as easy:
            easy.add_output(easy.add_input(glanced))
        logits = choice()
        loss = br.mean(
            br.softmax_cross_entropy(logits, digit, reduction="none")
            + br.softmax_cross_entropy(glanced, digit, reduction="none"),
            name="loss",
        )
        accuracy = br.accuracy(logits, digit, name="accuracy")
        rate = br.optimizer.cosine_decay_schedule(settings.learning_rate, steps)
        br.optimizer.adam(learning_rate=rate).minimize(loss)
    return Net(program, logits, sure < threshold, loss, accuracy)


def glance(image: br.Var, settings: Settings) -> br.Var:
    """The logits of the cheap network: f32[batch, 10]."""
    units = br.fc(br.flatten(image, 1), settings.glance, act="relu", name="glance")
    return br.fc(units, CLASSES, name="glance_logits")


def study(image: br.Var, settings: Settings) -> br.Var:
    """The logits of the expensive network: f32[rows, 10]."""
    x = br.flatten(image, 1)
    for layer in range(settings.layers):
        x = br.fc(x, settings.units, act="relu", name=f"study_{layer}")
    return br.fc(x, CLASSES, name="study_logits")


# ---- training --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The results with one threshold.

    Attributes:
        threshold: The confidence threshold.
        accuracy: The accuracy.
        studied: The share of images in the expensive branch.
    """

    threshold: float
    accuracy: float
    studied: float


@dataclass(frozen=True)
class Trained:
    """A network with its parameters.

    Attributes:
        net: The program.
        scope: Its parameters.
        executor: The executor of the training.
        losses: The mean loss of each epoch.
    """

    net: Net
    scope: br.Scope
    executor: br.Executor
    losses: list[float]

    def at(self, threshold: float) -> None:
        """Set the confidence threshold."""
        self.scope.var("threshold").set(np.float32(threshold))

    def measure(self, images: Images, threshold: float) -> Measured:
        """Accuracy and share of the expensive branch."""
        self.at(threshold)
        feed = {"image": images.pixels, "digit": images.digits}
        accuracy, hard = self.executor.run(
            self.net.program.for_test(), self.scope, feed, [self.net.accuracy, self.net.hard]
        )
        return Measured(threshold, float(accuracy), float(hard.mean()))

    def choose(self, images: Images) -> Measured:
        """The cheapest threshold with the accuracy of the large network on all rows."""
        tried = [self.measure(images, at) for at in (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)]
        wanted = self.measure(images, ALL_ROWS)
        good = [one for one in tried if one.accuracy >= wanted.accuracy]
        return min([*good, wanted], key=lambda one: one.studied)

    def seconds(self, pixels: np.ndarray, threshold: float, runs: int = 15) -> float:
        """The median time of a prediction."""
        self.at(threshold)
        program = br.prune(self.net.program.for_test(), [self.net.logits])
        took = []
        for _ in range(runs + 2):
            start = time.perf_counter()
            self.executor.run(program, self.scope, {"image": pixels}, self.net.logits)
            took.append(time.perf_counter() - start)
        return float(np.median(took[2:]))


def train(settings: Settings, training: Images) -> Trained:
    """Train a network, first with all rows in the expensive branch, then with early exit."""
    steps = settings.epochs * (len(training) // settings.batch)
    net = build(settings, steps)
    trained = Trained(net, br.Scope(), br.Executor(), [])
    trained.executor.init(net.program, trained.scope, seed=settings.seed)
    rng = np.random.default_rng(settings.seed)
    for epoch in range(settings.epochs):
        trained.at(ALL_ROWS if 2 * epoch < settings.epochs else settings.threshold)
        losses = [
            trained.executor.run(
                net.program,
                trained.scope,
                {"image": batch.pixels, "digit": batch.digits},
                net.loss,
            )
            for batch in training.batches(settings, rng)
        ]
        trained.losses.append(float(np.mean(losses)))
    return trained


def main() -> None:
    """Train, choose a threshold, and print the saved time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=Settings.epochs)
    settings = Settings(epochs=parser.parse_args().epochs)
    training, choosing, test = handwritten()
    start = time.perf_counter()
    trained = train(settings, training)
    print(f"Trained in {time.perf_counter() - start:.0f} s")
    chosen = trained.choose(choosing).threshold
    many = np.concatenate([test.pixels] * 8)
    print(f"{len(test)} test images; time for {len(many)}")
    rows = {"glance only": 0.0, f"exit at {chosen}": chosen, "study only": ALL_ROWS}
    for name, threshold in rows.items():
        found = trained.measure(test, threshold)
        took = trained.seconds(many, threshold)
        print(
            f"  {name:16}  accuracy {found.accuracy:.1%}  expensive branch "
            f"{found.studied:6.1%}  {1e3 * took:7.2f} ms"
        )


if __name__ == "__main__":
    main()
