"""Completion and verification of untrusted programs, before any other code reads them.

Missing attributes get their defaults. A program written by hand may thus be short, and a
program of an older version may lack newer attributes. Then the structure is verified.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from braces.define.decorator import OPS
from braces.errors import BracesError
from braces.ir.files.bounded_read import stored_path
from braces.ir.records import Attr, Body, Op, ProgramDef
from braces.ir.walk import map_bodies
from braces.passes.verifier.program import check


def complete_and_verify(
    main: ProgramDef, startup: ProgramDef | None
) -> tuple[ProgramDef, ProgramDef | None]:
    """Complete and verify a program and its startup program.

    Raises:
        VerifyError: If a rule is violated; see `braces.passes.verifier.rules`.
    """
    completed_main = complete_attributes(main)
    completed_startup = complete_attributes(startup) if startup is not None else None
    check(completed_main, completed_startup, all=False, types=False)
    return completed_main, completed_startup


def op_versions() -> dict[str, int]:
    """Return the version of each operator type; derived types have that of their base."""
    return {type_: definition.version for type_, definition in OPS.definitions.items()}


def op_modules() -> dict[str, str]:
    """Return the module of each operator defined outside Braces; a script by its file."""
    kernels = {type_: definition.kernel for type_, definition in OPS.definitions.items()}
    return {
        type_: _module_of(kernel)
        for type_, kernel in kernels.items()
        if _module_name(kernel).partition(".")[0] != "braces"
    }


def _module_name(kernel: Callable[..., Any]) -> str:
    """Return the module of a kernel; code that `exec` ran without a name counts as a script."""
    return kernel.__module__ or "__main__"


def _module_of(kernel: Callable[..., Any]) -> str:
    name = _module_name(kernel)
    if name == "__main__":
        code = getattr(inspect.unwrap(kernel), "__code__", None)
        name = name if code is None else stored_path(code.co_filename)
    return _INVALID_CHARACTERS.sub("_", name)[:200] or "_"


_INVALID_CHARACTERS = re.compile(r"[^\w./<>() -]")
"""Characters of a module name that a file cannot hold."""


def complete_attributes(program: ProgramDef) -> ProgramDef:
    """Return a program whose operators have all their attributes, defaults included."""
    return program.with_(main=_complete_body(program.main))


def _complete_body(body: Body) -> Body:
    return body.with_(ops=tuple(map(_complete_op, body.ops)))


def _complete_op(op: Op) -> Op:
    op = map_bodies(op, _complete_body)
    definition = OPS.find(op.type)
    try:
        attrs = definition.bind_attrs(op.attrs) if definition else op.attrs
    except BracesError:
        return op  # the verifier reports the error and its place
    return op if _is_unchanged(attrs, op.attrs) else op.with_(attrs=attrs)


def _is_unchanged(left: Mapping[str, Attr], right: Mapping[str, Attr]) -> bool:
    return len(left) == len(right) and all(type(left[n]) is type(a) for n, a in right.items())
