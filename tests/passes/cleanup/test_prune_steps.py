"""A step cut out of a program trains as the whole program would: with all its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

optimizer = br.optimizer
X = np.linspace(-1, 2, 4, dtype=np.float32)

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizer.sgd(0.1),
    "momentum": lambda: optimizer.momentum(0.1),
    "rmsprop": lambda: optimizer.rmsprop(0.1, centered=True, momentum=0.5),
    "adagrad": lambda: optimizer.adagrad(0.1),
    "adadelta": lambda: optimizer.adadelta(),
    "adam": lambda: optimizer.adam(0.1),
    "adamw": lambda: optimizer.adamw(0.1, weight_decay=0.1),
    "amsgrad": lambda: optimizer.amsgrad(0.1),
    "adamax": lambda: optimizer.adamax(0.1),
    "nadam": lambda: optimizer.nadam(0.1),
    "radam": lambda: optimizer.radam(0.1),
    "adabelief": lambda: optimizer.adabelief(0.1),
    "adan": lambda: optimizer.adan(0.1),
    "lamb": lambda: optimizer.lamb(0.1),
    "lars": lambda: optimizer.lars(0.1),
    "lion": lambda: optimizer.lion(0.1),
    "schedule": lambda: optimizer.adam(optimizer.exponential_decay(0.1, 1, 0.5)),
    "chain": lambda: optimizer.chain(optimizer.clip_by_value(0.5), optimizer.adam(0.1)),
}


def fit(made: Any, parameters: list[str] | None = None) -> tuple[br.Program, br.Var]:
    """Two parameters, and an optimizer that moves both or some."""
    with br.Program() as prog:
        x = br.data("x", [4])
        w = br.parameter("w", [4], init=[1.0, 2.0, 3.0, 4.0])
        u = br.parameter("u", [2, 2], init=0.5)
        loss = br.mean(br.square(x * w - br.reshape(u, [4]) * 3.0))
        made.minimize(loss, parameters)
    return prog, loss


def path_of(mode: str, prog: br.Program, whole: br.Program, steps: int = 4) -> dict[str, Any]:
    """All that outlives the runs, after some steps."""
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(whole, scope)
    for _ in range(steps):
        exe.run(prog, scope, {"x": X})
    return {name: scope.var(name).value for name in scope.names()}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_for_one_parameter_is_that_of_an_optimizer_for_it_alone(
    name: str, mode: str
) -> None:
    whole, loss = fit(OPTIMIZERS[name]())
    alone, _ = fit(OPTIMIZERS[name](), ["w"])
    step = br.prune(whole, [loss, "w"])
    assert set(step.updates) == set(alone.updates)
    got, want = path_of(mode, step, whole), path_of(mode, alone, alone)
    for variable, value in want.items():
        np.testing.assert_allclose(got[variable], value, rtol=1e-6, err_msg=variable)
    assert not np.array_equal(got["w"], [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(got["u"], np.full((2, 2), 0.5))


def test_what_is_clipped_together_still_is(mode: str) -> None:
    made = optimizer.chain(optimizer.clip_by_global_norm(0.1), optimizer.adam(0.1))
    whole, loss = fit(made)
    exe, scope, other = br.Executor(mode=mode), br.Scope(), br.Scope()
    for one in (scope, other):
        exe.init(whole, one)
    exe.run(br.prune(whole, [loss, "w"]), scope, {"x": X})
    exe.run(whole, other, {"x": X})
    for name in ("w", "adam/mu/w", "adam/nu/w", "adam/count"):
        np.testing.assert_allclose(scope.var(name).value, other.var(name).value, rtol=1e-6)


def test_a_step_leaves_the_state_of_other_parameters_alone() -> None:
    whole, loss = fit(optimizer.adam(0.1))
    step = br.prune(whole, [loss, "w"])
    assert {info.name for info in step.persistables} == {
        "w", "u", "adam/count", "adam/mu/w", "adam/nu/w", "adam/learning_rate",
    }  # fmt: skip
    both = br.prune(whole, [loss, "w", "u"])
    assert set(both.updates) == set(whole.updates)


def test_a_step_takes_statistics_and_counters_of_its_own_along() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        hidden = br.dropout(br.batch_norm(br.fc(x, 4, name="in"), name="bn"), 0.5)
        loss = br.mean(br.square(br.fc(hidden, 1, name="out")))
        seen = br.state("seen", [], init=0.0)
        prog.update("seen", (seen + 1.0).name)
        optimizer.sgd(0.1).minimize(loss)
    step = br.prune(prog, [loss, "out.w"])
    assert set(step.updates) == {"out.w", "bn.mean", "bn.var", "random_state"}
    assert set(br.prune(prog, [loss, "seen"]).updates) == {"seen", "random_state"}
    assert set(br.prune(prog.for_test(), [loss]).updates) == set()


# ---- by turns --------------------------------------------------------------------------------

RATE, B1, B2, EPS, REAL = 0.05, 0.5, 0.9, 1e-8, 1.5


def adam(kept: list[float], gradient: float) -> float:
    """Return the step of Adam; `kept` is count, mu and nu."""
    kept[0] += 1
    kept[1] = B1 * kept[1] + (1 - B1) * gradient
    kept[2] = B2 * kept[2] + (1 - B2) * gradient**2
    mean, square = kept[1] / (1 - B1 ** kept[0]), kept[2] / (1 - B2 ** kept[0])
    return -RATE * mean / (np.sqrt(square) + EPS)


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def players_in_numpy(turns: int) -> list[tuple[float, float]]:
    """A critic `c x` tells the real point from the generated one `g`; they move by turns."""
    g, c, path = 0.25, 1.0, []
    of_g, of_c = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for turn in range(turns):
        if turn % 2 == 0:  # softplus(-c * REAL) + softplus(c * g), by c
            c += adam(of_c, -REAL * sigmoid(-c * REAL) + g * sigmoid(c * g))
        else:  # softplus(-c * g), by g
            g += adam(of_g, -c * sigmoid(-c * g))
        path.append((g, c))
    return path


def test_two_players_train_by_turns_as_in_numpy(mode: str) -> None:
    with br.Program() as prog:
        g = br.parameter("g", [], init=0.25, dtype="float64")
        c = br.parameter("c", [], init=1.0, dtype="float64")
        made = c * g
        critic_loss = br.softplus(-c * REAL) + br.softplus(made)
        generator_loss = br.softplus(-made)
        for name, loss, player in (
            ("critic", critic_loss, c),
            ("generator", generator_loss, g),
        ):
            optimizer.adam(RATE, B1, B2, EPS, name=name).minimize(loss, parameters=[player])
    turns = [br.prune(prog, [critic_loss, c]), br.prune(prog, [generator_loss, g])]
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    scope.var("critic/learning_rate").set(np.float64(RATE))
    scope.var("generator/learning_rate").set(np.float64(RATE))
    found = []
    for turn in range(40):
        exe.run(turns[turn % 2], scope)
        found.append((float(scope.var("g").value), float(scope.var("c").value)))
    np.testing.assert_allclose(found, players_in_numpy(40), rtol=1e-10)
