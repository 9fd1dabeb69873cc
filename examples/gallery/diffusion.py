"""Diffusion model of handwritten digits, whose sampler is one While.

Noise is added to images in 100 steps; level t keeps the share `kept[t]` of an image's variance:

    noisy = sqrt(kept[t]) image + sqrt(1 - kept[t]) noise,    noise ~ N(0, 1)

A network predicts the noise of a level, given the digit (a class-conditional DDPM: Ho, Jain,
Abbeel, 2020; the schedule is the cosine of Nichol, Dhariwal, 2021). The sampler starts with
noise and goes down the levels. It is a `While` of the same program, which shares the
parameters of the network and draws its noise in each iteration, so a saved model samples by
itself.

    python -m examples.gallery.diffusion
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import image_grid

PIXELS, CLASSES = 64, 10


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        levels: The number of noise levels.
        width: The features of the network.
        blocks: The number of its residual blocks.
        epochs: Passes over the images.
        batch: Images in a step.
        learning_rate: The initial learning rate of Adam; it falls to 0 along a cosine.
    """

    levels: int = 100
    width: int = 256
    blocks: int = 3
    epochs: int = 300
    batch: int = 128
    learning_rate: float = 2e-3


SMALL = Settings(levels=20, width=64, blocks=1, epochs=6)


def load_images() -> tuple[np.ndarray, np.ndarray]:
    """Images, f32[1797, 64] from -1 to 1, and their digits, i32[1797]."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    return (images / 8 - 1).astype("float32"), digits.astype("int32")


@dataclass(frozen=True)
class Diffusion:
    """The program of training and sampling.

    Attributes:
        program: The program.
        loss: The mean squared error of the predicted noise.
        samples: f32[rows, 64]: images of the digits `asked`.
        averages: Parameters and their moving averages, with which the sampler is run.
    """

    program: br.Program
    loss: br.Var
    samples: br.Var
    averages: dict[br.Var, br.Var]


def keep_shares(levels: int) -> np.ndarray:
    """The share of an image's variance that each level keeps, along a cosine."""
    angles = (np.arange(levels + 1) / levels + 0.008) / 1.008 * np.pi / 2
    shares = np.cos(angles) ** 2 / np.cos(angles[0]) ** 2
    ratios = np.maximum(shares[1:] / shares[:-1], 1e-3)
    return np.cumprod([1.0, *ratios]).astype("float32")


def build(settings: Settings, steps: int) -> Diffusion:
    """Build training and sampling as one program."""

    @br.shared
    def predict_noise(x: br.Var, level: br.Var, digit: br.Var) -> br.Var:
        width = settings.width
        at = br.layers.positional_encoding(level, width)
        given = br.fc(at, width, name="level") + br.embedding(digit, [CLASSES, width])
        h = br.fc(x, width, name="image")
        for _ in range(settings.blocks):
            wide = br.fc(br.layer_norm(h) + br.fc(br.silu(given), width), 2 * width)
            h = h + br.fc(br.silu(wide), width)
        return br.fc(br.layer_norm(h), PIXELS, name="noise")

    with br.Program() as program:
        kept = br.constant(keep_shares(settings.levels))
        image, digit = br.data("image", ["n", PIXELS]), br.data("digit", ["n"], dtype="int32")
        level = br.random.randint([image.shape[0]], 1, settings.levels + 1)
        noise = br.random.normal(image.shape)
        share = br.take(kept, level)[:, None]
        noisy = br.sqrt(share) * image + br.sqrt(1.0 - share) * noise
        loss = br.mean((predict_noise(noisy, level, digit) - noise) ** 2, name="loss")
        rate = br.optimizer.cosine_decay_schedule(settings.learning_rate, steps)
        pairs = br.optimizer.adam(rate).minimize(loss)
        averages = br.optimizer.ema(pairs, decay=0.995)
        asked = br.data("asked", ["rows"], dtype="int32")
        samples = sample(predict_noise, kept, asked, settings.levels)
    return Diffusion(program, loss, samples, averages)


def sample(
    predict_noise: Callable[..., br.Var], kept: br.Var, digit: br.Var, levels: int
) -> br.Var:
    """Draw an image of each digit: a loop from the last level to the first."""
    start = br.random.normal([digit.shape[0], PIXELS])
    loop = br.create_while()
    with loop.block() as body:
        level = body.add_memory(init=br.constant(levels))
        x = body.add_memory(init=start)
        body.set_condition(level > 0)
        share, before = kept[level], kept[level - 1]
        noise = predict_noise(x, br.full([digit.shape[0]], 0) + level, digit)
        image = br.clip((x - br.sqrt(1.0 - share) * noise) / br.sqrt(share), -1.0, 1.0)
        step = 1.0 - share / before
        parts = br.sqrt(before) * step * image, br.sqrt(share / before) * (1.0 - before) * x
        mean = (parts[0] + parts[1]) / (1.0 - share)
        spread = br.sqrt(step * (1.0 - before) / (1.0 - share))
        x.update(mean + spread * br.random.normal(x.shape))
        level.update(level - 1)
    return loop.final(x)


def train(settings: Settings) -> tuple[Diffusion, br.Scope, list[float]]:
    """Train the network; return its values and the loss of each epoch."""
    images, digits = load_images()
    data = br.batches({"image": images, "digit": digits}, settings.batch, drop_last=True)
    made = build(settings, settings.epochs * len(data))
    run = br.fit(made.program, data, epochs=settings.epochs)
    return made, run.scope, run.history["loss"]


def draw(
    made: Diffusion, scope: br.Scope, digits: np.ndarray, mode: str = "compile"
) -> np.ndarray:
    """Draw an image of each digit, f32[rows, 64], with the averaged parameters."""
    sampler = br.prune(made.program.for_test(values=made.averages), [made.samples])
    return br.Executor(mode=mode).run(sampler, scope, {"asked": digits}, made.samples)


def recognized(samples: np.ndarray, digits: np.ndarray) -> float:
    """The share of samples that a classifier of real images recognizes as their digit."""
    from sklearn.svm import SVC

    found = SVC(gamma=0.1).fit(*load_images()).predict(samples)
    return float(np.mean(found == digits))


def nearest(samples: np.ndarray) -> float:
    """The median distance of a sample to the closest real image that differs from it."""
    images, _ = load_images()
    squares = (samples**2).sum(1)[:, None] + (images**2).sum(1) - 2 * samples @ images.T
    squares[squares < 1e-3] = np.inf
    return float(np.median(np.sqrt(squares.min(axis=1))))


def example(small: bool) -> tuple[str, str]:
    """Train and sample; return the result and a grid of samples."""
    made, scope, losses = train(SMALL if small else Settings())
    asked = np.arange(100 if small else 1000, dtype="int32") % CLASSES
    samples = draw(made, scope, asked)
    result = (
        f"loss {losses[0]:.3f} in the first epoch, {losses[-1]:.3f} in the last\n"
        f"{recognized(samples, asked):.1%} of {len(asked)} samples are recognized\n"
        f"distance to the closest real image: {nearest(samples):.2f}; "
        f"of real images to each other: {nearest(load_images()[0]):.2f}"
    )
    shown = samples[:60].reshape(-1, 8, 8) / 2 + 0.5
    return result, image_grid(shown, columns=10)


if __name__ == "__main__":
    run_example(__doc__, example)
