"""Random programs rewritten by random rules that leave values as they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import braces as br
from braces.extend.programs import parse_program
from tests.random_programs.agree import check_refused, read_needed, run
from tests.random_programs.generate import feeds_of, generate
from tests.random_programs.oracle import Refused
from tests.support.comparison import near

Both = tuple[Callable[..., Any], Callable[..., Any]]


def _in_block(x: Any) -> Any:
    with br.block("rewritten"):
        y = br.tanh(x)
    return y


def _in_loop(x: Any, y: Any) -> Any:
    rnn = br.create_rnn(steps=1)
    with rnn.stepnet() as net:
        h = net.add_memory(init=x)
        h.update(h.pre(1) + y if x.shape == y.shape else h.pre(1))
    return rnn.final(h) if x.shape == y.shape else x + y


def _in_switch(x: Any) -> Any:
    def moved() -> Any:
        with br.block("case"):
            y = br.sin(x)
        return y

    return br.cond(br.sum(x * 0.0) < 1.0, moved, lambda: x)


def _in_while(x: Any, y: Any) -> Any:
    def more(carry: Any) -> Any:
        return carry[0] + 1, carry[1] * y

    if x.shape != y.shape:
        return x * y
    return br.while_loop(lambda carry: carry[0] < 1, more, (br.constant(0), x))[1]


def _softmax(x: Any, *, axis: Any) -> Any:
    return br.softmax(x, axis=axis)


RULES: dict[str, Both] = {
    "sum": (lambda x, y: x + y, lambda x, y: y + x),
    "difference": (lambda x, y: x + y, lambda x, y: x - (-y)),
    "product": (lambda x, y: x * y, lambda x, y: y * x),
    "fused": (lambda x, y, z: x * y + z, lambda x, y, z: z + y * x),
    "odd": (br.any_of(br.tanh, br.sin), lambda x, *, match: -_again(match)(-x)),
    "nested": (lambda x: br.tanh(br.tanh(x)), lambda x: br.tanh(br.tanh(x))),
    "scaled": (lambda x: br.tanh(x) * 0.5, lambda x: 0.5 * br.tanh(x)),
    "pair": (lambda x, y: (br.tanh(x + y), br.sin(x + y)), lambda x, y: _pair(y + x)),
    "both": (lambda x, y: (x * y, br.tanh(x * y)), lambda x, y: (y * x, br.tanh(y * x))),
    "product of matrices": (lambda x, w: x @ w, lambda x, w: br.identity(x @ w)),
    "block": (br.tanh, _in_block),
    "loop": (lambda x, y: x + y, _in_loop),
    "out of a block": (_in_block, br.tanh),
    "out of a loop": (_in_loop, lambda x, y: x + y),
    "switch": (br.sin, _in_switch),
    "out of a switch": (_in_switch, br.sin),
    "while": (lambda x, y: x * y, _in_while),
    "out of a while": (_in_while, lambda x, y: x * y),
    "axis": (_softmax, _softmax),
    "mean": (lambda x: br.sum(x) * 2.0, lambda x: br.sum(x) + br.sum(x)),
    "branch": (lambda c, x, y: br.where(c, x, y), lambda c, x, y: br.where(~c, y, x)),
}


def _again(match: Any) -> Callable[..., Any]:
    return getattr(br, match.op.type)


def _pair(x: Any) -> Any:
    return br.tanh(x), br.sin(x)


def check_rewritten(seed: int, size: int = 6, rules: int = 4) -> int:
    """Compare a rewritten program with the original's text; return the number of matches."""
    made, feeds = generate(seed, size), feeds_of(seed)
    made.program.give(made.result.name)
    draw = random.Random(seed)
    chosen = draw.sample(sorted(RULES), rules)
    chosen += [back for name in chosen if (back := f"out of a {name}") in RULES]
    main, new, matches = parse_program(str(made.program)).main, made.program, 0
    for name in chosen:
        new = new.rewrite(*RULES[name], exact=True)
        matches += len(new.report)
    again = br.Program(parse_program(str(new)))
    assert str(again) == str(new)
    name = made.result.name
    try:
        _, wanted = read_needed(made, main, feeds)
    except Refused as refused:
        check_refused(generate(seed, size), feeds, {"y": made.result}, refused)
        return matches
    near(run(again, feeds, {"y": again.var(name)}, "interpret")["y"], wanted, 1e-9, "rewritten")
    return matches
