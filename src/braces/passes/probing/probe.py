"""Probes: programs that give out inner variables, for fetches and as values.

`exe.run(prog, …, fetch="loop_0/body/act")` fetches a variable of an inner block. The plan of
the run is built from a program in which it is a variable of the main block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from braces.builder.builder import Builder
from braces.builder.var import Var, main_var
from braces.ir.plain_blocks.escaping_values import with_exported
from braces.ir.records import ProgramDef
from braces.passes.core.rewrite import rewrite
from braces.passes.probing.exposure import Exposure
from braces.passes.probing.inner_gradient import InnerGradient, expose_gradients
from braces.passes.probing.lookup import find_variable

P = TypeVar("P", bound=Builder)


@dataclass(frozen=True)
class Probe(Generic[P]):
    """A program in which a variable of an inner block is a variable of the main block.

    Attributes:
        program: The program; it has all variables, results and updates of the original.
        path: The path of the inner variable.
        value: The values of all iterations. Each counted loop around adds a leading axis. A
            data-dependent loop, and all loops around it, add one axis together.
        ran: Mask of the leading axes, true where the block of the variable ran; `value` is zero
            elsewhere. `None` if the block ran in every iteration, for every batch element.
        trips: The trip counts of data-dependent loops in other loops, innermost first.
        gradient: The gradient of a loss by `value`, of its shape; `None` if none was requested.
    """

    program: P
    path: str
    value: Var
    ran: Var | None = None
    trips: tuple[Var, ...] = ()
    gradient: Var | None = None

    def __repr__(self) -> str:
        ran = "" if self.ran is None else f", ran {self.ran.name}: {self.ran.type}"
        return f"<Probe {self.path}: {self.value.type}{ran}>"


def probe(program: P, path: str, loss: str | None = None) -> Probe[P]:
    """Return a program that gives out an inner variable; see `Probe`.

    Args:
        program: The program.
        path: The path of the variable.
        loss: The name of a loss, for its gradient by the values.

    Raises:
        UnknownNameError: If the variable does not exist.
        ProgramError: If its block has no outputs for it.
        GradientError: If the variable is not differentiable.
    """
    definition, exposed = expose(program.definition, path)
    cotangent = ""
    if loss is not None:
        definition = definition.with_(main=with_exported(definition.main, [loss]))
        definition, (cotangent,) = expose_gradients(definition, loss, [path])
    probed = program.like(definition)
    probed.startup = program.startup
    return Probe(
        probed,
        path,
        main_var(probed, exposed.value.name),
        None if exposed.ran is None else main_var(probed, exposed.ran.name),
        tuple(main_var(probed, count.name) for count in exposed.trips),
        main_var(probed, cotangent) if cotangent else None,
    )


def with_fetched(
    program: ProgramDef, fetches: Sequence[str]
) -> tuple[ProgramDef, tuple[str, ...]]:
    """Return a program whose main block has all fetches, and their names there.

    Args:
        program: The program.
        fetches: Names of variables of the main block or of plain blocks, or paths of others, or
            gradients by inner values.

    Raises:
        UnknownNameError: If a variable does not exist.
        ProgramError: If the block of a variable has no outputs for it.
    """
    losses = [fetch.loss for fetch in fetches if isinstance(fetch, InnerGradient)]
    program = program.with_(main=with_exported(program.main, [*fetches, *losses]))
    names = dict[str, str]()
    for path in fetches:
        if path in program.main.vars:
            names[path] = path
        elif not isinstance(path, InnerGradient):
            program, exposed = expose(program, path)
            names[path] = exposed.value.name
    program, gradients = _with_gradients(program, fetches)
    names |= gradients
    return program, tuple(names[path] for path in fetches)


def _with_gradients(
    program: ProgramDef, fetches: Sequence[str]
) -> tuple[ProgramDef, dict[str, str]]:
    """Return a program with the gradients by inner values, and the names of these fetches."""
    wanted, known = dict[str, dict[str, str]](), dict[str, str]()
    for fetch in fetches:
        if isinstance(fetch, InnerGradient):
            wanted.setdefault(fetch.loss, {})[fetch.path] = fetch
    for loss, paths in wanted.items():
        program, names = expose_gradients(program, loss, list(paths))
        known |= dict(zip(paths.values(), names, strict=True))
    return program, known


def expose(program: ProgramDef, path: str) -> tuple[ProgramDef, Exposure]:
    """Return a program whose main block has an inner variable, and its names there.

    Raises:
        UnknownNameError: If the variable does not exist.
        ProgramError: If its block has no outputs for it.
    """
    exposure = Exposure(path, *find_variable(program, path))
    return rewrite(program, exposure), exposure
