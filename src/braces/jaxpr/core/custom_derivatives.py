"""Functions of JAX that bring their derivative along: `jax.custom_vjp`, `jax.custom_jvp`.

    @jax.custom_vjp                          y = block() captures [x] as f
    def f(x): return x * jnp.exp(x)            body {
    f.defvjp(forward, backward)                  a = exp(x=x)   b = multiply(x=x, y=a)
                                                 y = custom_gradient(values=b, sources=x)
                                                   backward (out, g) { … return x_grad }
                                                 return y
                                               }

JAX itself is asked for the cotangents that follow from the cotangents of the results, so both
kinds of rules are one: a `jvp` is transposed by it. What of that follows from the arguments
alone, the residuals of the rule, is computed beside the function, and kept for the gradient;
what a function and its rule both compute stands there once.

A rule that calls the function itself, on the same arguments, has its results there; and a
rule that calls it on others, or others of the kind, has their gradients in its own, down to
`DEEPEST`: derivatives of a higher order follow from the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from braces.builder.builder import current_program
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, shown, tensor_type
from braces.dtypes import is_float
from braces.errors import ProgramError
from braces.ir.records import Body, Literal, Op
from braces.jaxpr.core.equation import Equation, Rule, Runner, Value
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.lazy import jax
from braces.ops.control.construct.build import build_block, build_custom_gradient
from braces.passes.autodiff.common import moves

DEEPEST = 4
"""Gradients within gradients that are kept."""


def has_own_gradient(e: Equation, values: Sequence[Value]) -> bool:
    """Whether cotangents can go through a call, to what is no number."""
    return bool(_ways(e, values) and _ends(e)) and len(e.runner.standing) < DEEPEST


def standing(e: Equation, values: Sequence[Value]) -> list[Value] | None:
    """What a call gives whose gradient is being read, which calls it again."""
    return e.runner.standing.get(_call_of(e, values)) if e.runner.standing else None


def with_own_gradient(e: Equation, runner: Runner, values: Sequence[Value]) -> list[Value]:
    """The operators of a function, whose results have the gradient that it brings along.

    Args:
        e: The equation that calls it.
        runner: What appends to the block that is built.
        values: The arguments.

    Raises:
        ProgramError: The function closes over what its rule gives no cotangent.
    """
    closed = e.params["call_jaxpr"]
    _refuse_closed_over(e, values)
    found = runner.run(closed.jaxpr, closed.consts, values)
    return with_gradient_of_jax(e, runner, values, found)


def with_derivative_of_jax(rule: Rule, differs: Callable[[Equation], bool]) -> Rule:
    """A rule whose results have the derivative that JAX has of the primitive.

    Args:
        rule: Operators of the same values.
        differs: Whether their derivative is another one for some arguments, by the equation.
    """

    def found(e: Equation, *values: Value) -> Value | Sequence[Value]:
        known = standing(e, values)
        if known is not None:
            return known
        made = rule(e, *values)
        if e.runner.whole is None or not differs(e) or not has_own_gradient(e, values):
            return made
        several = list(made) if isinstance(made, Sequence) else [made]
        return with_gradient_of_jax(e, e.runner, values, several)

    return found


def with_gradient_of_jax(
    e: Equation,
    runner: Runner,
    values: Sequence[Value],
    found: Sequence[Value],
    function: Callable[..., Any] | None = None,
) -> list[Value]:
    """What an equation gives, with the gradient that JAX says of it.

    An equation of which JAX has none keeps that of its operators, unless a user's rule fails.

    Args:
        e: The equation.
        runner: What appends to the block that is built.
        values: Its arguments.
        found: What it gives, computed.
        function: What is differentiated, from arrays to a sequence of arrays; by default the
            primitive itself. It must have a gradient.

    Raises:
        ProgramError: JAX has no gradient of it.
    """
    ends, made = _ends(e), [runner.lift(value) for value in found]
    passed, ways = [made[at] for at in ends], _ways(e, values)
    try:
        rule = _pullback(e, function or _bound(e), [at for at, _ in ways], ends)
        consts = [_brought(e, array, runner) for array in rule.consts]
    except ProgramError:
        if function is not None or ("call_jaxpr" in e.params and not runner.standing):
            raise
        return [*made]

    def build(params: list[Var]) -> list[Var]:
        here: list[Value] = [*made]
        for at, param in zip(ends, params, strict=False):
            here[at] = param
        inner = runner.inner()
        inner.standing[_call_of(e, values)] = here
        given = [*values, *params[len(ends) :]]
        return [inner.lift(value) for value in inner.run(rule.jaxpr, consts, given)]

    body = build_block(list(map(tensor_type, passed)) * 2, build)
    body = _with_residuals(current_program().current, body)
    outs = build_custom_gradient(passed, [var for _, var in ways], body)
    for at, out in zip(ends, outs, strict=True):
        made[at] = out
    return [*made]


def _ways(e: Equation, values: Sequence[Value]) -> list[tuple[int, Var]]:
    """The arguments that get cotangents, by place.

    Constants get none, and a rule with symbolic zeros is told so; neither does what a function
    closes over.
    """
    first = e.params.get("num_consts", 0)
    return [
        (at, shown(value))
        for at, value in enumerate(values)
        if at >= first and isinstance(value, Var) and _moves(value)
    ]


def _moves(value: Var) -> bool:
    """Return whether a gradient can follow a variable, which may be that of a closed block."""
    return is_float(value.dtype) and moves(current_program().current, shown(value).name)


def _ends(e: Equation) -> list[int]:
    """The places of the results that have cotangents."""
    return [at for at, type_ in enumerate(e.types) if is_float(type_.dtype)]


def _call_of(e: Equation, values: Sequence[Value]) -> Hashable:
    """What two calls share that are one: where the function is written, and the arguments."""
    names = [v.name if isinstance(v, Var) else Literal.of(v) for v in values]
    return e.name, _named(e), str(_forward(e)), *names


def _forward(e: Equation) -> Any:
    """What computes the results of an equation: a function, what solves, or the primitive."""
    found = e.params.get("call_jaxpr")
    if found is None and "jaxprs" in e.params:
        return e.params["jaxprs"].solve
    return e.params if found is None else found


def _named(e: Equation) -> str:
    """The function of a call and where it is written, else the name of the primitive."""
    forward = _forward(e)
    return e.name if forward is e.params else forward.jaxpr.debug_info.func_src_info


def _bound(e: Equation) -> Callable[..., Any]:
    """The primitive of an equation as a function from arrays to a sequence of arrays."""
    primitive = e.eqn.primitive

    def bind(*arguments: Any) -> Any:
        made = primitive.bind(*arguments, **primitive.get_bind_params(e.eqn.params))
        return made if primitive.multiple_results else [made]

    return bind


def _pullback(
    e: Equation, function: Callable[..., Any], ways: Sequence[int], ends: Sequence[int]
) -> Any:
    """From arguments, and cotangents of results, to those of some arguments: a jaxpr.

    Raises:
        ProgramError: It cannot be traced.
    """
    library = _library()

    def pulled(arguments: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        def moved(*moving: Any) -> list[Any]:
            given = list(arguments)
            for at, value in zip(ways, moving, strict=True):
                given[at] = value
            results = function(*given)
            return [results[at] for at in ends]

        _, pull = library.vjp(moved, *(arguments[at] for at in ways))
        return pull(list(cotangents))

    structs = [struct_of(atom.aval) for atom in e.eqn.invars]
    results = [struct_of(e.eqn.outvars[at].aval) for at in ends]
    closed, _ = closed_jaxpr(
        f"The gradient of `{_named(e).partition(' ')[0]}`", pulled, (structs, results)
    )
    return closed


def _brought(e: Equation, array: Any, runner: Runner) -> Any:
    """An array that a rule closes over; one of the functions around it is a value here.

    Raises:
        ProgramError: The value is not known.
    """
    if not isinstance(array, _library().core.Tracer):
        return array
    found = runner.find(getattr(array, "val", None))
    if found is None:
        raise _closed_over(e)
    return found


def _refuse_closed_over(e: Equation, values: Sequence[Value]) -> None:
    """Refuse what is closed over and would have a gradient, which JAX refuses, too.

    Arrays that JAX sees as constants have none.
    """
    whole = e.runner.whole
    constants = set[str]() if whole is None else whole.brought
    for value in values[: e.params["num_consts"]]:
        if not isinstance(value, Var) or value.name in constants:
            continue
        if _moves(value):
            raise _closed_over(e)


def _closed_over(e: Equation) -> ProgramError:
    name = _named(e).partition(" ")[0]
    return ProgramError(
        f"`{name}` has a gradient of its own, and reads a value of the function around it.",
        fix=f"Give it to `{name}` as an argument, as JAX asks for, or stop its gradient.",
    )


def _library() -> Any:
    """JAX, whose own types are not all known."""
    return jax


def struct_of(aval: Any) -> Any:
    """The shape and dtype of an array, as JAX takes them for tracing."""
    return _library().ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


# ---- residuals -------------------------------------------------------------------------------


def _with_residuals(table: SymbolTable, body: Body) -> Body:
    """A gradient whose residuals are computed before it, where a table ends.

    Numbers that are written out stay, unless residuals are made of them.
    """
    follows, apart = set(body.params), list[Op]()
    for op in body.ops:
        if follows.isdisjoint(op.reads()):
            apart.append(op)
        else:
            follows.update(op.binds())
    needed = _made_of_something(apart, body)
    for op in reversed(apart):
        if not needed.isdisjoint(op.binds()):
            needed.update(op.reads())
    moved = [op for op in apart if not needed.isdisjoint(op.binds())]
    gone = set[str]()
    for op in moved:
        table.append(op, [body.vars[name] for name in op.binds()])
        gone.update(op.binds())
    ops = tuple(op for op in body.ops if gone.isdisjoint(op.binds()))
    infos = {name: info for name, info in body.vars.items() if name not in gone}
    return body.with_(vars=infos, ops=ops)


def _made_of_something(ops: Sequence[Op], body: Body) -> set[str]:
    """What operators make that follows from variables outside of a block."""
    found = set[str]()
    for op in ops:
        if any(name in found or name not in body.vars for name in op.reads()):
            found.update(op.binds())
    return found
