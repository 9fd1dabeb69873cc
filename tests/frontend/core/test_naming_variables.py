"""Declarations stand for their variables in all public functions; bare memories in none.

The functions are called as their own examples call them, with what is tested in the place of
the variables.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from operator import attrgetter
from typing import Any
from unittest import mock

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.errors import BracesError
from braces.extend.building import current_program
from braces.frontend.core.functions import FUNCTIONS
from braces.frontend.core.pytree import tree_leaves, tree_unflatten
from public_names import modules

EXCLUDED = {"from_paddle", "from_torch", "op", "save_model", "save_parameters", "serve"}
"""Functions whose examples need files or packages, start a server, or leave something."""


AMBIGUOUS = r"after its update(?s:.*)h\.pre\(1\)(?s:.*)h\.next"


class Called(Exception):
    """The function was called with a variable, and did not fail."""


def examples() -> Iterator[tuple[Any, str, str]]:
    """Public functions and classes whose examples call them: module, name and code."""
    parser = doctest.DocTestParser()
    for place, module in modules().items():
        for name in dir(module):
            found, call = getattr(module, name), f"{place}.{name}("
            text = inspect.getdoc(found) or ""
            if callable(found) and name not in {*FUNCTIONS, *EXCLUDED} and call in text:
                yield module, name, "".join(one.source for one in parser.get_examples(text))


def ask(module: Any, name: str, code: str, stand_in: Any) -> bool:
    """Run an example up to the first call with a variable, in whose place `stand_in` calls.

    Returns:
        Whether there was such a call.
    """
    function: Callable[..., Any] = getattr(module, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        given = tree_leaves([args, kwargs])
        if not any(isinstance(value, Var) for value in given):
            return function(*args, **kwargs)
        stand_in(function, [args, kwargs], given)
        raise Called

    hidden = redirect_stdout(io.StringIO())
    running = mock.patch.object(br.Executor, "run", side_effect=Ran)
    with running, hidden, mock.patch.object(module, name, called), contextlib.suppress(Ran):
        try:
            exec(compile(code, f"example of {name}", "exec"), {"__name__": "__main__"})
        except Called:
            return True
    return False


class Ran(Exception):
    """A program is run, which comes after building it."""


def ask_all(stand_in: Any) -> tuple[set[str], dict[str, str]]:
    """The functions that were called with variables, and what was wrong, by name."""
    asked, wrong = set[str](), dict[str, str]()
    for module, name, code in examples():
        if module.__name__.split(".")[-1] in ("cluster", "remote"):
            continue  # their examples begin processes
        try:
            if ask(module, name, code, stand_in):
                asked.add(name)
        except (Exception, pytest.fail.Exception) as error:
            wrong[name] = f"{type(error).__name__}: {error}"[:400]
    return asked, wrong


def call_with_declarations(function: Any, arguments: Any, given: list[Any]) -> None:
    ours = current_program()
    named = [v.info if isinstance(v, Var) and v.program is ours else v for v in given]
    args, kwargs = tree_unflatten(arguments, named)
    function(*args, **kwargs)


def call_with_memories(function: Any, arguments: Any, given: list[Any]) -> None:
    """Each variable in turn is a memory that is updated already."""
    for at, value in enumerate(given):
        if isinstance(value, Var) and value.program is current_program():
            call_with_memory(function, arguments, given, at)


def call_with_memory(function: Any, arguments: Any, given: list[Any], at: int) -> None:
    def call(memory: Any, value: Any) -> None:
        memory.update(memory)
        args, kwargs = tree_unflatten(arguments, [*given[:at], value, *given[at + 1 :]])
        function(*args, **kwargs)
        raise Called

    def attempt(chosen: Callable[[Any], Any]) -> None:
        with br.create_rnn(steps=2).stepnet() as net:
            memory = net.add_memory(init=given[at])
            call(memory, chosen(memory))

    try:
        attempt(lambda memory: memory.pre(1))
    except BracesError:
        return  # this is none for the block of a loop
    except Called:
        pass
    with pytest.raises(BracesError, match=AMBIGUOUS):
        attempt(lambda memory: memory)


def test_a_declaration_stands_for_its_variable_in_every_function() -> None:
    asked, wrong = ask_all(call_with_declarations)
    assert not wrong, wrong
    assert len(asked) > 60


def test_a_bare_memory_after_its_update_is_refused_by_every_function() -> None:
    asked, wrong = ask_all(call_with_memories)
    assert not wrong, wrong
    assert len(asked) > 60


# ---- what `prog.parameters` and `prog.vars` give ---------------------------------------------


def line() -> tuple[br.Program, Any, Any]:
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        loss = br.mean(br.fc(x, 2, name="out") ** 2, name="loss")
    return prog, x, loss


def test_parameters_are_variables_to_compute_with(mode: str) -> None:
    prog, x, loss = line()
    with prog:
        decay = sum(br.sum(w**2) for w in prog.parameters)
        total = loss + 0.5 * decay
        w, b = prog.parameters
        fetch = [
            total,
            x @ w + b,
            *br.gradients([0.5 * decay], prog.parameters),
            *prog.parameters,
        ]
    exe = br.Executor(mode=mode)
    scope, feed = exe.init(prog), {"x": np.arange(6.0).reshape(2, 3)}
    found, affine, w_slope, b_slope, w, b = exe.run(prog, scope, feed, fetch)
    np.testing.assert_allclose(affine, feed["x"] @ w + b, rtol=1e-6)
    np.testing.assert_allclose(found, np.mean(affine**2) + 0.5 * np.sum(w * w), rtol=1e-6)
    assert (w_slope == w).all()
    assert (b_slope == b).all()


def test_parameters_say_what_their_declarations_say() -> None:
    prog, _, _ = line()
    said = attrgetter("name", "type", "shape", "dtype", "kind", "trainable", "shown_type")
    for var in prog.parameters:
        assert said(var) == said(prog.block(0).vars[var.name])
        assert prog.vars[var.name] is var
    assert [*map(id, prog.parameters)] == [*map(id, prog.persistables)]
    read = br.Program.from_bytes(prog.to_bytes())
    assert str(br.sum(read.parameters[0] * 2.0).type) == "f32[]"


@pytest.mark.parametrize(
    "named",
    [
        lambda prog, name: name,
        lambda prog, name: prog.vars[name],
        lambda prog, name: prog.block(0).vars[name],
    ],
)
def test_names_and_declarations_stand_for_variables_where_derivatives_are_made(
    named: Callable[[br.Program, str], Any],
) -> None:
    prog, _, loss = line()
    w, b = prog.parameters
    with prog:
        target = named(prog, loss.name)
        by_name = br.gradients(target, [named(prog, "out.w"), named(prog, "x")])
        assert [str(grad.type) for grad in by_name] == ["f32[3,2]", "f32[n,3]"]  # pyright: ignore[reportOptionalMemberAccess]
        assert str(br.jvp(target, named(prog, "out.w"), w)[0].type) == "f32[]"  # pyright: ignore[reportOptionalMemberAccess]
        assert [*br.append_backward(target, [named(prog, "out.b")])] == [b]
        moved = br.optimizer.sgd(0.1).minimize(target, parameters=[named(prog, "out.w")])
    assert [*moved] == [w]
    assert [*prog.updates] == ["out.w"]


def test_variables_by_name_take_the_operators_of_python(mode: str) -> None:
    prog, x, loss = line()
    with prog:
        w, b = prog.vars["out.w"], prog.vars["out.b"]
        total = -loss + 2.0 * (w**2).sum() - b[0] / 2
    exe = br.Executor(mode=mode)
    scope, feed = exe.init(prog), {"x": np.arange(6.0).reshape(2, 3)}
    found, loss_, w_, b_ = exe.run(prog, scope, feed, [total, loss, w, b])
    np.testing.assert_allclose(found, -loss_ + 2 * (w_**2).sum() - b_[0] / 2, rtol=1e-6)
    assert next(iter(prog.vars)) == "x"
    assert len(prog.vars) == len(prog.block(0).vars)
    assert "nothing" not in prog.vars
    assert prog.vars.get("nothing") is None
    with pytest.raises(br.UnknownNameError, match="loss"):
        prog.vars["los"]
    assert prog.vars["x"] is x


def test_declarations_are_operands_of_operators_and_constructs(mode: str) -> None:
    prog, _, _ = line()
    b: Any = prog.block(0).vars["out.b"]
    with prog:
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            h = net.add_memory(init=b)
            h.update(h + b)
            net.add_output(b)
        choice = br.create_if_else(br.all(br.equal(b, 0.0)))
        with choice.true_block() as block:
            block.add_output(br.concat([b, b]))
        with choice.false_block() as block:
            block.add_output(br.zeros([4]))
        normal = br.distributions.Normal(b, 1.0)
        assert normal.batch_shape == (2,)
        fetch = [rnn(), rnn.final(h), choice(), br.var(b), normal.log_prob(b), br.add(1.0, b)]
    exe = br.Executor(mode=mode)
    scope = exe.init(prog)
    scope["out.b"] = [1.0, 2.0]
    rows, last, chosen, spread, log, more = exe.run(prog, scope, fetch=fetch)
    assert (rows.tolist(), last.tolist()) == ([[1.0, 2.0], [1.0, 2.0]], [3.0, 6.0])
    assert (chosen.tolist(), spread, more.tolist()) == ([0.0] * 4, 0.25, [2.0, 3.0])
    np.testing.assert_allclose(log, -0.5 * np.log(2.0 * np.pi), rtol=1e-6)
