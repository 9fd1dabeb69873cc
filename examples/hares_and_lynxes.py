"""Hares and lynxes: a differential equation, fitted through its adaptive solver.

The furs of the Hudson's Bay Company, yearly from 1900 to 1920, follow the equations of Lotka
and Volterra, for prey u and predators v:

    du/dt = (a - b v) u        dv/dt = (d u - c) v

The solver is a `While`: an embedded pair of Runge-Kutta formulas of orders 3 and 2 (Bogacki,
Shampine, 1989) estimates its own error, takes the step or rejects it, and chooses the next one.
The number of steps of a year depends on the trained parameters, so the trip count of the loop's
gradient is data-dependent. An rnn over the years has this `While` in its step. The six
parameters, two of them the initial populations, are trained by Adam:

    loss = the mean over years and species of (log solution - log furs)^2

Source of the furs: Hewitt, The Conservation of the Wild Life of Canada, 1921. Source of the
estimates to compare with: Carpenter, Predator-Prey Population Dynamics, 2018.

    python -m examples.hares_and_lynxes
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import braces as br

HARES = (
    *(30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1),
    *(40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7),
)
LYNXES = (
    *(4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4),
    *(8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6),
)
Slope = Callable[[br.Var], br.Var]

FURS = np.stack([HARES, LYNXES], axis=-1)
"""f64[21, 2]: thousands of furs in each year from 1900 to 1920."""

PUBLISHED = {"a": 0.55, "b": 0.028, "c": 0.80, "d": 0.024}
"""Means of the posterior of the same model with priors, rounded."""

FIRST = {"a": 0.7, "b": 0.035, "c": 0.7, "d": 0.02}
"""Where the learning starts."""


@dataclass(frozen=True)
class Settings:
    """Settings of the solver and of the training.

    Attributes:
        tolerance: The maximum error of a step, relative to the solution.
        steps: The steps of Adam.
        learning_rate: The initial learning rate; it falls to 0 along a cosine.
    """

    tolerance: float = 1e-4
    steps: int = 400
    learning_rate: float = 0.03


# ---- program ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """The training program, and the variables to fetch."""

    program: br.Program
    solution: br.Var
    taken: br.Var
    loss: br.Var


def build(settings: Settings, furs: np.ndarray = FURS) -> Fit:
    """Build the program; parameters are stored as logarithms, so that they stay positive."""
    with br.Program() as program:
        observed = br.constant(furs, dtype="float64")
        rates = {name: br.exp(log_parameter(name, np.log(at))) for name, at in FIRST.items()}
        start = br.exp(log_parameter("start", np.log(furs[0])))
        solution, taken = solve(rates, start, len(furs) - 1, settings.tolerance)
        error = br.log(solution) - br.log(observed)
        loss = br.mean(error * error, name="loss")
        rate = br.optimizer.cosine_decay_schedule(settings.learning_rate, settings.steps)
        br.optimizer.adam(learning_rate=rate).minimize(loss)
    return Fit(program, solution, taken, loss)


def log_parameter(name: str, init: np.ndarray) -> br.Var:
    """A parameter in double precision."""
    return br.parameter(name, np.shape(init), init=init, dtype="float64")


def solve(
    rates: dict[str, br.Var], start: br.Var, years: int, tolerance: float
) -> tuple[br.Var, br.Var]:
    """The populations of each year, f64[years + 1, 2], and the steps of each year."""

    def slope(y: br.Var) -> br.Var:
        hares, lynxes = y[0], y[1]
        return br.stack(
            [
                (rates["a"] - rates["b"] * lynxes) * hares,
                (rates["d"] * hares - rates["c"]) * lynxes,
            ]
        )

    rnn = br.create_rnn(steps=years)
    with rnn.stepnet() as net:
        y = net.add_memory(init=start)
        stride = net.add_memory(init=br.constant(0.1, dtype="float64"))
        after, next_stride, taken = one_year(slope, y, stride, tolerance)
        y.update(after)
        stride.update(next_stride)
        net.add_output(after, taken)
    later, taken = rnn()
    return br.concat([br.reshape(start, [1, 2]), later]), taken


def one_year(
    slope: Slope, y0: br.Var, stride0: br.Var, tolerance: float
) -> tuple[br.Var, br.Var, br.Var]:
    """The solution after a year, the step size of the solver, and its number of steps."""
    loop = br.create_while(max_trips=10_000)
    with loop.block() as body:
        t = body.add_memory(init=br.constant(0.0, dtype="float64"))
        y = body.add_memory(init=y0)
        stride = body.add_memory(init=stride0)
        taken = body.add_memory(init=br.constant(0))
        body.set_condition(t < 1.0)
        is_last = t + stride >= 1.0
        h = br.where(is_last, 1.0 - t, stride)
        third, error = runge_kutta(slope, y, h)
        worst = br.max(br.abs(error) / (tolerance * (1.0 + br.abs(y))))
        good = worst <= 1.0
        t.update(br.where(good, br.where(is_last, 1.0, t + h), t))
        y.update(br.where(good, third, y))
        stride.update(next_stride(h, stride, worst, is_last & good))
        taken.update(taken + 1)
    return loop.final(y), loop.final(stride), loop.final(taken)


def runge_kutta(slope: Slope, y: br.Var, h: br.Var) -> tuple[br.Var, br.Var]:
    """A step of order 3, and its difference from a step of order 2."""
    k1 = slope(y)
    k2 = slope(y + h * k1 / 2)
    k3 = slope(y + h * k2 * (3 / 4))
    third = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
    k4 = slope(third)
    second = y + h * (7 * k1 + 6 * k2 + 8 * k3 + 3 * k4) / 24
    return third, third - second


def next_stride(h: br.Var, stride: br.Var, worst: br.Var, arrived: br.Var) -> br.Var:
    """The next step size by the error, between a fifth and five times of this one.

    The last step of a year is cut at its end; the next year starts with the step size before
    it.
    """
    allowed = br.clip(0.9 * br.maximum(worst, 1e-10) ** (-1 / 3), 0.2, 5.0)
    return br.where(arrived, stride, h * allowed)


# ---- fitting ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """The trained parameters.

    Attributes:
        rates: a, b, c and d.
        start: The populations of 1900, in thousands of furs.
        solution: f64[21, 2].
        losses: The loss before each step of Adam, and after the last.
        taken: The number of solver steps over all years, for each loss.
    """

    rates: dict[str, float]
    start: np.ndarray
    solution: np.ndarray
    losses: list[float]
    taken: list[int]


def fit(settings: Settings, furs: np.ndarray = FURS) -> Fitted:
    """Train the parameters by gradient descent."""
    made = build(settings, furs)
    scope, executor, losses, taken = br.Scope(), br.Executor(), [], []
    executor.init(made.program, scope)
    for _ in range(settings.steps):
        loss, counts = executor.run(made.program, scope, fetch=[made.loss, made.taken])
        losses.append(float(loss))
        taken.append(int(counts.sum()))
    test = made.program.for_test()
    fetches = [made.loss, made.taken, made.solution]
    loss, counts, solution = executor.run(test, scope, fetch=fetches)
    return Fitted(
        {name: float(np.exp(scope.var(name).value)) for name in FIRST},
        np.exp(scope.var("start").value),
        solution,
        [*losses, float(loss)],
        [*taken, int(counts.sum())],
    )


def main() -> None:
    """Fit, and print the equation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=Settings.steps, help="of Adam")
    settings = Settings(steps=parser.parse_args().steps)
    start = time.perf_counter()
    found = fit(settings)
    print(f"{settings.steps} steps of Adam in {time.perf_counter() - start:.0f} s")
    print(f"Loss {found.losses[0]:.3f} at first, {found.losses[-1]:.4f} at last")
    print(f"Steps of the solver: {min(found.taken)} to {max(found.taken)}")
    for name, value in found.rates.items():
        print(f"  {name} = {value:.4f}    published {PUBLISHED[name]}")
    print(f"  1900: {found.start[0]:.1f} thousand hares, {found.start[1]:.1f} thousand lynxes")


if __name__ == "__main__":
    main()
