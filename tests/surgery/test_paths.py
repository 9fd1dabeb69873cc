"""Paths of operators, variables and blocks are found, also those of errors of runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import braces as br
from braces.extend.programs import Body
from braces.ir.paths import locate
from braces.ir.places import Place
from braces.ir.walk import all_ops
from tests.surgery.programs import branches, nested_loops


@pytest.fixture(params=[nested_loops, branches])
def prog(request: pytest.FixtureRequest) -> br.Program:
    return request.param()


def contents(body: Body, path: str = "") -> Iterator[tuple[str, str, object]]:
    """Every path below a block, with the kind and the content of the place."""
    yield from ((f"{path}{name}", "variable", info) for name, info in body.vars.items())
    for op in body.ops:
        yield f"{path}{op.name}", "operator", op
        for label, inner in op.bodies().items():
            yield f"{path}{op.name}/{label}", "block", inner
            yield from contents(inner, f"{path}{op.name}/{label}/")


def test_every_operator_variable_and_block_is_found_at_its_path(prog: br.Program) -> None:
    for path, kind, wanted in contents(prog.definition.main):
        found = locate(prog.definition, path, kind)
        content = found.content.body if isinstance(found.content, Place) else found.content
        assert (found.path, content) == (path, wanted)


def test_an_operator_precedes_the_variable_of_its_name(prog: br.Program) -> None:
    for block, op in all_ops(prog.definition.main):
        handle = prog[f"{block}/{op.name}".lstrip("/")]
        assert (handle.kind, handle.op, handle.block) == ("operator", op, block)


def test_names_with_slashes_in_plain_blocks_are_found() -> None:
    prog = nested_loops()
    assert prog["encoder/body/encoder/q"].name == "encoder/q"


def test_the_number_of_an_iteration_is_ignored() -> None:
    prog = nested_loops()
    assert prog["loop_1/body[2]/loop_0/body[0]/act"] == prog["loop_1/body/loop_0/body/act"]


def test_the_path_of_an_error_of_a_run_is_found() -> None:
    with br.Program() as prog:
        x = br.data("x", ["steps", 3])
        br.scan(lambda h, row: (br.log(h + row, name="log"), row), 0.0 * x[0], x)
    with pytest.raises(br.NaNError) as caught:
        br.Executor().run(
            prog, br.Scope(), {"x": np.full([2, 3], -1.0)}, "loop_0.final", check_nan=True
        )
    assert caught.value.at is not None
    block = caught.value.at.split("`")[1]
    assert prog[f"{block}/log"].type == "log"


def test_a_short_name_in_an_inner_block_is_answered_with_its_path() -> None:
    with pytest.raises(br.UnknownNameError, match="Pass the full path") as caught:
        nested_loops()["act"]
    assert "`loop_1/body/loop_0/body/act`" in str(caught.value)


def test_a_misspelt_path_is_answered_with_near_ones() -> None:
    with pytest.raises(br.UnknownNameError, match="Did you mean `loop_1/body/loop_0/body/act`"):
        nested_loops()["loop_1/body/loop_0/body/akt"]


def test_a_handle_is_found_again_in_another_version() -> None:
    prog = nested_loops()
    handle = prog["loop_1/body/loop_0/body/act"]
    with prog:
        br.tanh(prog.vars["x"])
    again = br.parse(str(prog))[handle]
    assert again == handle
    assert again.place.definition != handle.place.definition


def test_a_handle_of_a_removed_operator_is_refused() -> None:
    prog = nested_loops()
    handle = prog["encoder/body/encoder/q"]
    assert handle in prog
    pruned = br.prune(prog, ["x"])
    assert handle not in pruned
    with pytest.raises(br.UnknownNameError, match="unknown operator `encoder/body/encoder/q`"):
        pruned[handle]


def test_a_program_is_indexed_by_paths_and_is_no_sequence() -> None:
    prog = nested_loops()
    assert "loop_1/body" in prog
    assert "loop_1/bodies" not in prog
    with pytest.raises(br.UnknownNameError, match="expected a path or a handle, got 0"):
        prog[0]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        iter(prog)  # pyright: ignore


@pytest.mark.unoptimized
def test_every_kept_scope_of_a_run_has_the_path_of_its_block() -> None:
    prog, exe = branches(), br.Executor(mode="interpret")
    feed = {"x": np.stack([np.ones([2, 4]), -np.ones([2, 4])]), "which": 1}
    exe.run(prog, br.Scope(), feed, prog.find(type="mean")[0].name, keep_scopes=True)
    inner = [path for path in exe.step_scopes if path]
    assert {prog[path].kind for path in inner} == {"block"}
    branch = prog.find(type="partition", inside="loop_0")[0]
    assert {path for path in inner if f"/{branch.name}/" in path} == {
        f"loop_0/body[0]/{branch.name}/cases[1]",
        f"loop_0/body[1]/{branch.name}/cases[0]",
    }
