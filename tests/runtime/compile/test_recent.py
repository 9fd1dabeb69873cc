"""State of an executor: capacities of histories, and executables."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.compile.list_capacity import (
    FIRST_ROOM,
    MOST_PATIENCE,
    PATIENCE,
    Capacity,
    rounded,
)


def _trips() -> tuple[br.Program, Any]:
    """A loop of `n` trips whose gradient keeps a history."""
    with br.Program() as prog:
        n, x = br.data("n", [], dtype="int32"), br.data("x", [])
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            s = body.add_memory(init=x)
            body.set_condition(i < n)
            s.update(br.tanh(s * 1.01))
            i.update(i + 1)
        (grad,) = br.gradients([loop.final(s)], [x])
    return prog, grad


def _latest(exe: br.Executor, prog: br.Program) -> Any:
    """The executable that was called last."""
    plans = exe._plans.by_program[prog][1].values()
    every = [one for plan in plans for one in plan.executables.values()]
    return max(every, key=lambda one: one.used)


def _count(exe: br.Executor) -> int:
    plans = [p for _, plans in exe._plans.by_program.values() for p in plans.values()]
    return sum(len(p.executables) for p in plans if isinstance(p, CompiledPlan))


# ---- room of histories -----------------------------------------------------------------------


def test_one_long_run_does_not_slow_the_short_ones_after_it() -> None:
    prog, grad = _trips()
    exe, scope = br.Executor(), br.Scope()

    def run(trips: int) -> tuple[Any, int]:
        found = exe.run(prog, scope, feed={"n": np.int32(trips), "x": 0.5}, fetch=grad)
        return found, _latest(exe, prog).code.memory_analysis().temp_size_in_bytes

    short, little = run(9)
    _, much = run(100_000)
    assert much > 100 * little
    after = [run(9) for _ in range(PATIENCE + 1)]
    assert [value for value, _ in after] == [short] * len(after)
    assert after[-1][1] == little
    assert _count(exe) == 2, "the executable of the short runs was still there"


def test_room_that_shrinks_in_vain_becomes_patient() -> None:
    room, cycles = Capacity(), list[int]()
    for _ in range(8):
        room.grow(5000)
        runs = 0
        while room.size == rounded(5000):
            room.record(9)
            runs += 1
        cycles.append(runs)
    assert cycles[:4] == [PATIENCE, 2 * PATIENCE, 4 * PATIENCE, 8 * PATIENCE]
    assert max(cycles) == MOST_PATIENCE


def test_room_stays_where_it_is_used_now_and_then() -> None:
    room = Capacity()
    room.grow(5000)
    for i in range(1000):
        room.record(3000 if i % PATIENCE == 0 else 9)
    assert room.size == rounded(5000)
    for _ in range(PATIENCE):
        room.record(300)
    assert room.size == rounded(300) > FIRST_ROOM


@pytest.mark.parametrize("needed", [1, 2, 3, 64, 65, 4096, 2**31 - 1])
def test_rooms_are_the_powers_of_two_that_are_enough(needed: int) -> None:
    assert needed <= rounded(needed) < 2 * needed


# ---- executables -----------------------------------------------------------------------------


def _doubled() -> tuple[br.Program, Any]:
    with br.Program() as prog:
        y = br.data("x", ["b"]) * 2.0
    return prog, y


@pytest.mark.usefixtures("frozen_heap")
def test_what_was_used_longest_ago_is_let_go() -> None:
    prog, y = _doubled()
    exe, scope = br.Executor(max_executables=3), br.Scope()

    def run(size: int) -> Any:
        assert exe.run(prog, scope, feed={"x": np.ones(size, "f4")}, fetch=y).shape == (size,)
        return weakref.ref(_latest(exe, prog))

    first, second = run(1), run(2)
    run(3)
    run(1)  # used again, so that 2 is the oldest
    run(4)
    gc.collect()
    assert first() is not None
    assert second() is None
    for size in range(5, 40):
        run(size)
    assert _count(exe) == 3


def test_executables_are_bounded_over_all_programs_and_fetches(mode: str) -> None:
    exe, scope = br.Executor(mode, max_executables=4), br.Scope()
    kept = [_doubled() for _ in range(9)]
    for prog, y in kept:
        with prog:
            z = y + 1.0
        for fetch in (y, z, [y, z]):
            exe.run(prog, scope, feed={"x": [1.0]}, fetch=fetch)
    assert _count(exe) == (4 if mode == "compile" else 0)
    assert sum(len(plans) for _, plans in exe._plans.by_program.values()) <= 4


@pytest.mark.usefixtures("frozen_heap")
def test_clearing_lets_all_compiled_code_go(mode: str) -> None:
    prog, y = _doubled()
    exe, scope = br.Executor(mode), br.Scope()
    before = exe.run(prog, scope, feed={"x": [1.0, 2.0]}, fetch=y)
    plan = weakref.ref(next(iter(exe._plans.by_program[prog][1].values())))
    exe.clear()
    gc.collect()
    assert plan() is None
    assert np.array_equal(exe.run(prog, scope, feed={"x": [1.0, 2.0]}, fetch=y), before)


@pytest.mark.parametrize("limit", [0, -1, 2.5, None, True])
def test_a_limit_of_executables_is_a_number_from_one(limit: Any) -> None:
    with pytest.raises(br.ProgramError, match="max_executables"):
        br.Executor(max_executables=limit)


# ---- saying so -------------------------------------------------------------------------------


def test_each_new_set_of_shapes_is_said_with_what_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prog, y = _doubled()
    exe, scope = br.Executor(), br.Scope()
    with caplog.at_level(logging.INFO, logger="braces"):
        for size in (2, 2, 3, 2, 4):
            exe.run(prog, scope, feed={"x": np.ones(size, "f4")}, fetch=y)
        exe.run(prog, scope, feed={"x": np.ones(4, "f4")}, fetch=[y, y])
    records = [one for one in caplog.records if one.name == "braces"]
    assert all(record.levelno == logging.INFO for record in records)
    changes = [record.getMessage().partition(": ")[2] for record in records]
    assert changes[:3] == [
        "`x` is f32[2].",
        "`x` is f32[3], was f32[2].",
        "`x` is f32[4], was f32[3].",
    ]
    assert changes[3].startswith("the list of fetches is ")
    assert [one.change for one in exe.stats.listed] == [one[:-1] for one in changes]


def test_more_shapes_than_are_kept_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    prog, y = _doubled()
    exe, scope = br.Executor(max_executables=2), br.Scope()
    for size in (1, 2, 3, 1, 2, 3):
        exe.run(prog, scope, feed={"x": np.ones(size, "f4")}, fetch=y)
    (record,) = (one for one in caplog.records if one.levelno == logging.WARNING)
    assert "max_executables" in record.getMessage()
