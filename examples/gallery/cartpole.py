"""REINFORCE on a cart-pole, whose physics are a part of the program.

A cart balances a pole by pushes of constant force to the left or to the right (Barto, Sutton,
Anderson, 1983; the constants and the limit of 500 steps are those of CartPole-v1). One run of
the program is one training step: 32 episodes in a loop over time, in which a network chooses
the pushes and the equations of motion are integrated; then the policy gradient (Williams,
1992), and the update by Adam:

    loss = - sum over steps of advantage[t] log probability(action[t])
    advantage[t] = remaining length of the episode - mean over the episodes at t, scaled

The loop ends as soon as all poles have fallen, so short episodes cost little. No data is fed.

    python -m examples.gallery.cartpole
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FARTHEST, STEEPEST = 2.4, 12 * 2 * np.pi / 360


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        episodes: The episodes of a training step.
        limit: The maximum length of an episode.
        units: The hidden units of the policy.
        steps: The training steps.
        learning_rate: The learning rate of Adam.
        seeds: The number of trainings, each with another seed.
    """

    episodes: int = 32
    limit: int = 500
    units: int = 32
    steps: int = 200
    learning_rate: float = 1e-2
    seeds: int = 3


SMALL = Settings(episodes=8, limit=40, units=8, steps=5, seeds=1)


@dataclass(frozen=True)
class Agent:
    """The program, with the variables to fetch.

    Attributes:
        program: The program.
        states: f32[time, episodes, 4]: position, speed, angle and angular speed.
        alive: f32[time, episodes]: 1 until the pole falls.
        lengths: f32[episodes].
    """

    program: br.Program
    states: br.Var
    alive: br.Var
    lengths: br.Var


def move(state: br.Var, force: br.Var) -> br.Var:
    """The state after 20 ms of a force, by Euler's method; f32[episodes, 4]."""
    speed, angle, turn = (state[:, i] for i in (1, 2, 3))
    sine, cosine = br.sin(angle), br.cos(angle)
    push = (force + POLE * HALF_LENGTH * turn**2 * sine) / (CART + POLE)
    swing = (GRAVITY * sine - cosine * push) / (
        HALF_LENGTH * (4 / 3 - POLE * cosine**2 / (CART + POLE))
    )
    pull = push - POLE * HALF_LENGTH * swing * cosine / (CART + POLE)
    return state + SECONDS * br.stack([speed, pull, turn, swing], axis=1)


def build(settings: Settings) -> Agent:
    """Build the episodes, the policy gradient and the update."""
    with br.Program() as program:
        start = br.random.uniform([settings.episodes, 4], -0.05, 0.05)
        upright = br.ones([settings.episodes])
        rnn = br.create_rnn(steps=settings.limit)
        with rnn.stepnet() as net:
            state, alive = net.add_memory(init=start), net.add_memory(init=upright)
            h = br.fc(state, settings.units, act="tanh", name="policy")
            logit = br.fc(h, 1, name="push")[:, 0]
            right = br.cast(br.random.bernoulli(logit.shape, br.sigmoid(logit)), "float32")
            chance = -br.softplus(br.where(right > 0.5, -logit, logit))
            after = move(state, FORCE * (2.0 * right - 1.0))
            fallen = (br.abs(after[:, 0]) > FARTHEST) | (br.abs(after[:, 2]) > STEEPEST)
            net.add_output(state, alive, chance)
            still = br.where(fallen, 0.0, alive)
            net.stop_when(br.max(still) == 0.0)
            state.update(after)
            alive.update(still)
        states, lives, chances = rnn()
        lengths = br.sum(lives, axis=0)
        passed = br.cumsum(lives, axis=0)
        remaining = (lengths - passed + 1.0) * lives
        counts = br.maximum(br.sum(lives, axis=1, keepdims=True), 1.0)
        gain = (remaining - br.sum(remaining, axis=1, keepdims=True) / counts) * lives
        spread = br.sqrt(br.sum(gain**2) / br.sum(lives)) + 1e-6
        advantage = br.stop_gradient(gain / spread)
        loss = -br.sum(advantage * chances) / br.sum(lives)
        br.optimizer.adam(settings.learning_rate).minimize(loss)
    return Agent(program, states, lives, lengths)


def train(settings: Settings, agent: Agent, seed: int) -> tuple[br.Scope, list[float]]:
    """Train a policy; return its values and the mean length of the episodes of each step."""
    steps = br.training(agent.program, [{}] * settings.steps, fetch=agent.lengths, seed=seed)
    means = [float(step.values.mean()) for step in steps]
    return steps.scope, means


def measure(settings: Settings, scope: br.Scope, episodes: int) -> np.ndarray:
    """The lengths of new episodes of a trained policy."""
    agent = build(replace(settings, episodes=episodes))
    return br.Executor().evaluate(agent.program, scope, fetch=agent.lengths)


def example(small: bool) -> tuple[str, str]:
    """Train with several seeds; return the results and a chart of the returns."""
    settings = SMALL if small else Settings()
    agent, lines, curves = build(settings), list[str](), {}
    for seed in range(settings.seeds):
        scope, means = train(settings, agent, seed)
        curves[f"seed {seed}"] = means
        lengths = measure(settings, scope, 10 * settings.episodes)
        lines.append(
            f"seed {seed}: mean length {np.mean(means[:5]):.0f} in the first 5 steps, "
            f"{lengths.mean():.1f} of {settings.limit} in {len(lengths)} new episodes, "
            f"{np.mean(lengths == settings.limit):.1%} of them to the end"
        )
    return "\n".join(lines), line_chart(curves, x="training step", y="mean return")


if __name__ == "__main__":
    run_example(__doc__, example)
