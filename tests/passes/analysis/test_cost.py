"""`prog.cost()`: the operations of a program, and the bytes that it moves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.types import Dim
from braces.passes.analysis.cost import Cost, OpCost, ProgramCost

B, N, T = (Dim.named(name) for name in "bnt")


def cost(text: str, **options: Any) -> ProgramCost:
    return br.parse(f"program {{ {text} }}").cost(**options)


def ops(found: ProgramCost) -> dict[str, OpCost]:
    return {one.path: one for one in found.ops}


# ---- operators -------------------------------------------------------------------------------


def test_a_product_is_two_operations_for_each_multiply_add() -> None:
    found = cost("data x: f32[b,3]  data w: f32[3,4]  y: f32[b,4] = matmul(x=x, y=w)")
    assert found.operations == 2 * B * 3 * 4
    assert found.total == Cost(24 * B, 12 * B + 48, 16 * B)
    assert found.bytes == 28 * B + 48


def test_a_contraction_takes_its_operands_one_after_the_other() -> None:
    found = cost(
        'data x: f32[2,n]  data y: f32[n]  data z: f32[5]  '
        'o: f32[2,5] = einsum(xs=[x, y, z]) {equation="ij,j,k->ik"}'
    )  # fmt: skip
    assert found.operations == 2 * 2 * N + 2 * 5


def test_what_only_gets_another_shape_takes_nothing() -> None:
    found = cost("data x: f32[b,4]  y: f32[b,4] = identity(x=x)")
    assert found.total == Cost()


def test_of_a_table_only_what_is_taken_is_read() -> None:
    found = cost(
        "data table: f32[50000,8]  data ids: i32[b]  "
        "o: f32[b,8] = embedding(table=table, ids=ids)"
    )
    assert found.total == Cost(0, 32 * B + 4 * B, 32 * B)


def test_an_operator_that_tells_nothing_is_named() -> None:
    @br.op(axes="i! -> i!", dtypes=lambda operator, x: x)
    def sorted_somehow(x: br.Tensor) -> br.Tensor:
        return x

    @br.op(axes="i! -> i!", dtypes=lambda operator, x: x, operations=7)
    def sorted_in_seven(x: br.Tensor) -> br.Tensor:
        return x

    with br.Program() as prog:
        x = br.data("x", ["b"])
        sorted_in_seven(sorted_somehow(x))
    found = prog.cost()
    assert found.untold == ("sorted_somehow",)
    assert found.by_type["sorted_in_seven"].operations == 7 * B
    assert found.operations == 8 * B
    assert (
        str(found).splitlines()[-1]
        == "  estimated as one operation per element: sorted_somehow"
    )


@pytest.mark.parametrize(
    ("name", "rule", "what"),
    [
        ("counts_nothing", lambda types, attrs: types["nothing"], "raised KeyError"),
        ("counts_text", lambda types, attrs: "7", "returned an invalid result: str"),
    ],
)
def test_functions_of_definitions_that_count_wrongly_are_named(
    name: str, rule: Any, what: str
) -> None:

    def miscounted(x: br.Tensor) -> br.Tensor:
        return x

    miscounted.__name__ = name
    made = br.op(axes="... -> ...", dtypes=lambda operator, x: x, operations=rule)(miscounted)
    with br.Program() as prog:
        out = made(br.data("x", ["b"]))
    with pytest.raises(br.errors.OpDefinitionError, match=f"{name} {what}"):
        prog.cost(out)


@pytest.mark.parametrize("said", [{"operations": -1}, {"operations": "2"}, {"picks": ("y",)}])
def test_definitions_that_count_wrongly_are_refused(said: Any) -> None:
    def uncounted(x: br.Tensor) -> br.Tensor:
        return x

    with pytest.raises(br.errors.OpDefinitionError, match=f"uncounted: .*{next(iter(said))}="):
        br.op(**said)(uncounted)


# ---- constructs ------------------------------------------------------------------------------

LOOP = """
  data x: f32[n,3]  data w: f32[3,3]  data h: f32[3]
  final=[last: f32[3]], stacked=[rows: f32[n,3]], trips=[m: i64[]] =
    loop(init=h, sliced=x) captures [w] as steps
    body (t: i64[], before: f32[3], r: f32[3]) {
      y: f32[3] = matmul(x=r, y=w)
      z: f32[3] = add(x=y, y=before)
      return z, z
    }
  return last, rows
"""


def test_a_loop_takes_its_trips() -> None:
    found = cost(LOOP)
    assert found.total == Cost(21 * N, N * (12 + 36 + 12 + 12), N * 24)
    assert ops(found)["steps"].cost == found.total
    assert ops(found)["steps/body/y"] == OpCost(
        "steps/body/y", "matmul", N, Cost(18 * N, 48 * N, 12 * N)
    )


def test_sizes_may_be_said() -> None:
    assert cost(LOOP, sizes={"n": 10}).operations == 210
    assert cost(LOOP, sizes={"n": 0}).total == Cost()


def test_trips_that_only_a_run_knows_have_the_name_of_their_loop() -> None:
    with br.Program() as prog:
        start = br.data("s", [4, 4])
        loop = br.create_while()
        with loop.block() as body:
            s = body.add_memory(init=start)
            body.set_condition(br.sum(s) < 10.0)
            s.update(s @ s)
        out = loop.final(s)
    found = prog.cost(out)
    trips = Dim.named(f"{loop_name(prog)}.trips")
    assert found.operations == trips * 128 + (trips + 1) * 17
    assert prog.cost(out, sizes={str(trips): 3}).operations == 3 * 128 + 4 * 17


def test_the_gradient_of_a_loop_makes_as_many_trips() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [4, 4])
        start = br.data("s", [4, 4])
        loop = br.create_while()
        with loop.block() as body:
            s = body.add_memory(init=start)
            body.set_condition(br.sum(s) < 10.0)
            s.update(br.tanh(s @ w))
        (grad,) = br.gradients(br.sum(loop.final(s)), w)
    found, trips = prog.cost(grad), f"{loop_name(prog)}.trips"
    assert found.operations.names() == {trips}  # pyright: ignore[reportAttributeAccessIssue]
    products = found.by_type["matmul"].operations
    assert products == 3 * 128 * Dim.named(trips)


def loop_name(prog: br.Program) -> str:
    return next(op.name for op in prog.definition.main.ops if op.type == "loop")


def test_a_branch_takes_as_much_as_the_case_that_takes_most() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        choice = br.create_if_else(br.data("c", [], dtype="bool"))
        with choice.true_block() as yes:
            yes.add_output(br.exp(x) + 1.0)
        with choice.false_block() as no:
            no.add_output(br.tanh(x))
        out = choice()
    assert prog.cost(out).by_type["add"].operations == 4 * B
    (branch,) = (one for one in prog.cost(out).ops if one.owns_blocks)
    assert branch.cost.operations == 8 * B


def test_rows_of_a_branch_count_as_if_all_took_the_same_case() -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["b", 4]), br.data("w", [4, 4])
        choice = br.create_if_else(br.data("c", ["b"], dtype="bool"))
        with choice.true_block() as yes:
            yes.add_output(yes.add_input(x) @ w)
        with choice.false_block() as no:
            no.add_output(br.tanh(no.add_input(x)))
        out = choice()
    (branch,) = (one for one in prog.cost(out).ops if one.owns_blocks)
    assert branch.cost.operations == 32 * B
    assert branch.cost.bytes_read == 64 + 16 * B


def test_a_plain_block_takes_what_is_in_it() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("layer"):
            y = br.tanh(x)
        out = br.exp(y)
    found = prog.cost(out)
    assert ops(found)["layer"].cost == ops(found)["layer/body/layer/tanh_0"].cost
    assert found.operations == 8 * B


# ---- programs --------------------------------------------------------------------------------


def test_only_what_is_fetched_counts() -> None:
    text = "data x: f32[b]  y: f32[b] = tanh(x=x)  z: f32[b] = exp(x=y)  return z"
    assert cost(text).operations == 2 * B
    assert cost(text, fetch="y").operations == B
    assert cost(text, fetch="y", passes=()).operations == 2 * B


def test_products_that_leave_a_loop_read_their_weights_once() -> None:
    before, after = cost(LOOP), cost(LOOP, passes=br.passes.default)
    assert after.operations == before.operations
    assert before.bytes.terms[-1] == (("n",), 96)  # pyright: ignore[reportAttributeAccessIssue]
    assert after.bytes == 60 * N + 36


def test_a_network_takes_what_xla_counts() -> None:
    with br.Program() as prog:
        x, y = br.data("x", [32, 64]), br.data("y", [32], dtype="int32")
        logits = br.fc(br.layer_norm(br.fc(x, 128, act="tanh")), 10)
        loss = br.softmax_cross_entropy(logits, y)
        br.optimizer.sgd(0.1).minimize(loss)
    exe, scope, rng = br.Executor(), br.Scope(), np.random.default_rng(0)
    exe.init(prog, scope)
    feed = {"x": rng.normal(size=(32, 64)), "y": np.zeros(32, "int32")}
    exe.run(prog, scope, feed=feed, fetch=[loss])
    (plan,) = exe._plans.by_program[prog][1].values()
    (executable,) = plan.executables.values()
    theirs = executable.code.cost_analysis()
    assert prog.cost(loss).operations == pytest.approx(theirs["flops"], rel=0.2)


def test_a_page_shows_the_text() -> None:
    found = cost("data x: f32[b]  y: f32[b] = tanh(x=x)")
    assert found._repr_html_() == f"<pre>{found}</pre>"


def test_the_text_has_what_takes_most_first() -> None:
    lines = str(cost(LOOP)).splitlines()
    assert lines == [
        "operations  21 FLOP·n",
        "read        72 B·n",
        "written     24 B·n",
        "peak        24 B·n + 92 B",
        "  1  matmul  18 FLOP·n  60 B·n",
        "  1  add     3 FLOP·n   36 B·n",
    ]


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ({"m": 2}, br.UnknownNameError, "no dimension `m`"),
        ({"n": -1}, br.ShapeError, "for the size `n`, got -1"),
        ({"n": 2.5}, br.ShapeError, "for the size `n`, got 2.5"),
        ({"n": True}, br.ShapeError, "for the size `n`, got True"),
    ],
)
def test_sizes_that_are_none_are_refused(sizes: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        cost(LOOP, sizes=sizes)


def test_what_depends_on_too_many_sizes_asks_for_them() -> None:
    data = " ".join(f"data x{i}: f32[d{i}] y{i}: f32[d{i}] = tanh(x=x{i})" for i in range(500))
    with pytest.raises(br.ShapeError, match="too complex as a symbolic size") as error:
        cost(data)
    assert "prog.cost(sizes=" in str(error.value)
    assert cost(data, sizes={f"d{i}": 2 for i in range(500)}).operations == 1000


def test_counting_imports_no_jax(tmp_path: Path) -> None:
    path = tmp_path / "p.braces"
    br.parse(f"program {{ {LOOP} }}").save(path)
    code = (
        "import sys, braces as br; prog = br.Program.load(sys.argv[1]); "
        "prog.cost(); prog.cost(passes=br.passes.default); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
