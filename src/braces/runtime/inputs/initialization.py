"""Initial values: the seed of startup programs, and values transferred to a scope.

A startup program runs in a temporary child scope. Its results are stored together: all of them
in the given scope, or, with `missing_only`, those that have no value yet.

`missing_only` keeps values that another program has set, such as the learning rate of an
earlier optimizer of the same name. A warning reports a kept value if these conditions hold:

- The program trains parameters. The variable is a scalar state that it reads and does not
  update: a hyperparameter.
- Its initial value, a constant, differs from the kept one.
- An earlier initialization set the kept value, or a program with updates of it was initialized
  in the scope. A value that the user has set or restored causes no warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from braces.builder.builder import SEED, Builder
from braces.builder.source_line import warn_user
from braces.dtypes import TensorType
from braces.ir.records import PARAMETER, STATE
from braces.runtime.inputs.persistables import check_seed, find_initialized
from braces.scope import Scope, Variable
from braces.scope.values import copy_value

_UPDATED = object()
_set_by_init: WeakKeyDictionary[Variable, Any] = WeakKeyDictionary()
"""Scalar states: the value that `init` has set, or `_UPDATED` if a program updates it."""


def add_seed(
    startup: Builder, feed: Mapping[str, Any] | None, seed: Any = None
) -> Mapping[str, Any] | None:
    """Return the feed of a startup program with its seed, by default 0, if it is not fed.

    Raises:
        ProgramError: If the seed is not a 32-bit integer.
    """
    number = check_seed(0 if seed is None else seed)
    is_fed = SEED not in startup.table.vars or (feed is not None and SEED in feed)
    return feed if is_fed else {**(feed or {}), SEED: number}


def startup_scope(startup: Builder, scope: Scope) -> Scope:
    """Return a child of a scope with the variables that a startup program sets."""
    child = scope.new_scope()
    for name in startup.updates:
        child.var(name)
    return child


def store_values(program: Builder, drawn: Scope, scope: Scope, *, missing_only: bool) -> None:
    """Store the values of a startup program in a scope.

    Args:
        program: The program whose values they are.
        drawn: The scope in which its startup program ran.
        scope: The scope to store them in.
        missing_only: Whether to keep the values of the scope and of its parents.
    """
    kept = dict[str, Variable]()
    with scope.turn:
        for name in program.startup.updates:
            variable = find_initialized(scope, name) if missing_only else None
            if variable is None:
                scope.var(name).put(drawn.get_var(name).raw)
            else:
                kept[name] = variable
        stale = _stale_values(program, drawn, kept) if kept else []
        _record(program, scope, kept)
    if stale:
        _warn(stale)


def _record(program: Builder, scope: Scope, kept: Mapping[str, Variable]) -> None:
    """Record the initial values of scalar states, and the states that the program updates."""
    for name in program.startup.updates:
        variable = scope.get_var(name)
        if not _is_scalar_state(program, name):
            continue
        if name in program.updates:
            _set_by_init[variable] = _UPDATED
        elif name not in kept:
            _set_by_init[variable] = copy_value(variable.raw)


def _is_scalar_state(program: Builder, name: str) -> bool:
    info = program.table.vars.get(name)
    if info is None or info.kind != STATE:
        return False
    return isinstance(info.type, TensorType) and not info.shape


def _stale_values(
    program: Builder, drawn: Scope, kept: Mapping[str, Variable]
) -> list[tuple[str, Any, Any]]:
    """Return the kept hyperparameters of another program: name, kept and initial value."""
    stale = list[tuple[str, Any, Any]]()
    for name, variable in kept.items() if _trains(program) else ():
        recorded = _set_by_init.get(variable)
        if recorded is None or name in program.updates or not _is_scalar_state(program, name):
            continue
        value, initial = copy_value(variable.raw), copy_value(drawn.get_var(name).raw)
        if value != initial and (recorded is _UPDATED or recorded == value):
            stale.append((name, value, initial))
    return [entry for entry in stale if _is_read_constant(program, entry[0])]


def _trains(program: Builder) -> bool:
    return any(program.table.vars[name].kind == PARAMETER for name in program.updates)


def _is_read_constant(program: Builder, name: str) -> bool:
    """Return whether a program reads a variable, and the initial value depends on no seed."""
    source = program.startup.updates[name]
    drawn = any(
        source in op.binds() and any(op.reads()) for op in program.startup.definition.main.ops
    )
    return not drawn and any(name in op.reads() for op in program.definition.main.ops)


def _warn(stale: list[tuple[str, Any, Any]]) -> None:
    name, _, initial = stale[0]
    owner = name.rpartition("/")[0]
    values = "\n".join(
        f"  given: {name}: {value!s} in the scope, initial value {initial!s}"
        for name, value, initial in stale
    )
    others = f" Other variables of `{owner}` keep their values, too." if owner else ""
    warn_user(
        f"`{name}` keeps the value that another program has set.{others}\n{values}\n"
        f"  Pass another `name=` to the optimizer or layer, or set "
        f"scope[{name!r}] = {initial!s}."
    )
