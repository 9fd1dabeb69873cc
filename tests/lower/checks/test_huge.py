"""Arrays that no machine holds are refused at build, by the verifier, and by each run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import braces as br
from braces.errors import RunError, ShapeError, VerifyError
from braces.extend.operators import OPS

MODES = ("compile", "interpret")
MOST = 2**63 - 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: br.full([MOST, MOST], 0.0),
        lambda: br.full([2**62], 0.0, "f32"),
        lambda: br.full([0, 2**62, 2**62], 0.0),
        lambda: br.data("big", [2**62, 2**62]),
        lambda: br.zeros([2**40]).reshape([2**40, 1]) * br.zeros([2**40]),
        lambda: br.broadcast_to(br.zeros([1]), [2**61, 2]),
        lambda: br.reshape(br.data("y", [2**31, 2**31, 2**31]), [-1]),
    ],
)
def test_the_builder_refuses_it_with_its_place(build: Callable[[], object]) -> None:
    with br.Program() as program:
        with pytest.raises(ShapeError, match=r"2\^63 bytes") as caught:
            build()
        assert "test_huge.py" in str(caught.value)
        fine = br.data("fine", ["b", 2**62])
    assert str(fine.type) == f"f32[b,{2**62}]"
    assert [v for v in program.vars if v.startswith("big")] == []


@pytest.mark.parametrize(
    "declared", [f"f32[{MOST},{MOST}]", f"f32[0,{MOST},8]", f"u8[{MOST},2]"]
)
@pytest.mark.parametrize("kind", ["data", "parameter", "state"])
def test_the_verifier_refuses_it(kind: str, declared: str) -> None:
    with pytest.raises(VerifyError, match="B305"):
        br.parse(f"program {{ {kind} x: {declared} }}")


def test_the_verifier_refuses_it_in_a_block() -> None:
    with br.Program() as program:
        x = br.data("x", [3, 5])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(net.add_input(x) * 2.0)
        rnn()
    text = str(program)
    assert "f32[5]" in text
    huge = text.replace("f32[5]", f"f32[{MOST},5]").replace("f32[3,5]", f"f32[b,{MOST},5]")
    with pytest.raises(VerifyError, match="B305"):
        br.parse(huge)


SYMBOLIC = {
    "no input": "y: f32[b^8] = full() {shape=[size(b^8)], value=0.0, dtype=f32}",
    "arange": "y: i64[b^6] = arange() {start=0, stop=size(b^6), step=1, dtype=i64}",
    "one input": "y: f32[b^7,b] = broadcast_to(x=x) {shape=[size(b^7), size(b)]}",
    "unread": "z: f32[b^7,b] = broadcast_to(x=x) {shape=[size(b^7), size(b)]}"
    "y: f32[] = sum(x=z)",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("which", SYMBOLIC)
def test_a_run_refuses_what_becomes_huge_only_in_it(mode: str, which: str) -> None:
    program = br.parse(f"program {{ data x: f32[b]  {SYMBOLIC[which]} }}")
    scope = br.Scope()
    executor = br.Executor(mode)
    with pytest.raises(RunError, match=r"2\^63 bytes") as caught:
        executor.run(program, scope, {"x": np.zeros(1024, np.float32)}, ["y"])
    assert "block 0, op `" in str(caught.value)
    assert scope.names() == []
    found = executor.run(program, scope, {"x": np.ones(2, np.float32)}, ["y"])
    assert np.asarray(found).size


@pytest.mark.parametrize("mode", MODES)
def test_a_run_refuses_what_only_a_kernel_makes_huge(mode: str) -> None:
    with br.Program() as program:
        x, y = br.data("x", ["a", "b"]), br.data("y", ["c", "d"])
        deep = br.einsum("ab,cd,ef,gh->aceg", x, y, x, y)
        last = br.sum(deep)
    size = 60_000
    feed = {"x": np.ones((size, 1), np.float32), "y": np.ones((size, 1), np.float32)}
    with pytest.raises(RunError, match=r"2\^63 bytes") as caught:
        br.Executor(mode).run(program, br.Scope(), feed, [last])
    assert "test_huge.py" in str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_refuses_it_inside_a_loop(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b"])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            step = net.add_input(x)
            b = x.shape[0]
            grown = br.broadcast_to(step, [b * b * b, b * b * b, b * b])
            net.add_output(br.sum(grown))
        out = rnn()
    with pytest.raises(RunError, match=r"2\^63 bytes") as caught:
        br.Executor(mode).run(program, br.Scope(), {"x": np.ones(1024, np.float32)}, [out])
    assert "rnn" in str(caught.value) or "loop" in str(caught.value)


def test_what_has_no_inputs_tells_its_type_without_a_kernel() -> None:
    without = [
        one for one in OPS.definitions.values() if not any(not s.optional for s in one.inputs)
    ]
    rules = {one.type: one.infer_rule or one.dtype_rule or one.owns_blocks for one in without}
    assert all(rules.values())
