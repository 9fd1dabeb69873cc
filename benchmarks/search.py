"""Search in a program of 10,000 operators in blocks of loops: by type, pattern, block, user."""

from __future__ import annotations

import braces as br
from benchmarks.case import Case, Comparison, Goal, clocked

TITLE = "searching in a program"
LOOPS = 8
GOAL = Goal(extra=0.05)


def cases(tiny: bool) -> list[Case]:
    """One case for each kind of condition."""
    size = 100 if tiny else 10_000
    prog = build(size)
    searches = {
        "by type": lambda: prog.find(type="tanh"),
        "by pattern of paths": lambda: prog.find(name="loop_*/tanh_1*"),
        "in one block": lambda: prog.find(inside="loop_0", type="add"),
        "by function": lambda: prog.find(where=lambda h: h.attrs.get("axis") == -1),
        "by variable read": lambda: prog.find(reads="x"),
    }
    return [
        Case(
            what=f"{name}, {size:,} operators",
            sides={"find": clocked(search)},
            comparisons=[Comparison("find", goal=GOAL)],
            agree=lambda: check_size(prog, size),
            rounds=1 if tiny else 15,
        )
        for name, search in searches.items()
    ]


def build(size: int) -> br.Program:
    """Build loops with about `size` operators in their bodies."""
    with br.Program() as prog:
        x = br.data("x", ["batch", 4])
        for _ in range(LOOPS):
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                row = net.add_input(br.stack([x, x], axis=1), axis=1)
                h = net.add_memory(shape=[4], batch_like=x)
                y = h.pre(1)
                for _ in range(size // LOOPS // 2):
                    y = br.tanh(y + row)
                h.update(y)
            x = rnn.final(h)
    return prog


def check_size(prog: br.Program, size: int) -> None:
    """Check the number of operators."""
    assert abs(len(prog.find()) - size) <= 5 * LOOPS, len(prog.find())
