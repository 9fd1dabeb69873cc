"""Names of main variables changed in recorded calls and in startup programs.

A call names its states after parameters: `adam/mu/w` for `w`. After a renaming of `w` to
`weight`, the record keeps `weight: w`, so that the repeated call has states of the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.ir.records import Derivation, ProgramDef
from braces.ir.walk import names_bound, relabel_body

P = TypeVar("P", bound=Builder)
NAMES = ("targets", "inputs", "seeds", "results", "states", "ends", "unread")
"""Fields of a record that are names of variables."""


def renamed_record(record: Derivation, names: Mapping[str, str]) -> Derivation:
    """Return the record of a call with new names of its variables, without a trace of these."""
    fields: dict[str, Any] = {field: renamed(getattr(record, field), names) for field in NAMES}
    updates = {names.get(n, n): names.get(v, v) for n, v in record.updates.items()}
    return record.with_(updates=updates, **fields)


def with_earlier_names(record: Derivation, names: Mapping[str, str]) -> Derivation:
    """Return the record of a call with new names, and with those of its time."""
    then = set(record.earlier.values())
    earlier = {names.get(name, name): old for name, old in record.earlier.items()}
    earlier |= {
        new: old for old, new in names.items() if old not in record.earlier and old not in then
    }
    earlier = {name: old for name, old in earlier.items() if name != old}
    return renamed_record(record, names).with_(earlier=earlier)


def renamed(names: Iterable[str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Return names, some of them new ones."""
    return tuple(new.get(name, name) for name in names)


def renamed_program(program: P, names: Mapping[str, str], *, recorded: bool) -> P:
    """Return a program in which variables have other names in all blocks.

    Args:
        program: The program.
        names: New names, different ones for different variables, that no other variable has.
        recorded: Whether recorded calls keep the old names, too.
    """
    definition = program.definition
    rename = with_earlier_names if recorded else renamed_record
    updates = {names.get(n, n): names.get(v, v) for n, v in definition.updates.items()}
    new = program.like(
        definition.with_(
            main=relabel_body(definition.main, names),
            updates=updates,
            derivations=tuple(rename(record, names) for record in definition.derivations),
        )
    )
    new.startup = program.startup
    startup = renamed_startup(program.startup.definition, names)
    if startup is not program.startup.definition:
        new.startup = program.startup.like(startup)
    return new


def renamed_startup(startup: ProgramDef, names: Mapping[str, str]) -> ProgramDef:
    """Return a startup program in which persistable variables are renamed.

    Its temporary values get other names where these names are taken.
    """
    held = {
        n: names[n] for n, info in startup.main.vars.items() if info.persistable and n in names
    }
    if not held:
        return startup
    taken = {*names_bound(startup.main), *held.values()}
    clashes = (taken & {*held.values()}) - held.keys() & {*names_bound(startup.main)}
    all_names = held | {name: _free(name, taken) for name in sorted(clashes)}
    updates = {all_names.get(n, n): all_names.get(v, v) for n, v in startup.updates.items()}
    return startup.with_(main=relabel_body(startup.main, all_names), updates=updates)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    number, new = 0, f"{name}_init"
    while new in taken:
        number += 1
        new = f"{name}_init_{number}"
    taken.add(new)
    return new
