"""Bad names, shapes, values and feeds meet clear errors and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import get, prog, refuse, refuse_here

__all__ = ["prog"]

HERE = f"{Path(__file__).name}:"


# ---- names -----------------------------------------------------------------------------------


def test_an_unknown_variable_suggests_the_nearest(prog: br.Program) -> None:
    unknown = "unknown variable `los`"
    refuse_here(prog, KeyError, lambda: br.get_variable("los"), unknown, "mean `loss`")


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
    refuse_here(prog, br.DuplicateNameError, bind, "duplicate variable", "f32[")


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
    refuse_here(prog, br.ProgramError, lambda: br.data(name, [3]), "invalid name")


# ---- shapes and dtypes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (lambda: br.matmul(get("w"), get("w")), ["matmul", "w: f32[4,3]"]),
        (lambda: get("x") + get("w"), ["add", "f32[batch,4]", "f32[4,3]"]),
        (lambda: get("x") + np.ones((2, 5), "f4"), ["add", "f32[batch,4]", "f32[2,5]"]),
        (lambda: br.concat([get("x"), get("w")], axis=1), ["concat"]),
        (lambda: br.sum(get("x"), axis=2), ["sum", "2"]),
        (lambda: br.fc(br.permute_dims(get("x")), 3), ["fc", "batch", "constant size"]),
        (lambda: br.where(get("x"), 1.0, 0.0), ["where"]),
    ],
)
def test_what_does_not_fit_is_refused_at_build(
    prog: br.Program, build: Callable[[], Any], parts: list[str]
) -> None:
    def attempt() -> None:
        with br.default_program().transaction():
            build()

    refuse(prog, br.BracesError, attempt, *parts, HERE)


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
        (lambda: br.parameter("p", ["batch", 3]), ["`p`", "symbolic size"]),
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
        (lambda v: v.__setitem__(0, 1.0), "br.where"),
    ],
    ids=["bool", "if", "int", "float", "iter", "index", "len", "in", "array", "set"],
)
def test_a_symbolic_variable_has_no_value(
    prog: br.Program, use: Callable[[Any], Any], way_out: str
) -> None:
    with prog, pytest.raises(TypeError) as caught:
        use(get("x"))
    message = str(caught.value)
    assert "`x` is a symbolic variable" in message
    assert "x: f32[batch,4]" in message
    assert way_out in message
    assert HERE in message


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
        (FED | {"x": np.ones((2, 4), complex)}, ["`x`", "f32[batch,4]", "c128[2,4]", "astype"]),
        (FED | {"x": np.ones((2, 4), int)}, ["`x`", "f32[batch,4]", "i64[2,4]"]),
        (FED | {"x": "ones"}, ["`x`", "f32[batch,4]"]),
        (FED | {"x": None}, ["`x`", "f32[batch,4]"]),
        (FED | {"y": [1.0, "two"]}, ["`y`", "f32[batch]"]),
        (FED | {"y": np.ma.ones(2, "f4")}, ["`y`", "masked", "f32[batch]", "filled"]),
        ("x", ["'x'", "feed={"]),
        (np.ones(2), ["array f64[2]", "feed={"]),
    ],
    ids=[
        "none",
        "unknown",
        "size",
        "rank",
        "batch",
        "complex",
        "int",
        "string",
        "None",
        "list",
        "masked",
        "no-dict",
        "array",
    ],
)
def test_a_wrong_feed_is_refused(
    mode: str, prog: br.Program, feed: Any, parts: list[str]
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


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", [0, 2**40]),
        ("uint8", -1),
        ("uint8", np.int64(256)),
        ("int64", 2**63),
        ("float32", [1.0, 1e300]),
        ("float16", 1e6),
    ],
)
def test_a_number_that_the_declared_dtype_cannot_hold_is_refused(
    dtype: str, value: Any
) -> None:
    with br.Program() as program:
        x = br.data("x", np.shape(value), dtype)
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    with pytest.raises(br.FeedError, match=f"a value is not representable in {dtype}"):
        exe.run(program, scope, {"x": value}, fetch=x)
    assert exe.run(program, scope, {"x": np.zeros_like(value).tolist()}, fetch=x).dtype == dtype


@pytest.mark.parametrize("fetch", [3, len, [None]])
def test_what_is_no_variable_cannot_be_fetched(prog: br.Program, fetch: Any) -> None:
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    run = lambda: exe.run(prog, scope, FED, fetch=fetch)  # noqa: E731
    refuse(
        prog, br.ProgramError, run, "expected a variable or its name as fetch", "or their names"
    )


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
