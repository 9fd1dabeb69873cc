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
from braces.errors import ProgramError, UnknownNameError
from braces.ir.paths import OPERATOR, VARIABLE, find_path, unknown_path
from braces.ir.places import Place
from braces.ir.plain_blocks.escaping_values import with_exported
from braces.ir.records import Op, ProgramDef
from braces.passes.core.rewrite import rewrite
from braces.passes.probing.exposure import Exposure

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
    """

    program: P
    path: str
    value: Var
    ran: Var | None = None
    trips: tuple[Var, ...] = ()

    def __repr__(self) -> str:
        ran = "" if self.ran is None else f", ran {self.ran.name}: {self.ran.type}"
        return f"<Probe {self.path}: {self.value.type}{ran}>"


def probe(program: P, path: str) -> Probe[P]:
    """Return a program that gives out an inner variable; see `Probe`.

    Raises:
        UnknownNameError: If the variable does not exist.
        ProgramError: If its block has no outputs for it.
    """
    definition, exposed = expose(program.definition, path)
    probed = program.like(definition)
    probed.startup = program.startup
    return Probe(
        probed,
        path,
        main_var(probed, exposed.value.name),
        None if exposed.ran is None else main_var(probed, exposed.ran.name),
        tuple(main_var(probed, count.name) for count in exposed.trips),
    )


def with_fetched(
    program: ProgramDef, fetches: Sequence[str]
) -> tuple[ProgramDef, tuple[str, ...]]:
    """Return a program whose main block has all fetches, and their names there.

    Args:
        program: The program.
        fetches: Names of variables of the main block or of plain blocks, or paths of others.

    Raises:
        UnknownNameError: If a variable does not exist.
        ProgramError: If the block of a variable has no outputs for it.
    """
    program = program.with_(main=with_exported(program.main, fetches))
    names = list[str]()
    for path in fetches:
        name = path
        if path not in program.main.vars:
            program, exposed = expose(program, path)
            name = exposed.value.name
        names.append(name)
    return program, tuple(names)


def expose(program: ProgramDef, path: str) -> tuple[ProgramDef, Exposure]:
    """Return a program whose main block has an inner variable, and its names there.

    Raises:
        UnknownNameError: If the variable does not exist.
        ProgramError: If its block has no outputs for it.
    """
    exposure = Exposure(path, *find_variable(program, path))
    return rewrite(program, exposure), exposure


def find_variable(program: ProgramDef, path: str, purpose: str = "fetch") -> tuple[Place, str]:
    """Return the block and the name of a variable; for an operator with one output, that one.

    Args:
        program: The program.
        path: The path.
        purpose: The purpose of the variable, for messages.

    Raises:
        UnknownNameError: If the variable does not exist; the message has the path of an
            inner variable of this name.
        ProgramError: If the path is that of an operator with several outputs.
    """
    located = find_path(program, path, VARIABLE)
    if located is not None:
        return located.place, located.name
    located = find_path(program, path, OPERATOR)
    if located is None or located.place.outer is None:
        raise UnknownNameError(
            f"unknown {purpose} `{path}`: the main block has no such variable.",
            fix=_path_fix(Place.main(program), path),
        )
    op = located.content
    assert isinstance(op, Op)
    outputs = list(op.binds())
    if len(outputs) != 1:
        raise ProgramError(
            f"the operator `{path}` has {len(outputs)} outputs.",
            given=", ".join(outputs),
            fix="Use the path of one of them.",
        )
    return located.place, outputs[0]


def _path_fix(main: Place, path: str) -> str | None:
    """Return the fix for an unknown path; paths that end in the same name come first."""
    name = path.rpartition("/")[2]
    bound = any(name in block.body.vars for block in main.walk())
    return unknown_path(main, name if bound else path, VARIABLE).fix
