"""Generative models of the gallery at a small size, in both modes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from examples.gallery import gan, vae

pytestmark = pytest.mark.unoptimized


@pytest.fixture(scope="module")
def coder() -> vae.Trained:
    return vae.train(vae.SMALL, quiet=True)


def test_the_bound_rises_and_stays_below_the_likelihood(coder: vae.Trained) -> None:
    history = coder.run.history
    assert history["val_elbo"][-1] > history["val_elbo"][0] + 5
    assert min(history["val_rate"]) > 0
    _, held_out = vae.binarized()
    assert coder.log_likelihood(held_out, 20) > history["val_elbo"][-1]


def test_images_of_codes_are_probabilities_of_the_decoder(coder: vae.Trained) -> None:
    codes = np.random.default_rng(0).normal(size=(7, vae.SMALL.code)).astype("float32")
    images, values = coder.images(codes), coder.run.scope
    names = [info.name for info in coder.net.program.parameters if "decoder" in info.name]
    w1, b1, w2, b2 = (values[name] for name in names)
    want = 1 / (1 + np.exp(-(np.maximum(codes @ w1 + b1, 0) @ w2 + b2)))
    np.testing.assert_allclose(images.reshape(7, 64), want, rtol=1e-5)


def test_the_interpreter_trains_the_same_coder(coder: vae.Trained) -> None:
    short = replace(vae.SMALL, epochs=1)
    histories = [
        vae.train(replace(short, mode=mode), quiet=True).run.history
        for mode in ("compile", "interpret")
    ]
    for name in ("elbo", "val_elbo", "val_rate"):
        np.testing.assert_allclose(*(h[name] for h in histories), rtol=1e-4)


def test_the_picture_has_samples_and_curves(coder: vae.Trained) -> None:
    svg = vae.draw(coder)
    assert svg.count("<svg") == 3


@pytest.fixture(scope="module")
def painter() -> gan.Trained:
    return gan.train(gan.SMALL, snapshots=(1, 3))


def test_both_networks_train_in_turn(painter: gan.Trained) -> None:
    losses = np.array(painter.losses)
    assert losses.shape == (3, 2)
    assert np.isfinite(losses).all()
    assert losses[0, 0] < 0.69  # better than chance from the first epoch on
    assert list(painter.snapshots) == [1, 3]
    real, first, last = gan.digits(), painter.snapshots[1], painter.snapshots[3]
    assert not np.allclose(first, last)
    assert gan.draw(painter).count("<svg") == 3
    drawn = painter.images(next(gan.codes(9, 1, 500))).reshape(-1, 64)
    blank = np.random.default_rng(0).uniform(-1, 1, drawn.shape)
    assert gan.frechet_distance(real, drawn) < gan.frechet_distance(real, blank)


def test_each_program_changes_one_network() -> None:
    net = gan.build(gan.SMALL)
    for program, own in ((net.critic, "discriminator"), (net.painter, "generator")):
        changed = {p.name for p in program.parameters if p.name in program.updates}
        assert changed == {p.name for p in program.parameters if p.name.startswith(own)}
    shared = set(net.critic.updates) & set(net.painter.updates)
    assert shared == {"random_state"}


def test_the_interpreter_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    few = gan.digits()[:192]
    monkeypatch.setattr(gan, "digits", lambda: few)
    modes = ("compile", "interpret")
    runs = [gan.train(replace(gan.SMALL, epochs=1, mode=mode)) for mode in modes]
    np.testing.assert_allclose(*(run.losses for run in runs), rtol=1e-4)


def test_the_frechet_distance_is_that_of_normal_distributions() -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    assert abs(gan.frechet_distance(x, x)) < 1e-6
    np.testing.assert_allclose(
        gan.frechet_distance(x, 2 * x + 1),
        (np.sum((x.mean(0) + 1) ** 2) + np.trace(np.cov(x.T))),
    )
