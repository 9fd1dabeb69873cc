"""Hold one random program against what its text means: values, gradients, second order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from generate import Generated, feeds_of, generate
from oracle import Reading

import braces as br
from braces.ir.parser import parse_program
from braces.passes.forward import jvp

STEP = 1e-4


class Disagreement(AssertionError):
    """Two ways to compute one number differ."""


def near(found: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Raise unless two numbers agree."""
    scale = 1.0 + np.max(np.abs(wanted), initial=0.0)
    error = np.max(np.abs(np.asarray(found) - wanted), initial=0.0)
    if not error <= tolerance * scale:
        raise Disagreement(f"{what}: {found} and {wanted}")


def run(
    executor: br.Executor, made: Generated, feeds: Mapping[str, Any], fetch: dict[str, br.Var]
) -> dict[str, np.ndarray]:
    """Run with whatever of the feeds is needed."""
    from braces.executor.plan import Plan

    plan = Plan.of(made.program.definition, [var.name for var in fetch.values()])
    scope = br.Scope()
    scope.var("w").set(feeds["w"])
    given = {name: value for name, value in feeds.items() if name in plan.feeds}
    return executor.run(made.program, scope, feed=given, fetch=fetch)


def check_values(seed: int, size: int = 8, mode: str = "interpret") -> None:
    """The value of a program is what its text says."""
    made, feeds = generate(seed, size), feeds_of(seed)
    wanted = Reading(parse_program(str(made.program)).main, feeds).value(made.result.name)
    found = run(br.Executor(mode=mode), made, feeds, {"y": made.result})["y"]
    near(found, wanted, 1e-10, f"value, {mode}")


def check_gradients(
    seed: int, size: int = 6, second: bool = False, compiled: bool = True
) -> bool:
    """Gradients in both modes are each other, the differences of the text, and the jvp's.

    Returns:
        Whether differences could be taken: near a jump they mean nothing.
    """
    made, feeds = generate(seed, size), feeds_of(seed)
    text, draw = str(made.program), np.random.default_rng(seed + 1)
    moves = {v.name: draw.uniform(-1.0, 1.0, feeds[v.name].shape) for v in made.inputs}
    fetch = differentiate(made, second)
    if "z" not in fetch:
        return False
    everything = {**feeds, **{f"{name}.move": move for name, move in moves.items()}}
    interpreted = run(br.Executor(mode="interpret"), made, everything, fetch)
    results = [interpreted]
    if compiled:
        results.append(run(br.Executor(), made, everything, fetch))
    for name, value in results[-1].items():
        near(value, interpreted[name], 1e-8, f"modes: {name}")
    near(interpreted["t"], interpreted["z"], 1e-9, "jvp and gradient")
    if "s" in fetch:
        near(interpreted["s"], interpreted["q"], 1e-8, "jvp of gradient and second order")
    slope = differences(parse_program(text).main, made.result.name, feeds, moves)
    if slope is None:
        return False
    near(interpreted["z"], slope, 1e-6, "gradient and differences")
    return True


def differentiate(made: Generated, second: bool) -> dict[str, br.Var]:
    """Add derivatives along moves: `z` and `q` reverse, `t` and `s` forward."""
    with made.program:
        moves = [br.data(f"{v.name}.move", list(v.shape), dtype="float64") for v in made.inputs]
        fetch = {"y": made.result}
        for value, reverse, forward in [("y", "z", "t"), ("z", "q", "s")][: 1 + second]:
            grads = br.gradients([fetch[value]], made.inputs)
            terms = [br.sum(g * m) for g, m in zip(grads, moves, strict=True) if g is not None]
            (tangent,) = jvp([fetch[value]], made.inputs, moves)
            if not terms:
                if tangent is not None:
                    fetch |= {reverse: tangent * 0.0, forward: tangent}
                break
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            fetch |= {reverse: total, forward: total * 0.0 if tangent is None else tangent}
    return fetch


def differences(
    main: Any, wanted: str, feeds: Mapping[str, Any], moves: Mapping[str, Any]
) -> float | None:
    """The slope along moves, exact to the fourth power of the step; `None` near a jump."""
    here = Reading(main, feeds)
    here.value(wanted)

    def at(distance: float) -> float | None:
        moved = {name: feeds[name] + distance * move for name, move in moves.items()}
        reading = Reading(main, {**feeds, **moved}, fixed=here.stopped)
        try:
            found = float(reading.value(wanted))
        except StopIteration:
            return None
        return found if reading.choices == here.choices else None

    near_by, far = [at(d * STEP) for d in (0.5, -0.5)], [at(d * STEP) for d in (1.0, -1.0)]
    if None in near_by or None in far:
        return None
    (a, b), (c, d) = near_by, far
    assert a is not None
    assert b is not None
    assert c is not None
    assert d is not None
    return (8 * (a - b) - (c - d)) / (6 * STEP)
