"""REINFORCE on a cart-pole at a small size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import braces as br
from examples.gallery import cartpole
from examples.gallery.cartpole import SMALL, Agent
from tests.examples.gallery.scopes import copy_of

pytestmark = pytest.mark.unoptimized


@pytest.fixture(scope="module")
def agent() -> Agent:
    return cartpole.build(SMALL)


def moved(state: np.ndarray, force: float) -> list[float]:
    """The equations of motion as Florian (2007) and CartPole-v1 have them."""
    x, v, theta, omega = state.tolist()
    sin, cos = math.sin(theta), math.cos(theta)
    temp = (force + 0.05 * omega**2 * sin) / 1.1
    acceleration = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    push = temp - 0.05 * acceleration * cos / 1.1
    return [x + 0.02 * v, v + 0.02 * push, theta + 0.02 * omega, omega + 0.02 * acceleration]


def test_the_equations_of_motion(mode: str) -> None:
    with br.Program() as prog:
        state, force = br.data("state", ["n", 4]), br.data("force", ["n"])
        after = cartpole.move(state, force)
    states = np.random.default_rng(0).normal(size=(5, 4))
    forces = np.array([10, -10, 10, 10, -10.0])
    found = br.Executor(mode=mode).run(
        prog, br.Scope(), {"state": states, "force": forces}, after
    )
    want = [moved(one, push) for one, push in zip(states, forces, strict=True)]
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_episodes_end_when_the_pole_falls(agent: Agent) -> None:
    exe = br.Executor(mode="interpret")
    scope = exe.init(agent.program)
    scope["push.b"] = np.array([50.0], "float32")  # always to the right
    states, alive, lengths = exe.evaluate(
        agent.program, scope, fetch=[agent.states, agent.alive, agent.lengths]
    )
    assert lengths.max() < SMALL.limit
    np.testing.assert_array_equal(alive.sum(axis=0), lengths)
    for episode, length in enumerate(lengths.astype(int)):
        fell = abs(moved(states[length - 1, episode], 10.0)[2]) > cartpole.STEEPEST
        assert fell
        assert np.abs(states[:length, episode, 2]).max() <= cartpole.STEEPEST


def test_training_steps_are_equal_in_both_modes(agent: Agent) -> None:
    scope, means = cartpole.train(SMALL, agent, seed=0)
    assert len(means) == SMALL.steps
    assert 0 < min(means) <= max(means) <= SMALL.limit
    values = []
    for mode in ("compile", "interpret"):
        copy = copy_of(scope)
        br.Executor(mode=mode).run(agent.program, copy)
        values.append(copy["policy.w"])
    np.testing.assert_allclose(values[0], values[1], atol=1e-4)
    assert not np.allclose(values[0], scope["policy.w"], atol=1e-4)
