"""Neural ordinary differential equation of hares and lynxes, with its adjoint.

The logarithms y of 21 years of fur returns follow a network, dy/dt = f(y) (Chen et al., 2018).
The solver is a loop of classic Runge-Kutta steps. Two gradients of it are compared:

- that of the loop: exact for the discrete solver, with residuals of all steps;
- the adjoint: a custom gradient, in which a second loop goes back from the last state. It
  solves y again, with the adjoint a = d loss / dy and the gradient g of the parameters:

      dy/dt = f(y)        da/dt = - a df/dy        dg/dt = - a df/dw

  It needs no residuals, and is exact up to the error of the solver.

    python -m examples.gallery.neural_ode
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart
from examples.hares_and_lynxes import FURS

Slope = Callable[..., br.Var]


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        units: The hidden units of the network.
        substeps: The Runge-Kutta steps of a year.
        adjoint: Whether the gradient is the adjoint, instead of that of the loop.
        span: The years of a prediction.
        steps: The steps of Adam.
        learning_rate: The initial learning rate; it falls to 0 along a cosine.
    """

    units: int = 32
    substeps: int = 4
    adjoint: bool = False
    span: int = 3
    steps: int = 1500
    learning_rate: float = 1e-2


SMALL = Settings(units=8, substeps=2, span=2, steps=10)


def slope(y: br.Var, w1: br.Var, b1: br.Var, w2: br.Var) -> br.Var:
    """The change of the logarithms in a year, f64[n, 2]."""
    return br.tanh(y @ w1 + b1) @ w2


def runge_kutta(f: Slope, y: list[br.Var], h: float) -> list[br.Var]:
    """A step of order 4 of several states."""

    def shifted(k: list[br.Var], by: float) -> list[br.Var]:
        return [one + by * rate for one, rate in zip(y, k, strict=True)]

    k1 = f(y)
    k2 = f(shifted(k1, h / 2))
    k3 = f(shifted(k2, h / 2))
    k4 = f(shifted(k3, h))
    rates = zip(k1, k2, k3, k4, strict=True)
    return shifted([(a + 2.0 * (b + c) + d) / 6.0 for a, b, c, d in rates], h)


def solve(f: Slope, start: list[br.Var], steps: int, h: float) -> list[br.Var]:
    """The states after some steps."""
    rnn = br.create_rnn(steps=steps)
    with rnn.stepnet() as net:
        states = [net.add_memory(init=one) for one in start]
        after = runge_kutta(f, [state.pre(1) for state in states], h)
        for state, new in zip(states, after, strict=True):
            state.update(new)
    return [rnn.final(state) for state in states]


def solve_by_loop(y: br.Var, w: list[br.Var], steps: int, h: float) -> br.Var:
    """The state after some steps; the gradient is that of the loop."""
    return solve(lambda states: [slope(states[0], *w)], [y], steps, h)[0]


def solve_by_adjoint(y: br.Var, w: list[br.Var], steps: int, h: float) -> br.Var:
    """The state after some steps; the gradient is the solution of the adjoint equation."""

    @br.custom_gradient
    def solution(y: br.Var, *w: br.Var) -> tuple[br.Var, Callable[..., tuple[br.Var, ...]]]:
        end = solve_by_loop(y, [*w], steps, h)

        def gradient(end_grad: br.Var) -> tuple[br.Var, ...]:
            def backward(states: list[br.Var]) -> list[br.Var]:
                y, a = (br.stop_gradient(one) for one in states[:2])  # not of earlier stages
                rate = slope(y, *w)
                pulled = br.gradients([rate], [y, *w], [a])
                return [-rate, *(one for one in pulled if one is not None)]

            zeros = [br.zeros_like(one) for one in w]
            _, *grads = solve(backward, [end, end_grad, *zeros], steps, h)
            return tuple(grads)

        return end, gradient

    return solution(y, *w)


def bogacki_shampine(f: Slope, y: br.Var, h: br.Var) -> tuple[br.Var, br.Var]:
    """A step of the Bogacki-Shampine 3(2) method, and an estimate of its error."""
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + 3 / 4 * h * k2)
    third = y + h / 9 * (2.0 * k1 + 3.0 * k2 + 4.0 * k3)
    k4 = f(third)
    return third, h / 72 * (-5.0 * k1 + 6.0 * k2 + 8.0 * k3 - 9.0 * k4)  # and its error


def solve_adaptively(f: Slope, start: br.Var, until: float, tolerance: float = 1e-6) -> br.Var:
    """The value at the time `until`, with steps as large as the tolerance permits."""
    loop = br.create_while(max_trips=10_000)
    with loop.block() as body:
        t = body.add_memory(init=br.constant(0.0, dtype=start.dtype))
        h = body.add_memory(init=br.constant(0.1, dtype=start.dtype))
        y = body.add_memory(init=start)
        body.set_condition(t < until)
        rest = until - t
        step = br.minimum(h, rest)
        after, error = bogacki_shampine(f, y, step)
        ratio = br.stop_gradient(br.max(br.abs(error) / (tolerance * (1.0 + br.abs(y)))))
        good = ratio <= 1.0
        t.update(br.where(good, br.where(step >= rest, until, t + step), t))
        y.update(br.where(good, after, y))
        h.update(step * br.clip(0.9 * br.maximum(ratio, 1e-10) ** (-1 / 3), 0.2, 5.0))
    return loop.final(y)


@dataclass(frozen=True)
class Fit:
    """The program, with the variables to fetch.

    Attributes:
        program: The program.
        predicted: f64[n, 2]: the logarithms after a year.
        loss: The mean squared error of the logarithms over the next `span` years.
        grads: The gradients of the parameters.
    """

    program: br.Program
    predicted: br.Var
    loss: br.Var
    grads: list[br.Var]


def build(settings: Settings) -> Fit:
    """Build the program; its data are the logarithms of a year, and of the years after it."""
    h = 1.0 / settings.substeps
    solver = solve_by_adjoint if settings.adjoint else solve_by_loop
    with br.Program() as program:
        now = br.data("now", ["n", 2], dtype="float64")
        later = br.data("later", [settings.span, "n", 2], dtype="float64")
        shapes = {"w1": [2, settings.units], "b1": [settings.units], "w2": [settings.units, 2]}
        w = [
            br.parameter(name, shape, init=br.init.normal(0.5), dtype="float64")
            for name, shape in shapes.items()
        ]
        years = [now]
        for _ in range(settings.span):
            years.append(solver(years[-1], w, settings.substeps, h))
        loss = br.mean((br.stack(years[1:]) - later) ** 2)
        rate = br.optimizer.cosine_decay_schedule(settings.learning_rate, settings.steps)
        pairs = br.optimizer.adam(rate).minimize(loss)
    return Fit(program, years[1], loss, list(pairs.values()))


def load_years(span: int) -> dict[str, np.ndarray]:
    """Standardized logarithms of each year and of the years after it."""
    logs = np.log(FURS)
    y = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    count = len(y) - span
    later = np.stack([y[k : k + count] for k in range(1, span + 1)])
    return {"now": y[:count], "later": later}


def train(settings: Settings, made: Fit) -> tuple[br.Scope, list[float], float]:
    """Train; return the values, the loss of each step, and the seconds without compilation."""
    data, losses, start = load_years(settings.span), list[float](), 0.0
    steps = br.training(made.program, [data] * settings.steps, fetch=made.loss)
    for step in steps:
        losses.append(float(step.values))
        start = start or time.perf_counter()
    return steps.scope, losses, time.perf_counter() - start


def simulate(made: Fit, scope: br.Scope, years: int) -> np.ndarray:
    """The solution from the first year on, in thousands of furs; f64[years + 1, 2]."""
    exe, states = br.Executor(), [load_years(1)["now"][:1]]
    for _ in range(years):
        feed = {"now": states[-1]}
        states.append(exe.evaluate(made.program, scope, feed, made.predicted))
    logs = np.log(FURS)
    return np.exp(np.concatenate(states) * logs.std(axis=0) + logs.mean(axis=0))


def compare_gradients(settings: Settings, scope: br.Scope, substeps: int) -> tuple[float, ...]:
    """The relative difference of both gradients, and the peak memory of each in kB."""
    grads, peaks, data = list[np.ndarray](), list[float](), load_years(settings.span)
    for adjoint in (False, True):
        made = build(replace(settings, substeps=substeps, adjoint=adjoint))
        found = br.Executor().evaluate(made.program, scope, data, made.grads)
        grads.append(np.concatenate([one.ravel() for one in found]))
        cost = made.program.cost(fetch=made.grads, sizes={"n": len(data["now"])})
        peaks.append(float(cost.peak_bytes) / 1e3)
    apart = np.linalg.norm(grads[0] - grads[1]) / np.linalg.norm(grads[0])
    return float(apart), *peaks


def example(small: bool) -> tuple[str, str]:
    """Train with both gradients, compare them, and draw the solution."""
    settings, lines = SMALL if small else Settings(), list[str]()
    made = build(settings)
    scope, losses, seconds = train(settings, made)
    lines.append(f"loop: loss {losses[0]:.3f} to {losses[-1]:.4f} in {seconds:.1f} s")
    other = replace(settings, adjoint=True)
    _, losses, seconds = train(other, build(other))
    lines.append(f"adjoint: loss {losses[0]:.3f} to {losses[-1]:.4f} in {seconds:.1f} s")
    start = br.Executor().init(made.program)
    for substeps in (1, 2) if small else (1, 2, 4, 8, 16, 32):
        apart, loop, adjoint = compare_gradients(settings, start, substeps)
        lines.append(
            f"{substeps} steps a year: difference {apart:.1e}, "
            f"peak memory {loop:.0f} kB, adjoint {adjoint:.0f} kB"
        )
    years, solution = 1900.0 + np.arange(len(FURS)), simulate(made, scope, len(FURS) - 1)
    curves = {
        "hares": (years, solution[:, 0]),
        "lynxes": (years, solution[:, 1]),
        "hares, furs": (years, FURS[:, 0]),
        "lynxes, furs": (years, FURS[:, 1]),
    }
    points = ("hares, furs", "lynxes, furs")
    chart = line_chart(curves, x="year", y="thousands", points=points)
    return "\n".join(lines), chart


if __name__ == "__main__":
    run_example(__doc__, example)
