"""Passes as values: their use by an executor, and errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import braces as br
from braces.extend.programs import DATA, ProgramDef, VarInfo
from braces.ir.walk import rename_body
from braces.passes.core.pipeline import VERIFY, collect_notes, run_pass
from braces.passes.registry import PASSES


def counter() -> tuple[br.Program, br.Var]:
    """A program with a fetch, an update, and an operator that nobody wants."""
    with br.Program() as prog:
        x = br.data("x", ["b"])
        w = br.parameter("w", [], init=2.0)
        y = br.multiply(x, w, name="y")
        br.tanh(br.data("other", [3]), name="unwanted")
        prog.update(w, br.add(w, 1.0, name="more"))
    return prog, y


def run(mode: str, passes: Any, fetch: Any = "y") -> tuple[Any, float]:
    prog, _ = counter()
    scope, exe = br.Scope(), br.Executor(mode=mode, passes=passes)
    exe.init(prog, scope)
    found = exe.run(prog, scope, feed={"x": [1.0, 2.0]}, fetch=fetch)
    return found, float(scope.var("w").value)


def changing(change: Callable[[ProgramDef], Any], name: str = "mine") -> br.passes.Pass:
    """A pass that changes what is not a startup program."""
    return br.passes.Pass(
        name, lambda whole: change(whole) if "x" in whole.main.vars else whole
    )


def same(program: ProgramDef) -> ProgramDef:
    """Change nothing."""
    return program


# ---- what runs -------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [(), [], br.passes.default, (br.passes.dce,)])
def test_a_run_computes_only_what_is_needed_with_whatever_passes(
    mode: str, passes: Any
) -> None:
    found, w = run(mode, passes)  # without the feed `other`
    assert found.tolist() == [2.0, 4.0]
    assert w == 3.0


def test_a_pass_of_a_user_runs_in_both_modes_and_sees_what_is_wanted(mode: str) -> None:
    seen: list[tuple[tuple[str, ...], dict[str, str]]] = []

    def squared(program: ProgramDef) -> ProgramDef:
        """Squares in place of products."""
        seen.append((program.main.results, dict(program.updates)))
        ops = [
            op.with_(inputs={"x": op.inputs["x"], "y": op.inputs["x"]})
            if op.type == "multiply"
            else op
            for op in program.main.ops
        ]
        return program.with_(main=program.main.with_(ops=tuple(ops)))

    found, _ = run(mode, (br.passes.Pass("squared", squared),))
    assert found.tolist() == [1.0, 4.0]
    assert (("y",), {"w": "more"}) in seen


@pytest.mark.parametrize("gone", ["vectorize_before", br.passes.vectorize_before])
def test_passes_can_do_without_some(gone: Any) -> None:
    fewer = br.passes.default.without(gone)
    assert [*fewer] == [
        one for one in br.passes.default if one is not br.passes.vectorize_before
    ]
    assert fewer.without() == fewer
    assert br.Executor(passes=fewer).passes == fewer


def test_what_is_not_there_cannot_be_left_out() -> None:
    for name, fix in [
        ("vectorize_befor", "Did you mean `vectorize_before`?"),
        ("licm", "Available: `dce`"),
    ]:
        with pytest.raises(
            br.UnknownNameError, match=f"the pipeline has no pass '{name}'"
        ) as error:
            br.passes.default.without(name)
        assert fix in str(error.value)
    with pytest.raises(br.UnknownNameError, match="the pipeline has no pass 3"):
        br.passes.default.without(3)  # pyright: ignore[reportArgumentType]


def test_passes_run_in_their_order(mode: str) -> None:
    seen = list[str]()

    def named(name: str) -> br.passes.Pass:
        return br.passes.Pass(name, lambda program: (seen.append(name), program)[1])

    run(mode, (named("first"), br.passes.verify, named("second")))
    assert seen[-2:] == ["first", "second"]


def test_a_pass_may_compute_under_other_names(mode: str) -> None:
    def renamed(program: ProgramDef) -> ProgramDef:
        names = {"y": "product", "more": "next"}
        updates = {name: names.get(value, value) for name, value in program.updates.items()}
        return program.with_(main=rename_body(program.main, names), updates=updates)

    found, w = run(mode, (changing(renamed),), fetch=["y", "w", "y"])
    assert [value.tolist() for value in found] == [[2.0, 4.0], 2.0, [2.0, 4.0]]
    assert w == 3.0


def test_executors_with_other_passes_have_other_executables(mode: str) -> None:
    prog, y = counter()
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    calls = list[int]()

    def counted(program: ProgramDef) -> ProgramDef:
        calls.append(1)
        return program

    for passes in [(), (br.passes.Pass("counted", counted),), ()]:
        exe.passes = passes
        for _ in range(2):
            exe.run(prog, scope, feed={"x": [1.0]}, fetch=y)
    assert len(calls) == 1


def test_a_copy_of_an_executor_has_its_passes() -> None:
    mine = br.passes.Pass("same", same)
    exe = br.Executor(mode="interpret", passes=[mine, br.passes.dce])
    for other in (copy.copy(exe), copy.deepcopy(exe), pickle.loads(pickle.dumps(exe))):
        assert [(one.name, one.run, one.doc) for one in other.passes] == [
            (one.name, one.run, one.doc) for one in exe.passes
        ]


def test_a_pass_is_called_with_a_program() -> None:
    prog, y = counter()
    prog.give(y.name)
    before = str(prog)
    small = br.passes.dce(prog)
    assert {op.name for op in small.block(0).ops} == {"y", "more", "constant_0"}
    assert small.startup is prog.startup
    assert small.updates == prog.updates
    test = br.passes.for_test(prog)
    assert not test.updates
    assert "unwanted" in test.vars
    assert "unwanted" not in br.passes.prune(prog).vars
    assert str(prog) == before


def test_the_attributes_of_a_pass() -> None:
    assert br.passes.Pass("same", same).doc == "Change nothing."
    assert br.passes.Pass("same", same, doc="Nothing.").doc == "Nothing."
    assert repr(br.passes.dce).startswith("<Pass dce: Eliminate")
    assert all(one.doc.endswith(".") for one in PASSES.values())
    with pytest.raises(AttributeError):
        br.passes.dce.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_the_public_module_shows_passes_and_nothing_else() -> None:
    assert {"Pass", "default", "dce", "note"} <= set(dir(br.passes))
    assert set(dir(br.passes)) >= PASSES.keys()
    assert all(getattr(br.passes, name) is one for name, one in PASSES.items())
    assert "catalogue" not in dir(br.passes)


def test_notes_are_kept_where_somebody_listens() -> None:
    def noting_pass(program: ProgramDef) -> ProgramDef:
        br.passes.note("loop_0", "left alone")
        return program

    prog, _ = counter()
    mine = br.passes.Pass("mine", noting_pass)
    with collect_notes() as notes:
        run_pass(mine, prog.definition)
    mine(prog)
    assert [(one.where, one.what) for one in notes] == [("loop_0", "left alone")]


# ---- what is refused -------------------------------------------------------------------------


def drop_results(program: ProgramDef) -> ProgramDef:
    return program.with_(main=program.main.with_(results=()))


def other_result(program: ProgramDef) -> ProgramDef:
    return program.with_(main=program.main.with_(results=("w",)))


def drop_updates(program: ProgramDef) -> ProgramDef:
    return program.with_(updates={})


def drop_ops(program: ProgramDef) -> ProgramDef:
    return program.with_(main=program.main.with_(ops=program.main.ops[:-1]))


def new_data(program: ProgramDef) -> ProgramDef:
    more = VarInfo("more_data", program.main.vars["x"].type, DATA)
    infos = {**program.main.vars, "more_data": more}
    return program.with_(main=program.main.with_(vars=infos))


def failing(program: ProgramDef) -> ProgramDef:
    raise KeyError("oh")


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        (drop_results, br.ProgramError, "the pass `mine` returned 0 results; expected 1."),
        (other_result, br.ProgramError, "changed the type of the fetch `y`."),
        (drop_updates, br.ProgramError, "the pass `mine` removed the update of `w`."),
        (drop_ops, br.VerifyError, "after the pass `mine`: block 0"),
        (new_data, br.ProgramError, "the pass `mine` changed the declaration of `more_data`."),
        (failing, br.ProgramError, "the pass `mine` failed: KeyError: 'oh'"),
        (lambda _: None, br.ProgramError, "the pass `mine` must return a ProgramDef."),
        (str, br.ProgramError, "the pass `mine` must return a ProgramDef."),
    ],
)
def test_a_pass_that_is_wrong_is_named_and_leaves_the_scope_alone(
    change: Callable[[ProgramDef], Any], error: type[Exception], what: str, mode: str
) -> None:
    prog, y = counter()
    scope = br.Scope()
    br.Executor(mode=mode).init(prog, scope)
    exe = br.Executor(mode=mode, passes=(br.passes.dce, changing(change)))
    for _ in range(2):
        with pytest.raises(error) as raised:
            exe.run(prog, scope, feed={"x": [1.0]}, fetch=y)
        assert what in str(raised.value)
    assert float(scope.var("w").value) == 2.0


def test_a_pass_of_ours_that_changes_what_runs_is_refused_too(mode: str) -> None:
    with pytest.raises(br.ProgramError, match="`for_test` removed the update of `w`") as raised:
        run(mode, (br.passes.for_test,))
    assert "for_test(prog)" in str(raised.value)


def test_the_error_of_a_pass_keeps_its_class_and_names_the_pass(mode: str) -> None:
    def refusing(program: ProgramDef) -> ProgramDef:
        raise br.ShapeError("No.", at="loop_0")

    with pytest.raises(br.ShapeError) as raised:
        run(mode, (changing(refusing),))
    assert "at: in the pass `mine`: loop_0" in str(raised.value)


@pytest.mark.parametrize(
    "given",
    ["eliminate", br.passes.dce, [same], (br.passes.dce, "x"), 3, [None]],
)
def test_what_is_no_tuple_of_passes_is_refused(given: Any) -> None:
    with pytest.raises(br.ProgramError, match="expected a pass or a tuple of passes, got"):
        br.Executor(passes=given)


def test_each_mode_has_default_passes() -> None:
    assert br.Executor().passes == br.passes.default
    assert br.Executor(passes=None).passes == br.passes.default
    assert br.Executor("interpret").passes == (br.passes.dce,)


def test_the_error_of_a_function_in_place_of_a_pass_has_a_fix() -> None:
    with pytest.raises(br.ProgramError, match=r'br\.passes\.Pass\("name", function\)'):
        br.Executor(passes=[same])


@pytest.mark.parametrize("name", ["", 3, None, "two words", "a\x1b", "-"])
def test_a_pass_has_a_name(name: Any) -> None:
    with pytest.raises(br.ProgramError, match="invalid name of a pass"):
        br.passes.Pass(name, same)


def test_a_pass_has_a_function() -> None:
    with pytest.raises(
        br.ProgramError, match="expected a function for the pass `mine`, got 'same'"
    ):
        br.passes.Pass("mine", "same")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("every", [0, -3, 1.5, "2", None, True])
def test_segments_have_a_number_of_trips(every: Any) -> None:
    with pytest.raises(br.BracesError, match="every") as raised:
        br.passes.checkpoint(every)
    assert "test_pipeline.py" in str(raised.value)


def test_a_pass_takes_a_program() -> None:
    prog, _ = counter()
    with pytest.raises(br.ProgramError, match="expected a program, got"):
        br.passes.dce(prog.definition)  # pyright: ignore[reportArgumentType]


def test_what_our_passes_make_is_verified_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = br.passes.Pass("ours", drop_ops, trusted=True)
    prog, _ = counter()
    with pytest.raises(br.VerifyError, match="after the pass `ours`"):
        run_pass(trusted, prog.definition)
    monkeypatch.delenv(VERIFY)
    assert run_pass(trusted, prog.definition).main.ops == prog.definition.main.ops[:-1]
