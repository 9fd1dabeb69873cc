"""Bad input of `prog.rewrite`: an error that names both places, and an unchanged program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import braces as br


def looped() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", [3, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(br.tanh(br.exp(net.add_input(x)), name="act"))
        prog.give(br.tanh(rnn(), name="out").name)
    return prog


def refused(
    error: type[br.BracesError], text: str, *arguments: Any, prog: br.Program | None = None
) -> str:
    prog = prog or looped()
    definition, startup = prog.definition, prog.startup.definition
    with pytest.raises(error) as caught:
        prog.rewrite(*arguments)
    assert text in str(caught.value)
    assert prog.definition is definition
    assert prog.startup.definition is startup
    return str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (lambda x: x, "returns its input `x`, so it can never match"),
        (lambda x, y: br.tanh(x), "does not use its parameter `y`, so it can never match"),
        (lambda x: (), "returns no variable"),
        (lambda x: 3.0, "returned 3.0; expected a variable"),
        (lambda *xs: br.concat(xs), "variable number of parameters, *xs"),
        (
            lambda x, y: br.while_loop(lambda h: br.sum(h) < 1.0, lambda h: (h + y, h)[1], x),
            "does not use its parameter `y`, so it can never match",
        ),
        (lambda x: br.reshape(x, (7, 11, 13)), "cannot be built for any sample types"),
        (3, "expected a function as a pattern"),
    ],
)
def test_patterns_that_can_never_match(pattern: Any, text: str) -> None:
    refused(br.ProgramError, text, pattern, lambda *xs: xs[0])


@pytest.mark.parametrize(
    ("after", "error", "text"),
    [
        (lambda x: br.cast(x, "float64"), br.DTypeError, "expected f32[4], got f64[4]"),
        (br.sum, br.ShapeError, "expected f32[4], got f32[]"),
        (lambda x: 0.0, br.ProgramError, "expected 1 variable from the replacement, got 0.0"),
        (lambda x: (x, x), br.ProgramError, "expected 1 variable from the replacement"),
        (lambda: None, br.ProgramError, "does not take the variables of the pattern"),
        (lambda x, y: x, br.ProgramError, "does not take the variables of the pattern"),
        (7, br.ProgramError, "expected a function as the replacement, got 7"),
        (lambda x: br.concat([x, x], axis=5), br.BracesError, "match 1 of `tanh`"),
    ],
)
def test_replacements_of_another_form(
    after: Any, error: type[br.BracesError], text: str
) -> None:
    refused(error, text, br.tanh, after)


def test_the_error_of_a_type_names_the_place_and_both_variables() -> None:
    text = refused(br.ShapeError, "at `loop_0/body/act`", br.tanh, br.sum)
    assert "act: f32[4]" in text
    assert "sum_0: f32[]" in text


def test_two_matches_with_one_parameter_name() -> None:
    def scaled(x: Any) -> Any:
        return x * br.parameter("scale", [], 1.0)

    text = refused(br.DuplicateNameError, "match 2 of `tanh`, at `out`", br.tanh, scaled)
    assert "Derive the name from the match" in text


def test_a_python_error_of_a_replacement_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        looped().rewrite(br.tanh, lambda x: 1 / 0)


@pytest.mark.parametrize("rule", [3, lambda op: op, br.pattern(lambda x: br.tanh(x))])
def test_rules_of_another_form(rule: Any) -> None:
    refused(br.ProgramError, "expected a rule", rule)


def test_results_of_rules_of_another_form() -> None:
    def number(op: Any, place: Any) -> Any:
        return 3.0 if op.type == "exp" else op

    refused(br.ProgramError, "expected a replacement of `exp_0`, got 3.0", number)

    def shape(op: Any, place: Any) -> Any:
        if op.type != "exp":
            return op
        with place.building():
            return br.sum(place.var(op.inputs["x"][0]))

    refused(br.ShapeError, "at `loop_0/body/exp_0`", shape)


def test_unknown_wildcards_of_a_match() -> None:
    where: Callable[[Any], Any] = lambda match: match["z"]  # noqa: E731
    chosen = br.pattern(lambda x: br.tanh(x), where=where)
    refused(br.UnknownNameError, "no wildcard `z`", chosen, br.sin)


def test_alternatives_outside_of_a_pattern() -> None:
    with pytest.raises(br.ProgramError, match="two or more functions"):
        br.any_of(br.tanh)
    with br.Program(), pytest.raises(br.ProgramError, match="in patterns only"):
        br.any_of(br.tanh, br.sin)(br.data("x", [3]))


def custom() -> br.Program:
    @br.custom_gradient
    def rounded(x: Any) -> Any:
        return br.round(br.tanh(x, name="inner")), lambda grad: grad * br.sin(grad)

    with br.Program() as prog:
        x = br.data("x", [3, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(br.tanh(rounded(net.add_input(x)), name="outer"))
        prog.give(rnn().name)
    return prog


def test_a_user_written_gradient_would_be_invalid() -> None:
    text = refused(
        br.ProgramError, "would invalidate the user-written gradient", br.tanh, br.sin,
        prog=custom(),
    )  # fmt: skip
    assert "loop_0/body/" in text
    assert "inner" in text
    refused(br.ProgramError, "user-written gradient", br.sin, br.tanh, prog=custom())
    outer = br.pattern(lambda x: br.tanh(x), where=lambda m: "outer" in m.path)
    assert len(custom().rewrite(outer, br.sin).report) == 1
    assert len(custom().rewrite(br.tanh, br.tanh, exact=True).report) == 2


def test_visible_derivatives_are_refused_where_they_are_not_recorded() -> None:
    def differentiated() -> br.Program:
        with br.Program() as prog:
            x = br.data("x", [3, 4])
            y = br.tanh(br.matmul(x, br.data("w", [4, 4]), name="product"), name="act")
            grads = br.gradients(br.sum(y * y), x)
            side = br.exp(x, name="side")
            prog.give(grads[0].name)
            prog.give(side.name)
        return prog

    read = br.parse(str(differentiated()))
    text = refused(
        br.ProgramError, "`act` is already differentiated", br.tanh, br.sin, prog=read
    )
    assert "cannot be built again: the program does not record how" in text
    assert len(read.rewrite(br.exp, br.sin).report) == 1
    product = br.pattern(lambda x, w: x @ w, where=lambda m: m.path == "product")
    assert len(differentiated().rewrite(product, lambda x, w: x @ w).report) == 1


def test_statistics_and_draws_are_no_derivatives() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        y = br.dropout(br.batch_norm(x), 0.5)
        prog.give(br.tanh(y).name)
    assert len(prog.rewrite(br.tanh, br.sin).report) == 1


def test_a_rolled_back_gradient_is_forgotten() -> None:
    prog = looped()
    with pytest.raises(ZeroDivisionError):
        fail_after_gradients(prog)
    assert len(prog.rewrite(br.tanh, br.sin).report) == 2


def fail_after_gradients(prog: br.Program) -> None:
    with prog:
        br.gradients(br.sum(prog.var("out")), prog.var("x"))
        raise ZeroDivisionError
