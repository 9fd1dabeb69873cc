"""Arguments of public functions and methods are of the kinds that they are annotated with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from braces.extend.building import with_user_line
from tests.frontend.refusing import get, prog, refuse_here

__all__ = ["prog"]

WRONG: tuple[Any, ...] = (None, "a", 1.5, [1], {}, len, int, b"x", np.array(["u"]), object())


def in_net(write: Callable[[Any, Any], Any]) -> None:
    with br.create_rnn().stepnet() as net:
        memory = net.add_memory(init=br.zeros([3]))
        memory.update(memory)
        write(net, memory.pre(1))


@pytest.mark.parametrize("given", WRONG)
@pytest.mark.parametrize(
    "do",
    [
        lambda axis: in_net(lambda net, _: net.add_input(get("x"), axis=axis)),
        lambda axis: in_net(lambda net, h: net.add_output(h, axis=axis)),
        lambda axis: in_net(
            lambda net, _: net.add_memory(shape=[3], batch_like=get("x"), batch_axis=axis)
        ),
        lambda axis: br.parameter("p", [2, 3], br.init.glorot_uniform(in_axis=axis)),
    ],
)
def test_an_axis_is_an_integer(prog: br.Program, do: Callable[[Any], Any], given: Any) -> None:
    refuse_here(prog, ProgramError, lambda: do(given), "axis=", "expected an integer", "as int")


@pytest.mark.parametrize("given", [True, 1.5, [1], {}, len, b"x", object()])
@pytest.mark.parametrize(
    "do",
    [
        lambda name: br.data(name, [3]),
        lambda name: br.parameter(name, [3]),
        lambda name: br.get_variable(name),
        lambda name: br.fc(get("x"), 3, name=name),
    ],
)
def test_a_name_is_a_string(prog: br.Program, do: Callable[[Any], Any], given: Any) -> None:
    refuse_here(
        prog, ProgramError, lambda: do(given), "invalid argument name=", "expected a string"
    )


@pytest.mark.parametrize("given", [None, 3, 1.5, True, object()])
def test_functions_to_choose_from_come_in_a_list(prog: br.Program, given: Any) -> None:
    refuse_here(prog, ProgramError, lambda: br.switch(0, given), "expected a list or a dict")


@pytest.mark.parametrize("given", [(1, (2, 3)), [[1], [2, 3]], object()])
@pytest.mark.parametrize(
    "do",
    [
        br.constant,
        lambda value: br.full([2], value),
        lambda value: br.parameter("p", [2], br.init.constant(value)),
    ],
)
def test_what_is_no_array_is_refused_by_line(
    prog: br.Program, do: Callable[[Any], Any], given: Any
) -> None:
    refuse_here(prog, br.DTypeError, lambda: do(given), "array")


def test_a_constant_takes_one_size_as_a_shape(prog: br.Program) -> None:
    with prog:
        assert str(br.constant(2.0, shape=3).type) == "f32[3]"
    refuse_here(prog, ProgramError, lambda: br.constant(2.0, shape=1.5), "shape=1.5")  # pyright: ignore[reportArgumentType]


def test_numbers_of_numpy_become_those_of_python() -> None:
    @with_user_line
    def twice(n: int, *rest: int, flag: bool | None = None, other: Any = None) -> Any:
        return n, rest, flag, other

    given: Any = np.int8(3)
    assert [type(part) for part in twice(given, 1)] == [int, tuple, type(None), type(None)]
    assert twice(1, given, flag=None, other="as it is") == (1, (3,), None, "as it is")
    with pytest.raises(ProgramError, match="twice: invalid argument n='1'"):
        twice(n="1")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (make, shape)
        for make in (br.zeros, br.random.normal, lambda shape: br.full(shape, 1))
        for shape in (lambda x: [x], lambda x: x, lambda x: (2, x))
        if (make, shape([])) != (br.random.normal, [])
    ],
)
def test_a_variable_is_no_size(prog: br.Program, make: Any, shape: Any) -> None:
    parts = (
        "`loss` is a variable; a size must be known before the run",
        "br.zeros_like",
        "x.shape[0]",
        '"batch"',
    )
    refuse_here(prog, br.ShapeError, lambda: make(shape(get("loss"))), *parts)


def test_a_variable_comes_after_the_shape_of_a_draw(prog: br.Program) -> None:
    parts = ("expected the shape as the first argument, got loss", "loss.shape", "normal(")
    refuse_here(prog, ProgramError, lambda: br.random.normal(get("loss")), *parts)


def test_a_variable_is_no_size_of_data_or_of_an_operator(prog: br.Program) -> None:
    refuse_here(prog, br.ShapeError, lambda: br.data("d", [get("loss")]), "x.shape[0]")
    wrong: Any = lambda: br.reshape(get("x"), [get("loss"), 4])  # noqa: E731
    refuse_here(prog, ProgramError, wrong, "known before the run, like x.shape[0]")
