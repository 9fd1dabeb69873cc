"""Values in the place of parameters: averages, say, or what is computed of several.

    parameter w: f32[2]                    parameter w: f32[2]
    state ema/w: f32[2]                    state ema/w: f32[2]
    data x: f32[n,2]                       data x: f32[n,2]
    y: f32[n] = matmul(x=x, y=w)     ->    y: f32[n] = matmul(x=x, y=ema/w)

What a value is computed by comes first, as it is, and may read the parameter itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from braces.errors import ProgramError, ShapeError, UnknownNameError, suggest
from braces.ir.plain_blocks.escaping_values import with_shown
from braces.ir.records import DATA, Body, ProgramDef
from braces.ir.walk import ancestors, rename_op


def substituted(program: ProgramDef, values: Any) -> ProgramDef:
    """A program that reads values in the place of parameters.

    Args:
        program: The program.
        values: Each parameter, or its name, to a variable of the main block that follows from
            what is persistable, or to its name; or the first part of the names of such
            variables: `ema` for `ema/w`.

    Raises:
        UnknownNameError: There is no such variable.
        ShapeError: A value has another type than its parameter.
        ProgramError: It follows from data, or nothing is called so.
    """
    names = _names(program.main, values)
    program = program.with_(main=with_shown(program.main, list(names.values())))
    main = program.main
    for name, value in names.items():
        _check(main, name, value)
    needed = ancestors(main.ops, names.values())
    first = tuple(op for op in main.ops if not needed.isdisjoint(op.binds()))
    others = (rename_op(op, names) for op in main.ops if needed.isdisjoint(op.binds()))
    return program.with_(main=main.with_(ops=(*first, *others)))


def _names(main: Body, values: Any) -> dict[str, str]:
    """The names of parameters, to those of their values."""
    if isinstance(values, Mapping):
        pairs = cast("Mapping[Any, Any]", values)
        return {_name(given): _name(value) for given, value in pairs.items()}
    prefix = f"{values}/"
    found = {
        name: prefix + name
        for name, info in main.vars.items()
        if info.persistable and prefix + name in main.vars
    }
    if not found:
        raise ProgramError(
            f"No parameter has a value that is called `{prefix}…`.",
            fix="Give {parameter: value}, as br.optimizer.ema gives it.",
        )
    return found


def _name(given: Any) -> str:
    return given if isinstance(given, str) else given.name


def _check(main: Body, name: str, value: str) -> None:
    for one in (name, value):
        if one not in main.vars:
            raise UnknownNameError(
                f"There is no variable `{one}` in the main block.", fix=suggest(one, main.vars)
            )
    info, found = main.vars[name], main.vars[value]
    if not info.persistable:
        raise ProgramError(
            f"`{name}` is no parameter or state, so no value stands in its place.",
            fix="Feed what is data; edit what is computed.",
        )
    if info.type != found.type:
        raise ShapeError(
            f"`{value}` cannot stand in the place of `{name}`.",
            given=f"{name}: {info.type}   {value}: {found.type}",
            fix="It has the parameter's dtype and shape.",
        )
    fed = [n for n in ancestors(main.ops, [value]) if main.vars[n].kind == DATA]
    if fed:
        raise ProgramError(
            f"`{value}` follows from the data `{fed[0]}`, so it is no value of a parameter.",
            fix="Compute it from parameters and states alone.",
        )
