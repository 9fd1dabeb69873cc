"""Badly written blocks meet clear errors and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import check_usable, get, prog, refuse, refuse_here

__all__ = ["prog"]

HERE = f"{Path(__file__).name}:"


# ---- blocks ----------------------------------------------------------------------------------


def test_inputs_of_different_lengths_are_refused(prog: br.Program) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_input(get("x"))
            net.add_input(get("w"))

    refuse_here(prog, br.ShapeError, build, "`w` has 4 steps", "batch", "w: f32[4,3]", "axis=")


def test_a_memory_that_is_never_updated_is_refused(prog: br.Program) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_input(get("x"))
            net.add_output(net.add_memory(shape=[4]))

    refuse(
        prog,
        br.ProgramError,
        build,
        "never updated",
        "f32[4]",
        "update(",
        HERE,
    )


def test_a_memory_whose_name_was_rebound_names_the_operator(prog: br.Program) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            x, h = net.add_input(get("x")), net.add_memory(shape=[4])
            h += x
            net.add_output(h)

    refuse(prog, br.ProgramError, build, "never updated: `+=` at", "`h.update(h + x)`", HERE)


def test_a_rebound_name_of_an_updated_memory_is_allowed(prog: br.Program) -> None:
    with prog:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            x, memory = net.add_input(get("x")), net.add_memory(shape=[4])
            h = memory
            for _ in range(2):
                h += x
            memory.update(h)
            net.add_output(h)


def test_a_memory_that_is_updated_twice_is_refused(prog: br.Program) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            x, h = net.add_input(get("x")), net.add_memory(shape=[4])
            h.update(x)
            h.update(h.pre(1) + x)

    refuse_here(prog, br.ProgramError, build, "updated twice", "memory_0")


WIDER = ["br.cast(init, 'float64')", "to float32 would lose precision"]


@pytest.mark.parametrize(
    ("init", "value", "error", "parts"),
    [
        ("float32", lambda x: br.sum(x), br.ShapeError, ["update: f32[]", "br.reshape"]),
        ("float32", lambda x: br.cast(x, "float64"), br.DTypeError, ["update: f64[4]", *WIDER]),
        ("float64", lambda x: x, br.DTypeError, ["br.cast(value, 'float64')"]),
        ("int32", lambda x: x, br.DTypeError, ["br.cast(init, 'float32')", "to int32"]),
        (
            "int32",
            lambda x: br.cast(x, "uint32"),
            br.DTypeError,
            ["br.cast(init, 'int64'), and the next value too"],
        ),
        ("uint64", lambda x: br.cast(x, "int64"), br.DTypeError, ["br.cast(init, 'int64')"]),
    ],
)  # fmt: skip
def test_a_memory_keeps_its_type(
    prog: br.Program,
    init: str,
    value: Callable[[Any], Any],
    error: type[br.BracesError],
    parts: list[str],
) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            x, h = net.add_input(get("x")), net.add_memory(init=br.zeros([4], dtype=init))
            h.update(value(x))

    short = {"float32": "f32", "float64": "f64", "int32": "i32", "uint64": "u64"}[init]
    refuse_here(prog, error, build, "type mismatch", f"init: {short}[4]", *parts)


def test_a_carry_of_a_narrower_dtype_is_a_dtype_error(prog: br.Program) -> None:
    def build() -> None:
        br.while_loop(lambda c: c < 3.0, lambda c: br.cast(c, "float64"), get("loss"))

    parts = ["`carry`", "init: f32[]   body_fn: f64[]", *WIDER]
    refuse_here(prog, br.DTypeError, build, *parts)


def test_a_while_with_a_condition_for_each_element_names_vmap(prog: br.Program) -> None:
    def build() -> None:
        br.while_loop(lambda row: row < 3.0, lambda row: row * 2.0, get("y"))

    refuse_here(prog, br.ShapeError, build, "bool[batch]", "br.vmap(lambda row")


def test_a_while_for_each_element_runs_vectorized(mode: str) -> None:
    with br.Program() as program:
        y = br.data("y", ["batch"])
        loop = br.vmap(
            lambda row: br.while_loop(lambda row: row < 3.0, lambda row: row * 2.0, row)
        )
        doubled = loop(y)
    feed = {"y": np.array([0.5, 1.0, 5.0], "float32")}
    assert br.Executor(mode).run(program, br.Scope(), feed, doubled).tolist() == [4, 4, 5]


def test_a_step_variable_stays_in_its_block(prog: br.Program) -> None:
    with prog:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            inner = net.add_input(get("x")) * 2.0
            net.add_output(inner)
    fix = "add_output"
    refuse_here(prog, br.ProgramError, lambda: br.tanh(inner), inner.name, "f32[4]", fix)
    refuse_here(prog, br.ProgramError, lambda: inner + 1.0, inner.name, fix)
    refuse_here(prog, br.ProgramError, lambda: br.fc(inner, 3), inner.name, fix)
    refuse_here(prog, br.BracesError, lambda: br.gradients([inner], [get("w")]), inner.name)


@pytest.mark.parametrize("n", [0, -1, 1001, 2**70])
def test_a_memory_looks_back_a_few_trips(prog: br.Program, n: int) -> None:
    def build() -> None:
        with br.create_rnn().stepnet() as net:
            net.add_memory(shape=[4]).pre(n)

    limits = ("expected an integer from",) if n >= 2**63 else (f"pre({n})", "1000")
    refuse_here(prog, br.ProgramError, build, *limits)


def test_a_memory_stays_in_its_block(prog: br.Program) -> None:
    with prog:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[4])
            h.update(h + net.add_input(get("x")))
    refuse_here(prog, br.ProgramError, lambda: h * 2.0, h.name, "final(")
    refuse_here(prog, br.ProgramError, lambda: h.pre(2), "rnn")
    refuse_here(prog, br.ProgramError, lambda: h.update(h), "rnn")
    refuse_here(prog, br.ProgramError, lambda: net.add_output(h), "add_output")


def test_a_construct_is_not_called_in_its_own_block(prog: br.Program) -> None:
    def build_rnn() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(net.add_input(get("x")))
            rnn()

    def build_if() -> None:
        with br.default_program().transaction():
            choice = br.create_if_else(get("loss") > 0.0)
            with choice.true_block() as block:
                block.add_output(get("x"))
                choice()

    def build_while() -> None:
        loop = br.create_while()
        with loop.block() as body:
            n = body.add_memory(init=0)
            loop.final(n)

    refuse_here(prog, br.ProgramError, build_rnn, "rnn", "before", "with rnn.stepnet()")
    refuse_here(prog, br.ProgramError, build_if, "if-else", "before")
    refuse_here(prog, br.ProgramError, build_while, "while", "before")


def test_a_while_needs_a_condition(prog: br.Program) -> None:
    def build() -> None:
        loop = br.create_while()
        with loop.block() as body:
            n = body.add_memory(init=0)
            n.update(n + 1)

    refuse(prog, br.ProgramError, build, "no condition", "set_condition", HERE)


@pytest.mark.parametrize("condition", [lambda n: n, lambda n: get("x") > 0.0])
def test_a_condition_is_a_bool_scalar(
    prog: br.Program, condition: Callable[[Any], Any]
) -> None:
    def build() -> None:
        loop = br.create_while()
        with loop.block() as body:
            n = body.add_memory(init=0)
            body.set_condition(condition(n))

    refuse_here(prog, br.ShapeError, build, "bool scalar", "br.any")


@pytest.mark.parametrize("condition", [lambda: True, lambda: get("loss") > 0.0])
def test_a_while_without_memories_is_refused(
    prog: br.Program, condition: Callable[[], Any]
) -> None:
    def build() -> None:
        with br.create_while(max_trips=3).block() as body:
            body.set_condition(condition())

    refuse_here(prog, br.ProgramError, build, "without memories", "add_memory")


def test_a_condition_may_come_from_outside(mode: str) -> None:
    with br.Program() as prog:
        go = br.data("go", [], dtype="bool")
        loop = br.create_while(max_trips=3)
        with loop.block() as body:
            n = body.add_memory(init=0)
            body.set_condition(go)
            n.update(n + 1)
        out = loop.final(n)
    exe, scope = br.Executor(mode=mode), br.Scope()
    assert exe.run(prog, scope, feed={"go": False}, fetch=out) == 0
    with pytest.raises(br.RunError, match="3"):
        exe.run(prog, scope, feed={"go": True}, fetch=out)


def test_a_condition_may_read_what_a_memory_was(mode: str) -> None:
    with br.Program() as program:
        loop = br.create_while()
        with loop.block() as body:
            n = body.add_memory(init=0)
            body.set_condition(n.pre(2) < 3)
            n.update(n + 1)
    exe = br.Executor(mode=mode)
    assert exe.run(program, br.Scope(), fetch=loop.final(n)) == 4


def test_a_predicate_is_not_a_number(prog: br.Program) -> None:
    def build() -> None:
        with br.default_program().transaction():
            br.create_if_else(get("loss"))

    refuse_here(prog, br.BracesError, build, "bool", "loss: f32[]")


def test_a_condition_draws_no_random_numbers(prog: br.Program) -> None:
    def draw() -> Any:
        return br.random.uniform() < 0.5

    def build(condition: Callable[[], Any]) -> None:
        loop = br.create_while()
        with loop.block() as body:
            n = body.add_memory(init=0)
            body.set_condition(condition())
            n.update(n + 1)

    def nested() -> Any:
        return br.cond(get("loss") > 0.0, draw, lambda: True)

    refuse(prog, br.ProgramError, lambda: build(draw), "random", "memory")
    refuse(prog, br.ProgramError, lambda: build(nested), "random", "memory")


def test_a_block_is_written_once(prog: br.Program) -> None:
    with prog:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(net.add_input(get("x")))
    refuse_here(prog, br.ProgramError, lambda: rnn.stepnet(), "already defined", "another")


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["w"], ["output 0 differs", "f32[4,3]", "f32[batch,4]", "br.cast"]),
        (["x", "x"], ["case 0 has 2 outputs", "case 1 has 1", "same number"]),
    ],
)
def test_branches_agree(prog: br.Program, names: list[str], parts: list[str]) -> None:
    with prog:
        choice = br.create_if_else(get("loss") > 0.0)
        with choice.true_block() as block:
            block.add_output(get("x"))
        with choice.false_block() as block:
            block.add_output(*map(get, names))
    refuse_here(prog, br.BracesError, lambda: choice(), *parts)


def test_data_belongs_to_the_main_block(prog: br.Program) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_input(get("x"))
            br.data("inner", [3])

    refuse_here(prog, br.ProgramError, build, "`inner`", "inner block", "outside")


# ---- other programs --------------------------------------------------------------------------


def test_a_variable_of_another_program_is_refused(prog: br.Program) -> None:
    with br.Program():
        other = br.data("other", ["batch", 4])

    def step() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_input(other)

    def start() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_memory(init=other)

    what, given = "`other` belongs to another program", "program"
    refuse_here(prog, br.ProgramError, lambda: get("x") + other, what, given)
    refuse_here(prog, br.ProgramError, lambda: br.fc(other, 3), what, "f32[batch,4]")
    refuse_here(prog, br.ProgramError, step, what)
    refuse_here(prog, br.ProgramError, start, what)
    refuse_here(prog, br.BracesError, lambda: br.gradients([get("loss")], [other]), "other")


# ---- exceptions ------------------------------------------------------------------------------


class Stop(Exception):
    pass


def interrupted_rnn() -> None:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        x = net.add_input(get("x"))
        br.fc(x, 5, name="inside")
        br.dropout(x, 0.5)
        raise Stop


def interrupted_while() -> None:
    loop = br.create_while()
    with loop.block() as body:
        n = body.add_memory(init=0)
        body.set_condition(n < 3)
        br.parameter("inside", [3])
        raise Stop


def interrupted_branch() -> None:
    choice = br.create_if_else(get("loss") > 0.0)
    with choice.true_block() as block:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(net.add_input(get("x")) * br.parameter("p", [4]))
        block.add_output(rnn())
        raise Stop


def interrupted_function() -> None:
    def step(carry: Any, row: Any) -> Any:
        br.random.normal([4])
        raise Stop

    br.scan(step, br.zeros([4]), get("x"))


@pytest.mark.parametrize(
    "build", [interrupted_rnn, interrupted_while, interrupted_branch, interrupted_function]
)
def test_an_exception_inside_a_block_leaves_no_trace(
    prog: br.Program, build: Callable[[], None]
) -> None:
    before = prog.definition, prog.startup.definition, str(prog), prog.updates.copy()
    with prog:
        with pytest.raises(Stop):
            build_rolled_back(prog, build)
        assert br.tanh(get("x")).type == get("x").type  # building goes on in the main block
    with prog, prog.transaction(), pytest.raises(Stop):
        build()
    definition, startup = prog.definition, prog.startup.definition
    assert definition.main.vars.keys() - before[0].main.vars.keys() <= {"tanh_0", *predicate()}
    assert startup == before[1]
    assert prog.updates == before[3]
    check_usable(prog)


def build_rolled_back(program: br.Program, build: Callable[[], None]) -> None:
    with program.transaction():
        build()


def predicate() -> set[str]:
    """Return the operators of the predicate of a branch before its `with`."""
    return {"constant_0", "greater_0", "full_0"}


def test_an_exception_leaves_a_program_as_it_was_before_its_with(prog: br.Program) -> None:
    before = prog.definition, prog.startup.definition
    with pytest.raises(Stop):
        build_interrupted(prog)
    assert (prog.definition, prog.startup.definition) == before
    assert br.default_program() is not prog


def build_interrupted(program: br.Program) -> None:
    with program:
        br.fc(get("x"), 3)
        interrupted_rnn()


def test_names_are_free_again_after_an_exception(prog: br.Program) -> None:
    with prog:
        with pytest.raises(Stop):
            interrupted_rnn()
        assert br.fc(get("x"), 5, name="inside").type == br.fc(get("x"), 5).type
    assert {"inside.w", "inside.b"} < {p.name for p in prog.parameters}


# ---- what is no variable ---------------------------------------------------------------------


def in_while(write: Callable[[Any, Any], Any]) -> None:
    with br.create_while().block() as body:
        write(body, body.add_memory(init=br.constant(0.0)))


def in_net(write: Callable[[Any, Any], Any]) -> None:
    with br.create_rnn().stepnet() as net:
        write(net, net.add_input(get("x")))


@pytest.mark.parametrize(
    "do",
    [
        lambda: in_while(lambda body, _: body.set_condition(None)),
        lambda: in_while(lambda body, _: body.add_memory(None)),
        lambda: in_while(lambda body, _: body.add_output(None)),
        lambda: in_while(lambda _, memory: memory.update(None)),
        lambda: in_net(lambda net, _: net.add_input(None)),
        lambda: in_net(lambda net, _: net.stop_when(None)),
        lambda: br.create_rnn(lengths="a"),
        lambda: br.create_if_else(None),
        lambda: br.create_switch().case(None),
        lambda: get("x") + None,
        lambda: get("x") == None,  # noqa: E711
        lambda: br.matmul(get("x"), None),
    ],
)
def test_what_is_no_variable_is_refused_by_line(
    prog: br.Program, do: Callable[[], Any]
) -> None:
    refuse_here(prog, br.DTypeError, do, "expected a variable, a number or an array")


def test_the_error_of_a_memory_of_unknown_size_has_a_fix(prog: br.Program) -> None:
    def build() -> None:
        in_net(lambda net, _: net.add_memory(shape=[None, 4]))

    refuse_here(prog, br.ShapeError, build, "one is None or -1", "x.shape[0]")


def test_an_axis_that_an_input_lacks_is_refused_by_line(prog: br.Program) -> None:
    def build() -> None:
        in_net(lambda net, _: net.add_input(get("x"), axis=7))

    refuse_here(prog, br.ShapeError, build, "axis 7 is out of range for an array of rank 2")


@pytest.mark.parametrize("limit", [-1, 2.5, True])
def test_a_limit_that_is_no_number_of_trips_is_refused(prog: br.Program, limit: Any) -> None:
    refuse_here(prog, br.ProgramError, lambda: br.create_while(max_trips=limit), "max_trips=")
