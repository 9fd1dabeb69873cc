"""Failures in a user's operator are reported as its error, with the user's lines."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.define.axes.axis_map import AxisMap
from braces.errors import OpDefinitionError, RunError
from braces.extend.types import TensorType

pytestmark = pytest.mark.unoptimized

NUMBERS = itertools.count()
THREE = np.ones((3, 2), "float32")


@pytest.fixture(params=["interpret", "compile"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


def own(kernel: Any, **said: Any) -> Any:
    """An operator of its own for each test and mode."""
    kernel.__name__ = f"{kernel.__name__}_{next(NUMBERS)}"
    return br.op(kernel, **said)


def fail_on_three(x: Any) -> None:
    """Whatever is written for every number of rows but three."""
    if isinstance(x.shape[0], int) and x.shape[0] == 3:
        raise ValueError("three are too many")


def in_kernel() -> Any:
    def users_kernel(x: br.Tensor) -> br.Tensor:
        fail_on_three(x)
        return x * 2

    return own(users_kernel)


def in_gradient() -> Any:
    def users_sloped(x: br.Tensor) -> br.Tensor:
        return x * 2

    made = own(users_sloped)

    @made.vjp
    def rule(out_grad: br.Tensor) -> br.Tensor:
        fail_on_three(out_grad)
        return out_grad

    return made


def in_check() -> Any:
    def users_checked(x: br.Tensor) -> br.Tensor:
        return x * 2

    made = own(users_checked)

    @made.checked(RunError, "Never.")
    def rule(x: Any) -> Any:
        fail_on_three(x)
        return x < -100

    return made


def plainly(op: Any, x: br.Var) -> br.Var:
    return op(x)


def in_a_block(op: Any, x: br.Var) -> br.Var:
    with br.block("boxed"):
        return op(x)


def in_a_loop(op: Any, x: br.Var) -> br.Var:
    return br.scan(lambda carried, _: (carried + op(x), ()), br.zeros_like(x), x)[0]


def in_a_branch(op: Any, x: br.Var) -> br.Var:
    return br.cond(br.sum(x) > 0, lambda: op(x), lambda: x)


@pytest.mark.parametrize("place", [plainly, in_a_block, in_a_loop, in_a_branch])
@pytest.mark.parametrize("define", [in_kernel, in_gradient, in_check])
def test_what_fails_in_a_run_names_operator_line_and_types(
    mode: str, define: Callable[[], Any], place: Callable[[Any, br.Var], br.Var]
) -> None:
    op = define()
    with br.Program() as program:
        x = br.data("x", ["b", 2])
        out = place(op, x)
        (grad,) = br.gradients(br.sum(out), x)
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.run(program, scope, feed={"x": THREE[:2]}, fetch=[out, grad])
    with pytest.raises(OpDefinitionError if define is in_check else RunError) as caught:
        executor.run(program, scope, feed={"x": THREE}, fetch=[out, grad])
    error = caught.value
    assert op.definition.type in error.what
    assert "three are too many" in error.what
    assert "test_failing_operators.py:" in str(error.at)
    assert "f32[3,2]" in str(error.given)
    assert 'raise ValueError("three are too many")' in str(error.fix)


def test_a_kernel_that_cannot_be_lowered_is_not_told_in_the_words_of_jax_alone(
    mode: str,
) -> None:
    def users_worst(x: br.Tensor) -> br.Tensor:
        return x.max(-1)

    op = own(users_worst)
    with br.Program() as program:
        out = op(br.data("x", ["b", "n"]))
    empty = {"x": np.zeros((2, 0), "float32")}
    with pytest.raises(
        RunError, match="the kernel failed for these inputs: zero-size array"
    ) as caught:
        br.Executor(mode=mode).run(program, br.Scope(), feed=empty, fetch=out)
    assert "x: f32[2,0]" in str(caught.value)
    assert "return x.max(-1)" in str(caught.value)


class Alarm(Exception):
    """What a handler of a signal raises: no fault of the kernel that runs just then."""


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), Alarm(), br.ShapeError("Ours.")])
def test_interruptions_and_errors_of_ours_pass_through_a_kernel(
    mode: str, raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(*_: object) -> None:
        raise raised

    def users_interrupted(x: br.Tensor) -> br.Tensor:
        if isinstance(x.shape[0], int):
            handler()
        return x

    def installed(_: int) -> Any:
        return handler

    monkeypatch.setattr(signal, "getsignal", installed)
    op = own(users_interrupted)
    with br.Program() as program:
        out = op(br.data("x", ["b", 2]))
    with pytest.raises(type(raised)) as caught:
        br.Executor(mode=mode).run(program, br.Scope(), feed={"x": THREE}, fetch=out)
    assert caught.value is raised


# ---- functions of a definition ---------------------------------------------------------------


def plain(**said: Any) -> Any:
    def users_plain(x: br.Tensor) -> br.Tensor:
        return x * 2

    return own(users_plain, **said)


def summed(**said: Any) -> Any:
    def users_summed(x: br.Tensor, *, axis: int = 0) -> br.Tensor:
        return x.sum(axis)

    return own(users_summed, **said)


def found() -> Any:
    def users_found(x: br.Tensor, *, count: br.Learned) -> br.Tensor:
        return jnp.nonzero(x.reshape(-1), size=count)[0]

    made = own(users_found)

    @made.infer
    def rule(context: Any, x: TensorType, *, count: Any) -> TensorType:
        return TensorType(np.dtype("int64"), (count,))

    return made


def crooked(*_: Any, **attrs: Any) -> Any:
    raise IndexError("crooked rule")


def giving(given: Any) -> Callable[..., Any]:
    """A function that gives this, whatever it is told."""

    def rule(*_: Any, **attrs: Any) -> Any:
        return given

    return rule


def of(part: str, made: Any, rule: Callable[..., Any]) -> Any:
    """An operator that a function completes."""
    getattr(made, part)(rule)
    return made


def checked(rule: Callable[..., Any]) -> Any:
    made = plain()
    made.checked(RunError, "Never.")(rule)
    return made


def built(op: Any, x: br.Var) -> br.Var:
    return op(x)


def found_in(op: Any, x: br.Var) -> br.Var:
    return op(x, count="found")


def differentiated(op: Any, x: br.Var) -> Any:
    return br.gradients(br.sum(op(x)), x)[0]


def pushed(op: Any, x: br.Var) -> Any:
    return br.jvp([op(x)], [x], [br.ones_like(x)])[0]


def row_wise(op: Any, x: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as large:
        inner = large.add_input(x)
        large.add_output(inner * br.sum(op(inner)))
    choice.pass_through(x)
    return choice()


GIVE: dict[str, tuple[Callable[[Callable[..., Any]], Any], Any, list[Any]]] = {
    "axes=": (lambda rule: plain(axes=rule), built, [0, None, ["...", "..."]]),
    "dtypes=": (
        lambda rule: plain(axes="... -> ...", dtypes=rule),
        built,
        [7, "nonsense"],
    ),
    "infer": (lambda rule: of("infer", plain(), rule), built, [3, None, "f32[2]"]),
    "resolved": (
        lambda rule: of("resolved", summed(), rule),
        built,
        [3, {"nope": 1}, {"axis": "x"}],
    ),
    "learned": (
        lambda rule: of("learned", found(), rule),
        found_in,
        [3, {"found": 0.5}, {"found": np.zeros(2, int)}],
    ),
    "gradient": (
        lambda rule: of("gradient", plain(), rule),
        differentiated,
        [3, {"x": []}, {"x": "grad"}, {"y": None}],
    ),
    "jvp": (lambda rule: of("jvp", plain(), rule), pushed, [3, {"out": ()}, {"y": ()}]),
    "checked": (checked, built, ["wrong", 0.5]),
}
"""How an operator gets a function, what asks it, and what it must not give."""


def tried(mode: str, define: Callable[[Callable[..., Any]], Any], use: Any, rule: Any) -> Any:
    """The error of a program in which an operator has this function."""
    op = define(rule)

    def run() -> None:
        with br.Program() as program:
            out = use(op, br.data("x", ["b", 2]))
        br.Executor(mode=mode).run(program, br.Scope(), feed={"x": THREE}, fetch=out)

    with pytest.raises(OpDefinitionError) as caught:
        run()
    assert op.definition.type in caught.value.what
    assert "test_failing_operators.py:" in str(caught.value.at)
    assert ("float32" if define is GIVE["dtypes="][0] else "f32[") in str(caught.value.given)
    return caught.value


@pytest.mark.parametrize("part", GIVE)
def test_the_error_of_a_failing_function_of_a_definition_has_its_line(
    mode: str, part: str
) -> None:
    define, use, _ = GIVE[part]
    error = tried(mode, define, use, crooked)
    assert part in error.what
    assert "raised IndexError: crooked rule" in error.what
    assert 'raise IndexError("crooked rule")' in error.fix


@pytest.mark.parametrize(
    ("part", "given"), [(part, one) for part, said in GIVE.items() for one in said[2]]
)
def test_a_function_of_a_definition_that_gives_something_else_is_told_what_to_give(
    mode: str, part: str, given: Any
) -> None:
    define, use, _ = GIVE[part]
    error = tried(mode, define, use, giving(given))
    assert part in error.what
    assert f"returned an invalid result: {type(given).__name__}, {given!r}" in error.what
    assert "Return " in error.fix
    assert "test_failing_operators.py:" in error.fix


def test_what_takes_the_place_of_a_masked_operator_must_be_an_operator() -> None:
    def define(rule: Any) -> Any:
        return of("masked", summed(axes={"x": 0}), rule)

    assert "raised IndexError" in tried("compile", define, row_wise, crooked).what
    assert "returned an invalid result" in tried("compile", define, row_wise, giving(3)).what


@pytest.mark.parametrize("axes", [{"x": 0}, {}])
def test_a_reduction_without_the_attribute_axis_is_refused_where_it_is_defined(
    axes: dict[str, Any],
) -> None:
    with pytest.raises(OpDefinitionError, match="over the attribute `axis`") as caught:
        plain(axes=axes)
    assert "axis: int | None = None" in str(caught.value.fix)


def test_what_a_function_of_axes_refuses_is_still_an_error_of_shapes() -> None:
    def rule(types: Any, attrs: Any) -> AxisMap:
        raise br.ShapeError("No such shape.")

    op = plain(axes=rule)
    with br.Program(), pytest.raises(br.ShapeError, match="No such shape"):
        op(br.data("x", ["b", 2]))


def test_a_kernel_that_cannot_take_no_rows_runs_where_values_tell_that_there_are_some(
    mode: str,
) -> None:
    def users_largest(x: br.Tensor) -> br.Tensor:
        return x.max(-1)

    places, largest = found(), own(users_largest)

    @places.learned
    def rule(x: Any, *, count: Any) -> dict[str, Any]:
        return {count.name: (x != 0).sum()}

    with br.Program() as program:
        out = largest(places(br.data("x", ["b"]), count="some"))
    exe, scope = br.Executor(mode=mode), br.Scope()

    def run(*x: float) -> Any:
        return exe.run(program, scope, feed={"x": np.array(x, "float32")}, fetch=out)

    assert run(0, 1, 0, 2) == 3
    assert run(3, 1, 0, 0) == 1
    for _ in range(2):
        with pytest.raises(RunError, match="zero-size array"):
            run(0, 0)
        assert run(0, 4, 5) == 2
