"""Passes leave the values of random programs as they are, and their errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import braces as br
from braces.passes.registry import PASSES
from tests.random_programs.agree import differentiate, scope_of
from tests.random_programs.generate import feeds_of, generate
from tests.support.comparison import near

pytestmark = pytest.mark.unoptimized

TRIED = {name: (one,) for name, one in PASSES.items()}
TRIED["segments"] = (br.passes.checkpoint(2),)
TRIED["all"] = (*PASSES.values(), br.passes.checkpoint(3))
Outcome = dict[str, Any] | type[br.BracesError]


def outcome(
    program: br.Program, feeds: dict[str, Any], fetch: dict[str, br.Var], mode: str, passes: Any
) -> Outcome:
    """The values of a run, or the class of its error."""
    given = {name: x for name, x in feeds.items() if name in program.vars and name != "w"}
    exe = br.Executor(mode=mode, passes=passes)
    try:
        return exe.run(program, scope_of(feeds), feed=given, fetch=fetch)
    except br.RunError as error:
        return type(error)


def check_same(found: Outcome, wanted: Outcome, what: str) -> None:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name, value in wanted.items():
            near(found[name], value, 1e-10, f"{what}: {name}")
    else:
        assert found is wanted, what


@pytest.mark.parametrize("seed", range(4000, 4040))
def test_interpreted_values_stay_the_same_to_the_bit(seed: int) -> None:
    made, feeds = generate(seed, size=6), feeds_of(seed)
    fetch = {"y": made.result}
    wanted = outcome(made.program, feeds, fetch, "interpret", ())
    for name, passes in TRIED.items():
        found = outcome(made.program, feeds, fetch, "interpret", passes)
        check_same(found, wanted, name)
        if isinstance(found, dict) and isinstance(wanted, dict):
            assert found["y"].tobytes() == wanted["y"].tobytes()


@pytest.mark.parametrize("seed", range(5000, 5004))
def test_gradients_stay_the_same_in_both_modes(seed: int) -> None:
    made, feeds = generate(seed, size=4), feeds_of(seed)
    moves = {f"{v.name}.move": feeds[v.name] * 0.5 for v in made.inputs}
    fetch = differentiate(made, second=False)
    wanted = outcome(made.program, feeds | moves, fetch, "interpret", ())
    for mode in ("interpret", "compile"):
        for name in ("licm", "cse", "canonicalize", "all"):
            found = outcome(made.program, feeds | moves, fetch, mode, TRIED[name])
            check_same(found, wanted, f"{mode}, {name}")


@pytest.mark.parametrize("seed", range(6000, 6012))
def test_gradients_of_loops_in_segments_are_those_of_whole_loops(seed: int) -> None:
    made, feeds = generate(seed, size=4), feeds_of(seed)
    moves = {f"{v.name}.move": feeds[v.name] * 0.5 for v in made.inputs}
    made.program.give(made.result.name)
    cut = br.passes.checkpoint(2)(made.program)
    (result,) = cut.results
    other = replace(
        made,
        program=cut,
        result=cut.var(result),
        inputs=[cut.var(v.name) for v in made.inputs],
    )
    outcomes = [
        outcome(one.program, feeds | moves, differentiate(one, second=False), "interpret", ())
        for one in (made, other)
    ]
    check_same(outcomes[1], outcomes[0], "segments")


def test_the_programs_give_passes_something_to_do() -> None:
    programs = [generate(seed, size=6).program.definition for seed in range(4000, 4040)]
    for name in ("licm", "cse", "canonicalize"):
        assert sum(PASSES[name].run(one) is not one for one in programs) > 10, name
    assert sum(br.passes.checkpoint(2).run(one) is not one for one in programs) > 10
