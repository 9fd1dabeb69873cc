"""Random edits of differentiated programs: compared with edits before differentiation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import braces as br
from tests.random_programs.agree import Disagreement, differentiate, moves_of, run, with_moves
from tests.random_programs.generate import Generated, feeds_of, generate
from tests.support.comparison import near

Edit = Callable[[Any], Any]


def _halved(v: br.Var) -> br.Var:
    return v * 0.5 + 0.25


def _squashed(first: br.Var, *others: br.Var) -> br.Var:
    del others
    return br.tanh(first)


def _edit(path: str, operand: str, kind: str) -> Edit:
    """Return a random edit of the operator at a path."""
    edits: dict[str, Edit] = {
        "insert": lambda p: p.insert_after(path, _halved),
        "replace": lambda p: p.replace(path, _squashed),
        "remove": lambda p: p.remove(path, by=operand),
        "wrap": lambda p: p.wrap(path, name=f"wrapped_{path.rpartition('/')[2]}"),
    }
    return edits[kind]


def _places(program: br.Program) -> dict[str, str]:
    """Return the first operands of operators, by path, that have the type of the output."""
    ops = [
        op for op in program.find(kind="operators") if len(op.outputs) == 1 and not op.blocks
    ]
    return {
        op.path: op.inputs[0].name
        for op in ops
        if op.inputs
        and op.inputs[0].type == op.outputs[0].type
        and str(op.outputs[0].type).startswith("f64")
    }


def _made(seed: int, size: int) -> Generated:
    made = generate(seed, size)
    made.program.give(made.result.name)
    return made


def check_edited_derivative(seed: int, size: int = 6, count: int = 2) -> bool:
    """Compare an edited derivative with that of the edited program; false if none exists."""
    made, draw = _made(seed, size), random.Random(seed)
    fetch = differentiate(made, second := draw.random() < 0.3)
    bare = _made(seed, size).program
    known = _places(br.prune(made.program, [made.result.name]))
    places = {path: by for path, by in _places(bare).items() if known.get(path) == by}
    chosen = draw.sample(sorted(places), min(count, len(places)))
    edits = [
        _edit(path, places[path], draw.choice(["insert", "replace", "remove", "wrap"]))
        for path in chosen
    ]
    try:
        for edit in edits:
            bare = edit(bare)
    except br.ProgramError:  # such as a place inside a user-written gradient
        return False
    names = [v.name for v in made.inputs]
    anew = Generated(bare, bare.var(bare.fetches[0]), [bare.var(name) for name in names])
    wanted_fetch = differentiate(anew, second)
    try:
        with made.program.edit() as e:
            for edit in edits:
                edit(e)
    except br.GradientError:  # a derivative that is read does not exist any more
        return False
    new = e.program
    if _missing(made.program) != _missing(bare):  # `differentiate` reads those that exist
        return False
    feeds = feeds_of(seed)
    feeds = with_moves(feeds, moves_of(seed, anew, feeds))
    try:
        wanted = run(bare, feeds, wanted_fetch, "interpret")
    except br.BracesError:  # refused at run time, as a loop without an end
        return False
    found = {
        key: new.var(var.name if key != "y" else new.fetches[0]) for key, var in fetch.items()
    }
    if found.keys() != wanted.keys():
        raise Disagreement(f"edited: {[*found]} and {[*wanted]}")
    for key, value in run(new, feeds, found, "interpret").items():
        near(value, wanted[key], 1e-9, f"edited {key}")
    return bool(edits)


def _missing(program: br.Program) -> list[tuple[bool, ...]]:
    records = program.definition.derivations
    return [tuple(not name for name in record.results) for record in records]
