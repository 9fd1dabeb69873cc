"""Derivatives as passes, which name variables of the main block.

    parameter w: f32[]                      parameter w: f32[]
    data x: f32[]                           data x: f32[]
    y: f32[] = multiply(x=x, y=w)           y: f32[] = multiply(x=x, y=w)
    loss: f32[] = tanh(x=y)           ->    loss: f32[] = tanh(x=y)
    return loss                             one: f32[] = full() {…}
                                            y_grad: f32[] = tanh.vjp(out=loss, out_grad=one)
                                            w_grad: f32[] = multiply(x=y_grad, y=x)
                                            return loss, w_grad

They build in the program as `br.gradients` and `br.jvp` do, which build in one that is being
written. What a pass makes has more results than what it is given, so it is called with a
program, and is none of those that an executor runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from braces.builder.append import call
from braces.builder.builder import Builder
from braces.builder.source_line import says_where
from braces.builder.var import Var, main_var
from braces.errors import GradientError
from braces.ir.records import ProgramDef, VarInfo
from braces.ir.walk import rename_body
from braces.ops.lists.cotangents import zeros_like
from braces.passes.autodiff.common import Named, OneOrMore, as_list
from braces.passes.autodiff.forward_mode import pushed
from braces.passes.autodiff.reverse_mode import pulled
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import opened


@says_where
def gradients(
    targets: OneOrMore[Named],
    inputs: OneOrMore[Named],
    target_gradients: OneOrMore[Named | None] = None,
) -> Pass:
    """A pass that gives the gradients of targets, too: `w_grad` for the input `w`.

    A program gives what it gave before, and then a gradient for each input, in their order;
    zeros where no target depends on it. Where a name is taken, a count follows: `w_grad_0`.

    Args:
        targets: Variables of the main block or their names; a single one stands for a list.
        inputs: The same, differentiable.
        target_gradients: One cotangent for each target, likewise; ones where it is `None`.

    Raises:
        GradientError: One is neither a variable nor a name.

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
        seeds = [one if one is None else _name(one) for one in as_list(target_gradients)]

    def run(program: ProgramDef) -> ProgramDef:
        builder = opened(program)
        wanted = _vars(builder, starts)
        given = [one if one is None else main_var(builder, one) for one in seeds]
        found = pulled(_vars(builder, ends), wanted, given)
        called = [f"{name}_grad" for name in starts]
        return _giving(program, builder, called, wanted, found)

    doc = f"Give the gradients of {', '.join(ends)} with respect to {', '.join(starts)}."
    return Pass("gradients", run, doc, trusted=True)


@says_where
def jvp(
    targets: OneOrMore[Named], inputs: OneOrMore[Named], tangents: OneOrMore[Named]
) -> Pass:
    """A pass that gives the directional derivatives of targets, too: `y_tangent` for `y`.

    A program gives what it gave before, and then a tangent for each target, in their order;
    zeros where it depends on no input. Where a name is taken, a count follows.

    Args:
        targets: Variables of the main block or their names; a single one stands for a list.
        inputs: The same: those that move.
        tangents: The same: how they move, one for each input.

    Raises:
        GradientError: One is neither a variable nor a name.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, way = br.data("x", []), br.data("way", [])
        ...     y = br.square(x, name="y")
        >>> moved = br.passes.jvp("y", "x", "way")(prog)
        >>> br.Executor().run(moved, br.Scope(), {"x": 3.0, "way": 0.5}, "y_tangent")
        array(3., dtype=float32)
    """
    ends, starts, ways = _names(targets), _names(inputs), _names(tangents)

    def run(program: ProgramDef) -> ProgramDef:
        builder = opened(program)
        wanted = _vars(builder, ends)
        found = pushed(wanted, _vars(builder, starts), _vars(builder, ways))
        called = [f"{name}_tangent" for name in ends]
        return _giving(program, builder, called, wanted, found)

    doc = f"Give the tangents of {', '.join(ends)} where {', '.join(starts)} moves."
    return Pass("jvp", run, doc, trusted=True)


def gradients_of(target: str, *inputs: str) -> Pass:
    """`gradients` by words: a target, and the inputs.

    Raises:
        GradientError: There is no input.
    """
    if not inputs:
        raise GradientError(
            f"There is no input for the gradient of `{target}`.",
            fix="Name the target, and then each input: gradients:loss,w,b.",
        )
    return gradients(target, inputs)


def jvp_of(target: str, *moves: str) -> Pass:
    """`jvp` by words: a target, and each input with its tangent behind it.

    Raises:
        GradientError: There is no input, or one has no tangent.
    """
    if not moves or len(moves) % 2:
        raise GradientError(
            f"Not each input has a tangent behind it, for the tangent of `{target}`.",
            given=", ".join(map(str, moves)) or "no inputs",
            fix="Name the target, and then each input with its tangent: jvp:loss,w,way.",
        )
    return jvp(target, moves[::2], moves[1::2])


def _names(given: OneOrMore[Named]) -> list[str]:
    return [_name(one) for one in as_list(given)]


def _name(given: object) -> str:
    name = given.name if isinstance(given, Var | VarInfo) else given
    if not isinstance(name, str) or not name:
        raise GradientError(
            f"{given!r:.80} is no variable and no name of one.",
            fix='Name variables of the main block: br.passes.gradients("loss", ["w", "b"]).',
        )
    return name


def _vars(builder: Builder, names: Iterable[str]) -> list[Var]:
    return [main_var(builder, name) for name in names]


def _giving(
    program: ProgramDef,
    builder: Builder,
    called: Sequence[str],
    like: Sequence[Var],
    found: Sequence[Var | None],
) -> ProgramDef:
    """The program with derivatives under these names as further results.

    Args:
        program: As it was.
        builder: The same, in which they were built.
        called: Their names; with a count where they are taken.
        like: Variables of their types.
        found: The derivatives; `None` where they are zero.
    """
    table, names = builder.table, dict[str, str]()
    with builder.building(table):
        for wanted, var, one in zip(called, like, found, strict=True):
            if one is None:
                note("", f"`{wanted}` is zero: nothing connects the two")
                one = zeros_like(var)
            elif one.name in program.main.vars or one.name in names:
                one = call("identity", one)
            taken = wanted in table.names.taken
            names[one.name] = table.names.unique(wanted) if taken else table.names.claim(wanted)
    definition = builder.definition
    main = rename_body(definition.main, names)
    return definition.with_(main=main.with_(results=(*main.results, *names.values())))
