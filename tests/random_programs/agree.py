"""Compare a random program with its text: values, gradients, second order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import jvp
from braces.extend.programs import Body, parse_program
from tests.random_programs.generate import Generated, feeds_of, generate
from tests.random_programs.oracle import Reading, Refused
from tests.support.comparison import near

STEP = 1e-4


class Disagreement(AssertionError):
    """Two ways to compute one number differ."""


_TRIP = re.compile(r"(body|cases\[\d+\])\[\d+\]")
"""The number of a run of a block; interpreted only."""
_GROUP = re.compile(r"/?(?:group(?:_\d+)?/)+body")
"""A plain block, which an executor that compiles opens in loops; operators keep its prefix."""


EXECUTORS = {mode: br.Executor(mode=mode) for mode in ("interpret", "compile")}
LAID_OUT = br.Executor(layout=br.Layout(br.Mesh({"data": -1}), {"b": "data"}))
LAID_OUT_ROWS = 16
OTHER_FEEDS = 1_000_003


def run(
    program: br.Program,
    feeds: Mapping[str, Any],
    fetch: Mapping[str, Any],
    how: str | br.Executor,
) -> dict[str, np.ndarray]:
    """Run in a mode, with whatever of the feeds the program declares."""
    return run_in(scope_of(feeds), program, feeds, fetch, how)


def scope_of(feeds: Mapping[str, Any]) -> br.Scope:
    """A scope with the parameter."""
    scope = br.Scope()
    scope.var("w").set(feeds["w"])
    return scope


def run_in(
    scope: br.Scope,
    program: br.Program,
    feeds: Mapping[str, Any],
    fetch: Mapping[str, Any],
    how: str | br.Executor,
) -> dict[str, np.ndarray]:
    """As `run`, in a scope."""
    given = {n: v for n, v in feeds.items() if n in program.vars and n != "w"}
    exe = EXECUTORS[how] if isinstance(how, str) else how
    return exe.run(program, scope, feed=given, fetch=dict(fetch))


def read_needed(
    made: Generated, main: Body, feeds: Mapping[str, Any]
) -> tuple[Reading, np.ndarray]:
    """A reading of all of a program, or of what its result needs, as that is all that runs.

    Raises:
        Refused: If the program cannot be run with these feeds.
    """
    reading = Reading(main, feeds)
    try:
        return reading, reading.value(made.result.name)
    except Refused:
        pruned = br.prune(made.program, targets=[made.result])
        reading = Reading(parse_program(str(pruned)).main, feeds)
        return reading, reading.value(made.result.name)


def check_refused(
    made: Generated, feeds: Mapping[str, Any], fetch: Mapping[str, br.Var], refused: Refused
) -> None:
    """Both modes raise what was to be raised, and set nothing of what was to be set."""
    with made.program:
        made.program.update("w", (br.get_variable("w") + made.result).name)
    messages: list[str] = []
    for mode in EXECUTORS:
        scope = scope_of(feeds)
        try:
            found = run_in(scope, made.program, feeds, fetch, mode)
        except refused.error as error:
            messages.append(_TRIP.sub(r"\1", str(error)))
        else:
            raise Disagreement(f"{mode} gives {found}, where {refused} was expected")
        if scope.names() != ["w"] or scope.var("w").value.tobytes() != feeds["w"].tobytes():
            raise Disagreement(f"{mode} failed and left {scope}")
    same = len({_GROUP.sub("", message) for message in messages}) == 1
    if refused.said not in messages[0] or not same:
        raise Disagreement(f"{refused} was expected; errors: {messages}")


def check_values(seed: int, size: int = 8, modes: Sequence[str] = ("interpret",)) -> bool:
    """The value of a program is what its text says, for two feeds one after the other.

    Returns:
        Whether it could not be run with one of them, and both modes said so.
    """
    made, refusals = generate(seed, size), 0
    main = parse_program(str(made.program)).main
    for feeds in (feeds_of(seed), feeds_of(seed + OTHER_FEEDS)):
        try:
            _, wanted = read_needed(made, main, feeds)
        except Refused as refused:
            refusals += 1
            again = generate(seed, size)
            check_refused(again, feeds, {"y": again.result}, refused)
            continue
        for mode in modes:
            found = run(made.program, feeds, {"y": made.result}, mode)["y"]
            near(found, wanted, 1e-10, f"value, {mode}")
    return refusals > 0


def moves_of(seed: int, made: Generated, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Along what a program is differentiated: as much as each of its inputs has."""
    draw = np.random.default_rng(seed + 1)
    return {v.name: draw.uniform(-1.0, 1.0, feeds[v.name].shape) for v in made.inputs}


def with_moves(feeds: Mapping[str, Any], moves: Mapping[str, Any]) -> dict[str, Any]:
    """Feeds of a program that `differentiate` added to."""
    return {**feeds, **{f"{name}.move": move for name, move in moves.items()}}


def check_gradients(
    seed: int,
    size: int = 6,
    second: bool = False,
    modes: Sequence[str] = ("interpret", "compile"),
    again: bool = False,
    own: bool = False,
) -> bool:
    """Gradients in both modes are each other, the differences of the text, and the jvp's.

    Args:
        seed: Of the program and its feeds.
        size: As of `generate`.
        second: Whether to go to second order.
        modes: How to run it.
        again: Whether to run it again saved, loaded, parsed and pruned.
        own: Whether to push along ways that follow from the result, too.

    Returns:
        Whether differences could be taken: near a jump they mean nothing, and what cannot be
        run has none.
    """
    made, feeds = generate(seed, size), feeds_of(seed)
    moves = moves_of(seed, made, feeds)
    everything = with_moves(feeds, moves)
    try:
        here, _ = read_needed(made, parse_program(str(made.program)).main, feeds)
    except Refused as refused:
        check_refused(made, everything, differentiate(made, second, own), refused)
        return False
    fetch = differentiate(made, second, own)
    if "z" not in fetch:
        return False
    results = [run(made.program, everything, fetch, mode) for mode in modes]
    found = results[0]
    for name, value in results[-1].items():
        near(value, found[name], 1e-8, f"modes: {name}")
    near(found["t"], found["z"], 1e-9, "jvp and gradient")
    if "o" in fetch:
        near(found["o"], found["t"] * (1.0 + found["y"]), 1e-9, "a way of its own")
    if "s" in fetch:
        near(found["s"], found["q"], 1e-8, "jvp of gradient and second order")
    if again:
        check_again(made.program, everything, {k: v.name for k, v in fetch.items()}, found)
    slope = differences(here, made.result.name, feeds, moves)
    if slope is None:
        return False
    near(found["z"], slope, 1e-6, "gradient and differences")
    return True


def check_laid_out(seed: int, size: int = 4, second: bool = False) -> bool:
    """Values and derivatives are the same on several devices, each of which has some rows.

    Returns:
        Whether it could not be run, and all devices said so.
    """
    made, feeds = generate(seed, size), feeds_of(seed, LAID_OUT_ROWS)
    everything = with_moves(feeds, moves_of(seed, made, feeds))
    fetch = differentiate(made, second)
    try:
        wanted = run(made.program, everything, fetch, "compile")
    except br.RunError as refused:
        with pytest.raises(type(refused)):
            run(made.program, everything, fetch, LAID_OUT)
        return True
    for name, value in run(made.program, everything, fetch, LAID_OUT).items():
        near(value, wanted[name], 1e-9, f"devices: {name}")
    return False


def check_again(
    program: br.Program,
    feeds: Mapping[str, Any],
    names: Mapping[str, str],
    wanted: Mapping[str, np.ndarray],
) -> None:
    """Saved, loaded, printed, parsed and pruned, a gradient program gives the same bits."""
    loaded = br.Program.from_bytes(program.to_bytes())
    parsed = br.Program(parse_program(str(program)))
    for other, what in ((loaded, "loaded"), (parsed, "parsed")):
        if str(other) != str(program):
            raise Disagreement(f"{what}: {other} and {program}")
    few = {key: name for key, name in names.items() if key in ("y", "z", "q")}
    pruned = br.prune(loaded, targets=list(few.values()))
    pruned = br.Program.from_bytes(pruned.to_bytes())
    for other, fetch in ((parsed, names), (pruned, few)):
        for key, value in run(other, feeds, fetch, "interpret").items():
            if value.tobytes() != wanted[key].tobytes():
                raise Disagreement(f"again: {key} is {value} and {wanted[key]}")


def differentiate(made: Generated, second: bool, own: bool = False) -> dict[str, br.Var]:
    """Add derivatives along moves: `z` and `q` reverse, `t` and `s` forward.

    Along moves that grow with the result, which follows from all that they go through, `o`.
    """
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
        if own and "t" in fetch:
            (along,) = jvp([made.result], made.inputs, [m * (1.0 + made.result) for m in moves])
            fetch |= {"o": along} if along is not None else {}
    return fetch


def differences(
    here: Reading, wanted: str, feeds: Mapping[str, Any], moves: Mapping[str, Any]
) -> float | None:
    """The slope along moves, exact to the fourth power of the step; `None` near a jump."""

    def at(distance: float) -> float | None:
        moved = {name: feeds[name] + distance * move for name, move in moves.items()}
        reading = Reading(here.main, {**feeds, **moved}, fixed=here.stopped)
        try:
            found = float(reading.value(wanted))
        except (StopIteration, Refused):
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
