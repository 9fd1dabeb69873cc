"""Replacement of parameters by other values, for example averages.

    parameter w: f32[2]                    parameter w: f32[2]
    state ema/w: f32[2]                    state ema/w: f32[2]
    data x: f32[n,2]                       data x: f32[n,2]
    y: f32[n] = matmul(x=x, y=w)     ->    y: f32[n] = matmul(x=x, y=ema/w)

The operators that compute a value come first, unchanged, and may read the parameter itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from braces.errors import ProgramError, ShapeError, UnknownNameError, suggest
from braces.ir.plain_blocks.escaping_values import with_exported
from braces.ir.records import DATA, Body, ProgramDef
from braces.ir.walk import ancestors, rename_op


def replace_parameters(program: ProgramDef, values: Any) -> ProgramDef:
    """Return a program that reads other values instead of parameters.

    Args:
        program: The program.
        values: Mapping from each parameter, or its name, to a variable of the main block or its
            name. The variable may depend only on persistable variables. Or the prefix of the
            names of such variables: `ema` for `ema/w`.

    Raises:
        UnknownNameError: If a variable does not exist.
        ShapeError: If the type of a value differs from that of its parameter.
        ProgramError: If a value depends on data, or no variable matches a name.
    """
    names = replacing_names(program.main, values)
    program = program.with_(main=with_exported(program.main, list(names.values())))
    main = program.main
    for name, value in names.items():
        _check_value(main, name, value)
    needed = ancestors(main.ops, names.values())
    first = tuple(op for op in main.ops if not needed.isdisjoint(op.binds()))
    others = (rename_op(op, names) for op in main.ops if needed.isdisjoint(op.binds()))
    return program.with_(main=main.with_(ops=(*first, *others)))


def replacing_names(main: Body, values: Any) -> dict[str, str]:
    """Return the names of values by those of their parameters."""
    if isinstance(values, Mapping):
        pairs = cast("Mapping[Any, Any]", values)
        return {_name_of(parameter): _name_of(value) for parameter, value in pairs.items()}
    prefix = f"{values}/"
    value_names = {
        name: prefix + name
        for name, info in main.vars.items()
        if info.persistable and prefix + name in main.vars
    }
    if not value_names:
        raise ProgramError(
            f"no parameter has a variable with the prefix `{prefix}`.",
            fix="Pass {parameter: value}, as br.optimizer.ema returns it.",
        )
    return value_names


def _name_of(argument: Any) -> str:
    return argument if isinstance(argument, str) else argument.name


def _check_value(main: Body, name: str, value: str) -> None:
    for var_name in (name, value):
        if var_name not in main.vars:
            raise UnknownNameError(
                f"unknown variable `{var_name}` in the main block.",
                fix=suggest(var_name, main.vars),
            )
    info, value_info = main.vars[name], main.vars[value]
    if not info.persistable:
        raise ProgramError(
            f"`{name}` is not a parameter or state.",
            fix="Replace parameters and states only.",
        )
    if info.type != value_info.type:
        raise ShapeError(
            f"type mismatch between `{name}` and its replacement `{value}`.",
            given=f"{name}: {info.type}   {value}: {value_info.type}",
            fix="Use a value with the dtype and shape of the parameter.",
        )
    fed = [n for n in ancestors(main.ops, [value]) if main.vars[n].kind == DATA]
    if fed:
        raise ProgramError(
            f"`{value}` depends on the data `{fed[0]}`.",
            fix="Compute the value from parameters and states only.",
        )
