"""Each bad input meets an error that says what, where, what was given and the way out.

And each leaves the program, its startup program included, as it was and usable.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br


@pytest.fixture
def prog() -> br.Program:
    """A small program: `x` and `y` are data, `w` a parameter, `loss` a number."""
    with br.Program() as program:
        x, y = br.data("x", ["batch", 4]), br.data("y", ["batch"])
        w = br.parameter("w", [4, 3])
        br.sum(br.matmul(x, w), name="loss")
        br.sum(y, name="total")
    return program


def refuse(
    program: br.Program, error: type[Exception], do: Callable[[], Any], *parts: str
) -> str:
    """Expect an error with these parts in its message, and a program that nothing changed."""
    before = program.definition, program.startup.definition, str(program)
    with program, pytest.raises(error) as caught:
        do()
    message = str(caught.value)
    assert isinstance(caught.value, br.BracesError)
    for part in parts:
        assert part in message, message
    assert (program.definition, program.startup.definition, str(program)) == before
    check_usable(program)
    return message


def refuse_here(
    program: br.Program, error: type[Exception], do: Callable[[], Any], *parts: str
) -> None:
    """The same for errors at build, whose message has the line of this file."""
    try:
        do_in(program, do)
    except br.BracesError as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        line = [frame.lineno for frame in frames if frame.filename == __file__][-1]
    else:
        pytest.fail("There was no error.")
    refuse(program, error, do, *parts, f"test_errors.py:{line}")


def do_in(program: br.Program, do: Callable[[], Any]) -> None:
    with program:
        do()


def check_usable(program: br.Program) -> None:
    """Build more, in place, and run it."""
    copy = br.Program.from_bytes(program.to_bytes())
    with copy:
        more = br.get_variable("loss") * 2.0
        assert more.type == br.get_variable("loss").type
    scope, exe = br.Scope(), br.Executor(mode="interpret")
    exe.init(copy, scope)
    feed = {"x": np.ones((2, 4), "f4")}
    needs = {n: v for n, v in feed.items() if n in copy.vars}
    exe.run(copy, scope, needs, fetch=more)


def get(name: str) -> Any:
    return br.get_variable(name)


# ---- names -----------------------------------------------------------------------------------


def test_an_unknown_variable_suggests_the_nearest(prog: br.Program) -> None:
    refuse_here(prog, KeyError, lambda: get("los"), "no variable `los`", "Did you mean `loss`")


def test_an_unknown_operator_function_suggests_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"Use br\.concat"):
        br.cat  # noqa: B018
    with pytest.raises(AttributeError, match="Did you mean `matmul`"):
        br.matmull  # noqa: B018


@pytest.mark.parametrize(
    "bind",
    [
        lambda: br.data("x", ["batch"]),
        lambda: br.parameter("x", [3]),
        lambda: br.parameter("w", [3]),
        lambda: br.state("w", [3]),
        lambda: br.tanh(get("x"), name="w"),
    ],
    ids=["data", "parameter", "again", "state", "operator"],
)
def test_a_name_is_bound_once(prog: br.Program, bind: Callable[[], Any]) -> None:
    refuse_here(prog, br.DuplicateNameError, bind, "already", "f32[")


def test_a_layer_is_named_once(prog: br.Program) -> None:
    with prog:
        br.fc(get("x"), 3, name="fc1")
    refuse_here(
        prog,
        br.DuplicateNameError,
        lambda: br.fc(get("x"), 3, name="fc1"),
        "`fc1.w`",
        "params=['fc1.w', 'fc1.b']",
    )


@pytest.mark.parametrize("name", ["", "a b", "1x", "x:y", "é\n"])
def test_a_name_is_a_word(prog: br.Program, name: str) -> None:
    refuse_here(prog, br.ProgramError, lambda: br.data(name, [3]), "cannot be a name")


# ---- shapes and dtypes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (lambda: br.matmul(get("w"), get("w")), ["matmul", "w: f32[4,3]"]),
        (lambda: get("x") + get("w"), ["add", "f32[batch,4]", "f32[4,3]"]),
        (lambda: get("x") + np.ones((2, 5), "f4"), ["add", "f32[batch,4]", "f32[2,5]"]),
        (lambda: br.concat([get("x"), get("w")], axis=1), ["concat"]),
        (lambda: br.sum(get("x"), axis=2), ["sum", "2"]),
        (lambda: br.fc(br.transpose(get("x")), 3), ["fc", "batch", "number"]),
        (lambda: br.where(get("x"), 1.0, 0.0), ["where"]),
    ],
)
def test_what_does_not_fit_is_refused_at_build(
    prog: br.Program, build: Callable[[], Any], parts: list[str]
) -> None:
    def attempt() -> None:
        with br.default_program().transaction():
            build()

    refuse(prog, br.BracesError, attempt, *parts, "test_errors.py:")


def test_a_failed_operator_leaves_no_constant_behind(prog: br.Program) -> None:
    refuse_here(prog, br.ShapeError, lambda: get("x") + np.ones((2, 5), "f4"), "add")


def test_a_failed_operator_teaches_no_dimension(prog: br.Program) -> None:
    with prog:
        br.data("u", [None, 7])
    refuse_here(prog, br.ShapeError, lambda: get("u") + np.ones((5, 6), "f4"), "add")
    assert get_type(prog, "u") == "f32[?0,7]"


def get_type(program: br.Program, name: str) -> str:
    return str(program.definition.main.vars[name].type)


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (lambda: br.parameter("p", ["batch", 3]), ["`p`", "number"]),
        (lambda: br.parameter("p", [-3]), ["-3"]),
        (lambda: br.parameter("p", [3], init=np.ones(4)), ["`p`", "f32[3]", "f32[4]"]),
        (lambda: br.parameter("p", [3], init="zeros"), ["'zeros'", "br.init"]),
        (lambda: br.parameter("p", [3], dtype="float31"), ["'float31'", "float32"]),
        (lambda: br.data("d", 3), ["shape"]),
        (lambda: br.data("d", ["a b"]), ["'a b'"]),
        (lambda: br.constant("one"), ["'one'"]),
    ],
)
def test_a_bad_declaration_is_refused(
    prog: br.Program, build: Callable[[], Any], parts: list[str]
) -> None:
    refuse_here(prog, br.BracesError, build, *parts)


# ---- symbolic variables are no values --------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "way_out"),
    [
        (lambda v: bool(v), "br.where"),
        (lambda v: 1 if v else 2, "br.create_if_else"),
        (lambda v: int(v), "br.cast"),
        (lambda v: float(v), "exe.run"),
        (lambda v: list(v), "br.scan"),
        (lambda v: [0][v], "br.take"),
        (lambda v: len(v), "x.shape[0]"),
        (lambda v: 1 in v, "br.any"),
        (lambda v: np.asarray(v), "exe.run"),
        (lambda v: np.sin(v), ""),
        (lambda v: v.__setitem__(0, 1.0), "br.where"),
    ],
    ids=["bool", "if", "int", "float", "iter", "index", "len", "in", "array", "ufunc", "set"],
)
def test_a_symbolic_variable_has_no_value(
    prog: br.Program, use: Callable[[Any], Any], way_out: str
) -> None:
    with prog, pytest.raises(TypeError) as caught:
        use(get("x"))
    if way_out:
        message = str(caught.value)
        assert "`x` is a symbolic variable" in message
        assert "x: f32[batch,4]" in message
        assert way_out in message
        assert "test_errors.py:" in message


# ---- running ---------------------------------------------------------------------------------

FED = {"x": np.ones((2, 4), "f4"), "y": np.ones(2, "f4")}


@pytest.mark.parametrize(
    ("feed", "parts"),
    [
        ({}, ["`x`", "f32[batch,4]", "feed="]),
        (FED | {"z": np.ones(2)}, ["`z`", "`x`"]),
        (FED | {"x": np.ones((2, 5), "f4")}, ["`x`", "f32[batch,4]", "f32[2,5]"]),
        (FED | {"x": np.ones(4, "f4")}, ["`x`", "f32[batch,4]", "f32[4]"]),
        (FED | {"y": np.ones(3, "f4")}, ["`y`", "f32[batch]", "f32[3]", "batch"]),
        (FED | {"x": np.ones((2, 4))}, ["`x`", "f32[batch,4]", "f64[2,4]", "astype"]),
        (FED | {"x": np.ones((2, 4), int)}, ["`x`", "f32[batch,4]", "i64[2,4]"]),
        (FED | {"x": "ones"}, ["`x`", "f32[batch,4]"]),
        (FED | {"x": None}, ["`x`", "f32[batch,4]"]),
        (FED | {"y": [1.0, "two"]}, ["`y`", "f32[batch]"]),
    ],
    ids=["none", "unknown", "size", "rank", "batch", "f64", "int", "string", "None", "list"],
)
def test_a_wrong_feed_is_refused(
    mode: str, prog: br.Program, feed: dict[str, Any], parts: list[str]
) -> None:
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    before = scope.var("w").value
    message = refuse(
        prog, br.FeedError, lambda: exe.run(prog, scope, feed, fetch=["loss", "total"]), *parts
    )
    assert message.count("\n") >= 1
    np.testing.assert_array_equal(scope.var("w").value, before)
    assert exe.run(prog, scope, FED, fetch="total") == 2


def test_a_fetch_that_does_not_exist_is_refused(mode: str, prog: br.Program) -> None:
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    run = lambda: exe.run(prog, scope, FED, fetch="los")  # noqa: E731
    refuse(prog, br.UnknownNameError, run, "`los`", "Did you mean `loss`")


def test_a_fetch_of_a_step_is_refused(mode: str, prog: br.Program) -> None:
    with prog:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            inner = net.add_input(get("x")) * 2.0
            net.add_output(inner)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    run = lambda: exe.run(prog, scope, FED, fetch=inner)  # noqa: E731
    refuse(prog, br.ProgramError, run, inner.name, "inner block", "add_output")


def test_a_run_before_init_is_refused(mode: str, prog: br.Program) -> None:
    scope, exe = br.Scope(), br.Executor(mode=mode)
    run = lambda: exe.run(prog, scope, FED, fetch="loss")  # noqa: E731
    refuse(prog, br.UninitializedError, run, "`w`", "f32[4,3]", "exe.init")
    assert scope.find_var("w") is None


def test_a_closed_scope_is_refused(mode: str, prog: br.Program) -> None:
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    handle = scope.var("w")
    scope.close()
    for do in (
        lambda: exe.run(prog, scope, FED, fetch="loss"),
        lambda: exe.init(prog, scope),
        lambda: handle.value,
        lambda: scope.var("w"),
    ):
        refuse(prog, br.ScopeClosedError, do, "closed")


def test_a_device_that_is_not_there_is_refused(prog: br.Program) -> None:
    refuse(prog, br.DeviceError, lambda: br.Executor(device="tpu:7"), "tpu:7", "cpu:0")


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
        prog, br.ProgramError, build, "never updated", "f32[4]", "update(", "test_errors.py:"
    )


def test_a_memory_that_is_updated_twice_is_refused(prog: br.Program) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            x, h = net.add_input(get("x")), net.add_memory(shape=[4])
            h.update(x)
            h.update(h + x)

    refuse_here(prog, br.ProgramError, build, "updated twice", "memory_0")


@pytest.mark.parametrize("value", [lambda x: br.sum(x), lambda x: br.cast(x, "float64")])
def test_a_memory_keeps_its_type(prog: br.Program, value: Callable[[Any], Any]) -> None:
    def build() -> None:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            x, h = net.add_input(get("x")), net.add_memory(shape=[4])
            h.update(value(x))

    refuse_here(prog, br.ShapeError, build, "another type", "init: f32[4]", "br.cast")


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

    refuse(prog, br.ProgramError, build, "no condition", "set_condition", "test_errors.py:")


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
    refuse_here(prog, br.ProgramError, lambda: rnn.stepnet(), "written already", "another")


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["w"], ["Output 0 differs", "f32[4,3]", "f32[batch,4]", "br.cast"]),
        (["x", "x"], ["Case 0 has 2 outputs", "case 1 has 1", "same number"]),
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
    """What a branch's predicate leaves in front of its `with`."""
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
