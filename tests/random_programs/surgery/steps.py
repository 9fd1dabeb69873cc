"""Random training steps rewritten by random rules.

A rewritten step is compared with an oracle: the forward program is rewritten by the same rules,
and the calls that differentiate it are made on the rewritten program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import braces as br
from braces import optimizer as opt
from braces.extend.programs import parse_program
from tests.random_programs.agree import EXECUTORS, Disagreement
from tests.random_programs.generate import Generated, feeds_of, generate
from tests.random_programs.surgery.rewrites import RULES, Both
from tests.support.comparison import near

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: opt.sgd(0.1),
    "momentum": lambda: opt.momentum(0.1),
    "clipped adam": lambda: opt.chain(opt.clip_by_global_norm(0.5), opt.adam(0.05)),
    "accumulation": lambda: opt.multi_steps(opt.momentum(0.1), every=2),
}


def _floats(function: Callable[..., Any]) -> Any:
    """Return a pattern that matches floats only."""
    return br.pattern(function, where=lambda match: str(match["x"].type).startswith("f64"))


CHANGES: dict[str, Both] = {
    "tanh to sin": (br.tanh, br.sin),
    "sin to tanh": (br.sin, br.tanh),
    "cos": (br.any_of(br.tanh, br.sin), br.cos),
    "sum to difference": (_floats(lambda x, y: x + y), lambda x, y: x - y),
    "scaled product": (_floats(lambda x, y: x * y), lambda x, y: 0.5 * (x * y)),
    "matrices": (lambda x, w: x @ w, lambda x, w: br.tanh(x @ w)),
    "swapped": (lambda c, x, y: br.where(c, x, y), lambda c, x, y: br.where(c, y, x)),
}
"""Rules that change values, but not those of counters."""


def differentiate(made: Generated, draw: random.Random) -> list[str]:
    """Add random derivatives and an optimizer; return the names of all results."""
    (kind,) = draw.choices(["minimize", "gradients", "twice", "jvp"], [4, 2, 1, 1])
    name, prog = made.result.name, made.program
    results = [name]
    with prog:
        loss = prog.var(name)
        inputs = [prog.var(each.name) for each in made.inputs]
        if kind == "minimize":
            OPTIMIZERS[draw.choice(sorted(OPTIMIZERS))]().minimize(loss)
            results += _norms(loss, inputs[:1]) if draw.random() < 0.3 else []
        elif kind == "gradients":
            results += _norms(loss, inputs)
        elif kind == "twice":
            slopes = [g for g in br.gradients(loss, inputs) if g is not None]
            if slopes:
                second = br.sum(br.stack([br.sum(br.square(g)) for g in slopes]))
                results.append(second.name)
                results += _norms(second, inputs)
        else:
            (tangent,) = br.jvp([loss], inputs, [br.abs(each) for each in inputs])
            results += [] if tangent is None else [br.abs(tangent).name]
        for each in results:
            prog.give(each)
    return results


def _norms(loss: br.Var, inputs: Sequence[br.Var]) -> list[str]:
    slopes = br.gradients(loss, inputs)
    return [br.sum(br.abs(slope)).name for slope in slopes if slope is not None]


def check_step(seed: int, size: int = 4, most_rules: int = 2) -> int:
    """Compare a rewritten step with its oracle; return the number of matches."""
    draw = random.Random(seed)
    exact = draw.random() < 0.3
    rules = RULES if exact else RULES | CHANGES
    chosen = [
        rules[name] for name in draw.choices(sorted(rules), k=draw.randint(1, most_rules))
    ]
    made, forward = _needed(seed, size), _needed(seed, size)
    fetch = differentiate(made, random.Random(seed + 1))
    original = str(made.program)
    (new, refused), matches = _rewritten(made.program, chosen, exact), 0
    assert str(made.program) == original
    name = forward.result.name
    rewritten, also = _rewritten(forward.program, chosen, exact)
    if refused != also:
        raise Disagreement(f"the step: {refused}; the forward program: {also}")
    if refused:
        return 0
    matches = len(new.report)
    with rewritten:
        inputs = [rewritten.var(each.name) for each in forward.inputs]
        anew = Generated(rewritten, rewritten.var(name), inputs)
    wanted = differentiate(anew, random.Random(seed + 1))
    if len(wanted) != len(fetch):
        raise Disagreement(f"results of the step: {fetch}; of its oracle: {wanted}")
    again = br.Program(parse_program(str(new)))
    again.startup = new.startup
    assert str(again) == str(new)
    compare(new, fetch, rewritten, wanted, feeds_of(seed))
    compare(again, fetch, br.Program.from_bytes(new.to_bytes()), fetch, feeds_of(seed))
    return matches


def _needed(seed: int, size: int) -> Generated:
    """A random program without the operators that its result does not need."""
    made = generate(seed, size)
    prog = br.prune(made.program, [made.result])
    with prog:
        inputs = [prog.var(each.name) for each in made.inputs if each.name in prog.vars]
        return Generated(prog, prog.var(made.result.name), inputs)


def _rewritten(
    program: br.Program, rules: Sequence[Both], exact: bool
) -> tuple[br.Program, str | None]:
    """Rewrite by some rules; return the program, or the refusal of a user-written gradient."""
    try:
        for rule in rules:
            program = program.rewrite(*rule, exact=exact)
    except br.ProgramError as error:
        if "user-written gradient" not in error.what:
            raise
        return program, "user-written gradient"
    return program, None


def compare(
    left: br.Program,
    left_names: Sequence[str],
    right: br.Program,
    right_names: Sequence[str],
    feeds: Mapping[str, Any],
) -> None:
    """Compare two runs: results, and the values of the scope afterwards."""
    found, state = _two_runs(left, left_names, feeds)
    wanted, wanted_state = _two_runs(right, right_names, feeds)
    for value, other in zip(found, wanted, strict=True):
        near(value, other, 1e-8, "result")
    if state.keys() != wanted_state.keys():
        raise Disagreement(f"states {sorted(state)}; of the oracle {sorted(wanted_state)}")
    for name, value in wanted_state.items():
        near(state[name], value, 1e-8, name)


def _two_runs(
    program: br.Program, names: Sequence[str], feeds: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    scope = EXECUTORS["interpret"].init(program, br.Scope())
    scope.update({"w": feeds["w"]})
    given = {name: value for name, value in feeds.items() if name in program.feeds}
    values = list[Any]()
    for _ in range(2):
        try:
            found = EXECUTORS["interpret"].run(program, scope, given, list(names))
        except br.RunError:
            return [], {}
        values += [np.asarray(value) for value in found]
    return values, {p.name: np.asarray(scope[p.name]) for p in program.persistables}
