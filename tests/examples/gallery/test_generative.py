"""Generative models of the gallery at a small size, in both modes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from examples.gallery import vae

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
