"""The diffusion model at a small size."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from examples.gallery import diffusion
from tests.examples.gallery.scopes import copy_of

pytestmark = pytest.mark.unoptimized
Trained = tuple[diffusion.Diffusion, br.Scope, list[float]]


@pytest.fixture(scope="module")
def trained() -> Trained:
    return diffusion.train(diffusion.SMALL)


def test_the_noise_is_predicted_better_after_training(trained: Trained) -> None:
    losses = trained[2]
    assert losses[-1] < 0.8 * losses[0]


def test_samples_are_images_and_equal_in_both_modes(trained: Trained) -> None:
    made, scope, _ = trained
    asked = np.arange(10, dtype="int32")
    compiled, interpreted = (
        diffusion.draw(made, copy_of(scope), asked, mode) for mode in ("compile", "interpret")
    )
    assert compiled.shape == (10, 64)
    assert np.abs(compiled).max() <= 1.0
    np.testing.assert_allclose(interpreted, compiled, atol=2e-4)


def test_the_last_level_is_noise_and_the_first_is_the_image() -> None:
    shares = diffusion.keep_shares(100)
    assert shares[0] == 1.0
    assert shares[-1] < 1e-4
    assert (np.diff(shares) < 0).all()


def test_real_images_are_recognized() -> None:
    images, digits = diffusion.load_images()
    assert diffusion.recognized(images, digits) > 0.99
    assert diffusion.nearest(images[:50]) > 1.0
