"""Reverse and forward mode as passes, for named variables of the main block.

    parameter w: f32[]                      parameter w: f32[]
    data x: f32[]                           data x: f32[]
    y: f32[] = multiply(x=x, y=w)           y: f32[] = multiply(x=x, y=w)
    loss: f32[] = tanh(x=y)           ->    loss: f32[] = tanh(x=y)
    return loss                             one: f32[] = full() {…}
                                            y_grad: f32[] = tanh.vjp(out=loss, out_grad=one)
                                            w_grad: f32[] = multiply(x=y_grad, y=x)
                                            return loss, w_grad

These passes append the operators that `br.gradients` and `br.jvp` append to a program under
construction. The new program has more results than the old one. Therefore such a pass is called
with a program, and is no pass of an executor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from braces.builder.append import call
from braces.builder.builder import Builder
from braces.builder.source_line import with_user_line
from braces.builder.var import Var, main_var
from braces.errors import GradientError
from braces.ir.records import ProgramDef, VarInfo
from braces.ir.walk import rename_body
from braces.ops.lists.cotangents import zeros_like
from braces.passes.autodiff.common import Named, OneOrMore, as_list
from braces.passes.autodiff.forward_mode import build_jvp
from braces.passes.autodiff.reverse_mode import build_vjp
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import extend_program


@with_user_line
def gradients(
    targets: OneOrMore[Named],
    inputs: OneOrMore[Named],
    target_gradients: OneOrMore[Named | None] = None,
) -> Pass:
    """Return a pass that adds gradients of targets to the results: `w_grad` for input `w`.

    The program returns its old results, and then a gradient for each input, in their order.
    Gradients are zero if no target depends on the input. Taken names get a number: `w_grad_0`.

    Args:
        targets: Variables of the main block or their names; a single one is a list of length 1.
        inputs: Likewise; differentiable.
        target_gradients: One cotangent for each target, likewise; ones for `None`.

    Raises:
        GradientError: If an argument is neither a variable nor a name.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [3])
        ...     loss = br.sum(x * x, name="loss")
        >>> sloped = br.passes.gradients("loss", "x")(prog)
        >>> br.Executor().run(sloped, br.Scope(), {"x": [1.0, 2.0, 3.0]}, "x_grad")
        array([2., 4., 6.], dtype=float32)
    """
    ends, starts, seeds = _names(targets), _names(inputs), [None] * len(as_list(targets))
    if target_gradients is not None:
        seeds = [seed if seed is None else _name(seed) for seed in as_list(target_gradients)]

    def run(program: ProgramDef) -> ProgramDef:
        builder = extend_program(program)
        input_vars = _vars(builder, starts)
        seed_vars = [seed if seed is None else main_var(builder, seed) for seed in seeds]
        grads = build_vjp(_vars(builder, ends), input_vars, seed_vars)
        grad_names = [f"{name}_grad" for name in starts]
        return _with_derivatives(program, builder, grad_names, input_vars, grads)

    doc = f"Compute the gradients of {', '.join(ends)} with respect to {', '.join(starts)}."
    return Pass("gradients", run, doc, trusted=True)


@with_user_line
def jvp(
    targets: OneOrMore[Named], inputs: OneOrMore[Named], tangents: OneOrMore[Named]
) -> Pass:
    """Return a pass that adds directional derivatives to the results: `y_tangent` for `y`.

    The program returns its old results, and then a tangent for each target, in their order.
    Tangents are zero if the target depends on no input. Taken names get a number.

    Args:
        targets: Variables of the main block or their names; a single one is a list of length 1.
        inputs: Likewise, to differentiate with respect to.
        tangents: Likewise, the direction: one for each input.

    Raises:
        GradientError: If an argument is neither a variable nor a name.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, way = br.data("x", []), br.data("way", [])
        ...     y = br.square(x, name="y")
        >>> moved = br.passes.jvp("y", "x", "way")(prog)
        >>> br.Executor().run(moved, br.Scope(), {"x": 3.0, "way": 0.5}, "y_tangent")
        array(3., dtype=float32)
    """
    ends, starts, directions = _names(targets), _names(inputs), _names(tangents)

    def run(program: ProgramDef) -> ProgramDef:
        builder = extend_program(program)
        target_vars = _vars(builder, ends)
        tangent_vars = build_jvp(
            target_vars, _vars(builder, starts), _vars(builder, directions)
        )
        tangent_names = [f"{name}_tangent" for name in ends]
        return _with_derivatives(program, builder, tangent_names, target_vars, tangent_vars)

    doc = f"Compute the tangents of {', '.join(ends)} from those of {', '.join(starts)}."
    return Pass("jvp", run, doc, trusted=True)


def gradients_of(target: str, *inputs: str) -> Pass:
    """Return the pass `gradients` for names on the command line: a target, and the inputs.

    Raises:
        GradientError: If `inputs` is empty.
    """
    if not inputs:
        raise GradientError(
            f"missing input for the gradient of `{target}`.",
            fix="Write the target and then the inputs: gradients:loss,w,b.",
        )
    return gradients(target, inputs)


def jvp_of(target: str, *moves: str) -> Pass:
    """Return the pass `jvp` for names on the command line: a target, and input-tangent pairs.

    Raises:
        GradientError: If `inputs` is empty, or an input has no tangent.
    """
    if not moves or len(moves) % 2:
        raise GradientError(
            f"expected pairs of an input and its tangent for the tangent of `{target}`.",
            given=", ".join(map(str, moves)) or "no inputs",
            fix="Write the target and then each input with its tangent: jvp:loss,w,way.",
        )
    return jvp(target, moves[::2], moves[1::2])


def _names(arguments: OneOrMore[Named]) -> list[str]:
    return [_name(argument) for argument in as_list(arguments)]


def _name(argument: object) -> str:
    name = argument.name if isinstance(argument, Var | VarInfo) else argument
    if not isinstance(name, str) or not name:
        raise GradientError(
            f"expected a variable or its name, got {argument!r:.80}.",
            fix='Pass variables of the main block: br.passes.gradients("loss", ["w", "b"]).',
        )
    return name


def _vars(builder: Builder, names: Iterable[str]) -> list[Var]:
    return [main_var(builder, name) for name in names]


def _with_derivatives(
    program: ProgramDef,
    builder: Builder,
    result_names: Sequence[str],
    like: Sequence[Var],
    derivatives: Sequence[Var | None],
) -> ProgramDef:
    """Return the program with derivatives as further results.

    Args:
        program: The original program.
        builder: The program with the derivatives.
        result_names: Names of the derivatives; numbered if they are taken.
        like: Variables of their types.
        derivatives: The derivatives; `None` for zero.
    """
    table, names = builder.table, dict[str, str]()
    with builder.building(table):
        for wanted, var, derivative in zip(result_names, like, derivatives, strict=True):
            if derivative is None:
                note("", f"`{wanted}` is zero: no differentiable path")
                derivative = zeros_like(var)
            elif derivative.name in program.main.vars or derivative.name in names:
                derivative = call("identity", derivative)
            taken = wanted in table.names.taken
            names[derivative.name] = (
                table.names.unique(wanted) if taken else table.names.claim(wanted)
            )
    definition = builder.definition
    main = rename_body(definition.main, names)
    return definition.with_(main=main.with_(results=(*main.results, *names.values())))
