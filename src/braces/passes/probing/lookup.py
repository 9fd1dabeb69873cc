"""Look-up of inner variables by path, with errors that have the paths of short names."""

from __future__ import annotations

from braces.errors import ProgramError, UnknownNameError
from braces.ir.paths import OPERATOR, VARIABLE, find_path, not_a_value, unknown_path
from braces.ir.places import Place
from braces.ir.records import Op, ProgramDef


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
    located = find_path(program, path)
    if located is not None and (located.kind != OPERATOR or located.place.outer is None):
        raise not_a_value(located)
    if located is None:
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
