"""Patches that are refused, with the path of the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.passes.probing.kept_scopes import inner_paths
from tests.passes.probing.test_patch import BOTH, INNER, steps
from tests.passes.probing.test_probe import COMPILER

pytestmark = pytest.mark.unoptimized


def as_integers(value: br.Var) -> br.Var:
    return br.cast(value, "int32")


def as_vector(value: br.Var) -> br.Var:
    return br.full([3], 1.0) * value


def no_variable(value: br.Var) -> float:
    return 1.0


INVALID: list[tuple[dict[str, Any], type[br.BracesError], str]] = [
    ({"act": 1.0}, br.UnknownNameError, f"`{INNER}`"),
    ({"loop_1/body/loop_0/body/nothing": 1.0}, br.UnknownNameError, "unknown value to patch"),
    ({INNER: [1.0, 2.0]}, br.ShapeError, r"broadcasts to f32\[\], or f32\[t,k\]"),
    ({INNER: np.ones((3, 5), "f4")}, br.ShapeError, "axis 1 has size 5; expected `k` = 2"),
    ({INNER: np.ones((4, 2), "f4")}, br.ShapeError, "axis 0 has size 4; expected `t` = 3"),
    ({INNER: "abc"}, br.FeedError, "expected an array for the patch"),
    ({INNER: np.ones((), "i4")}, br.FeedError, "expected floats, got an array of int32"),
    ({INNER: as_integers}, br.DTypeError, r"expected f32\[\], got i32"),
    ({INNER: as_vector}, br.ShapeError, r"expected f32\[\], got f32"),
    ({INNER: no_variable}, br.ProgramError, "expected a variable from the patch"),
    ({INNER: br.patch(0.0, trips=3)}, br.ProgramError, "Pass a tuple of 2 ints"),
    ({INNER: br.patch(0.0, trips=(3, 0))}, br.ProgramError, "iteration 3 .* for 3 iter"),
    ({INNER: br.patch(0.0, trips=(0, -1))}, br.ProgramError, "iteration -1 .* out of"),
    ({INNER: br.patch(0.0, trips=(0.5, 1))}, br.ProgramError, "invalid iterations"),
    ({"y": br.patch(0.0, trips=1)}, br.ProgramError, "is in no loop"),
    ({"y": [1.0]}, br.ShapeError, r"broadcasts to f32\[\]"),
    ({"x": 1.0}, br.ProgramError, "no operator computes it"),
]


@pytest.mark.parametrize(("patch", "error", "words"), INVALID)
def test_invalid_patches_are_refused_with_the_place(
    patch: dict[str, Any], error: type[br.BracesError], words: str
) -> None:
    prog, feed = steps()
    before = str(prog)
    for exe in BOTH:
        with pytest.raises(error, match=words) as caught:
            exe.run(prog, br.Scope(), feed, "y", patch=patch)
        assert next(iter(patch)) in str(caught.value)
    assert str(prog) == before


@br.custom_gradient
def halved(x: br.Var) -> Any:
    def gradient(g: br.Var) -> br.Var:
        return g * br.cast(x > 0.0, "float32")

    return br.multiply(x, 0.5, name="inner_half"), gradient


def test_blocks_that_take_no_values_are_refused() -> None:
    with br.Program() as prog:
        x, w = br.data("x", [3]), br.parameter("w", [3], init=1.0)
        items = br.lists.write(br.lists.create([3]), 0, x)
        br.lists.length(items)
        loop = br.create_while()
        with loop.block() as body:
            z = body.add_memory(init=br.sum(x))
            body.set_condition(br.multiply(z, 1.0, name="checked") > 0.5)
            z.update(z * 0.5)
        out = halved(w * loop.final(z))
        br.multiply(br.sum(out), 1.0, name="loss")
    exe, feed = br.Executor(mode="interpret"), {"x": np.ones(3, "f4")}
    scope = exe.init(prog)
    listed = next(name for name, var in prog.vars.items() if "list" in str(var.type))
    for path, words in (
        ("loop_0/cond/checked", "a condition runs once more"),
        (listed, "cannot patch the list"),
    ):
        with pytest.raises(br.ProgramError, match=words) as caught:
            exe.run(prog, scope, feed, "loss", patch={path: 1.0})
        assert path in str(caught.value)
    backward = next(p for p in inner_paths(prog) if "/backward/" in p)
    with pytest.raises(br.ProgramError, match="custom gradient"):
        exe.run(prog, scope, feed, "loss", patch={backward: 1.0})
    inner = next(h.path for h in prog.find(name="*inner_half", kind="variables"))
    assert exe.run(prog, scope, feed, "loss", patch={inner: 2.0}) == 6.0
    with pytest.raises(br.ProgramError, match="user-written gradient") as caught:
        prog.patch({inner: 2.0})
    assert inner in str(caught.value)


def test_a_size_that_only_a_block_has_is_refused_unless_the_value_has_one() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        branch = br.create_if_else(br.sum(x, axis=1) > 0.0)
        with branch.true_block() as case:
            given = case.add_input(x)
            pairs = br.multiply(given @ given.T, 1.0, name="pairs")
            case.add_output(br.sum(pairs, axis=1))
        with branch.false_block() as case:
            case.add_output(br.sum(case.add_input(x), axis=1))
        br.sum(branch(), name="y")
    feed = {"x": np.array([[1, 2, 3], [-9, 0, 0], [1, 0, 0]], "f4")}
    path = "partition_0/cases[1]/pairs"
    with pytest.raises(br.ProgramError, match="known only in the run") as caught:
        COMPILER.run(prog, br.Scope(), feed, "y", patch={path: np.ones((3, 3), "f4")})
    assert path in str(caught.value)
    for exe in BOTH:
        value = np.array([[5.0], [6.0], [7.0]], "f4")
        assert exe.run(prog, br.Scope(), feed, "y", patch={path: value}) == 2 * 12.0 - 9.0
