"""Differences between two programs: by block and operator, not by names of temporaries.

Operators of the two blocks are aligned by their computation (type, attributes, number of
inputs), then the remaining ones by type. Names follow the alignment: operands of aligned
operators are equal if aligned operators bind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from braces.errors import visible
from braces.ir.fingerprint import fingerprint
from braces.ir.records import ARGUMENT, VALUE, Attr, Body, Op, VarInfo
from braces.ir.text.printer import print_body
from braces.program import Program


@dataclass(frozen=True)
class Change:
    """A difference between two programs.

    Attributes:
        how: `added`, `removed` or `changed`.
        block: The path of the block; empty for the main one.
        what: The changed operator, variable or update.
        details: The differences, one line each.
    """

    how: str
    block: str
    what: str
    details: tuple[str, ...] = ()


def compare(left: Program, right: Program) -> list[Change]:
    """Return the changes from `left` to `right`; empty if both are equivalent."""
    if fingerprint(left) == fingerprint(right):
        return []
    comparison = Comparison()
    names = comparison.block(left.definition.main, right.definition.main, "", {})
    comparison.updates(left.updates, right.updates, names)
    return comparison.changes or [Change("changed", "", "the order of operators or outputs")]


def align_ops(left: Sequence[Op], right: Sequence[Op]) -> list[tuple[Op | None, Op | None]]:
    """Return pairs of corresponding operators in order, with `None` for a missing one."""
    return list(_align(left, right, (_exact_key, _type_key)))


class Comparison:
    """Comparison of two programs.

    Attributes:
        changes: The changes so far.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def say(self, how: str, block: str, what: str, *details: str) -> None:
        """Record a change."""
        self.changes.append(Change(how, block, what, details))

    def block(
        self, left: Body, right: Body, path: str, outer: Mapping[str, str]
    ) -> dict[str, str]:
        """Compare two blocks; return the map of names from the left block to the right one."""
        names = {**outer, **{n: n for n in left.vars}}
        names |= dict(zip(left.params, right.params, strict=False))
        self.declarations(left, right, path)
        for old, new in align_ops(left.ops, right.ops):
            if old is None and new is not None:
                self.say("added", path, _signature(new))
            elif new is None and old is not None:
                self.say("removed", path, _signature(old))
            elif old is not None and new is not None:
                self.op(old, new, (left, right), path, names)
        if [names.get(n, n) for n in left.results] != list(right.results) and path:
            self.say(
                "changed",
                path,
                "results",
                f"{_join_names(left.results)} → {_join_names(right.results)}",
            )
        return names

    def declarations(self, left: Body, right: Body, path: str) -> None:
        """Compare data, persistable variables, and the parameters of a sub-block."""
        olds, news = _declared_vars(left), _declared_vars(right)
        for name in dict.fromkeys([*olds, *news]):
            old, new = olds.get(name), news.get(name)
            if old is None and new is not None:
                self.say("added", path, _declaration_text(new))
            elif new is None and old is not None:
                self.say("removed", path, _declaration_text(old))
            elif old and new and _declaration_text(old) != _declaration_text(new):
                self.say(
                    "changed",
                    path,
                    f"variable {name}",
                    f"{_declaration_text(old)} → {_declaration_text(new)}",
                )
        kinds = [[str(b.vars[n].type) for n in b.params] for b in (left, right)]
        if kinds[0] != kinds[1]:
            self.say(
                "changed",
                path,
                "parameters",
                f"({', '.join(kinds[0])}) → ({', '.join(kinds[1])})",
            )

    def op(
        self, old: Op, new: Op, bodies: tuple[Body, Body], path: str, names: dict[str, str]
    ) -> None:
        """Compare two aligned operators, and their sub-blocks."""
        details = [*_slot_changes(old, new, names), *_attr_changes(old.attrs, new.attrs)]
        for slot in dict.fromkeys([*old.outputs, *new.outputs]):
            before, after = old.outputs.get(slot, ()), new.outputs.get(slot, ())
            names.update(zip(before, after, strict=False))
            details += _type_changes(slot, before, after, bodies)
        if details:
            self.say("changed", path, f"{old.name} ({old.type})", *details)
        old_bodies, new_bodies = old.bodies(), new.bodies()
        for label in dict.fromkeys([*old_bodies, *new_bodies]):
            block_path = f"{path}/{old.name}/{label}".lstrip("/")
            if label not in new_bodies:
                self.say("removed", path, f"block {block_path}")
            elif label not in old_bodies:
                self.say("added", path, f"block {block_path}")
            else:
                self.block(old_bodies[label], new_bodies[label], block_path, names)

    def updates(
        self, left: Mapping[str, str], right: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        """Compare the updates of persistable variables."""
        for target in dict.fromkeys([*left, *right]):
            old, new = left.get(target), right.get(target)
            if old is None:
                self.say("added", "", f"update {target} = {new}")
            elif new is None:
                self.say("removed", "", f"update {target} = {old}")
            elif names.get(old, old) != new:
                self.say("changed", "", f"update {target}", f"{old} → {new}")


# ---- alignment -------------------------------------------------------------------------------


def _align(
    left: Sequence[Op], right: Sequence[Op], keys: Sequence[Callable[[Op], str]]
) -> Iterator[tuple[Op | None, Op | None]]:
    """Yield pairs aligned by the first key; the remaining keys align unmatched operators."""
    if not keys or not left or not right:
        yield from ((op, None) for op in left)
        yield from ((None, op) for op in right)
        return
    key, *remaining_keys = keys
    matcher = SequenceMatcher(None, [key(op) for op in left], [key(op) for op in right], False)
    for how, a, b, c, d in matcher.get_opcodes():
        if how == "equal":
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from _align(left[a:b], right[c:d], remaining_keys)


def _type_key(op: Op) -> str:
    return op.type


def _exact_key(op: Op) -> str:
    attrs = sorted((name, _attr_text(value)) for name, value in op.attrs.items())
    slots = sorted((slot, len(names)) for slot, names in op.inputs.items())
    return f"{op.type} {attrs} {slots}"


def _attr_text(value: Attr) -> str:
    if isinstance(value, Body):
        return "block"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_attr_text, value))}]"
    return f"{type(value).__name__} {value}"


# ---- differences -----------------------------------------------------------------------------


def _slot_changes(old: Op, new: Op, names: Mapping[str, str]) -> Iterator[str]:
    for slot in dict.fromkeys([*old.inputs, *new.inputs]):
        before, after = old.inputs.get(slot, ()), new.inputs.get(slot, ())
        if [names.get(n, n) for n in before] != list(after):
            yield f"{slot}: {_join_names(before)} → {_join_names(after)}"


def _attr_changes(old: Mapping[str, Attr], new: Mapping[str, Attr]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        before = _display_attr(old[name]) if name in old else "absent"
        after = _display_attr(new[name]) if name in new else "absent"
        if before != after:
            yield f"{name}: {before:.60} → {after:.60}"
        elif not _has_body(old[name]) and old[name] != new[name] and old[name] == old[name]:
            yield f"{name}: different values of {before:.60}"


def _display_attr(value: Attr) -> str:
    if isinstance(value, Body):
        return "block"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_display_attr, value))}]"
    return (
        "none"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else visible(str(value))
    )


def _has_body(value: Attr) -> bool:
    return isinstance(value, Body) or (isinstance(value, tuple) and any(map(_has_body, value)))


def _type_changes(
    slot: str, before: Sequence[str], after: Sequence[str], bodies: tuple[Body, Body]
) -> Iterator[str]:
    olds = [str(bodies[0].vars[n].type) for n in before if n in bodies[0].vars]
    news = [str(bodies[1].vars[n].type) for n in after if n in bodies[1].vars]
    if olds != news:
        yield f"{slot}: {', '.join(olds) or 'absent'} → {', '.join(news) or 'absent'}"


def _declared_vars(body: Body) -> dict[str, VarInfo]:
    return {n: info for n, info in body.vars.items() if info.kind not in (VALUE, ARGUMENT)}


def _declaration_text(info: VarInfo) -> str:
    text = f"{info.kind} {info.name}: {info.shown_type}"
    return text + (" trainable" if info.trainable else "")


def _signature(op: Op) -> str:
    """Return the line of an operator in the text form, without its blocks."""
    attrs = {name: value for name, value in op.attrs.items() if not _has_body(value)}
    body = Body((), (), {}, (Op(op.type, op.name, op.inputs, op.outputs, attrs),))
    return print_body(body).splitlines()[1].strip()


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
