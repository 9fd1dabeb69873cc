"""Statistics of an executor: nothing that it compiles is invisible."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.runtime.monitoring.stats import MAX_LISTED, Compilation, Counters

pytestmark = pytest.mark.unoptimized


def rows(n: br.Var) -> br.Var:
    """As many rows as a run says."""
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        body.set_condition(i < n)
        body.add_output(br.cast(i, "float32"))
        i.update(i + 1)
    return loop()


def test_every_compilation_is_counted_with_what_changed(compiled: list[str]) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3])
        n = br.data("n", [], dtype="int32")
        loss = br.sum(br.cumsum(rows(n)) * br.sum(br.data("x", ["b", 3]) * w))
        br.optimizer.sgd(0.1).minimize(loss)
    exe = br.Executor()
    scope = exe.init(prog, br.Scope())
    for n_rows, b in ((3, 2), (3, 2), (40, 2), (40, 5), (100, 5), (0, 5)):
        exe.run(prog, scope, {"n": np.int32(n_rows), "x": np.ones((b, 3), "f4")})
    exe.run(prog, scope, {"n": np.int32(0), "x": np.ones((5, 3), "f4")}, timeout_s=60)
    exe.evaluate(prog, scope, {"n": np.int32(0), "x": np.ones((5, 3), "f4")})
    stats = exe.stats
    assert stats.compilations == len(compiled) == len(stats.listed)
    assert stats.runs == 9
    assert stats.seconds == pytest.approx(sum(one.seconds for one in stats.listed))
    assert stats.reads == sum(one.read for one in stats.listed)
    assert {one.program for one in stats.listed} == {1, 2, 3}
    changes = " ".join(one.change for one in stats.listed if one.program == 2)
    for said in (
        "`x` is f32[5,3], was f32[2,3]",
        "the capacity of",
        "the size",
        "the time limit",
    ):
        assert said in changes


def test_an_executor_shows_its_counts() -> None:
    with br.Program() as prog:
        y = br.tanh(br.data("x", ["b"]))
    exe, scope = br.Executor(), br.Scope()
    assert repr(exe) == "<Executor (compile): 0 runs, 0 compilations in 0.00 s>"
    for size in (1, 2, 2):
        exe.run(prog, scope, {"x": np.ones(size)}, y)
    assert repr(exe).startswith("<Executor (compile): 3 runs, 2 compilations in ")
    first, head, *lines = str(exe.stats).splitlines()
    assert first in repr(exe)
    assert head.split() == ["program", "seconds", "read", "compiled", "for"]
    assert [line.split()[0] for line in lines] == ["1", "1"]
    assert lines[1].endswith("`x` is f32[2], was f32[1]")


def test_repeated_and_failed_runs_are_distinguished() -> None:
    with br.Program() as prog:
        n = br.data("n", [], dtype="int32")
        out = br.topk(rows(n), 2)[0]
    exe, scope = br.Executor(), br.Scope()
    exe.run(prog, scope, {"n": np.int32(3)}, out)
    with pytest.raises(br.ShapeError):
        exe.run(prog, scope, {"n": np.int32(1)}, out)
    assert (exe.stats.runs, exe.stats.repeats) == (1, 2)
    assert "2 runs repeated" in repr(exe)


def test_interpreting_counts_runs() -> None:
    with br.Program() as prog:
        y = br.tanh(br.data("x", ["b"]))
    exe = br.Executor("interpret")
    exe.run(prog, br.Scope(), {"x": [1.0]}, y)
    assert repr(exe) == "<Executor (interpret): 1 run, 0 compilations in 0.00 s>"


@pytest.mark.usefixtures("folder")
def test_code_that_is_read_from_the_folder_is_counted() -> None:
    def run() -> br.Executor:
        with br.Program() as prog:
            y = br.tanh(br.data("x", [17]) * 0.1234)
        exe = br.Executor()
        exe.run(prog, br.Scope(), {"x": np.ones(17)}, y)
        return exe

    run()
    exe = run()
    assert (exe.stats.compilations, exe.stats.reads) == (1, 1)
    assert "1 of them read from the cache" in repr(exe)


def test_the_list_is_bounded() -> None:
    counters = Counters()
    for k in range(MAX_LISTED + 5):
        counters.add(Compilation(k, "again", 1.0, False))
    assert len(counters.listed) == MAX_LISTED
    assert counters.stats().compilations == MAX_LISTED + 5
    assert counters.listed[-1].program == MAX_LISTED + 4
