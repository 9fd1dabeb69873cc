"""Adaptive computation time at a small size."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from examples.gallery import adaptive_time
from examples.gallery.adaptive_time import SMALL, Watcher

pytestmark = pytest.mark.unoptimized


@pytest.fixture(scope="module")
def watcher() -> Watcher:
    return adaptive_time.build(SMALL)


def batch(rows: int) -> dict[str, np.ndarray]:
    images, _ = adaptive_time.load_images()
    few = {name: values[:rows] for name, values in images.items()}
    return adaptive_time.add_noise(few, np.random.default_rng(0))


def test_training_works_with_a_price(watcher: Watcher) -> None:
    scope, losses = adaptive_time.train(SMALL, watcher, 0.01)
    assert losses[-1] < losses[0]
    right, steps = adaptive_time.measure(watcher, scope, 0.0)
    assert right > 0.4
    assert 1 <= steps.min() <= steps.max() <= SMALL.most


@pytest.mark.parametrize(("bias", "steps"), [(50.0, 1), (-50.0, SMALL.most)])
def test_the_halting_probability_decides_the_number_of_steps(
    watcher: Watcher, bias: float, steps: int
) -> None:
    exe = br.Executor(mode="interpret")
    scope = exe.init(watcher.program)
    scope["halt.b"] = np.array([bias], "float32")
    found = exe.evaluate(watcher.program, scope, batch(5), watcher.steps)
    np.testing.assert_array_equal(found, steps)


def test_both_modes_take_the_same_training_steps(watcher: Watcher) -> None:
    values, losses = [], []
    for mode in ("compile", "interpret"):
        exe = br.Executor(mode=mode)
        scope = exe.init(watcher.program)
        losses.append(exe.run(watcher.program, scope, batch(4), watcher.loss))
        values.append(scope["halt.w"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-3, atol=1e-5)
