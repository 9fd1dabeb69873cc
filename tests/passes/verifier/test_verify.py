"""The verifier: each rule by a program that breaks it, and programs that break none."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import Program
from braces.define.decorator import HIGHEST_ORDER
from braces.errors import VerifyError
from braces.extend.operators import OPS
from braces.extend.programs import Op, ProgramDef, parse_program, serde
from braces.ir.walk import rename_op
from braces.passes.verifier.program import verify
from braces.passes.verifier.rules import CODES

LOOP = """
program {
  data x: f32[t,3]
  parameter w: f32[3] trainable
  full_0: f32[3] = full() {shape=[3], value=0.0, dtype=f32}
  final=[last: f32[3]], stacked=[rows: f32[t,3]], trips=[trips: i64[]] =
    loop(init=full_0, sliced=x) captures [w] as loop_0
    body (t: i64[], h: f32[3], row: f32[3]) {
      a: f32[3] = add(x=h, y=row)
      b: f32[3] = multiply(x=a, y=w)
      return b, a
    }
}
"""
SWITCH = """
program {
  data i: i32[]
  data x: f32[3]
  y: f32[3] = switch(index=i) {total=false} captures [x]
    cases [() { a: f32[3] = tanh(x=x)  return a }, () { return x }]
}
"""
ROWS = """
program {
  data m: bool[b]
  data x: f32[b,3]
  out=[y: f32[b,3]], sums=[] = partition(masks=m, rows=x) {counts=[size(n)], outs=1} as p
    cases [(v: bool[n], r: f32[n,3]) { a: f32[n,3] = tanh(x=r)  return a }]
}
"""


def small(lines: str) -> str:
    return (
        f"program {{ data x: f32[4]  data n: i32[]  parameter w: f32[4] trainable\n{lines} }}"
    )


BROKEN = [
    ("B101", small("y: f32[4] = tanhh(x=x)")),
    ("B101", small(f"y: f32[4] = tanh{'.vjp' * (HIGHEST_ORDER + 1)}(x=x)")),
    ("B102", small("y: f32[4] = tanh(x=x, z=w)")),
    ("B102", small("odd=[y: f32[4]] = tanh(x=x) as t")),
    ("B103", small("y: f32[4] = add(x=x)")),
    ("B104", small("y: f32[4] = tanh(x=[x, w])")),
    ("B104", small("y: f32[4] = tanh(x=[])")),
    ("B105", small("y: f32[4] = softmax(x=x) {axes=0}")),
    ("B105", small("y: f32[4] = softmax(x=x) {axis=0.5}")),
    ("B105", small("y: f32[4] = full() {value=0.0, dtype=f32}")),
    ("B106", LOOP.replace(", row: f32[3]) {", ") { row: f32[3] = tanh(x=h)")),
    ("B106", SWITCH.replace("() { return x }", "(z: f32[3]) { return x }")),
    ("B107", LOOP.replace("return b, a", "return b")),
    ("B107", SWITCH.replace("return a", "return a, a")),
    ("B108", LOOP.replace("final=[last: f32[3]], ", "")),
    ("B108", LOOP.replace("f32[t,3]", "f32[]").replace("stacked=[rows: f32[]],", "")),
    ("B108", ROWS.replace("masks=m", "masks=[]")),
    ("B108", ROWS.replace("outs=1", "outs=0")),
    ("B108", ROWS.replace("outs=1", "outs=1, linear=[3]")),
    ("B108", ROWS.replace("bool[b]", "i8[b]")),
    ("B108", ROWS.replace("size(n)", "size(2*n)")),
    ("B201", small("y = tanh(x=x)")),
    ("B202", small("y: f32[4] = tanh(x=z)")),
    ("B202", LOOP.replace("return b, a", "return b, zz")),
    ("B203", small("y: f32[4] = tanh(x=z)  z: f32[4] = tanh(x=x)")),
    ("B203", small("y: f32[4] = tanh(x=y)")),
    ("B203", LOOP.replace("b: f32[3] = m", "w: f32[3] = tanh(x=w)  b: f32[3] = m")),
    ("B204", small("y: f32[4] = tanh(x=x)  y = sin(x=x) as again")),
    ("B205", small("w = tanh(x=x)")),
    ("B206", small("value y: f32[4]")),
    ("B207", small("argument y: f32[4]  y = tanh(x=x)")),
    ("B207", SWITCH.replace("() { return x }", "(x) { return x }")),
    ("B208", LOOP.replace("captures [w]", "")),
    ("B208", LOOP.replace("captures [w]", "captures [w, x]")),
    ("B301", SWITCH.replace("() { return x }", "() { parameter p: f32[3]  return p }")),
    ("B302", "program { data x: list<f32[4]> }"),
    ("B303", "program { state s: f32[4] trainable }"),
    ("B303", "program { parameter s: i32[4] trainable }"),
    ("B304", "program (x: f32[4]) { }"),
    ("B305", "program { data x: f32[9223372036854775807,2] }"),
    ("B401", small("y: f32[4] = tanh(x=x)  update x = y")),
    ("B402", small("update w = y")),
    ("B403", small("update w = n")),
    ("B501", small("y: f32[5] = full() {shape=[4], value=0.0, dtype=f32}")),
    ("B501", LOOP.replace("rows: f32[t,3]", "rows: f32[t,4]")),
    ("B502", LOOP.replace("return b, a", "return t, a")),
    ("B502", SWITCH.replace("() { return x }", "() { return i }").replace("[x]", "[x, i]")),
    ("B502", SWITCH.replace("i: i32[]", "i: f32[]")),
    ("B503", LOOP.replace("t: i64[]", "t: i32[]")),
    ("B503", ROWS.replace("v: bool[n]", "v: f32[n]")),
]  # fmt: skip


def codes(text: str) -> list[str]:
    return [error.code for error in verify(Program(parse_program(text)), all=True)]


@pytest.mark.parametrize("text", [LOOP, SWITCH, ROWS, small("")])
def test_good_programs_have_no_errors(text: str) -> None:
    program = br.parse(text)
    assert verify(program) == []
    assert verify(program, types=True) == []


@pytest.mark.parametrize(("code", "text"), BROKEN)
def test_each_rule_is_checked(code: str, text: str) -> None:
    assert code in codes(text)
    with pytest.raises(VerifyError) as caught:
        verify(Program(parse_program(text)))
    assert caught.value.at


def test_every_code_has_a_program_that_breaks_it() -> None:
    elsewhere = {"B109", "B306", "B404"}
    assert {code for code, _ in BROKEN} | elsewhere == set(CODES)


def test_types_are_inferred_by_kernels_on_request() -> None:
    program = br.parse(small("y: f32[5] = softmax_cross_entropy(logits=x, labels=n)"))
    (error,) = verify(program, all=True, types=True)
    assert error.code in ("B501", "B502")


def test_two_operators_of_one_name() -> None:
    main = parse_program(small("y: f32[4] = tanh(x=x)  z: f32[4] = sin(x=x)")).main
    twice = tuple(op.with_(name="same") for op in main.ops)
    program = Program(ProgramDef(replace(main, ops=twice), {}))
    assert [error.code for error in verify(program, all=True)] == ["B109"]


@pytest.mark.parametrize(
    "axes",
    [("mlp",), ("mlp", "embed"), (None, ""), ("a b", None), (None, None), (None, "b", "c")],
)
def test_names_of_axes_are_those_of_the_type(axes: tuple[str | None, ...]) -> None:
    main = parse_program("program { data x: f32[4,b]  y: f32[4,b] = tanh(x=x) }").main
    for name in main.vars:
        infos = {**main.vars, name: main.vars[name].with_(axes=axes)}
        program = Program(ProgramDef(replace(main, vars=infos), {}))
        assert [error.code for error in verify(program, all=True)] == ["B306"]


def test_the_startup_program_is_checked_too() -> None:
    program = br.parse("program { parameter w: f32[4] }")
    text = "parameter w: f32[3]  v: f32[3] = full() {shape=[3], value=0.0, dtype=f32}"
    program.startup = Program(parse_program(f"program {{ {text}  update w = v }}"))
    assert [error.code for error in verify(program, all=True)] == ["B404"]
    program.startup = Program(parse_program("program { update w = v }"))
    errors = verify(program, all=True)
    assert [error.code for error in errors] == ["B401", "B402"]
    assert all("startup" in str(error.at) for error in errors)


def test_all_errors_are_listed_with_place_line_and_way_out() -> None:
    program = Program(
        parse_program(small("y: f32[4] = tanh(x=xx)  # net.py:7\nz: f32[4] = sinn(x=x)"))
    )
    first, second = verify(program, all=True)
    assert str(first).splitlines() == [
        "[B202] unknown variable `xx`.",
        "  at: block 0, op `y` (tanh), built at net.py:7",
        "  Did you mean `x`?",
    ]
    assert second.code == "B101"
    assert "`sin`" in str(second)


def test_errors_in_nested_blocks_say_the_block() -> None:
    (error,) = verify(Program(parse_program(LOOP.replace("y=w", "y=ww"))), all=True)[:1]
    assert error.at == "block loop_0/body, op `b` (multiply)"


def test_an_unnamed_dimension_may_be_what_inference_finds() -> None:
    text = "program { data x: f32[?0,3]  m: bool[?0]  y: f32[?1,3] = tanh(x=x) }".replace(
        "m: bool[?0]  ", ""
    )
    assert verify(br.parse(text), types=True) == []


def test_a_rule_that_fails_in_an_odd_way_is_an_error_of_the_program() -> None:
    pop = 'value=[y: f32[4]], rest=[r: f32[4]] = list_pop(list=x) {history="h"} as p'
    assert codes(small(pop)) == ["B502"]


def test_a_capture_is_listed_once_where_renaming_makes_two_names_one() -> None:
    text = SWITCH.replace("() { return x }", "() { return z }").replace("[x]", "[x, z]")
    text = text.replace("data x: f32[3]", "data x: f32[3]  data z: f32[3]")
    (op,) = br.parse(text).definition.main.ops
    assert rename_op(op, {"z": "x"}).captures() == ("x",)


# ---- where it runs ---------------------------------------------------------------------------


def test_loading_refuses_what_is_not_well_formed(tmp_path: Path) -> None:
    bad = Program(parse_program(small("y: f32[4] = tanh(x=z)")))
    data = serde.program_to_bytes(bad.definition, None)
    (tmp_path / "bad.braces").write_bytes(data)
    for load in (
        lambda: br.Program.load(tmp_path / "bad.braces"),
        lambda: br.Program.from_bytes(data),
        lambda: br.parse(str(bad)),
        lambda: br.prune(bad, ["y"]),
        lambda: bad.for_test(),
    ):
        with pytest.raises(VerifyError, match="B202"):
            load()


def test_a_hand_written_program_may_leave_out_attributes_with_defaults() -> None:
    program = br.parse(LOOP)
    (loop,) = (op for op in program.definition.main.ops if op.type == "loop")
    assert loop.attrs["cond"] is None
    scope, xs = br.Scope(), np.ones((2, 3), np.float32)
    scope.var("w").set(np.full(3, 2.0, np.float32))
    for mode in ("compile", "interpret"):
        last = br.Executor(mode).run(program, scope, {"x": xs}, "last")
        assert last.tolist() == [6.0, 6.0, 6.0]


def test_versions_of_operators_are_stored_and_newer_ones_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = br.parse(small("y: f32[4] = tanh(x=x)")).to_bytes()
    monkeypatch.setattr(OPS.get("tanh"), "version", 7)
    newer = br.parse(small("y: f32[4] = tanh(x=x)  g: f32[4] = sin(x=x)")).to_bytes()
    br.Program.from_bytes(data)
    monkeypatch.setattr(OPS.get("tanh"), "version", 1)
    with pytest.raises(br.FileFormatError, match="version 7 of operator `tanh`"):
        br.Program.from_bytes(newer)


def test_orders_of_derivatives_are_bounded() -> None:
    assert OPS.find("add" + ".vjp" * HIGHEST_ORDER) is not None
    assert OPS.find("add" + ".vjp" * 50) is None


def built() -> br.Program:
    with br.Program() as program:
        x = br.data("x", ["t", "b", 3])
        w = br.parameter("w", [3, 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3], batch_like=x, batch_axis=1)
            choice = br.create_if_else(br.sum(net.add_input(x), axis=1) > 0.0)
            with choice.true_block() as t:
                t.add_output(t.add_input(br.tanh(h @ w)))
            with choice.false_block() as f:
                f.add_output(f.add_input(h) * 0.5)
            h.update(choice())
        loop = br.create_while()
        with loop.block() as body:
            s = body.add_memory(init=rnn.final(h))
            body.set_condition(br.sum(s) < 10.0)
            s.update(s + 1.0)
        loss = br.sum(br.dropout(loop.final(s), 0.5))
        (g,) = br.gradients([loss], [w])
        br.gradients([br.sum(g * g)], [x])
        br.jvp([loss], [x], [x])
        br.optimizer.adam(1e-3).minimize(loss)
    return program


def test_what_the_library_builds_is_well_formed() -> None:
    program = built()
    assert verify(program, types=True) == []
    assert verify(br.prune(program, list(program.updates)[:1]), types=True) == []
    assert verify(program.for_test(), types=True) == []
    assert br.Program.from_bytes(program.to_bytes()).definition == program.definition


def test_verifying_imports_no_jax(tmp_path: Path) -> None:
    built().save(tmp_path / "p.braces")
    code = (
        "import sys, braces as br; from braces.passes.verifier.program import verify\n"
        "verify(br.Program.load(sys.argv[1])); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "p.braces")], check=True)


def test_operators_are_not_changed_by_checking() -> None:
    program = built()
    before = program.definition
    verify(program, all=True)
    assert program.definition is before
    assert all(isinstance(op, Op) for op in before.main.ops)


def broken_rule(*_: Any) -> dict[str, Any]:
    """Appends an operator that reads what nobody bound."""
    br.default_program().current.append(Op("exp", "broken", {"x": ("nowhere",)}, {}))
    return {}


@pytest.mark.parametrize("inner", [False, True])
def test_what_a_gradient_appends_is_verified_and_undone(
    monkeypatch: pytest.MonkeyPatch, inner: bool
) -> None:
    definition = OPS.get("tanh")
    monkeypatch.setattr(definition, "gradient_rule", broken_rule)
    monkeypatch.setattr(definition, "jvp_rule", broken_rule)
    with br.Program() as program:
        x = br.data("x", [3])
        rnn = br.create_rnn()
        with rnn.stepnet() if inner else contextlib.nullcontext() as net:
            given = net.add_input(x) if net else x
            y = br.tanh(given)
            before = list(program.current.ops)
            for differentiate in (
                lambda: br.gradients([y], [given]),
                lambda: br.jvp([y], [given], [given]),
            ):
                with pytest.raises(
                    VerifyError, match=r"unknown variable `nowhere`.*\n.*op `broken`"
                ):
                    differentiate()
                assert program.current.ops == before
            if net:
                net.add_output(y)


def test_what_an_optimizer_appends_is_verified_and_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with br.Program() as program:
        w = br.parameter("w", [3])
        loss = br.sum(w * w)
        before = str(program)
        monkeypatch.setattr(
            Program, "update", lambda self, name, value: self.updates.update({name: "nowhere"})
        )
        with pytest.raises(VerifyError, match="`nowhere` is not a variable of block 0"):
            br.optimizer.sgd(0.1).minimize(loss)
        assert str(program) == before
