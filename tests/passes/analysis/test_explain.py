"""`prog.explain()`: what each pass did to each block and loop, or why not."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br
from braces.ir.records import ProgramDef
from braces.passes.analysis.report import Explanation

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


def test_each_pass_says_what_it_did_to_each_loop_or_why_not() -> None:
    assert str(explained(passes=(br.passes.dce, br.passes.licm))) == (
        "dce: Eliminate operators that no result or update needs.\n"
        "  block 0: 1 removed (third), 1 changed (first)\n"
        "  block first/body: 1 removed (z)\n"
        "  first (loop): changed, 2 operators inside in place of 3\n"
        "    operations: 3 FLOP·n → 2 FLOP·n\n"
        "    bytes: 28 B·n → 20 B·n\n"
        "  second (loop): as it was; 1 FLOP·n, 24 B·n\n"
        "  third (loop): gone; 1 FLOP·n, 8 B·n\n"
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
        "    first/body/a: is the same on each trip, and runs once before the loop\n"
        "  second (loop): as it was; 1 FLOP·n, 24 B·n\n"
        "    second/body/b: stays in its loop: it may fail, and a loop of no trips does not\n"
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
    for step, where in ((batch, "before the first"), (defer, "after the last")):
        for loop in step.constructs:
            (said,) = loop.notes
            alone = loop.path == "third" and step is batch
            taken = f"computes `y` for all trips, {where}"
            left = f"computes all in each trip: nothing costly can be done {where}"
            assert said.what == (taken if alone else left)


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
        passes=[br.passes.Pass("mine", lambda one: one, doc="Is a < b?")]
    )
    assert found._repr_html_() == (
        "<pre>mine: Is a &lt; b?\n  nothing to do\nall passes\n  3 FLOP, 24 B\n"
        "  peak: 24 B</pre>"
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


def test_new_constructs_and_notes_of_blocks_are_told() -> None:
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
        "    encoder/first/body/in/a: is the same on each trip, and runs once before the loop",
    ]


def test_an_unknown_fetch_is_refused() -> None:
    with pytest.raises(br.UnknownNameError, match="no variable `ww`"):
        explained(fetch="ww")


@pytest.mark.parametrize("passes", [None, "hoist", br.passes.licm, [len]])
def test_what_are_no_passes_is_refused(passes: Any) -> None:
    with pytest.raises(br.ProgramError, match="is no pass or tuple of passes"):
        explained(passes=passes)


def test_a_pass_that_fails_is_named() -> None:
    with pytest.raises(br.ProgramError, match="The pass `mine` failed: TypeError"):
        explained(passes=[br.passes.Pass("mine", len)])


def test_nothing_of_a_program_changes() -> None:
    prog = br.parse(LOOPS)
    before, version = str(prog), prog.version
    prog.explain(passes=(*br.passes.default, br.passes.licm, br.passes.for_test))
    assert (str(prog), prog.version) == (before, version)


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


def test_what_each_pass_makes_of_the_costs_is_told() -> None:
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
    assert str(found).splitlines()[1:] == ["  nothing to do"]
