"""Searches in nested programs: conditions, selections, handles, and invalid arguments."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br
from braces.ir.walk import all_ops
from braces.surgery.handles import Selection
from tests.surgery.programs import branches, nested_loops


def paths(selection: Selection) -> list[str]:
    return [handle.path for handle in selection]


# ---- conditions ------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [nested_loops, branches])
def test_a_search_without_conditions_has_every_operator_in_program_order(build: Any) -> None:
    prog = build()
    wanted = [f"{block}/{op.name}".lstrip("/") for block, op in all_ops(prog.definition.main)]
    assert paths(prog.find()) == wanted
    positions = [handle.position for handle in prog.find()]
    assert positions == sorted(positions)


def test_types_are_names_patterns_or_several() -> None:
    prog = nested_loops()
    assert paths(prog.find(type="tanh")) == ["loop_1/body/loop_0/body/act"]
    assert {h.type for h in prog.find(type="*.vjp")} >= {"tanh.vjp"}
    both = prog.find(type=["tanh", "matmul"])
    assert both == prog.find(type="tanh") | prog.find(type="matmul")


def test_a_type_may_be_the_name_of_its_function() -> None:
    prog = br.parse("program { data x: f32[3]  y: f32[3] = lgamma(x=x) return y }")
    assert paths(prog.find(type="gammaln")) == ["y"]


def test_patterns_are_tried_on_name_and_path() -> None:
    prog = nested_loops()
    assert paths(prog.find(name="act")) == ["loop_1/body/loop_0/body/act"]
    assert paths(prog.find(name="loop_1/*/act")) == ["loop_1/body/loop_0/body/act"]
    assert paths(prog.find(name="encoder/*"))[0] == "encoder/body/encoder/q"
    assert paths(prog.find(name="ac?")) == paths(prog.find(name="act"))
    assert not prog.find(name="unknown")


def test_brackets_in_patterns_are_themselves() -> None:
    prog = branches()
    branch = prog.find(type="partition", inside="loop_0")[0].path
    assert paths(prog.find(name=f"{branch}/cases[1]/w*")) == [f"{branch}/cases[1]/warm"]
    assert paths(prog.find(name="*/cases[0]/c*")) == [f"{branch}/cases[0]/cold"]


@pytest.mark.parametrize("inside", ["loop_1/body/loop_0", "loop_1/body/loop_0/body"])
def test_a_search_inside_a_block_has_its_operators(inside: str) -> None:
    prog = nested_loops()
    found = prog.find(inside=inside)
    assert {handle.block for handle in found} == {"loop_1/body/loop_0/body"}
    assert found == prog.find(inside=prog[inside]) == prog.find(inside="loop_0")
    assert found == prog.find(where=lambda h: h.block == "loop_1/body/loop_0/body")


def test_a_search_inside_an_operator_has_the_blocks_in_its_blocks() -> None:
    prog = nested_loops()
    inside = prog.find(inside="loop_1")
    assert {h.block for h in inside} == {"loop_1/body", "loop_1/body/loop_0/body"}
    assert set(inside) <= set(prog.find(inside="loop_*"))


def test_reads_and_writes_are_users_and_makers() -> None:
    prog = nested_loops()
    w = prog["w"]
    assert prog.find(reads="w") == w.users == prog.find(reads=w)
    assert {h.block for h in w.users} >= {"encoder/body", "loop_1/body/loop_0/body"}
    assert "loop_1" not in paths(prog.find(reads="w")), "it only captures `w`"
    assert paths(prog.find(writes="loop_1/body/loop_0/body/act")) == [
        "loop_1/body/loop_0/body/act"
    ]
    assert prog.find(writes=prog["encoder/body/encoder/q"]) == prog.find(name="encoder/q")
    assert prog.find(reads=prog.vars["w"], type="matmul") == prog.find(name="encoder/q")


def test_the_owner_reads_results_of_its_block_and_makes_its_arguments() -> None:
    prog = nested_loops()
    act = prog["loop_1/body/loop_0/body/act"]
    assert "loop_1/body/loop_0" in paths(act.users)
    argument = prog.find(kind="variables", name="loop_1/body/memory_*")[0]
    assert argument.info is not None
    assert argument.info.kind == "argument"
    assert argument.maker == prog["loop_1"]


def test_variables_are_found_by_dtype_and_type() -> None:
    prog = branches()
    assert paths(prog.find(kind="variables", type="i32", name="which")) == ["which"]
    rows = prog.find(kind="variables", type="f32[steps,batch,4]")
    assert "x" in paths(rows)
    assert set(rows) <= set(prog.find(kind="variables", type="f32[*,4]"))
    assert prog.find(kind="variables")[0].path == "x"


def test_blocks_and_parameters_are_found() -> None:
    prog = nested_loops()
    assert paths(prog.find(kind="parameters")) == ["w"]
    assert paths(prog.find(kind="blocks", name="*body", inside="loop_1")) == [
        "loop_1/body/loop_0/body"
    ]
    assert {h.type for h in prog.find(kind="blocks")} == {"block", "loop"}
    assert [b.body for b in prog.find(kind="blocks")] == [b.desc for b in prog.blocks[1:]]


def test_where_selects_by_the_handle() -> None:
    prog = nested_loops()
    found = prog.find(where=lambda h: h.attrs.get("axis") == (1,))
    assert found
    assert all(h.op is not None and h.op.attrs["axis"] == (1,) for h in found)


def test_a_search_follows_the_program() -> None:
    prog = nested_loops()
    before = prog.find(type="tanh")
    with prog:
        br.tanh(prog.vars["x"], name="later")
    assert paths(prog.find(type="tanh") - before) == ["later"]
    assert prog[before[0]] == before[0]


# ---- selections and handles ------------------------------------------------------------------


def test_selections_combine_as_sets_in_program_order() -> None:
    prog = nested_loops()
    tanh, first = prog.find(type="tanh"), prog.find(name="encoder/q")
    assert paths(tanh | first) == paths(first | tanh) == [*paths(first), *paths(tanh)]
    assert prog.find(inside="loop_0") & tanh == tanh
    assert not tanh - tanh
    assert len(tanh | tanh) == 1
    assert first[0] in tanh | first
    assert (first | tanh)[:1] == first
    assert hash(first | tanh) == hash(tanh | first)
    with pytest.raises(AttributeError):
        tanh.extra = 1  # pyright: ignore


def test_a_selection_has_the_neighbours_of_its_handles() -> None:
    prog = nested_loops()
    found = prog.find(inside="loop_0")
    assert paths(found.inputs & prog.find(kind="parameters")) == ["w"]
    assert set(found) & set(found.users)
    assert prog["loop_1/body/loop_0/body/act"].outputs[0] in found.outputs


def test_a_selection_prints_as_a_table() -> None:
    prog = nested_loops()
    lines = repr(prog.find(name="encoder/q")).splitlines()
    assert lines[0] == "1 operator:"
    assert lines[1].split() == ["path", "type", "inputs", "outputs", "source"]
    assert lines[2].split()[:4] == ["encoder/body/encoder/q", "matmul", "x,", "w"]
    assert "programs.py:" in lines[2]
    assert repr(prog.find())[-5:] == " more"
    assert repr(Selection()) == "empty selection"
    assert "<td>encoder/body/encoder/q</td>" in prog.find(name="encoder/q")._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_a_handle_knows_its_neighbours_types_and_line() -> None:
    act = nested_loops()["loop_1/body/loop_0/body/act"]
    assert (act.kind, act.name, act.type) == ("operator", "act", "tanh")
    assert paths(act.outputs) == [act.path]
    assert [str(v.type) for v in act.inputs] == ["f32[batch]"]
    assert {str(type_) for type_ in act.types.values()} == {"f32[batch]"}
    assert act.source.endswith(f"programs.py:{act.source.rpartition(':')[2]}")
    owner = nested_loops()["loop_1"]
    assert paths(owner.blocks) == ["loop_1/body"]
    assert repr(act).startswith("<operator loop_1/body/loop_0/body/act: tanh, built at ")


# ---- invalid arguments -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"type": "matmull"}, "unknown operator 'matmull'.\n  at: find, at "),
        ({"type": 3}, "expected a name for `type`, got 3"),
        ({"name": 3}, "find: invalid argument name=3"),
        ({"inside": "loop_9"}, "unknown block or operator with blocks `loop_9`"),
        ({"inside": "w"}, "`w` has no blocks"),
        ({"reads": "v"}, "unknown variable `v`"),
        ({"writes": "akt"}, "unknown variable `akt`"),
        ({"kind": "operator"}, "  Did you mean `operators`"),
        ({"kind": "blocks", "reads": "w"}, "`reads` and `writes` select operators"),
        ({"kind": "parameters", "inside": "loop_0"}, "parameters are in block 0"),
        ({"where": "act"}, "expected a function for `where`, got 'act'"),
    ],
)
def test_invalid_conditions_are_refused(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(br.BracesError) as caught:
        nested_loops().find(**wanted)
    assert message in str(caught.value)


def test_handles_of_other_things_are_refused() -> None:
    prog = nested_loops()
    act = prog["loop_1/body/loop_0/body/act"]
    with pytest.raises(br.UnknownNameError, match="act` has no blocks"):
        prog.find(inside=act)
    with pytest.raises(br.ProgramError, match="expected variables or operators, got the block"):
        prog.find(reads=prog["loop_1/body"])
    with pytest.raises(br.UnknownNameError, match="unknown operator `loop_1/body/loop_0"):
        br.prune(prog, ["x"]).find(reads=act)
