"""Handles of a program before a renaming, in all programs made from the renamed one."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest

import braces as br
from tests.surgery.edits.models import ACT, FEED, model

NAMES = {
    ACT: "squashed",
    "loop_0": "rnn",
    "encoder": "front",
    "switch_0/cases[0]/sine": "wave",
    "mean_0": "mse",
}
CASE = "rnn/body/partition_0/cases[0]"
SQUASHED = f"{CASE}/squashed"
PROGRAM = re.compile(r"\b(Program|P|Self|Probe|Patched)\b")
NOT_OF_PROGRAMS = {
    *("adopt", "from_bytes", "load", "like", "default_program", "parse"),
    *("from_jax", "from_onnx", "from_paddle", "from_torch"),
}

Change = Callable[[br.Program], Any]


def add_one(value: br.Var) -> br.Var:
    return value + 1.0


def head() -> br.Program:
    with br.Program() as prog:
        prog.give(br.tanh(br.data("v", ["n", "t", 6]), name="top").name)
    return prog


CHANGES: dict[str, Change] = {
    "cast": lambda p: p.cast(SQUASHED, "bfloat16"),
    "for_test": lambda p: p.for_test(),
    "freeze": lambda p: p.freeze("cell.*"),
    "frozen": lambda p: minimized(p).frozen("cell.*"),
    "inline": lambda p: p.inline("front"),
    "insert_after": lambda p: p.insert_after(SQUASHED, add_one),
    "insert_before": lambda p: p.insert_before(SQUASHED, add_one),
    "patch": lambda p: p.patch({SQUASHED: add_one}).program,
    "probe": lambda p: p.probe(SQUASHED).program,
    "remove": lambda p: p.remove(SQUASHED, by="x"),
    "rename": lambda p: p.rename({"front": "outer", SQUASHED: "squeezed"}),
    "replace": lambda p: p.replace(SQUASHED, br.relu),
    "replace_block": lambda p: p.replace_block("switch_0/cases[1]", add_one),
    "retype": lambda p: p.retype({"x": "f32[5,t,4]", "lens": "i32[5]"}),
    "rewrite": lambda p: p.rewrite(br.sin, br.cos),
    "set_attrs": lambda p: p.set_attrs("rnn", recompute=True),
    "set_constant": lambda p: p.set_constant(p.find(type="constant")[0], 1.5),
    "splice": lambda p: p.splice(head(), {"v": "encoder/proj"}, name="head"),
    "unfreeze": lambda p: p.freeze("cell.*").unfreeze("cell.*"),
    "wrap": lambda p: p.wrap(SQUASHED, name="layer"),
    "br.cut": lambda p: br.cut(p, at=["front/body/encoder/proj"]),
    "br.for_test": br.for_test,
    "br.prune": lambda p: br.prune(p, ["loss"]),
    # those without annotation of a program
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "edit": lambda p: edited(p),
    "minimize": lambda p: minimized(p),
    "rewrite of a step": lambda p: minimized(p).rewrite(br.sigmoid, br.tanh),
}
MAKERS = {
    "gradients": ("loss", "cell.w"),
    "jvp": ("loss", "x", "x"),
    "ragged_steps": ("lens", "rnn"),
    "mixed_precision": ("bfloat16",),
    "checkpoint": (2, "rnn"),
}


def minimized(prog: br.Program) -> br.Program:
    prog = copy.copy(prog)
    with prog:
        br.optimizer.sgd(0.1).minimize(prog.var("loss"))
    return prog


def minimized_in_place(prog: br.Program) -> None:
    br.optimizer.sgd(0.1).minimize(prog.var("loss"))
    prog.var("unknown")


def edited(prog: br.Program) -> br.Program:
    with prog.edit() as edits:
        edits.set_attrs("rnn", recompute=True).rename({"rnn": "lstm"})
    return edits.program


def passes() -> dict[str, Change]:
    """All passes of `br.passes`."""
    found: dict[str, Change] = {}
    for name in dir(br.passes):
        value = getattr(br.passes, name)
        if isinstance(value, br.passes.Pass):
            found[f"passes.{name}"] = value
            found[f"passes.{name} of a step"] = lambda p, run=value: run(minimized(p))
    return found


ALL = CHANGES | passes()


def programs_in(result: Any) -> Iterable[br.Program]:
    return cast("Iterable[br.Program]", result) if isinstance(result, tuple) else (result,)


def named_once(prog: br.Program) -> dict[str, Any]:
    """The operators whose name no other operator has."""
    ops = prog.find()
    names = [h.name for h in ops]
    return {h.name: h for h in ops if names.count(h.name) == 1}


def owners_of(handle: Any) -> list[str]:
    return [owner for owner, _ in handle.chain]


@pytest.mark.parametrize("change", ALL)
def test_a_handle_is_found_again_unless_the_operator_is_gone(change: str) -> None:
    old = model()
    handles = list(old.find())
    renamed = old.rename(NAMES)
    current = {renamed[handle].name: handle for handle in handles}
    known = {name: handle for name, handle in current.items() if name in named_once(renamed)}
    assert {"squashed", "rnn", "front", "wave"} <= known.keys()
    found = 0
    owners = {h.name for h in renamed.find() if h.blocks}
    for new in programs_in(ALL[change](renamed)):
        once = {n: h for n, h in named_once(new).items() if owners.issuperset(owners_of(h))}
        for name, handle in known.items():
            if name in once:
                assert new[handle] == once[name], (change, name)
                found += 1
    assert found > 8


def test_each_change_that_returns_a_program_is_in_the_table() -> None:
    assert set(_annotated()) <= CHANGES.keys() | {"br." + n for n in NOT_OF_PROGRAMS}
    makers = {n for n in dir(br.passes) if n[0] != "_" and f"passes.{n}" not in ALL}
    assert makers == MAKERS.keys() | {"Pass", "default", "note"}


def _annotated() -> Iterator[str]:
    """The methods and functions whose annotation is a program."""
    for owner, prefix in ((br.Program, ""), (br, "br.")):
        for name in dir(owner):
            function = inspect.getattr_static(owner, name)
            if name[0] == "_" or name in NOT_OF_PROGRAMS or not inspect.isfunction(function):
                continue
            if PROGRAM.search(str(inspect.signature(function).return_annotation)):
                yield prefix + name


@pytest.mark.parametrize("maker", MAKERS)
def test_passes_with_arguments_keep_handles(maker: str) -> None:
    old = model()
    act, loop = old[ACT], old["loop_0"]
    arguments = cast("tuple[Any, ...]", MAKERS[maker])
    new = cast("br.Program", getattr(br.passes, maker)(*arguments)(old.rename(NAMES)))
    replaced = maker in {"checkpoint", "ragged_steps"}  # by other loops
    assert (loop in new) is not replaced
    assert (act in new) is not replaced
    assert replaced or (new[loop].name, new[act].name) == ("rnn", "squashed")


def test_handles_follow_through_chains_of_edits_and_passes() -> None:
    old = model()
    act, block = old[ACT], old["encoder/body"]
    cut_at = old.rename(NAMES).wrap(SQUASHED, name="layer")
    first, rest = br.cut(br.prune(cut_at, ["loss"]), at=["encoder/proj"])
    assert rest[act].path == f"{CASE}/layer/body/squashed"
    assert act not in first
    inlined = cast("br.Program", br.passes.inline(rest)).rename({SQUASHED: "bent"})
    assert copy.copy(inlined.for_test())[act].path == f"{CASE}/bent"
    assert block not in rest.inline(f"{CASE}/layer")
    assert block not in rest
    assert block in old.rename(NAMES).wrap(SQUASHED, name="layer").inline(f"{CASE}/layer")


def test_a_program_that_is_built_further_keeps_its_handles() -> None:
    prog = model()
    act = prog[ACT]
    with prog:
        br.tanh(prog.var("loss"), name="squeezed_loss")
    assert prog[act].path == ACT
    new = prog.rename({"loop_0": "rnn"})
    with new:
        br.optimizer.sgd(0.1).minimize(new.var("loss"))
    assert new[act].path == ACT.replace("loop_0", "rnn")


def test_names_that_an_inlined_block_changes_are_followed() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        with br.block("first"):
            h = br.tanh(x, name="h")
        with br.block("second"):
            y = br.exp(h, name="y")
        prog.give(y.name)
    handles = {h.type: h for h in prog.find(inside="first") | prog.find(inside="second")}
    new = prog.inline(["first", "second"])
    for type_, handle in handles.items():
        assert new[handle].type == type_
        assert new[handle].block == ""
    assert prog["first/body"] not in new


def test_hoisted_operators_are_followed() -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["t", 4]), br.parameter("w", [4])
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            h = step.add_memory(init=br.zeros([4]))
            h.update(h + step.add_input(x) * br.exp(w, name="scale"))
        prog.give(br.sum(rnn.final(h), name="loss").name)
    scale = prog["loop_0/body/scale"]
    renamed = prog.rename({"loop_0": "rnn", "loop_0/body/scale": "gain"})
    assert cast("br.Program", br.passes.licm(renamed))[scale].path == "gain"
    assert minimized(renamed)[scale].path == "gain"
    with pytest.raises(br.BracesError), renamed:
        minimized_in_place(renamed)
    assert renamed[scale].path == "rnn/body/gain"


def test_selections_and_handles_are_arguments_of_later_versions() -> None:
    old = model()
    acts = old.find(type="tanh", inside="loop_0")
    new = old.rename(NAMES)
    assert [h.path for h in new.find(inside=old["loop_0"], type="tanh")] == [SQUASHED]
    assert new.find(reads=acts) == new.find(reads=SQUASHED)
    assert new.replace(acts, br.relu)[acts[0]].type == "relu"
    first, _ = br.cut(new.rename({"encoder/proj": "z"}), at=old["encoder"].outputs)
    assert first.fetches == ("z",)
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(new, scope, seed=0)
    act = exe.run(new, scope, FEED, fetch=acts[0])
    assert (act == exe.run(new, scope, FEED, fetch=SQUASHED)).all()
    ablated = exe.run(new, scope, FEED, patch={acts[0]: 0.0}, fetch=[acts[0]])
    assert not ablated[0].any()
    grads = exe.run(
        new, scope, FEED, fetch=[br.grad_of("loss", at) for at in (acts[0], SQUASHED)]
    )
    assert (grads[0] == grads[1]).all()
    assert grads[0].any()


@pytest.mark.usefixtures("frozen_heap")
def test_lineages_keep_only_what_handles_need() -> None:
    prog = model()
    for number in range(20):
        prog = prog.rename(
            {"mean_0" if number == 0 else f"mean_{number + 10}": f"mean_{number + 11}"}
        )
        for _ in range(3):
            prog = cast("br.Program", br.passes.dce(prog))
        gc.collect()
    assert len(prog.lineage.steps) < 3
    again = pickle.loads(pickle.dumps(prog))
    assert str(again) == str(prog)
    assert again.lineage.steps == ()
