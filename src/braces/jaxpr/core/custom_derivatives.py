"""JAX functions with custom derivatives: `jax.custom_vjp`, `jax.custom_jvp`.

    @jax.custom_vjp                          y = block() captures [x] as f
    def f(x): return x * jnp.exp(x)            body {
    f.defvjp(forward, backward)                  a = exp(x=x)   b = multiply(x=x, y=a)
                                                 y = custom_gradient(values=b, sources=x)
                                                   backward (out, g) { … return x_grad }
                                                 return y
                                               }

JAX computes the pullback from result cotangents to argument cotangents. Both kinds of rules are
therefore handled alike: JAX transposes a `jvp`. The residuals of the rule, which depend on the
arguments alone, are computed in the forward pass and saved for the gradient. Computations that
function and rule share are built once.

A rule that calls the function itself on the same arguments reads the existing results. A rule
that calls it on other arguments, or another such function, nests custom gradients down to
`DEEPEST`. Higher derivatives of primitives and functions of JAX follow from the arithmetic.

A function without a known derivative has its values; `refuse_gradient` is the operator that
raises an error where its gradient is requested. That is a rule that JAX cannot trace or
transpose, a function that captures a differentiated value, and a derivative of a higher order
than the deepest nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from braces.builder.append import emit
from braces.builder.builder import current_program
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, expose, tensor_type
from braces.dtypes import is_float
from braces.errors import ProgramError
from braces.ir.records import Body, Literal, Op
from braces.jaxpr.core.equation import Equation, JaxprReader, Rule, Value
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.lazy import jax
from braces.ops.control.construct.build import build_block, build_custom_gradient

DEEPEST = 4
"""The deepest nesting of custom gradients."""
DEEPEST_IN_LIBRARIES = 2
"""The same for primitives of libraries, whose rules may call several solvers."""


def has_custom_gradient(e: Equation, values: Sequence[Value]) -> bool:
    """Return whether cotangents can flow through a call to a variable."""
    return len(e.runner.standing) < DEEPEST and _has_float_path(e, values)


def _has_float_path(e: Equation, values: Sequence[Value]) -> bool:
    return bool(_float_results(e)) and bool(_sources_of(e, values))


def enclosing_results(e: Equation, values: Sequence[Value]) -> list[Value] | None:
    """Return the results of a call that its own gradient repeats, or `None`."""
    return e.runner.standing.get(_call_key(e, values)) if e.runner.standing else None


def convert_with_custom_gradient(
    e: Equation, runner: JaxprReader, values: Sequence[Value]
) -> list[Value]:
    """Convert a function, and attach its custom gradient to the results.

    Args:
        e: The equation of the call.
        runner: The importer of the current block.
        values: The arguments.
    """
    closed = e.params["call_jaxpr"]
    results = runner.run(closed.jaxpr, closed.consts, values)
    results = attach_jax_gradient(e, runner, values, results)
    captured = _captured_sources(e, values)
    return refuse_gradient(e, results, captured, _closure_error(e)) if captured else results


def refuse_deep_gradient(
    e: Equation, values: Sequence[Value], results: Sequence[Value]
) -> list[Value]:
    """Return results whose gradient is refused if custom gradients are nested too deep."""
    if len(e.runner.standing) < DEEPEST or not _has_float_path(e, values):
        return [*results]
    return refuse_arguments(e, values, results, _order_error(f"`{_short_name(e)}`", DEEPEST))


def with_jax_derivative(
    rule: Rule, differs: Callable[[Equation], bool], deepest: int = DEEPEST
) -> Rule:
    """Extend a rule so that its results have JAX's derivative of the primitive.

    Args:
        rule: Builds operators with the same values.
        differs: Returns whether their derivative differs for some arguments, from the equation.
        deepest: The deepest nesting of custom gradients; derivatives of a higher order than
            this nesting are refused if it is below `DEEPEST`.
    """

    def rule_with_derivative(e: Equation, *values: Value) -> Value | Sequence[Value]:
        existing = enclosing_results(e, values)
        if existing is not None:
            return existing
        results = rule(e, *values)
        if e.runner.whole is None or not differs(e) or not has_custom_gradient(e, values):
            return results
        result_list = list(results) if isinstance(results, Sequence) else [results]
        if len(e.runner.standing) < deepest:
            return attach_jax_gradient(e, e.runner, values, result_list)
        error = _order_error(f"`{e.name}` of a JAX library", deepest)
        return refuse_arguments(e, values, result_list, error)

    return rule_with_derivative


def extend_to_complex(rule: Rule, complex_rule: Rule) -> Rule:
    """Extend a rule by one for results that are complex, whose derivative is that of JAX."""

    def is_complex(e: Equation) -> bool:
        return e.dtype.kind == "c"

    def extended(e: Equation, *values: Value) -> Value | Sequence[Value]:
        return (complex_rule if is_complex(e) else rule)(e, *values)

    return with_jax_derivative(extended, is_complex)


def attach_jax_gradient(
    e: Equation,
    runner: JaxprReader,
    values: Sequence[Value],
    results: Sequence[Value],
    function: Callable[..., Any] | None = None,
) -> list[Value]:
    """Attach JAX's gradient to the results of an equation.

    A primitive without a gradient in JAX keeps that of its operators. The gradient of a
    function whose own rule fails is refused.

    Args:
        e: The equation.
        runner: The importer of the current block.
        values: Its arguments.
        results: Its results.
        function: The function to differentiate, from arrays to a sequence of arrays; by default
            the primitive itself. It must have a gradient.

    Raises:
        ProgramError: If JAX has no gradient of the function.
    """
    ends, variables = _float_results(e), [runner.lift(value) for value in results]
    outputs, sources = [variables[at] for at in ends], _sources_of(e, values)
    try:
        rule = _pullback(e, function or _primitive_function(e), [at for at, _ in sources], ends)
        consts = [_resolve_captured(e, array, runner) for array in rule.consts]
    except ProgramError as error:
        if function is not None:
            raise
        if "call_jaxpr" not in e.params:
            return [*variables]
        return refuse_arguments(e, values, variables, error)

    def build(params: list[Var]) -> list[Var]:
        existing: list[Value] = [*variables]
        for at, param in zip(ends, params, strict=False):
            existing[at] = param
        inner = runner.inner()
        inner.standing[_call_key(e, values)] = existing
        operands = [*values, *params[len(ends) :]]
        return [inner.lift(value) for value in inner.run(rule.jaxpr, consts, operands)]

    body = build_block(list(map(tensor_type, outputs)) * 2, build)
    body = _hoist_residuals(current_program().current, body)
    outs = build_custom_gradient(outputs, [var for _, var in sources], body)
    for at, out in zip(ends, outs, strict=True):
        variables[at] = out
    return [*variables]


def _sources_of(e: Equation, values: Sequence[Value]) -> list[tuple[int, Var]]:
    """Return the arguments that receive cotangents, with their indices.

    Constants and captured values receive none; a rule with symbolic zeros sees them as
    unperturbed.
    """
    first = e.params.get("num_consts", 0)
    return [
        (at, expose(value))
        for at, value in enumerate(values)
        if at >= first and isinstance(value, Var) and _has_gradient(e, value)
    ]


def _has_gradient(e: Equation, value: Var) -> bool:
    """Return whether a variable, which may be that of a closed block, has a gradient."""
    return is_float(value.dtype) and e.runner.paths.reach(
        current_program().current, expose(value).name
    )


def _float_results(e: Equation) -> list[int]:
    """Return the indices of results with cotangents."""
    return [at for at, type_ in enumerate(e.types) if is_float(type_.dtype)]


def _call_key(e: Equation, values: Sequence[Value]) -> Hashable:
    """Return the identity of a call: the source of the function, and the arguments."""
    names = [v.name if isinstance(v, Var) else Literal.of(v) for v in values]
    return e.name, _call_name(e), str(_forward(e)), *names


def _forward(e: Equation) -> Any:
    """Return the forward computation of an equation: a jaxpr, a solver, or the parameters."""
    closed = e.params.get("call_jaxpr")
    if closed is None and "jaxprs" in e.params:
        return e.params["jaxprs"].solve
    return e.params if closed is None else closed


def _call_name(e: Equation) -> str:
    """Return the function of a call and its source location, else the name of the primitive."""
    forward = _forward(e)
    return e.name if forward is e.params else forward.jaxpr.debug_info.func_src_info


def _short_name(e: Equation) -> str:
    return _call_name(e).partition(" ")[0]


def _primitive_function(e: Equation) -> Callable[..., Any]:
    """Return the primitive of an equation as a function from arrays to a sequence of arrays."""
    primitive = e.eqn.primitive

    def bind(*arguments: Any) -> Any:
        results = primitive.bind(*arguments, **primitive.get_bind_params(e.eqn.params))
        return results if primitive.multiple_results else [results]

    return bind


def _pullback(
    e: Equation, function: Callable[..., Any], ways: Sequence[int], ends: Sequence[int]
) -> Any:
    """Trace the pullback from arguments and result cotangents to argument cotangents.

    Raises:
        ProgramError: If the function cannot be traced.
    """
    library = _library()

    def pulled(arguments: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        def differentiated(*perturbed: Any) -> list[Any]:
            all_arguments = list(arguments)
            for at, value in zip(ways, perturbed, strict=True):
                all_arguments[at] = value
            results = function(*all_arguments)
            return [results[at] for at in ends]

        _, pullback_of_arguments = library.vjp(differentiated, *(arguments[at] for at in ways))
        return pullback_of_arguments(list(cotangents))

    structs = [struct_of(atom.aval) for atom in e.eqn.invars]
    results = [struct_of(e.eqn.outvars[at].aval) for at in ends]
    closed, _ = closed_jaxpr(
        f"The gradient of `{_call_name(e).partition(' ')[0]}`", pulled, (structs, results)
    )
    return closed


def _resolve_captured(e: Equation, array: Any, runner: JaxprReader) -> Any:
    """Return an array that a rule closes over; a tracer is resolved to its value here.

    Raises:
        ProgramError: If the value is unknown.
    """
    tracer = _library().core.Tracer
    if not isinstance(array, tracer):
        return array
    variable = getattr(array, "val", None)  # that of another tracer under `vmap`
    value = None if isinstance(variable, tracer) else runner.find(variable)
    if value is None:
        raise _closure_error(e)
    return value


def _captured_sources(e: Equation, values: Sequence[Value]) -> list[Var]:
    """Return the captured values that would need a gradient, which JAX refuses.

    Arrays that are constants in JAX need none.
    """
    whole = e.runner.whole
    constants = set[str]() if whole is None else whole.brought
    return [
        expose(value)
        for value in values[: e.params["num_consts"]]
        if isinstance(value, Var) and value.name not in constants and _has_gradient(e, value)
    ]


def refuse_gradient(
    e: Equation, results: Sequence[Value], sources: Sequence[Var], error: ProgramError
) -> list[Value]:
    """Return results that raise an error where a gradient with respect to sources is requested.

    Args:
        e: The equation.
        results: Its results.
        sources: The values on which they depend by an unknown derivative.
        error: The reason.
    """
    refused = list(results)
    for at in _float_results(e):
        for source in sources:
            result = e.lift(refused[at])
            refused[at] = emit("refuse_gradient", result, source, message=error.what)
    return refused


def refuse_arguments(
    e: Equation, values: Sequence[Value], results: Sequence[Value], error: ProgramError
) -> list[Value]:
    """Return results whose gradient with respect to the arguments is refused."""
    return refuse_gradient(e, results, [var for _, var in _sources_of(e, values)], error)


def _closure_error(e: Equation) -> ProgramError:
    name = _short_name(e)
    return ProgramError(
        f"`{name}` has a custom derivative and captures a differentiated value.",
        fix=f"Pass the value to `{name}` as an argument, or stop its gradient.",
    )


def _order_error(name: str, order: int) -> ProgramError:
    return ProgramError(f"the derivative of {name} is known up to order {order}.")


def _library() -> Any:
    """Return JAX as `Any`, because its types are incomplete."""
    return jax


def struct_of(aval: Any) -> Any:
    """Return the shape and dtype of an array for tracing."""
    return _library().ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


# ---- residuals -------------------------------------------------------------------------------


def _hoist_residuals(table: SymbolTable, body: Body) -> Body:
    """Move the residuals of a gradient into the forward pass, at the end of a table.

    Literals stay in the gradient unless residuals need them.
    """
    dependent_names, independent_ops = set(body.params), list[Op]()
    for op in body.ops:
        if dependent_names.isdisjoint(op.reads()):
            independent_ops.append(op)
        else:
            dependent_names.update(op.binds())
    needed = _depending_on_outer(independent_ops, body)
    for op in reversed(independent_ops):
        if not needed.isdisjoint(op.binds()):
            needed.update(op.reads())
    residual_ops = [op for op in independent_ops if not needed.isdisjoint(op.binds())]
    hoisted_names = set[str]()
    for op in residual_ops:
        table.append(op, [body.vars[name] for name in op.binds()])
        hoisted_names.update(op.binds())
    ops = tuple(op for op in body.ops if hoisted_names.isdisjoint(op.binds()))
    infos = {name: info for name, info in body.vars.items() if name not in hoisted_names}
    return body.with_(vars=infos, ops=ops)


def _depending_on_outer(ops: Sequence[Op], body: Body) -> set[str]:
    """Return the results of operators that depend on outer variables."""
    names = set[str]()
    for op in ops:
        if any(name in names or name not in body.vars for name in op.reads()):
            names.update(op.binds())
    return names
