"""Sequences of data-dependent length, and branches with results of different types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br
from braces.exchange.onnx.runtime import session

pytestmark = pytest.mark.unoptimized

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def parsed(text: str) -> Any:
    return onnx.parser.parse_model(HEAD + text)


def check(text: str, *feeds: dict[str, Any], runtime: bool = True) -> br.Program:
    """A model gives the same in both modes as in ONNX Runtime; its program."""
    model = parsed(text)
    prog, values = br.from_onnx(model)
    scope = br.Scope()
    scope.update(values)
    theirs = session(model.SerializeToString())
    for executor in (br.Executor(mode="interpret"), br.Executor()):
        for feed in feeds:
            wanted = theirs.run(None, feed)
            found = executor.run(prog, scope, feed=feed, fetch=list(prog.fetches))
            for want, got in zip(wanted, found, strict=True):
                whole = np.stack(want) if isinstance(want, list) else want
                np.testing.assert_allclose(got, whole, rtol=1e-6)
    return prog


X = np.arange(6, dtype="float32").reshape(2, 3)


def trips(n: int) -> dict[str, Any]:
    return {"x": X, "n": np.asarray(n, "int64")}


def test_a_loop_that_fills_a_sequence_carries_a_list() -> None:
    prog = check(
        """ fill (float[2, 3] x, int64 n) => (float[k, 3] y, int64 count) {
            empty = SequenceEmpty ()
            cond = Constant <value = bool {1}> ()
            seq, last = Loop (n, cond, empty, x) <body = trip (int64 i, bool c, seq(float[]) s,
                float[2, 3] h) => (bool go, seq(float[]) more, float[2, 3] g) {
                go = Identity (c)
                g = Add (h, h)
                more = SequenceInsert (s, g)
            }>
            two = Constant <value = int64 {2}> ()
            zero = Constant <value = int64 {0}> ()
            third = SequenceAt (seq, two)
            rest = SequenceErase (seq, two)
            again = SequenceInsert (rest, third, zero)
            y = ConcatFromSequence <axis = 0> (again)
            count = SequenceLength (again)
        }""",
        trips(3),
        trips(5),
    )
    assert "list<f32[2,3]>" in str(prog)


def test_a_sequence_goes_through_a_loop_with_a_condition_and_a_map() -> None:
    check(
        """ search (float[2, 3] x, int64 n) => (float[2, m] y, seq(float[2, 3]) seq) {
            first = SequenceConstruct (x)
            cond = Constant <value = bool {1}> ()
            limit = Constant <value = float {20.0}> ()
            seq = Loop (n, cond, first) <body = trip (int64 i, bool c, seq(float[2, 3]) s)
                => (bool go, seq(float[2, 3]) more) {
                last = Constant <value = int64 {-1}> ()
                h = SequenceAt (s, last)
                g = Add (h, x)
                most = ReduceMax <keepdims = 0> (g)
                go = Less (most, limit)
                more = SequenceInsert (s, g)
            }>
            out = SequenceMap (seq, x) <body = each (float[2, 3] v, float[2, 3] w)
                => (float[2, 3] u) { u = Sub (v, w) }>
            y = ConcatFromSequence <axis = 1> (out)
        }""",
        trips(2),
        trips(9),
    )


def test_branches_give_sequences_and_rows_of_different_lengths() -> None:
    check(
        """ choose (float[2, 3] x, int64 n) => (float[k, 3] y, float[r, 3] z, int64 p) {
            zero = Constant <value = int64 {0}> ()
            cond = Greater (n, zero)
            seq, z = If (cond) <
                then_branch = yes () => (seq(float[2, 3]) a, float[2, 3] b) {
                    a = SequenceConstruct (x, x)
                    b = Neg (x)
                },
                else_branch = no () => (seq(float[2, 3]) d, float[1, 3] e) {
                    f = Neg (x)
                    d = SequenceConstruct (f)
                    starts = Constant <value = int64[1] {1}> ()
                    ends = Constant <value = int64[1] {2}> ()
                    e = Slice (x, starts, ends)
                }>
            y = ConcatFromSequence <axis = 0> (seq)
            p = SequenceLength (seq)
        }""",
        trips(1),
        trips(0),
    )


def test_a_known_sequence_is_read_at_a_place_that_only_a_run_knows() -> None:
    check(
        """ pick (float[2, 3] x, int64 n) => (float[2, 3] y) {
            minus = Neg (x)
            seq = SequenceConstruct (x, minus)
            y = SequenceAt (seq, n)
        }""",
        trips(1),
        trips(-2),
    )


def test_what_a_list_cannot_hold_is_said() -> None:
    text = """ mix (float[2, 3] x, int64 n) => (int64 count) {{
        first = SequenceConstruct ({first})
        cond = Constant <value = bool {{1}}> ()
        seq = Loop (n, cond, first) <body = trip (int64 i, bool c, seq(float[]) s)
            => (bool go, seq(float[]) more) {{
            go = Identity (c)
            more = {more}
        }}>
        count = SequenceLength (seq)
    }}"""
    with pytest.raises(br.ProgramError, match="requires elements of one type"):
        br.from_onnx(parsed(text.format(first="x, n", more="Identity (s)")))
    with pytest.raises(
        br.ProgramError,
        match=r"expected an element of type f32\[2,3\] for list<f32\[2,3\]>, got i64",
    ):
        br.from_onnx(parsed(text.format(first="x", more="SequenceInsert (s, i)")))
    empty = text.format(first="x", more="Identity (s)").replace(
        "SequenceConstruct (x)", "SequenceEmpty ()"
    )
    with pytest.raises(br.ProgramError, match="unknown element type of the sequence `s`"):
        br.from_onnx(parsed(empty))


def test_rows_of_a_loop_come_back_as_rows(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(x), net.add_memory(init=br.zeros([x.shape[1], 3]))
            choice = br.create_if_else(row[:, 0] > 0.0)
            with choice.true_block() as t:
                mine = t.add_input(row)
                t.add_output(mine - br.mean(mine, axis=0))
            with choice.false_block() as f:
                f.add_output(f.add_input(h) * 0.5)
            h.update(choice())
        y = rnn.final(h)
    br.to_onnx(prog, tmp_path / "m.onnx", fetches=y)
    again, _ = br.from_onnx(tmp_path / "m.onnx")
    assert str(again).count("= partition(") == 2
    feed = {"x": np.random.default_rng(0).normal(size=(4, 5, 3)).astype("f4")}
    for mode in ("interpret", "compile"):
        (want,) = br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=[y])
        (got,) = br.Executor(mode=mode).run(again, br.Scope(), feed=feed, fetch=[y.name])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


GROWING = """<ir_version: 8, opset_import: ["": 17]>
g (int64 n, bool go, float[1] x) => (float[m] y) {
    y = Loop (n, go, x) <body = b (int64 i, bool c, float[k] a) => (bool again, float[l] d) {
        again = Identity (c)
        d = Concat <axis = 0> (a, a)
    }>
}"""


def test_a_loop_whose_memory_grows_is_written_out_where_its_trips_are_known() -> None:
    proto, x = onnx.parser.parse_model(GROWING), np.array([2.0], "f4")
    known = {"n": np.int64(3), "go": np.bool_(True)}
    prog, _ = br.from_onnx(proto, inputs=known)
    (y,) = br.Executor().run(prog, br.Scope(), feed={"x": x}, fetch=prog.fetches)
    np.testing.assert_array_equal(y, np.full(8, 2.0, "f4"))
    with pytest.raises(br.BracesError, match="requires a static number of iterations"):
        br.from_onnx(proto)
