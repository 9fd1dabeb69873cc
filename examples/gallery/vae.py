"""Variational autoencoder (VAE) on handwritten digits, trained on the evidence lower bound.

The encoder gives a normal distribution of a code z for each image, the decoder the probability
of ink in each pixel for a code (Kingma and Welling, 2014):

    q(z | x) = Normal(mean(x), exp(log_scale(x)))          p(x | z) = Bernoulli(decoder(z))
    elbo     = E_q[log p(x | z)] - KL(q(z | x) || Normal(0, 1))       <= log p(x)

The data are the 1,797 images of 8×8 pixels of scikit-learn, binarized at half of full ink.

    python -m examples.gallery.vae             train, measure, and draw docs/gallery/vae.svg
    python -m examples.gallery.vae --small     a few epochs of a small network
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import image_grid, line_chart, stacked

TRAINED = 1437
"""The number of training images; the other 360 are held out."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        units: The hidden units of the encoder and of the decoder.
        code: The number of elements of the code.
        epochs: Passes over the training images.
        batch: The batch size.
        rate: The initial learning rate, which falls to 0 along a cosine.
        mode: The mode of the executor.
    """

    units: int = 256
    code: int = 12
    epochs: int = 200
    batch: int = 64
    rate: float = 2e-3
    mode: str = "compile"


SMALL = Settings(units=24, code=4, epochs=4)


@dataclass(frozen=True)
class Net:
    """The program and its variables.

    Attributes:
        program: The training program.
        elbo: The lower bound, the mean over the images.
        rate: Its divergence term, the mean over the images.
        weight: log p(x, z) - log q(z | x) of each image, with a drawn code.
        image: Probabilities of ink for the codes of the feed `code`.
    """

    program: br.Program
    elbo: br.Var
    rate: br.Var
    weight: br.Var
    image: br.Var


def build(settings: Settings, steps: int) -> Net:
    """Build the program, with a second call of the decoder for codes from outside."""
    prior = br.distributions.Normal()
    with br.Program() as program:
        x = br.data("x", ["n", 64])
        hidden = br.fc(x, settings.units, act="relu", name="encoder")
        mean, log_scale = br.split(
            br.fc(hidden, 2 * settings.code, name="posterior"), 2, axis=1
        )
        posterior = br.distributions.Normal(mean, br.exp(log_scale))
        z = posterior.rsample()  # mean + scale * noise, so that gradients pass
        with br.block("decoder") as decoder:
            logits = br.fc(br.fc(z, settings.units, act="relu"), 64)
        ink = br.sum(br.distributions.Bernoulli(logits=logits).log_prob(x), axis=1)
        divergence = br.sum(br.distributions.kl_divergence(posterior, prior), axis=1)
        rate, elbo = br.mean(divergence), br.mean(ink - divergence)
        weight = ink + br.sum(prior.log_prob(z) - posterior.log_prob(z), axis=1)
        image = br.sigmoid(decoder(br.data("code", ["n", settings.code])))
        schedule = br.optimizer.cosine_decay_schedule(settings.rate, steps)
        br.optimizer.adam(schedule).minimize(-elbo)
    return Net(program, elbo, rate, weight, image)


def binarized() -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out images: float32[images, 64] of zeros and ones."""
    x = (load_digits().data > 7.5).astype("float32")
    order = np.random.default_rng(0).permutation(len(x))
    return x[order[:TRAINED]], x[order[TRAINED:]]


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Attributes:
        net: The program.
        run: The training, with its history.
    """

    net: Net
    run: br.Training

    def log_likelihood(self, x: np.ndarray, draws: int) -> float:
        """The mean of log p(x) by importance sampling with draws from q; Burda et al., 2016."""
        weights = np.stack([self._evaluate({"x": x}, self.net.weight) for _ in range(draws)])
        return float(np.mean(np.logaddexp.reduce(weights, axis=0) - np.log(draws)))

    def images(self, codes: np.ndarray) -> np.ndarray:
        """Images of codes: float32[codes, 8, 8]."""
        return self._evaluate({"code": codes}, self.net.image).reshape(-1, 8, 8)

    def _evaluate(self, feed: dict[str, np.ndarray], fetch: br.Var) -> np.ndarray:
        return self.run.exe.evaluate(self.net.program, self.run.scope, feed, fetch)


def train(settings: Settings, *, quiet: bool = False) -> Trained:
    """Train on the training images; the history has the bound on the held-out ones."""
    training, held_out = binarized()
    data = br.batches({"x": training}, settings.batch, drop_last=True)
    net = build(settings, settings.epochs * len(data))
    run = br.fit(
        net.program,
        data,
        epochs=settings.epochs,
        validation=br.batches({"x": held_out}, len(held_out)),
        metrics={"elbo": net.elbo, "rate": net.rate},
        exe=br.Executor(mode=settings.mode),
        quiet=quiet,
    )
    return Trained(net, run)


def independent_pixels() -> float:
    """The log likelihood of the held-out images if pixels were independent: a baseline."""
    training, held_out = binarized()
    p = (training.sum(axis=0) + 1) / (len(training) + 2)
    return float(np.mean(np.sum(np.log(np.where(held_out > 0, p, 1 - p)), axis=1)))


def draw(trained: Trained) -> str:
    """Samples, paths between pairs of codes, and the learning curves."""
    rng = np.random.default_rng(2)
    size = trained.net.program.var("code").shape[-1]
    codes = rng.normal(size=(60, size))
    ends, angle = rng.normal(size=(3, 2, 1, size)), np.linspace(0, np.pi / 2, 15)[:, None]
    paths = ends[:, 0] * np.cos(angle) + ends[:, 1] * np.sin(angle)
    images = trained.images(np.concatenate([codes, *paths]).astype("float32"))
    history = trained.run.history
    curves = {"training": history["elbo"], "held out": history["val_elbo"]}
    chart = line_chart(curves, x="epoch", y="ELBO in nats")
    return stacked([image_grid(1 - images, columns=15, scale=3), chart])


def example(small: bool) -> tuple[str, str]:
    """Train, measure and draw."""
    trained = train(SMALL if small else Settings(), quiet=small)
    history, (_, held_out) = trained.run.history, binarized()
    likelihood = trained.log_likelihood(held_out, 10 if small else 500)
    result = (
        f"Held-out ELBO {history['val_elbo'][-1]:.2f} nats, "
        f"of which KL {history['val_rate'][-1]:.2f}; "
        f"log likelihood {likelihood:.2f}, with independent pixels {independent_pixels():.2f}"
    )
    return result, draw(trained)


if __name__ == "__main__":
    run_example(__doc__, example)
