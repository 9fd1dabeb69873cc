"""Insertion after a value or before an operator, replacement and removal of operators.

    h: f32[n,8] = fc(...)                    h: f32[n,8] = fc(...)
    y: f32[n,8] = tanh(x=h)          ->      drop: f32[n,8] = dropout(x=h)
                                             y: f32[n,8] = tanh(x=drop)

A value keeps its name if something is inserted after it, so its handle and its fetch stay. Its
readers, and the results and updates of it, get the new value. A replacement takes over the
names of the outputs that it replaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.ir.places import Chain
from braces.ir.records import CAPTURES, Op
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.surgery.edits.core.address import operators_at, paths_text, variables_at
from braces.surgery.edits.core.change import Address, EditResult
from braces.surgery.edits.core.derived import affected_by, refuse_derived
from braces.surgery.edits.core.site import Builds, EditPlace, operands_of
from braces.surgery.edits.core.walk import Action, EditWalk, Entry
from braces.surgery.handles import Handle
from braces.surgery.substitution import old_type, substitute

P = TypeVar("P", bound=Builder)


# ---- after a value ---------------------------------------------------------------------------


def insert_after(
    program: P, at: Any, function: Any, *, retype: bool = False, exact: bool = False
) -> EditResult[P]:
    """Insert the results of a function after values; see `Edits.insert_after`."""
    groups = variables_at(program, at)
    variables = [var for group in groups for var in group]
    label = f"insert_after {paths_text(variables)}"
    refuse_derived(program, affected_by(variables), label, exact)
    insertion = _After(Builds(function, label, retype))
    for group in groups:
        insertion.add(group)
    walk = insertion.walk = EditWalk(label, insertion.actions, insertion.entries)
    new = walk.apply(program)
    return EditResult(new, label, walk.variables, walk.operators, readers=walk.readers)


class _After:
    """Insertions after groups of variables: outputs of one operator, or one variable."""

    def __init__(self, builds: Builds) -> None:
        self.builds = builds
        self.actions: dict[Address, Action] = {}
        self.entries: dict[Chain, Entry] = {}
        self.walk = EditWalk("", {})
        self._groups: dict[Address | Chain, list[Sequence[Handle]]] = {}

    def add(self, group: Sequence[Handle]) -> None:
        """Add a group of variables that the function receives together."""
        first, maker = group[0], group[0].maker
        if maker is not None and maker.place is first.place:
            address = maker.chain, maker.name
            self._groups.setdefault(address, []).append(group)
            self.actions[address] = lambda op, point: self._at(op, point, address)
        else:
            self._groups.setdefault(first.chain, []).append(group)
            self.entries[first.chain] = lambda point: self._at_begin(point, first.chain)

    def _at(self, op: Op, point: InsertionPoint, address: Address) -> Replacement:
        point.keep(op)
        return self._build(point, self._groups[address])

    def _at_begin(self, point: InsertionPoint, chain: Chain) -> None:
        point.names |= self._build(point, self._groups[chain])

    def _build(
        self, point: InsertionPoint, groups: Sequence[Sequence[Handle]]
    ) -> dict[str, str]:
        """Build after variables; return the names of the new values."""
        names: dict[str, str] = {}
        for group in groups:
            olds = [var.name for var in group]
            types = [(name, old_type(point, name)) for name in olds]
            with point.building():
                place = EditPlace(point, group[0].path)
                values = self.builds.results([point.var(n) for n in olds], len(olds), place)
            different = self.builds.check_types(types, values)
            new = {old: v.name for old, v in zip(olds, values, strict=True)}
            names |= {old: name for old, name in new.items() if old != name}
            self.walk.has_retyped(point, [new[name] for name in different])
        return names


# ---- before an operator ----------------------------------------------------------------------


def insert_before(
    program: P,
    at: Any,
    function: Any,
    *,
    operand: str | None = None,
    retype: bool = False,
    exact: bool = False,
) -> EditResult[P]:
    """Insert the results of a function before operators; see `Edits.insert_before`."""
    handles = operators_at(program, at)
    label = f"insert_before {paths_text(handles)}"
    refuse_derived(program, handles, label, exact)
    builds = Builds(function, label, retype)

    def action(op: Op, point: InsertionPoint) -> Op:
        olds = _operands(op, operand, label)
        types = [(name, old_type(point, name)) for name in olds]
        with point.building():
            place = EditPlace(point, point.where(op))
            values = builds.results([point.var(name) for name in olds], len(olds), place)
        different = builds.check_types(types, values)
        if different:
            walk.operators += [(handle.chain, handle.name) for handle in handles]
        return _reading(op, operand, olds, [v.name for v in values])

    walk = EditWalk(label, {(handle.chain, handle.name): action for handle in handles})
    return EditResult(walk.apply(program), label, walk.variables, walk.operators)


def _operands(op: Op, operand: str | None, label: str) -> list[str]:
    """Return the operands that a function receives: all, or those of a slot or a name."""
    names = operands_of(op, CAPTURES)
    if operand is None:
        if names:
            return names
        raise ProgramError(
            f"`{op.name}` has no operands.", at=label, fix="Use insert_after, or replace."
        )
    if operand in op.inputs and operand != CAPTURES:
        return list(op.inputs[operand])
    if operand in names:
        return [operand]
    known = [*(slot for slot in op.inputs if slot != CAPTURES), *names]
    raise UnknownNameError(
        f"`{op.name}` ({op.type}) has no operand `{operand}`.",
        at=label,
        given=f"operands: {', '.join(known) or 'none'}",
        fix=suggest(operand, known),
    )


def _reading(op: Op, operand: str | None, olds: Sequence[str], news: Sequence[str]) -> Op:
    """Return an operator that reads other operands; its blocks stay as they are."""
    if operand is not None and operand not in op.inputs:
        return op.with_(inputs=_renamed(op, dict(zip(olds, news, strict=True))))
    slots = [operand] if operand is not None else [s for s in op.inputs if s != CAPTURES]
    rest = iter(news)
    new = {slot: tuple(islice(rest, len(op.inputs[slot]))) for slot in slots}
    return op.with_(inputs={**op.inputs, **new})


def _renamed(op: Op, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        slot: read if slot == CAPTURES else tuple(names.get(name, name) for name in read)
        for slot, read in op.inputs.items()
    }


# ---- replacement -----------------------------------------------------------------------------


def replace(
    program: P, at: Any, function: Any, *, retype: bool = False, exact: bool = False
) -> EditResult[P]:
    """Replace operators by results of a function of their operands; see `Edits.replace`."""
    handles = operators_at(program, at)
    label = f"replace {paths_text(handles)}"
    refuse_derived(program, handles, label, exact)
    builds = Builds(function, label, retype)

    def action(op: Op, point: InsertionPoint) -> Replacement:
        olds, names = list(op.binds()), operands_of(op, CAPTURES)
        types = [(name, old_type(point, name)) for name in olds]
        with point.building():
            place = EditPlace(point, point.where(op))
            values = builds.results([point.var(name) for name in names], len(olds), place)
        walk.has_retyped(point, builds.check_types(types, values))
        substitute(point, olds, values)
        return {}

    walk = EditWalk(label, {(handle.chain, handle.name): action for handle in handles})
    return EditResult(walk.apply(program), label, walk.variables, walk.operators)
