"""Row rules of operators, users' own included: declared, and true of compiled code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.define.axes import axis_map, axis_rules
from braces.errors import OpDefinitionError, ProgramError
from braces.extend.operators import OPS, Plan
from braces.extend.programs import all_ops

pytestmark = pytest.mark.unoptimized

Function = Callable[[Any], Any]
DEFINITIONS = dict(OPS.definitions)

# ---- definitions -----------------------------------------------------------------------------


def test_every_operator_has_an_axis_map() -> None:
    assert not [d.type for d in DEFINITIONS.values() if d.axes_rule is None]


def test_the_rules_name_no_operator() -> None:
    sources = map(inspect.getsource, (axis_map, axis_rules))
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert "keepdims" in texts
    assert texts.isdisjoint(DEFINITIONS)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("... ->", None),
        ("..., ... -> ...", "expected one term for each of x, out"),
        ("... -> ... <n>", "invalid axis '<n>'"),
        ({"y": 0}, "unknown input 'y'"),
    ],
)
def test_axes_that_cannot_be_read_are_refused(said: Any, told: str | None) -> None:
    def kept(x: br.Tensor) -> br.Tensor:
        return x

    if told is None:
        br.op(axes=said)(kept)
    else:
        with pytest.raises(OpDefinitionError, match=r"kept: .*axes=") as caught:
            br.op(axes=said)(kept)
        assert told in str(caught.value)
    assert ("kept" in OPS.definitions) == (told is None)


# ---- operators of the user -------------------------------------------------------------------

VALUES = np.random.default_rng(0).normal(size=(61, 3), loc=0.5, scale=2.0)


def by_rows(
    function: Callable[[br.Var], br.Var], mode: str, values: Any = VALUES, **more: Any
) -> np.ndarray:
    """Return the result of a row-wise branch with two equal cases."""
    with br.Program() as program:
        x = br.data("x", ["b", *values.shape[1:]], dtype=values.dtype.name)
        choice = br.create_if_else(br.cast(x[:, 0], "float32") > 0.0)
        for block in (choice.true_block(), choice.false_block()):
            with block:
                block.add_output(function(block.add_input(x)))
        out = choice()
    return br.Executor(mode=mode).run(
        program, br.Scope(), feed={"x": values}, fetch=out, **more
    )


def side_by_side(function: Function, values: Any = VALUES) -> np.ndarray:
    """The same in NumPy: a function of the rows of one side, and of those of the other."""
    chosen = values[:, 0].astype("float32") > 0.0
    some = np.asarray(function(values[chosen]))
    out = np.zeros((len(values), *some.shape[1:]), some.dtype)
    out[chosen], out[~chosen] = some, function(values[~chosen])
    return out


@pytest.mark.usefixtures("registry")
def test_an_operator_that_keeps_rows_apart_runs_in_a_row_wise_branch(mode: str) -> None:
    @br.op(axes="... -> ...")
    def cubed(x: br.Tensor) -> br.Tensor:
        return x**3

    got = by_rows(cubed, mode)
    np.testing.assert_allclose(got, VALUES**3)


@pytest.mark.usefixtures("registry")
def test_a_reduction_does_not_see_padding(mode: str) -> None:
    @br.op(axes={"x": "lowest"})
    def peak(x: br.Tensor, *, axis: int = 0) -> br.Tensor:
        return x.max(axis)

    got = by_rows(lambda x: x - peak(x), mode)
    np.testing.assert_allclose(got, side_by_side(lambda x: x - x.max(0)))


@pytest.mark.usefixtures("registry")
def test_the_derived_gradient_follows_the_rule(mode: str) -> None:
    @br.op(axes="..., ... -> ...")
    def scaled(x: br.Tensor, w: br.Tensor) -> br.Tensor:
        return x * w

    with br.Program() as program:
        x, w = br.data("x", ["b", 3], dtype="float64"), br.data("w", [3], dtype="float64")
        choice = br.create_if_else(x[:, 0] > 0.0)
        with choice.true_block() as positive:
            positive.add_output(scaled(positive.add_input(x), w))
        choice.pass_through(x)
        (slope,) = br.gradients(br.sum(choice()), w)
    feed = {"x": VALUES, "w": np.ones(3)}
    got = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=slope)
    np.testing.assert_allclose(got, VALUES[VALUES[:, 0] > 0.0].sum(0))


@pytest.mark.usefixtures("registry")
def test_an_operator_that_does_not_say_is_refused_with_what_to_say() -> None:
    @br.op
    def unsaid(x: br.Tensor) -> br.Tensor:
        return x

    with pytest.raises(ProgramError, match="unsaid may mix batch elements") as caught:
        by_rows(unsaid, "compile")
    assert "declare axes= in its definition" in str(caught.value)
    assert "test_row_rules.py" in str(caught.value)


# ---- ours ------------------------------------------------------------------------------------

REDUCTIONS = ("sum", "mean", "prod", "max", "min", "any", "all")


@pytest.mark.parametrize("dtype", ["bool", "int32", "float64"])
def test_reductions_do_not_see_padding(dtype: str, mode: str) -> None:
    values = (VALUES > 0.5 if dtype == "bool" else VALUES).astype(dtype)
    values[:, 1] = values[:, 0] <= 0  # the same in all rows of a side

    def ours(x: br.Var) -> br.Var:
        found = [getattr(br, name)(x, axis=0, keepdims=True) for name in REDUCTIONS]
        wide = [br.broadcast_to(br.cast(y, "float64"), x.shape) for y in found]
        return br.stack(wide, axis=1)

    def theirs(x: Any) -> Any:
        found = [getattr(np, name)(x, axis=0, keepdims=True) for name in REDUCTIONS]
        return np.stack([np.broadcast_to(y, x.shape).astype("float64") for y in found], 1)

    np.testing.assert_allclose(
        by_rows(ours, mode, values), side_by_side(theirs, values), rtol=1e-6
    )


def test_a_mean_over_two_axes_of_rows_counts_both(mode: str) -> None:
    got = by_rows(lambda x: x + br.mean(x @ br.permute_dims(x)), mode)
    np.testing.assert_allclose(got, side_by_side(lambda x: x + (x @ x.T).mean()))


def test_a_mean_of_small_floats_does_not_overflow(mode: str) -> None:
    values = np.full((101, 3), 1000.0, "float16")
    values[::2] = -1000.0
    got = by_rows(lambda x: br.broadcast_to(br.mean(x), x.shape), mode, values)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize(
    "read", [lambda x, ids: br.embedding(ids, x), lambda x, ids: br.gather_nd(x, [ids])]
)
def test_rows_read_out_of_order_are_refused(read: Callable[[br.Var, br.Var], br.Var]) -> None:
    with pytest.raises(ProgramError, match="mixes batch elements"):
        by_rows(lambda x: read(x, br.cast(x[:, 0], "int32")), "compile")


def test_the_number_of_rows_is_not_that_of_padding() -> None:
    with pytest.raises(ProgramError, match="size may mix batch elements"):
        by_rows(lambda x: x / br.size(x.shape[0], dtype="float64"), "compile")


@pytest.mark.parametrize(
    "turned",
    [
        lambda x: br.permute_dims(x),
        lambda x: br.moveaxis(x, 0, 1),
        lambda x: br.einsum("ij->ji", x),
        lambda x: br.einsum("ij,ik->jk", x, x),
    ],
)
def test_a_fixed_number_of_rows_is_not_taken_for_another_axis_as_long(
    turned: Callable[[br.Var], br.Var],
) -> None:
    with br.Program():
        x, lengths = br.data("x", ["t", 3, 3]), br.data("n", [3], dtype="int64")
        rnn = br.create_rnn(lengths=lengths)
        with (  # noqa: PT012  the step is refused when its block ends
            pytest.raises(ProgramError, match="mixes batch elements") as caught,
            rnn.stepnet() as net,
        ):
            h = net.add_memory(init=br.zeros([3, 3]))
            h.update(br.tanh(h @ np.ones((3, 3), "float32")) + turned(net.add_input(x)))
    assert "name the batch dimension" in str(caught.value)


# ---- what is built, and what runs ------------------------------------------------------------


def branched(compact: bool) -> tuple[br.Program, br.Var]:
    """A mean over the rows of a case, or over those of a step that run."""
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        if compact:
            choice = br.create_if_else(x[:, 0] > 0.5)
            with choice.true_block() as block:
                rows = block.add_input(x)
                block.add_output(rows - br.mean(rows, axis=0))
            choice.pass_through(x)
            return program, choice()
        rnn = br.create_rnn(lengths=br.cast(x[:, 0] > 0.5, "int32"), steps=1)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            h.update(h - br.mean(h, axis=0))
        return program, rnn.final(h)


def partitions(program: br.Program) -> list[Any]:
    return [op for _, op in all_ops(program.definition.main) if op.type == "partition"]


@pytest.mark.parametrize("compact", [True, False])
def test_a_program_says_what_was_written_and_runs_are_masked(compact: bool) -> None:
    program, out = branched(compact)
    (op,) = partitions(program)
    inside = [o.type for body in op.bodies().values() for o in body.ops]
    assert "mean" in inside
    assert "where" not in inside
    feed = {"x": VALUES[:, :3].astype("float32")}
    found = [
        br.Executor(mode=mode).run(one, br.Scope(), feed=feed, fetch=out.name)
        for mode in ("compile", "interpret")
        for one in (program, br.passes.mask_padding(program))
    ]
    chosen = feed["x"][:, 0] > 0.5
    want = feed["x"].copy()
    want[chosen] -= want[chosen].mean(axis=0)
    for value in found:
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)


def test_a_gradient_is_masked_and_what_it_is_of_stays_as_it_was() -> None:
    program, out = branched(compact=True)
    with program:
        br.gradients([br.sum(out * out)], [program.vars["x"]])
    forward, backward = partitions(program)
    assert not forward.attrs["masked"]
    assert backward.attrs["masked"]
    assert br.passes.mask_padding(program).definition.main.ops != program.definition.main.ops
    (again, same) = partitions(br.passes.mask_padding(program))
    assert again.attrs["masked"]
    assert same == backward


def test_a_branch_of_a_file_that_cannot_be_masked_is_refused_before_it_runs() -> None:
    program = br.parse("""program {
      data x: f32[b,4]
      data m: bool[b]
      out=[y: f32[b,4]], sums=[] = partition(masks=m, rows=x) {counts=[size(n)], outs=1} as p
        cases [(v: bool[n], r: f32[n,4]) {
          s: f32[n,4] = cumsum(x=r) {axis=0}
          return s
        }]
      return y
    }""")
    feed = {"x": np.ones((3, 4), "f4"), "m": np.array([True, False, True])}
    with pytest.raises(ProgramError, match="cumsum mixes batch elements of a row-wise branch"):
        br.Executor().run(program, br.Scope(), feed=feed, fetch="y")
    exact = br.Executor(mode="interpret").run(program, br.Scope(), feed=feed, fetch="y")
    np.testing.assert_array_equal(exact[:, 0], [1, 0, 2])


def test_what_has_no_rows_of_branches_runs_just_as_it_is_planned() -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        y = br.cond(br.sum(x) > 0.0, lambda: br.tanh(x), lambda: x)
    plan = Plan.of(program.definition, [y.name])
    assert plan.compiled.main is plan.body
    assert plan.interpreted is plan.body
    branch, out = branched(compact=True)
    plan = Plan.of(branch.definition, [out.name])
    assert plan.compiled.main is not plan.body
    assert plan.interpreted is plan.body  # a case has its own rows there, and no others
