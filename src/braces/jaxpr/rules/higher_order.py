"""Rules of primitives with inner jaxprs: calls, branches and loops.

Calls are inlined; in a function that becomes a program, they are plain blocks. `cond` becomes a
switch, `scan` a counted loop, `while` a loop with a condition. Their gradients are ours, so
`while` becomes differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var, tensor_type
from braces.define.core.scan_operands import split_scan_operands
from braces.dtypes import INT32, INT64, TensorType
from braces.ir.records import Body, Literal
from braces.ir.views import LoopView
from braces.jaxpr.core.custom_derivatives import (
    convert_with_custom_gradient,
    enclosing_results,
    has_custom_gradient,
    refuse_deep_gradient,
    struct_of,
    with_jax_derivative,
)
from braces.jaxpr.core.equation import (
    Equation,
    JaxprReader,
    Rule,
    Value,
    is_library_file,
    values_of,
)
from braces.jaxpr.core.named_scopes import block_name
from braces.jaxpr.core.raising_branches import (
    RaisingBranch,
    check_results,
    find_raising_branches,
)
from braces.jaxpr.core.recognized_draws import append_draw
from braces.jaxpr.core.recognized_functions import operator_of
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.jaxpr.rules.arithmetic import in_dtype
from braces.lazy import extend
from braces.ops.control.construct.build import (
    build_block,
    build_loop_around,
    build_plain_block,
    build_switch,
)


def inlined_call(parameter: str) -> Callable[..., list[Any]]:
    """Return the rule of a primitive that calls the jaxpr in one of its parameters.

    The rule is for any record of an equation that has `params` and `call`.
    """

    def inline_call(e: Any, *values: Any) -> list[Any]:
        inner = e.params[parameter]
        closed = inner if hasattr(inner, "consts") else extend.ClosedJaxpr(inner, ())
        return e.call(closed, values)

    return inline_call


def custom_derivative_call(e: Equation, *values: Value) -> Value | list[Value]:
    """A function with a custom derivative, which the program keeps.

    It becomes an operator if it has the operator's equations and derivative. A user's function
    becomes a plain block of its name.
    """
    closed, runner = e.params["call_jaxpr"], e.runner
    operator = operator_of(e)
    if operator is not None:
        return emit(operator, e.lift(values[0]))
    existing = enclosing_results(e, values)
    if existing is not None:
        return existing
    info = closed.jaxpr.debug_info
    name = block_name(str(info.func_name))
    is_own = bool(name) and not is_library_file(info.func_filename)
    if runner.whole is None or not has_custom_gradient(e, values):
        results = e.call(closed, values)
        return refuse_deep_gradient(e, values, results) if is_own else results
    if not is_own:
        return convert_with_custom_gradient(e, runner, values)
    inner = runner.inner()
    return list(build_plain_block(name, lambda: convert_with_custom_gradient(e, inner, values)))


def jit_call(e: Equation, *values: Value) -> list[Value]:
    """A `jit` call: a plain block of its name, or inlined.

    Functions of JAX's own library are inlined: to users they are one line. Random draws are one
    operator.
    """
    closed, draw = e.params["jaxpr"], append_draw(e, values)
    if draw is not None:
        return [draw]
    whole, name = e.runner.whole, block_name(e.params["name"])
    if whole is None or not name or is_library_file(closed.jaxpr.debug_info.func_filename):
        return e.call(closed, values)
    runner = e.runner.inner()
    return list(build_plain_block(name, lambda: _run(runner, closed, values)))


def high_level_call(e: Equation, *values: Value) -> list[Value]:
    """A function of JAX that defines its own derivative, such as `custom_root`, expanded."""
    structs = [struct_of(atom.aval) for atom in e.eqn.invars]
    expand = partial(e.eqn.primitive.to_lojax, **e.params)
    closed, _ = closed_jaxpr(f"The implementation of `{e.params['_prim']}`", expand, structs)
    return e.call(closed, values)


# ---- branches --------------------------------------------------------------------------------


def cond(e: Equation, index: Value, *values: Value) -> Sequence[Value]:
    """A switch, whose index JAX has clamped; a known index selects a branch at import time."""
    branches = e.params["branches"]
    if not isinstance(index, Var):
        return [*map(e.lift, e.call(branches[int(index)], values))]
    raising = find_raising_branches(branches)
    if raising:
        return _cond_with_errors(e, raising, index, values)
    return _switch(e, index, branches, values)


def _cond_with_errors(
    e: Equation, raising: Sequence[RaisingBranch], index: Var, values: Sequence[Value]
) -> Sequence[Value]:
    """A conditional of the branches that do not raise, with a check that no other is taken."""
    branches, indices = e.params["branches"], {branch.index for branch in raising}
    others = [branch for at, branch in enumerate(branches) if at not in indices]
    if len(others) == 1:
        results = e.call(others[0], values)
    else:
        cases = [others[0] if at in indices else case for at, case in enumerate(branches)]
        results = _switch(e, index, cases, values)
    return check_results(e, raising, index, values, results)


def _switch(
    e: Equation, index: Var, branches: Sequence[Any], values: Sequence[Value]
) -> Sequence[Value]:
    """A switch of branches; results that all branches only pass on are selected by `where`."""
    index = in_dtype(index, INT32)
    passed = passed_operands(branches, values)
    computed = [at for at in range(len(e.eqn.outvars)) if at not in passed]

    def build(branch: Any, runner: JaxprReader, _: list[Var]) -> Sequence[Value]:
        results = _run(runner, branch, values)
        return [results[at] for at in computed]

    cases = [_block(e, (), partial(build, branch)) for branch in branches] if computed else []
    built = iter(build_switch(index, cases, total=True) if computed else ())

    @cache
    def is_taken(case: int) -> Var:
        return emit("equal", index, e.lift_number(case))

    return [
        _selected(e, is_taken, passed[at]) if at in passed else next(built)
        for at in range(len(e.eqn.outvars))
    ]


def passed_operands(
    branches: Sequence[Any], values: Sequence[Value]
) -> dict[int, Sequence[Value]]:
    """Return the results that all branches only pass on.

    Returns:
        The operands and literals that the branches return, by the position of the result.
    """
    tables = [dict(zip(branch.jaxpr.invars, values, strict=True)) for branch in branches]
    results = zip(*(branch.jaxpr.outvars for branch in branches), strict=True)
    return {
        at: [
            values_of([atom], table, np.asarray)[0]
            for atom, table in zip(atoms, tables, strict=True)
        ]
        for at, atoms in enumerate(results)
        if all(
            isinstance(atom, extend.Literal) or atom in table
            for atom, table in zip(atoms, tables, strict=True)
        )
    }


def _selected(e: Equation, is_taken: Callable[[int], Var], cases: Sequence[Value]) -> Value:
    """The value of the case that is taken."""
    *others, last = cases
    if all(_is_same(case, last) for case in others):
        return last
    selected = e.lift(last)
    for at, case in reversed([*enumerate(others)]):
        selected = emit("where", is_taken(at), e.lift(case), selected)
    return selected


def _is_same(left: Value, right: Value) -> bool:
    if isinstance(left, Var) or isinstance(right, Var):
        return isinstance(left, Var) and isinstance(right, Var) and left.name == right.name
    return Literal.of(left) == Literal.of(right)


# ---- loops -----------------------------------------------------------------------------------


def scan(e: Equation, *values: Value) -> tuple[Var, ...]:
    """A counted loop."""
    consts, *operands = split_scan_operands(e.params, values)
    init, scanned = (list(map(e.lift, part)) for part in operands)
    (length,) = e.sizes([e.params["length"]])

    def step(runner: JaxprReader, params: list[Var]) -> Sequence[Value]:
        return _run(runner, e.params["jaxpr"], [*consts, *params[1:]])

    rows = [TensorType(v.dtype, v.shape[1:]) for v in scanned]
    types = [TensorType(INT64, ()), *map(tensor_type, init), *rows]
    loop = LoopView.around(_block(e, types, step), len(init), len(scanned))
    loop = replace(loop, length=length, reverse=bool(e.params["reverse"]))
    loop_results = build_loop_around(loop, init, scanned)
    return *loop_results.finals, *loop_results.rows


def while_loop(e: Equation, *values: Value) -> tuple[Var, ...]:
    """A loop with a condition.

    A batched loop runs while any batch element is active; the others keep their values.
    """
    of_cond, of_body = e.params["cond_nconsts"], e.params["body_nconsts"]
    cond_consts, body_consts = values[:of_cond], values[of_cond : of_cond + of_body]
    init = list(map(e.lift, values[of_cond + of_body :]))
    batched = bool(e.params["cond_jaxpr"].out_avals[0].shape)
    types = list(map(tensor_type, init))

    def condition_of(runner: JaxprReader, carried: list[Var]) -> Var:
        (is_active,) = _run(runner, e.params["cond_jaxpr"], [*cond_consts, *carried])
        return runner.lift(is_active)

    def step(runner: JaxprReader, params: list[Var]) -> Sequence[Value]:
        next_values = _run(runner, e.params["body_jaxpr"], [*body_consts, *params[1:]])
        is_active = condition_of(runner, params[1:]) if batched else None
        return (
            next_values
            if is_active is None
            else _select_rows(runner, is_active, next_values, params[1:])
        )

    def check(runner: JaxprReader, params: list[Var]) -> Sequence[Value]:
        is_active = condition_of(runner, params)
        return [emit("any", is_active) if batched else is_active]

    body = _block(e, [TensorType(INT64, ()), *types], step)
    condition_block = _block(e, types, check, body.params[1:])
    return build_loop_around(
        replace(LoopView.around(body, len(init)), condition=condition_block), init
    ).finals


def _select_rows(
    runner: JaxprReader, mask: Var, new: Sequence[Value], old: Sequence[Var]
) -> list[Value]:
    """Select new values by a mask over their leading axes."""

    def select_value(value: Value, before: Var) -> Var:
        broadcast_mask = emit(
            "reshape", mask, shape=(*mask.shape, *[1] * (before.ndim - mask.ndim))
        )
        return emit("where", broadcast_mask, runner.lift(value), before)

    return [select_value(*pair) for pair in zip(new, old, strict=True)]


# ---- blocks ----------------------------------------------------------------------------------


def _run(runner: JaxprReader, closed: Any, operands: Sequence[Value]) -> list[Value]:
    return runner.run(closed.jaxpr, closed.consts, operands)


def _block(
    e: Equation,
    types: Sequence[TensorType],
    build: Callable[[JaxprReader, list[Var]], Sequence[Value]],
    names: Sequence[str] = (),
) -> Body:
    """Build a nested block from its parameters."""

    def build_body(params: list[Var]) -> list[Var]:
        runner = e.runner.inner()
        return [runner.lift(value) for value in build(runner, params)]

    return build_block(types, build_body, names)


CALLS: Mapping[str, Rule] = {
    "call": inlined_call("call_jaxpr"),
    "closed_call": inlined_call("call_jaxpr"),
    "call_hi_primitive": with_jax_derivative(high_level_call, lambda _: True),
    "cond": cond,
    "custom_jvp_call": custom_derivative_call,
    "custom_vjp_call": custom_derivative_call,
    "eval_jaxpr": inlined_call("call_jaxpr"),
    "jit": jit_call,
    "remat2": inlined_call("jaxpr"),
    "scan": scan,
    "while": while_loop,
}
