"""Rules of primitives that hold jaxprs of their own: calls, branches and loops.

A call is put in its place; of a function that becomes a program, it is a plain block. `cond`
becomes a switch, `scan` a counted loop, `while` a loop with a condition; their gradients are
ours, so a `while` has one, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from braces.builder.append import one
from braces.builder.var import Var, tensor_type
from braces.dtypes import INT64, TensorType
from braces.ir.records import Body
from braces.ir.views import LoopView
from braces.jaxpr.core.custom_derivatives import has_own_gradient, standing, with_own_gradient
from braces.jaxpr.core.equation import Equation, Rule, Runner, Value, of_library
from braces.jaxpr.core.recognized_functions import operator_of
from braces.lazy import extend
from braces.ops.control.construct.build import (
    build_block,
    build_loop_around,
    build_plain_block,
    build_switch,
)


def call(parameter: str) -> Rule:
    """The rule of a primitive that calls the jaxpr in one of its parameters."""

    def inlined(e: Equation, *values: Value) -> list[Value]:
        found = e.params[parameter]
        closed = found if hasattr(found, "consts") else extend.ClosedJaxpr(found, ())
        return e.call(closed, values)

    return inlined


def with_own_rule(e: Equation, *values: Value) -> Value | list[Value]:
    """A function with a derivative of its own, which the program keeps.

    Only a function with the equations and the derivative of an operator becomes that operator.
    A function of a user becomes a plain block of its name.
    """
    closed, runner = e.params["call_jaxpr"], e.runner
    same = operator_of(e)
    if same is not None:
        return one(same, e.lift(values[0]))
    known = standing(e, values)
    if known is not None:
        return known
    if runner.whole is None or not has_own_gradient(e, values):
        return e.call(closed, values)
    info = closed.jaxpr.debug_info
    called = _block_name(str(info.func_name))
    if not called or of_library(info.func_filename):
        return with_own_gradient(e, runner, values)
    inner = runner.inner()
    return list(build_plain_block(called, lambda: with_own_gradient(e, inner, values)))


def compiled(e: Equation, *values: Value) -> list[Value]:
    """What is compiled by itself: a plain block of its name, or put in its place.

    The functions of JAX's own library are no blocks: to their user they are one line.
    """
    closed = e.params["jaxpr"]
    whole, name = e.runner.whole, _block_name(e.params["name"])
    if whole is None or not name or of_library(closed.jaxpr.debug_info.func_filename):
        return e.call(closed, values)
    runner = e.runner.inner()
    return list(build_plain_block(name, lambda: _run(runner, closed, values)))


def _block_name(name: str) -> str:
    """The name of a function as one of a block; nothing where it has none, as a lambda."""
    return re.sub(r"\W", "_", name, flags=re.ASCII) if "<" not in name else ""


# ---- branches --------------------------------------------------------------------------------


def cond(e: Equation, index: Value, *values: Value) -> Sequence[Var]:
    """A switch; JAX has brought its index into range. What is known is put in its place."""
    if not isinstance(index, Var):
        return [*map(e.lift, e.call(e.params["branches"][int(index)], values))]
    cases = [
        _block(e, (), lambda runner, _, branch=branch: _run(runner, branch, values))
        for branch in e.params["branches"]
    ]
    where = one("cast", e.lift(index), dtype="int32")
    return build_switch(where, cases, total=True)


# ---- loops -----------------------------------------------------------------------------------


def scan(e: Equation, *values: Value) -> tuple[Var, ...]:
    """A counted loop."""
    fixed, carried = e.params["num_consts"], e.params["num_carry"]
    consts, given = values[:fixed], list(map(e.lift, values[fixed:]))
    init, sliced = given[:carried], given[carried:]
    (length,) = e.sizes([e.params["length"]])

    def step(runner: Runner, params: list[Var]) -> Sequence[Value]:
        return _run(runner, e.params["jaxpr"], [*consts, *params[1:]])

    rows = [TensorType(v.dtype, v.shape[1:]) for v in sliced]
    types = [TensorType(INT64, ()), *map(tensor_type, init), *rows]
    loop = LoopView.around(_block(e, types, step), len(init), len(sliced))
    loop = replace(loop, length=length, reverse=bool(e.params["reverse"]))
    made = build_loop_around(loop, init, sliced)
    return *made.finals, *made.rows


def while_loop(e: Equation, *values: Value) -> tuple[Var, ...]:
    """A loop with a condition.

    Mapped over a batch, it goes on as long as one of them does, and the others wait.
    """
    of_cond, of_body = e.params["cond_nconsts"], e.params["body_nconsts"]
    asked, read = values[:of_cond], values[of_cond : of_cond + of_body]
    init = list(map(e.lift, values[of_cond + of_body :]))
    batched = bool(e.params["cond_jaxpr"].out_avals[0].shape)
    types = list(map(tensor_type, init))

    def goes_on(runner: Runner, carried: list[Var]) -> Var:
        (more,) = _run(runner, e.params["cond_jaxpr"], [*asked, *carried])
        return runner.lift(more)

    def step(runner: Runner, params: list[Var]) -> Sequence[Value]:
        made = _run(runner, e.params["body_jaxpr"], [*read, *params[1:]])
        more = goes_on(runner, params[1:]) if batched else None
        return made if more is None else _where(runner, more, made, params[1:])

    def check(runner: Runner, params: list[Var]) -> Sequence[Value]:
        more = goes_on(runner, params)
        return [one("any", more) if batched else more]

    body = _block(e, [TensorType(INT64, ()), *types], step)
    held = _block(e, types, check, body.params[1:])
    return build_loop_around(
        replace(LoopView.around(body, len(init)), condition=held), init
    ).finals


def _where(runner: Runner, mask: Var, new: Sequence[Value], old: Sequence[Var]) -> list[Value]:
    """New values where a mask holds, whose axes are their first ones."""

    def chosen(value: Value, before: Var) -> Var:
        wide = one("reshape", mask, shape=(*mask.shape, *[1] * (before.ndim - mask.ndim)))
        return one("where", wide, runner.lift(value), before)

    return [chosen(*pair) for pair in zip(new, old, strict=True)]


# ---- blocks ----------------------------------------------------------------------------------


def _run(runner: Runner, closed: Any, given: Sequence[Value]) -> list[Value]:
    return runner.run(closed.jaxpr, closed.consts, given)


def _block(
    e: Equation,
    types: Sequence[TensorType],
    build: Callable[[Runner, list[Var]], Sequence[Value]],
    names: Sequence[str] = (),
) -> Body:
    """A block inside the current one: its parameters, and what is built from them."""

    def built(params: list[Var]) -> list[Var]:
        runner = e.runner.inner()
        return [runner.lift(value) for value in build(runner, params)]

    return build_block(types, built, names)


CALLS: Mapping[str, Rule] = {
    "cond": cond,
    "custom_jvp_call": with_own_rule,
    "custom_vjp_call": with_own_rule,
    "jit": compiled,
    "remat2": call("jaxpr"),
    "scan": scan,
    "while": while_loop,
}
