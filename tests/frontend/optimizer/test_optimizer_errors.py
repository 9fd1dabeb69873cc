"""Errors of optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optax
import pytest

import braces as br
from braces.errors import (
    BracesError,
    DTypeError,
    DuplicateNameError,
    GradientError,
    ProgramError,
    ShapeError,
    UnknownNameError,
)
from braces.frontend import optimizer as opt
from braces.frontend.optimizer import Optimizer


class Line:
    """A loss with two parameters."""

    def __init__(self) -> None:
        with br.Program() as self.program:
            x = br.data("x", ["rows", 3])
            self.w = br.parameter("line.w", [3, 2])
            self.b = br.parameter("line.b", [2])
            self.loss = br.mean(br.square(x @ self.w + self.b))


def refused(error: type[BracesError], text: str, build: Callable[[Line], Any]) -> str:
    """Return the error; the program is unchanged."""
    line = Line()
    before = str(line.program), str(line.program.startup)
    with pytest.raises(error, match=text) as info, line.program:
        build(line)
    assert (str(line.program), str(line.program.startup)) == before
    assert "test_optimizer_errors.py:" in str(info.value), str(info.value)
    return str(info.value)


@pytest.mark.parametrize("rate", ["0.1", None, float("nan"), True, 1j, [0.1]], ids=repr)
def test_a_learning_rate_is_a_number(rate: Any) -> None:
    refused(DTypeError, "invalid learning rate", lambda line: opt.adam(rate))


def test_other_numbers_are_checked_too() -> None:
    refused(ProgramError, "adam: invalid argument b1=", lambda line: opt.adam(0.1, b1="x"))
    refused(
        ProgramError,
        "expected a function for `mask`, got \\[True\\]",
        lambda line: opt.adamw(mask=[True]),
    )
    text = "invalid argument decay_steps="
    refused(ProgramError, text, lambda line: opt.cosine_decay_schedule(0.1, 0.5))


def test_a_loss_is_a_scalar_variable() -> None:
    refused(GradientError, "must be a scalar", lambda line: opt.adam().minimize(line.w))
    refused(
        GradientError,
        "expected a variable of a program, got 0.5",
        lambda line: opt.adam().minimize(0.5),
    )


def test_a_loss_depends_on_parameters() -> None:
    text = "does not depend on a trainable parameter"
    refused(GradientError, text, lambda line: opt.adam().minimize(br.constant(1.0)))
    refused(GradientError, text, lambda line: opt.adam().minimize(br.sum(line.w), ["line.b"]))


def test_a_parameter_has_one_optimizer() -> None:
    def twice(line: Line) -> None:
        opt.adam().minimize(line.loss)
        opt.sgd(0.1).minimize(line.loss)

    said = refused(ProgramError, "`line.w` already has an update", twice)
    assert "Minimize the sum of the losses" in said


def test_names_that_are_taken_are_refused() -> None:
    def twice(line: Line) -> None:
        opt.adam(name="fit").minimize(line.loss, [line.w])
        opt.sgd(0.1, name="fit").minimize(line.loss, [line.b])

    refused(DuplicateNameError, "duplicate optimizer name: variables `fit/…`", twice)
    refused(ProgramError, "invalid optimizer name `a/b`", lambda line: opt.adam(name="a/b"))
    refused(ProgramError, "invalid name 'a b'", lambda line: opt.adam(name="a b"))


def test_only_trainable_parameters_move() -> None:
    def frozen(line: Line) -> None:
        p = br.parameter("p", [2], trainable=False)
        opt.adam().minimize(br.sum(line.b * p), [p])

    refused(ProgramError, "`p` is not trainable", frozen)
    refused(ProgramError, "not a parameter", lambda line: opt.adam().minimize(line.loss, ["x"]))
    refused(UnknownNameError, "line", lambda line: opt.adam().minimize(line.loss, ["line.c"]))
    other = Line()
    refused(
        ProgramError, "another program", lambda line: opt.adam().minimize(line.loss, [other.w])
    )


def test_gradients_fit_their_parameters() -> None:
    def apply(gradients: Callable[[Line], Any]) -> Callable[[Line], Any]:
        return lambda line: opt.sgd(0.1).apply_gradients(gradients(line))

    refused(
        GradientError,
        "must have the type of the parameter",
        apply(lambda line: {line.w: line.b}),
    )
    refused(
        GradientError, "must have the type of the parameter", apply(lambda line: {line.w: 1.0})
    )
    refused(ProgramError, "at least one gradient", apply(lambda line: {}))
    refused(ProgramError, "is not a parameter", apply(lambda line: {"line.w": line.w}))


def test_a_chain_descends_once() -> None:
    def minimize(made: Optimizer) -> Callable[[Line], Any]:
        return lambda line: made.minimize(line.loss)

    refused(
        ProgramError, "exactly one learning rate, got none", minimize(opt.clip_by_value(1.0))
    )
    refused(
        ProgramError,
        "exactly one learning rate, got 2",
        minimize(opt.chain(opt.adam(), opt.sgd(0.1))),
    )
    refused(ProgramError, "chain: expected optimizers", lambda line: opt.chain(optax.sgd(0.1)))


def test_a_rate_that_is_a_variable_is_one_number() -> None:
    refused(ShapeError, "must be a scalar", lambda line: opt.sgd(line.b).minimize(line.loss))
    refused(
        DTypeError,
        "must return a scalar variable, got 0.1",
        lambda line: opt.sgd(lambda n: 0.1).minimize(line.loss),
    )
    other = Line()
    refused(
        ProgramError, "another program", lambda line: opt.sgd(other.loss).minimize(line.loss)
    )


def test_inner_blocks_have_no_optimizers() -> None:
    def in_a_loop(line: Line) -> None:
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet():
            opt.adam().minimize(line.loss)

    def in_a_branch(line: Line) -> None:
        choice = br.create_if_else(line.loss > 1.0)
        with choice.true_block():
            opt.adam().minimize(line.loss)

    def in_a_block_of_a_loop(line: Line) -> None:
        loop = br.create_while()
        with loop.block(), br.block("step"):
            opt.adam().minimize(line.loss)

    for inside in (in_a_loop, in_a_branch, in_a_block_of_a_loop):
        refused(ProgramError, "inner block", inside)


def test_unknown_names_have_near_misses() -> None:
    with pytest.raises(UnknownNameError, match="`adam`") as info:
        opt.adma  # noqa: B018 - looking it up is the point
    assert isinstance(info.value, AttributeError)
    assert "test_optimizer_errors.py:" in str(info.value)
    assert not hasattr(opt, "adma")
