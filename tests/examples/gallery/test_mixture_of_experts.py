"""The mixture of experts at a small size."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from examples.gallery import mixture_of_experts
from examples.gallery.mixture_of_experts import SMALL, build

pytestmark = pytest.mark.unoptimized


@pytest.fixture(scope="module")
def scope() -> br.Scope:
    return br.Executor().init(build(SMALL).program)


def test_routed_rows_have_the_values_of_all_experts(scope: br.Scope, mode: str) -> None:
    _, test = mixture_of_experts.load_images()
    found = []
    for routed in (True, False):
        made = build(SMALL, routed=routed)
        fetches = [made.logits, made.load]
        found.append(br.Executor(mode=mode).evaluate(made.program, scope, test, fetches))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-5)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][1].sum() == pytest.approx(1.0)


def test_an_expert_without_images_has_no_gradient(scope: br.Scope) -> None:
    made = build(SMALL)
    with made.program:
        weights = [br.get_variable(f"expert_{k}/hidden.w") for k in range(SMALL.experts)]
        grads = br.gradients(br.sum(made.logits), weights)
        norms = [br.sum(br.abs(grad)) for grad in grads if grad is not None]
    images, _ = mixture_of_experts.load_images()
    few = {name: values[:2] for name, values in images.items()}
    fetches = [*norms, made.load]
    *found, load = br.Executor(mode="interpret").evaluate(made.program, scope, few, fetches)
    assert load.min() == 0.0
    np.testing.assert_array_equal(np.array(found) > 0, load > 0)


def test_both_modes_take_the_same_training_step() -> None:
    made, values = build(SMALL), []
    images, _ = mixture_of_experts.load_images()
    few = {name: rows[:8] for name, rows in images.items()}
    for mode in ("compile", "interpret"):
        exe = br.Executor(mode=mode)
        scope = exe.init(made.program)
        exe.run(made.program, scope, few)
        values.append([scope["router.w"], scope["expert_0/hidden.w"]])
    for compiled, interpreted in zip(*values, strict=True):
        np.testing.assert_allclose(interpreted, compiled, atol=2e-5)


def test_a_mixture_learns() -> None:
    _, _, history = mixture_of_experts.train(SMALL)
    assert history["val_loss"][-1] < history["val_loss"][0]
    assert 1 / SMALL.experts <= history["val_largest"][-1] <= 1.0
