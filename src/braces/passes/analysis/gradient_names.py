"""Names of the values that the operators of a gradient differentiate by, for messages.

An operator of a gradient has the source line of the operator that it differentiates. An input
of that operator with the type of the output is the value whose gradient the output is, or a
part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from braces.dtypes import Type
from braces.ir.records import Body, Op, ProgramDef
from braces.ir.walk import all_bodies, all_ops
from braces.passes.analysis.phases import FORWARD, GRADIENT, OPTIMIZER, phases

_VJP = ".vjp"
_SUFFIX = "_grad"


def find_role(program: ProgramDef, path: str, op: Op, name: str) -> str:
    """Return the role of an output of an operator: of a gradient, an optimizer, or none.

    Args:
        program: The program.
        path: The path of the block of the operator; with iterations, as in a run.
        op: The operator.
        name: The output.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [3])
        ...     (grad,) = br.gradients(br.sum(br.exp(w, name="e")), w)
        >>> op = prog.definition.main.ops[-1]
        >>> find_role(prog.definition, "", op, grad.name)
        'the gradient of `w`'
    """
    phase_of = phases(program)
    phase = phase_of.get(path.partition("/")[0] or op.name)
    if phase == OPTIMIZER:
        return "a value of the optimizer"
    if phase != GRADIENT:
        return ""
    forward = program.main.with_(
        ops=tuple(each for each in program.main.ops if phase_of[each.name] == FORWARD)
    )
    bodies = [body for body, _ in all_bodies(program.main)]
    types = {n: info.type for body in bodies for n, info in body.vars.items()}
    names = _likely(_candidates(forward, op, name, types), op)
    said = " or ".join(f"`{each}`" for each in names)
    return f"the gradient of {said}" if names else "a value of the gradient"


def _candidates(
    forward: Body, op: Op, name: str, types: Mapping[str, Type]
) -> list[tuple[str, bool]]:
    """Return the values that an output can be the gradient of.

    Each has whether an operator that reads it has another value in common with the gradient.
    """
    origin = op.type.removesuffix(_VJP) if op.type.endswith(_VJP) else ""
    reads, names = set(op.reads()), list[tuple[str, bool]]()
    for _, other in all_ops(forward):
        if other.source != op.source or other.bodies() or (origin and other.type != origin):
            continue
        shares = not reads.isdisjoint((*other.reads(), *other.binds()))
        wanted = (n for slot in _slots(op, name, other) for n in other.inputs[slot])
        names += [(n, shares) for n in wanted if types.get(n) == types.get(name)]
    return names


def _slots(op: Op, name: str, other: Op) -> Iterable[str]:
    """Return the slots of an operator that an output of a gradient can belong to."""
    if not op.type.endswith(_VJP):
        return other.inputs
    slots = [slot.removesuffix(_SUFFIX) for slot, names in op.outputs.items() if name in names]
    return [slot for slot in slots if slot in other.inputs]


def _likely(candidates: Sequence[tuple[str, bool]], op: Op) -> list[str]:
    """Return the candidates that have most in common with a gradient."""
    near = [n for n, shares in candidates if shares] or [n for n, _ in candidates]
    others = [n for n in near if n not in op.reads()] or near
    return list(dict.fromkeys(others))
