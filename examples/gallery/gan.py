"""Generative adversarial network (GAN) on digits: two programs that train in alternation.

The discriminator and the generator are two programs over one scope. Each updates its own
parameters (Goodfellow et al., 2014, with the non-saturating loss of the generator):

    discriminator: minimize -log D(x) - log(1 - D(G(z)))          parameters of D
    generator:     minimize -log D(G(z))                          parameters of G

The data are the 1,797 images of 8×8 pixels of scikit-learn, from -1 to 1.

    python -m examples.gallery.gan             train, measure
    python -m examples.gallery.gan --small     some steps of a small network
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import image_grid, line_chart, stacked

CODE = 16
"""The number of elements of a code z."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        units: The hidden units of both networks.
        epochs: Passes over the images.
        batch: The batch size.
        rate: The learning rate.
        dropout: The dropout rate of the discriminator.
        mode: The mode of the executor.
    """

    units: int = 256
    epochs: int = 300
    batch: int = 64
    rate: float = 2e-4
    dropout: float = 0.3
    mode: str = "compile"


SMALL = Settings(units=32, epochs=3, rate=2e-3)


def generate(z: br.Var, units: int) -> br.Var:
    """Images of codes: f32[n, 64], from -1 to 1."""
    with br.block("generator"):
        hidden = br.leaky_relu(br.layer_norm(br.fc(z, units, name="in")), 0.2)
        hidden = br.leaky_relu(br.layer_norm(br.fc(hidden, units, name="middle")), 0.2)
        return br.fc(hidden, 64, act="tanh", name="out")


def judge(x: br.Var, settings: Settings) -> br.Var:
    """The logit that an image is real: f32[n, 1]."""
    with br.block("discriminator"):
        hidden = br.leaky_relu(br.fc(x, settings.units, name="in"), 0.2)
        hidden = br.dropout(hidden, settings.dropout)
        hidden = br.leaky_relu(br.fc(hidden, settings.units, name="middle"), 0.2)
        return br.fc(br.dropout(hidden, settings.dropout), 1, name="out")


@dataclass(frozen=True)
class Net:
    """The two programs and their variables.

    Attributes:
        critic: The program that trains the discriminator.
        critic_loss: Its loss.
        painter: The program that trains the generator.
        painter_loss: Its loss.
        images: The images of the generator, in the second program.
    """

    critic: br.Program
    critic_loss: br.Var
    painter: br.Program
    painter_loss: br.Var
    images: br.Var


def build(settings: Settings) -> Net:
    """Build both programs; parameters of equal name are shared through the scope."""
    with br.Program() as critic:
        real, z = br.data("real", ["n", 64]), br.data("z", ["n", CODE])
        logits = judge(br.concat([real, generate(z, settings.units)], axis=0), settings)
        truth = br.concat([br.ones_like(real[:, :1]), br.zeros_like(z[:, :1])], axis=0)
        critic_loss = br.sigmoid_binary_cross_entropy(logits, truth)
        adapt(critic, critic_loss, "discriminator", settings.rate)
    with br.Program() as painter:
        images = generate(br.data("z", ["n", CODE]), settings.units)
        logits = judge(images, settings)
        painter_loss = br.sigmoid_binary_cross_entropy(logits, br.ones_like(logits))
        adapt(painter, painter_loss, "generator", settings.rate)
    return Net(critic, critic_loss, painter, painter_loss, images)


def adapt(program: br.Program, loss: br.Var, network: str, rate: float) -> None:
    """Train the parameters of one network; the name keeps the states of both Adams apart."""
    own = [info.name for info in program.parameters if info.name.startswith(network)]
    br.optimizer.adam(rate, b1=0.5, name=f"adam_{network}").minimize(loss, own)


def digits() -> np.ndarray:
    """The images, from -1 to 1: float32[1797, 64]."""
    return (load_digits().data / 8 - 1).astype("float32")


def codes(epoch: int, count: int, batch: int) -> Iterator[np.ndarray]:
    """Batches of random codes."""
    rng = np.random.default_rng((1, epoch))
    for _ in range(count):
        yield rng.normal(size=(batch, CODE)).astype("float32")


@dataclass
class Trained:
    """A trained pair of networks.

    Attributes:
        net: The programs.
        scope: The parameters.
        exe: The executor.
        losses: The mean losses of each epoch: discriminator, generator.
        snapshots: Images of fixed codes, by epoch.
    """

    net: Net
    scope: br.Scope
    exe: br.Executor
    losses: list[np.ndarray]
    snapshots: dict[int, np.ndarray]

    def images(self, z: np.ndarray) -> np.ndarray:
        """Images of codes: float32[codes, 8, 8], from -1 to 1."""
        net = self.net
        found = self.exe.evaluate(net.painter, self.scope, {"z": z}, net.images)
        return found.reshape(-1, 8, 8)


def train(settings: Settings, snapshots: tuple[int, ...] = ()) -> Trained:
    """Train both programs in turn, one step each."""
    net, rows = build(settings), br.batches({"real": digits()}, settings.batch, drop_last=True)

    def pairs(epoch: int) -> Iterator[dict[str, np.ndarray]]:
        drawn = codes(2 * epoch, len(rows), settings.batch)
        for row, z in zip(rows.epoch(epoch), drawn, strict=True):
            yield {**row, "z": z}

    def seeds(epoch: int) -> Iterator[dict[str, np.ndarray]]:
        for z in codes(2 * epoch + 1, len(rows), settings.batch):
            yield {"z": z}

    exe, epochs = br.Executor(mode=settings.mode), settings.epochs
    judged = br.training(
        net.critic, br.batches(pairs), fetch=net.critic_loss, epochs=epochs, exe=exe
    )
    painted = br.training(
        net.painter,
        br.batches(seeds),
        fetch=net.painter_loss,
        epochs=epochs,
        beside=judged,
    )
    trained = Trained(net, judged.scope, exe, [], {})
    fixed, sums = next(codes(0, 1, 15)), np.zeros(2)
    for one, other in zip(judged, painted, strict=True):
        sums += one.values, other.values
        if one.last:
            trained.losses.append(sums / len(rows))
            sums = np.zeros(2)
            if one.epoch in snapshots:
                trained.snapshots[one.epoch] = trained.images(fixed)
    return trained


# ---- measurement -----------------------------------------------------------------------------


def frechet_distance(x: np.ndarray, y: np.ndarray) -> float:
    """The squared Fréchet distance of two sets of images, taken as normal distributions.

    It is that of the FID (Heusel et al., 2017), on pixels in place of features of a network.
    """
    (mean, cov), (other_mean, other_cov) = ((z.mean(0), np.cov(z.T)) for z in (x, y))
    root = np.sqrt(np.maximum(np.linalg.eigvals(cov @ other_cov).real, 0)).sum()
    return float(np.sum((mean - other_mean) ** 2) + np.trace(cov + other_cov) - 2 * root)


def class_shares(drawn: np.ndarray) -> np.ndarray:
    """The shares of the ten digits among images, as a nearest-neighbor classifier sees them."""
    found = KNeighborsClassifier(3).fit(digits(), load_digits().target).predict(drawn)
    return np.bincount(found, minlength=10) / len(found)


def draw(trained: Trained) -> str:
    """Images of the same codes over the epochs, and the losses."""
    images = np.concatenate(list(trained.snapshots.values()))
    losses = np.array(trained.losses).T
    curves = dict(zip(("discriminator", "generator"), losses, strict=True))
    chart = line_chart(curves, x="epoch", y="loss in nats")
    return stacked([image_grid((1 - images) / 2, columns=15, scale=3), chart])


def example(small: bool) -> tuple[str, str]:
    """Train, measure and draw."""
    epochs = (1, 2, 3) if small else (1, 3, 10, 30, 100, 300)
    trained = train(SMALL if small else Settings(), epochs)
    real = digits()
    drawn = trained.images(next(codes(9999, 1, len(real)))).reshape(-1, 64)
    mixed = np.random.default_rng(0).permuted(real, axis=0)
    halves = np.random.default_rng(1).permutation(real)
    shares = class_shares(drawn)
    result = (
        f"Fréchet distance: samples {frechet_distance(real, drawn):.2f}, "
        f"independent pixels {frechet_distance(real, mixed):.2f}, "
        f"halves of the digits {frechet_distance(halves[::2], halves[1::2]):.2f}; "
        f"shares of digits from {shares.min():.1%} to {shares.max():.1%}"
    )
    return result, draw(trained)


if __name__ == "__main__":
    run_example(__doc__, example)
