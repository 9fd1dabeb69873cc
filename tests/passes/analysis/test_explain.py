"""`prog.explain()`: the effect of each pass on each block and loop, or the reason for none."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br
from braces.extend.programs import ProgramDef
from braces.passes.analysis.explanation import Explanation

LOOPS = """
program {
  data x: f32[n]
  data c: f32[]
  data table: f32[5]
  data i: i32[]
  final=[], stacked=[s: f32[n], u: f32[n]], trips=[m: i64[]] =
    loop(sliced=x) captures [c] as first
    body (t: i64[], r: f32[]) {
      a: f32[] = exp(x=c)
      y: f32[] = multiply(x=r, y=a)
      z: f32[] = tanh(x=r)
      return y, z
    }
  final=[], stacked=[v: f32[n]], trips=[k: i64[]] = loop(sliced=x) captures [table, i] as second
    body (t: i64[], r: f32[]) {
      b: f32[] = take(x=table, indices=i) {axis=0}
      y: f32[] = multiply(x=r, y=b)
      return y
    }
  final=[], stacked=[w: f32[n]], trips=[l: i64[]] = loop(sliced=x) as third
    body (t: i64[], r: f32[]) { y: f32[] = tanh(x=r)  return y }
  return s, v
}
"""


def explained(**options: Any) -> Explanation:
    return br.parse(LOOPS).explain(**options)


def test_each_pass_has_a_note_for_each_loop() -> None:
    assert str(explained(passes=(br.passes.dce, br.passes.licm), all=True)) == (
        "dce: Eliminate operators that no result or update needs.\n"
        "  block 0: 1 removed (third), 1 changed (first)\n"
        "  block first/body: 1 removed (z)\n"
        "  first (loop): changed, 2 operators inside in place of 3\n"
        "    operations: 3 FLOP·n → 2 FLOP·n\n"
        "    bytes: 28 B·n → 20 B·n\n"
        "    first/body/z: removed: no result or update needs it\n"
        "  second (loop): unchanged; 1 FLOP·n, 24 B·n\n"
        "  third (loop): removed; 1 FLOP·n, 8 B·n\n"
        "    third: removed: no result or update needs it\n"
        "  in all\n"
        "    operations: 5 FLOP·n → 3 FLOP·n\n"
        "    bytes: 60 B·n → 44 B·n\n"
        "    peak: 16 B·n + 40 B → 12 B·n + 48 B\n"
        "licm: Hoist loop-invariant operators out of loops.\n"
        "  block 0: 1 added (a), 1 changed (first)\n"
        "  block first/body: 1 removed (a)\n"
        "  first (loop): changed, 1 operator inside in place of 2\n"
        "    operations: 2 FLOP·n → 1 FLOP·n\n"
        "    bytes: 20 B·n → 12 B·n\n"
        "    first/body/a: hoisted out of `first`\n"
        "  second (loop): unchanged; 1 FLOP·n, 24 B·n\n"
        "    second/body/b: not hoisted: it may fail, and a loop without iterations does not\n"
        "  in all\n"
        "    operations: 3 FLOP·n → 2 FLOP·n + 1 FLOP\n"
        "    bytes: 44 B·n → 36 B·n + 8 B\n"
        "    peak: 12 B·n + 48 B\n"
        "all passes\n"
        "  operations: 5 FLOP·n → 2 FLOP·n + 1 FLOP\n"
        "  bytes: 60 B·n → 36 B·n + 8 B\n"
        "  peak: 16 B·n + 40 B → 12 B·n + 48 B"
    )


def test_loops_that_passes_leave_alone_say_why() -> None:
    batch, defer = explained(
        passes=(br.passes.vectorize_before, br.passes.vectorize_after)
    ).steps
    for step, where in ((batch, "before the loop"), (defer, "after the loop")):
        for loop in step.constructs:
            (said,) = loop.notes
            alone = loop.path == "third" and step is batch
            taken = "passed", f"vectorized {where}: `y`"
            left = "analysis", f"no expensive operator can move {where}"
            assert (said.kind, said.what) == (taken if alone else left)


def test_an_explanation_is_a_value() -> None:
    found = explained(passes=(br.passes.dce,))
    (step,) = found.steps
    assert (step.name, step.notes) == ("dce", ())
    assert [(one.path, one.same) for one in step.constructs] == [
        ("first", False),
        ("second", True),
        ("third", False),
    ]
    assert step.blocks[0].removed == ("third",)
    assert "third" not in {op.name for op in found.program.main.ops}


def test_a_page_shows_the_text() -> None:
    found = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) }").explain(
        passes=[br.passes.Pass("mine", lambda one: one, doc="Is a < b?")], all=True
    )
    assert found._repr_html_() == (
        "<pre>mine: Is a &lt; b?\n  no change\nall passes\n  3 FLOP, 24 B\n  peak: 24 B</pre>"
    )


@pytest.mark.parametrize("fetch", ["w", ["w"], ("w", "w")])
def test_what_is_fetched_decides_what_stays(fetch: Any) -> None:
    (step,) = explained(fetch=fetch, passes=(br.passes.dce,)).steps
    assert {one.path: one.after for one in step.constructs} == {
        "first": None,
        "second": None,
        "third": 1,
    }


def test_variables_may_be_fetched() -> None:
    prog = br.parse(LOOPS)
    assert prog.explain(fetch=prog.var("w")) == prog.explain(fetch="w")


def test_a_program_that_gives_nothing_is_explained_for_all_that_nobody_reads() -> None:
    found = br.parse(LOOPS.replace("  return s, v\n", "")).explain()
    assert all(one.same for one in found.steps[0].constructs)


def test_new_constructs_and_notes_of_blocks_are_listed() -> None:
    def more(program: ProgramDef) -> ProgramDef:
        br.passes.note("", "one more loop")
        loop = program.main.ops[2]
        names = {"stacked": ("more",), "trips": ("trips",), "final": ()}
        copy = loop.with_(name="fourth", outputs=names)
        infos = program.main.vars
        infos = {
            **infos,
            "more": infos["w"].with_(name="more"),
            "trips": infos["l"].with_(name="trips"),
        }
        return program.with_(main=program.main.with_(ops=(*program.main.ops, copy), vars=infos))

    (step,) = explained(passes=[br.passes.Pass("mine", more)]).steps
    assert [str(one) for one in step.blocks] == ["block 0: 1 added (fourth)"]
    assert str(step).splitlines()[-6:] == [
        "  fourth (loop): new, 1 operator inside; 1 FLOP·n, 8 B·n",
        "  block 0: one more loop",
        "  in all",
        "    operations: 5 FLOP·n → 6 FLOP·n",
        "    bytes: 60 B·n → 68 B·n",
        "    peak: 16 B·n + 40 B",
    ]


def test_names_may_have_slashes() -> None:
    text = LOOPS.replace("as first", "as encoder/first").replace("a: f32[] =", "in/a: f32[] =")
    found = br.parse(text.replace("y=a)", "y=in/a)")).explain(passes=[br.passes.licm])
    lines = str(found).splitlines()
    assert [*lines[1:4], lines[6]] == [
        "  block 0: 1 added (in/a), 1 changed (encoder/first)",
        "  block encoder/first/body: 1 removed (in/a)",
        "  encoder/first (loop): changed, 2 operators inside in place of 3",
        "    encoder/first/body/in/a: hoisted out of `encoder/first`",
    ]


def test_an_unknown_fetch_is_refused() -> None:
    with pytest.raises(br.UnknownNameError, match="unknown variable `ww`"):
        explained(fetch="ww")


@pytest.mark.parametrize("passes", [None, "hoist", br.passes.licm, [len]])
def test_what_are_no_passes_is_refused(passes: Any) -> None:
    with pytest.raises(br.ProgramError, match="expected a pass or a tuple of passes, got"):
        explained(passes=passes)


def test_a_pass_that_fails_is_named() -> None:
    with pytest.raises(br.ProgramError, match="the pass `mine` failed: TypeError"):
        explained(passes=[br.passes.Pass("mine", len)])


def test_nothing_of_a_program_changes() -> None:
    prog = br.parse(LOOPS)
    before, version = str(prog), prog.version
    prog.explain(passes=(*br.passes.default, br.passes.licm, br.passes.for_test))
    assert (str(prog), prog.version) == (before, version)


# ---- what is printed -------------------------------------------------------------------------


def test_changes_and_missed_optimizations_are_printed_and_nothing_else() -> None:
    passes = (br.passes.dce, br.passes.cse, br.passes.licm, br.passes.vectorize_after)
    lines = str(explained(passes=passes)).splitlines()
    assert [line.partition(":")[0] for line in lines if line[0] != " "] == [
        "dce",
        "licm",
        "all passes",
    ]
    assert not [line for line in lines if "unchanged" in line or "no expensive" in line]
    assert (
        "  second/body/b: not hoisted: it may fail, and a loop without iterations does not"
        in lines
    )
    everything = str(explained(passes=passes, all=True))
    assert "vectorize_after: " in everything
    assert "cse: Compute common subexpressions once.\n" in everything
    assert "second: no expensive operator can move after the loop\n" in everything


def test_an_unchanged_program_is_reported() -> None:
    prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x)  return y }")
    assert str(prog.explain()).splitlines()[0] == "no pass changed the program"


def test_a_missed_optimization_is_printed_once() -> None:
    passes = (br.passes.licm, br.passes.licm)
    missed = "second/body/b: not hoisted"
    assert str(explained(passes=passes)).count(missed) == 1
    assert str(explained(passes=passes, all=True)).count(missed) == 2


def test_many_notes_with_the_same_text_are_counted() -> None:
    ops = " ".join(f"y{i}: f32[3] = tanh(x=x)" for i in range(9))
    prog = br.parse(f"program {{ data x: f32[3] {ops} return y0 }}")
    lines = str(prog.explain(passes=(br.passes.dce,))).splitlines()
    assert sum("removed: no result or update needs it" in line for line in lines) == 7
    assert "  2 more: removed: no result or update needs it" in lines
    everything = str(prog.explain(passes=(br.passes.dce,), all=True))
    assert everything.count("removed: no result or update needs it") == 8


# ---- recurrences -----------------------------------------------------------------------------

RECURRENT = """
program {
  data x: f32[9,4]
  data h0: f32[4]
  data c0: f32[4]
  parameter w: f32[4,4]
  final=[a: f32[4], b: f32[4]], stacked=[s: f32[9,4]], trips=[m: i64[]] =
    loop(init=[h0, c0], sliced=x) captures [w] as l
    body (t: i64[], h: f32[4], c: f32[4], r: f32[4]) {
      own: f32[4] = matmul(x=r, y=w)
      direct: f32[4] = matmul(x=h, y=w)
      both: f32[4] = add(x=direct, y=c)
      sum: f32[4] = add(x=both, y=own)
      indirect: f32[4] = matmul(x=sum, y=w)
      late: f32[4] = matmul(x=indirect, y=w)
      return indirect, both, late
    }
  return a, b, s
}
"""


def test_an_operator_of_a_recurrence_names_the_carry_that_it_reads() -> None:
    steps = (
        br.parse(RECURRENT)
        .explain(passes=(br.passes.vectorize_before, br.passes.vectorize_after))
        .steps
    )
    for step, where, name in zip(steps, ("before", "after"), ("own", "late"), strict=True):
        notes = {(note.where, note.kind, note.what) for note in step.constructs[0].notes}
        assert notes == {
            ("l/body/direct", "missed", "not vectorized: reads carry `h`"),
            (
                "l/body/indirect",
                "missed",
                "not vectorized: reads carries `h`, `c` through `sum`",
            ),
            ("l", "passed", f"vectorized {where} the loop: `{name}`"),
        }


def test_an_operator_without_batching_rule_and_its_readers_say_so() -> None:
    text = """
    program {
      data x: f32[9,4]
      data h0: f32[4]
      parameter w: f32[4,4]
      final=[a: f32[4]], stacked=[s: f32[9,4]], trips=[m: i64[]] =
        loop(init=h0, sliced=x) captures [w] as l
        body (t: i64[], h: f32[4], r: f32[4]) {
          final=[e: f32[4]], stacked=[], trips=[k: i64[]] =
            loop(init=r) {length=3} captures [w] as inner
            body (j: i64[], p: f32[4]) { q: f32[4] = matmul(x=p, y=w)  return q }
          y: f32[4] = matmul(x=e, y=w)
          z: f32[4] = add(x=y, y=h)
          return z, y
        }
      return a, s
    }
    """
    (step,) = br.parse(text).explain(passes=(br.passes.vectorize_after,)).steps
    notes = {note.where: note.what for part in step.constructs for note in part.notes}
    assert notes["l/body/inner"] == (
        "not vectorized: `loop` has no batching rule for these operands"
    )
    assert notes["l/body/y"] == "not vectorized: reads `inner`, which is not vectorized"
    assert notes["l/body/inner/body/q"] == "not vectorized: reads carry `p`"


def test_notes_have_the_line_of_the_program() -> None:
    with br.Program() as prog:
        x, w = br.data("x", [9, 4]), br.parameter("w", [4, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[4], value=0.0)
            h.update(br.tanh(net.add_input(x) + h @ w))
            net.add_output(h.next)
        y = rnn()
    (op,) = (op for op in prog.block(1).ops if op.type == "matmul")
    (step,) = prog.explain(fetch=y, passes=(br.passes.vectorize_before,)).steps
    missed, around = step.constructs[0].notes
    assert missed.source == op.source
    assert str(missed) == (
        f"loop_0/body/matmul_0: not vectorized: reads carry `memory_0` [{op.source}]"
    )
    assert around.source == prog.block(0).ops[-1].source


# ---- operations and bytes --------------------------------------------------------------------


def test_sizes_may_be_said() -> None:
    found = explained(passes=(br.passes.dce,), sizes={"n": 1000})
    assert str(found).splitlines()[-3:] == [
        "  operations: 5.0 kFLOP → 3.0 kFLOP",
        "  bytes: 60.0 kB → 44.0 kB",
        "  peak: 16.0 kB → 12.0 kB",
    ]
    with pytest.raises(br.UnknownNameError, match="no dimension `m`"):
        explained(sizes={"m": 1000})


def test_the_costs_after_each_pass_are_reported() -> None:
    found = explained(passes=(br.passes.dce, br.passes.licm))
    first, second = found.steps
    prog = br.parse(LOOPS)
    assert first.cost_before == found.cost_before == prog.cost(passes=()).total
    assert first.cost_after == second.cost_before
    assert second.cost_after == found.cost_after
    assert found.cost_after == prog.cost(passes=(br.passes.dce, br.passes.licm)).total
    both = [(one.cost_before, one.cost_after) for one in second.constructs]
    assert all(before and after for before, after in both)


def test_costs_that_no_text_holds_are_left_out() -> None:
    data = " ".join(f"data x{i}: f32[d{i}] y{i}: f32[d{i}] = tanh(x=x{i})" for i in range(500))
    found = br.parse(f"program {{ {data} }}").explain(passes=(br.passes.dce,))
    assert found.cost_after is None
    assert found.peak_after is None
    assert str(found) == "no pass changed the program"
