"""Names of operators and variables, changed everywhere: blocks, updates, startup, results.

parameter w: f32[8]                     parameter scale: f32[8]
… in loop_0/body:                ->     … in loop_0/body:
  act: f32[8] = multiply(x=h, y=w)        gated: f32[8] = multiply(x=h, y=scale)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.define.decorator import OPS
from braces.errors import DuplicateNameError, ProgramError
from braces.ir.lineage import Key
from braces.ir.names import check_name
from braces.ir.paths import BLOCK, OPERATOR
from braces.ir.places import Chain, Place
from braces.ir.records import (
    ARGUMENT,
    BLOCK as BLOCK_TYPE,
    Attr,
    Body,
    Op,
    VarInfo,
)
from braces.ir.views import LoopView, view_of
from braces.ir.walk import (
    map_bodies,
    rename_slots,
    with_captures,
)
from braces.surgery.derivations.renaming import (
    renamed,
    renamed_startup,
    with_earlier_names,
)
from braces.surgery.edits.core.address import handles_at
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.session import with_definition
from braces.surgery.edits.core.taken_part import require_whole
from braces.surgery.handles import Handle, variable_handle

P = TypeVar("P", bound=Builder)
Names = dict[str, str]


def rename(program: P, names: Mapping[Any, str]) -> EditResult[P]:
    """Rename operators and variables; see `Edits.rename`."""
    require_whole(program, "rename")
    renaming = _Renaming.of(program, names)
    label = "rename " + ", ".join(f"`{old}` to `{new}`" for old, new in renaming.shown[:3])
    main = Place.main(program.definition)
    renaming.check(main, label)
    definition = program.definition
    outer = renaming.variables.get((), {})
    updates = {outer.get(n, n): outer.get(v, v) for n, v in definition.updates.items()}
    all_names = renaming.operators.get((), {}) | outer
    records = (with_earlier_names(record, all_names) for record in definition.derivations)
    main_block = renaming.block(definition.main, (), {})
    new = with_definition(
        program,
        definition.with_(
            main=main_block, updates=updates, derivations=tuple(records)
        ).with_move(renaming.move),
    )
    new.startup = program.startup.like(renamed_startup(program.startup.definition, outer))
    return EditResult(new, label, followed=True)


def _same_value(handle: Handle) -> Iterator[Handle]:
    """Yield a value of a plain block inside or outside, if it has the same name there."""
    maker, owner = handle.maker, handle.place.owner
    if maker is not None and maker.type == BLOCK_TYPE and maker.place is handle.place:
        results = (var for block in maker.blocks for var in block.outputs)
        yield from (var for var in results if var.name == handle.name and var.chain)
    if owner is not None and owner.type == BLOCK_TYPE and handle.name in owner.binds():
        assert handle.place.outer is not None
        yield variable_handle(handle.place.outer, handle.name)


@dataclass
class _Renaming:
    """New names, by block.

    Attributes:
        variables: New names of the variables of each block.
        operators: New names of its operators.
        shown: Old paths and new names, as given.
    """

    variables: dict[Chain, Names] = field(default_factory=dict[Chain, Names])
    operators: dict[Chain, Names] = field(default_factory=dict[Chain, Names])
    shown: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @staticmethod
    def of(program: Builder, names: Mapping[Any, Any]) -> _Renaming:
        """Return the renaming of paths, patterns, variables and handles.

        Raises:
            ProgramError: If a name is invalid, or there is none.
        """
        if not names:
            raise ProgramError(
                "the mapping of names is empty.", fix='Pass {"encoder/q": "encoder/query"}.'
            )
        renaming = _Renaming()
        for at, new in names.items():
            for handle in handles_at(program, at, "variables", "operators"):
                renaming.add(handle, _new_name(at, handle, new))
        return renaming

    def add(self, handle: Handle, new: str) -> None:
        """Add an operator and its outputs of the same name, or a variable."""
        if handle.kind == BLOCK:
            raise ProgramError(
                f"the block `{handle.path}` has no name of its own.",
                fix="Rename the operator that owns it.",
            )
        self.shown.append((handle.path, new))
        maker = handle.maker
        if maker is not None and maker.place is handle.place and maker.name == handle.name:
            self._operator(maker, new)
        else:
            self._variable(handle, new)

    def _operator(self, handle: Handle, new: str) -> None:
        old = handle.name
        self.operators.setdefault(handle.chain, {})[old] = new
        for output in handle.outputs:
            if output.name == old or output.name.startswith(f"{old}."):
                self._variable(output, new + output.name[len(old) :])

    def _variable(self, handle: Handle, new: str) -> None:
        names = self.variables.setdefault(handle.chain, {})
        if names.get(handle.name) == new:
            return
        names[handle.name] = new
        for same in _same_value(handle):
            self.add(same, new)
        info, owner = handle.info, handle.place.owner
        if info is None or info.kind != ARGUMENT or owner is None:
            return
        if isinstance(view_of(owner), LoopView):  # its condition names the memories alike
            around = handle.chain[:-1]
            for label, body in owner.bodies().items():
                if handle.name in body.params:
                    chain = (*around, (owner.name, label))
                    self.variables.setdefault(chain, {})[handle.name] = new

    # ---- checks ------------------------------------------------------------------------------

    def check(self, main: Place, label: str) -> None:
        """Raise an error if a new name has another meaning where it would be visible.

        Raises:
            DuplicateNameError: If there is another meaning; the message names both places.
        """
        for place in main.walk():
            variables = self.variables.get(place.chain, {})
            operators = self.operators.get(place.chain, {})
            self._check_unique(place, place.body.vars, variables, "variable", label)
            self._check_unique(place, place.order, operators, "operator", label)
            for old, new in variables.items():
                self._check_outer(place, old, new, label)
                self._check_inner(place, old, new, label)

    def _check_unique(
        self, place: Place, bound: Iterable[str], names: Names, kind: str, label: str
    ) -> None:
        renamed = dict[str, str]()
        for name in bound:
            new = names.get(name, name)
            if new in renamed:
                pair = (renamed[new], name) if name in names else (name, renamed[new])
                raise _clash(place, pair[0], pair[1], new, kind, label)
            renamed[new] = name

    def _check_outer(self, place: Place, old: str, new: str, label: str) -> None:
        """Refuse a name by which this block, or a block in it, reads an outer variable."""
        around = place.outer.binder(new) if place.outer is not None else None
        if around is None or new in self.variables.get(around.chain, {}):
            return
        if new in place.readers or new in place.body.results:
            raise _clash(place, around.path_of(new), old, new, "variable", label)

    def _check_inner(self, place: Place, old: str, new: str, label: str) -> None:
        """Refuse a name that a block binds in which the variable is read."""
        for reader, _ in place.readers.get(old, ()):
            block: Place | None = reader
            while block is not None and block is not place:
                own = self.variables.get(block.chain, {})
                bound = new in block.body.vars and new not in own
                if bound or new in own.values():
                    raise _clash(place, block.path_of(new), old, new, "variable", label)
                block = block.outer

    # ---- blocks ------------------------------------------------------------------------------

    def block(self, body: Body, chain: Chain, outer: Names) -> Body:
        """Return a block with new names; `outer` are those of the variables around it."""
        own = self.variables.get(chain, {})
        names = {old: new for old, new in outer.items() if old not in body.vars} | own
        infos = (_renamed(info, own) for info in body.vars.values())
        return body.with_(
            params=renamed(body.params, names),
            results=renamed(body.results, names),
            vars={info.name: info for info in infos},
            ops=tuple(self._op(op, chain, names) for op in body.ops),
        )

    def _op(self, op: Op, chain: Chain, names: Names) -> Op:
        labels = iter(op.bodies())
        new = map_bodies(
            op, lambda body: self.block(body, (*chain, (op.name, next(labels))), names)
        )
        new = new.with_(
            inputs=rename_slots(op.inputs, names),
            outputs=rename_slots(op.outputs, names),
            attrs=self._attrs(new),
        )
        name = self.operators.get(chain, {}).get(op.name)
        new = new.with_(name=name) if name else new
        return with_captures(new) if new.bodies() else new

    def _attrs(self, op: Op) -> Mapping[str, Attr]:
        """Return the attributes, in which a loop whose iterations are repeated is renamed."""
        renamed = {old: new for names in self.operators.values() for old, new in names.items()}
        repeated = repeated_loop(op)
        old = op.attrs.get(repeated) if repeated else None
        return {**op.attrs, str(repeated): renamed[str(old)]} if old in renamed else op.attrs

    # ---- handles -----------------------------------------------------------------------------

    def move(self, key: Key) -> Key:
        """Return the key of a handle after the renaming."""
        kind, chain, name = key
        names = self.operators if kind == OPERATOR else self.variables
        name = names.get(chain, {}).get(name, name)
        owners = (self.operators.get(chain[:at], {}) for at in range(len(chain)))
        pairs = zip(owners, chain, strict=True)
        return (
            kind,
            tuple((new.get(owner, owner), label) for new, (owner, label) in pairs),
            name,
        )


def repeated_loop(op: Op) -> str | None:
    """Return the attribute that names the loop whose iterations an operator repeats."""
    history = "history" if isinstance(view_of(op), LoopView) else None
    return OPS.get(op.type).roles.get("History", history)


def _renamed(info: VarInfo, names: Names) -> VarInfo:
    return info.with_(name=names[info.name]) if info.name in names else info


def _new_name(at: Any, handle: Handle, new: Any) -> str:
    """Return the new name of a handle: the given one, or a pattern filled in.

    Raises:
        ProgramError: If the name is invalid, or the patterns have different numbers of `*`.
    """
    if not isinstance(new, str):
        raise ProgramError(
            f"expected a name for `{handle.path}`, got {new!r:.80}.", fix="Pass a string."
        )
    if isinstance(at, str) and "*" in at:
        if at.count("*") != new.count("*"):
            raise ProgramError(
                f"expected {at.count('*')} `*` in the new name of `{at}`, got {new!r:.80}.",
                fix='Write {"encoder/*": "enc/*"}.',
            )
        pattern = re.escape(at).replace(r"\*", "(.*)").replace(r"\?", ".")
        match = re.fullmatch(pattern, handle.name)
        parts = iter(match.groups() if match else ())
        new = re.sub(r"\*", lambda _: next(parts, ""), new) if match else handle.name
    return check_name(new)


def _clash(
    place: Place, taken: str, old: str, new: str, kind: str, label: str
) -> DuplicateNameError:
    return DuplicateNameError(
        f"cannot rename `{place.path_of(old)}` to `{new}`: the {kind} `{taken}` has this name.",
        at=label,
        fix="Choose another name, or rename both in one call.",
    )
