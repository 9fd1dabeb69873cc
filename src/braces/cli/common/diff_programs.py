"""What changed from one program to another: by block and operator, not by name of temporaries.

Operators of the two blocks are aligned by what they compute (type, attributes, types of what
they bind), then what is left by type. Names follow the alignment: an aligned operator reads the
same where it reads what aligned operators bind.
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
    """One difference.

    Attributes:
        how: `added`, `removed` or `changed`.
        block: The path of the block; empty for the main one.
        what: The operator, variable or update.
        details: What is different about it, one line each.
    """

    how: str
    block: str
    what: str
    details: tuple[str, ...] = ()


def compare(left: Program, right: Program) -> list[Change]:
    """What changed from `left` to `right`; nothing where both mean the same."""
    if fingerprint(left) == fingerprint(right):
        return []
    comparison = Comparison()
    names = comparison.block(left.definition.main, right.definition.main, "", {})
    comparison.updates(left.updates, right.updates, names)
    return comparison.changes or [Change("changed", "", "the order of operators or outputs")]


def aligned(left: Sequence[Op], right: Sequence[Op]) -> list[tuple[Op | None, Op | None]]:
    """Pairs of operators that stand for each other, in order; `None` where there is none."""
    return list(_align(left, right, (_exact_key, _type_key)))


class Comparison:
    """Two programs being compared.

    Attributes:
        changes: What was found.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def say(self, how: str, block: str, what: str, *details: str) -> None:
        """Note a change."""
        self.changes.append(Change(how, block, what, details))

    def block(
        self, left: Body, right: Body, path: str, outer: Mapping[str, str]
    ) -> dict[str, str]:
        """Compare two blocks; the names of the left one as the right one calls them."""
        names = {**outer, **{n: n for n in left.vars}}
        names |= dict(zip(left.params, right.params, strict=False))
        self.declarations(left, right, path)
        for old, new in aligned(left.ops, right.ops):
            if old is None and new is not None:
                self.say("added", path, _signature(new))
            elif new is None and old is not None:
                self.say("removed", path, _signature(old))
            elif old is not None and new is not None:
                self.op(old, new, (left, right), path, names)
        if [names.get(n, n) for n in left.results] != list(right.results) and path:
            self.say(
                "changed", path, "results", f"{_list(left.results)} → {_list(right.results)}"
            )
        return names

    def declarations(self, left: Body, right: Body, path: str) -> None:
        """What is fed, what persists, and the parameters of a sub-block."""
        olds, news = _fixed(left), _fixed(right)
        for name in dict.fromkeys([*olds, *news]):
            old, new = olds.get(name), news.get(name)
            if old is None and new is not None:
                self.say("added", path, _declared(new))
            elif new is None and old is not None:
                self.say("removed", path, _declared(old))
            elif old and new and _declared(old) != _declared(new):
                self.say(
                    "changed", path, f"variable {name}", f"{_declared(old)} → {_declared(new)}"
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
        inner, others = old.bodies(), new.bodies()
        for label in dict.fromkeys([*inner, *others]):
            below = f"{path}/{old.name}/{label}".lstrip("/")
            if label not in others:
                self.say("removed", path, f"block {below}")
            elif label not in inner:
                self.say("added", path, f"block {below}")
            else:
                self.block(inner[label], others[label], below, names)

    def updates(
        self, left: Mapping[str, str], right: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        """Compare what a run leaves."""
        for target in dict.fromkeys([*left, *right]):
            old, new = left.get(target), right.get(target)
            if old is None:
                self.say("added", "", f"update {target} = {new}")
            elif new is None:
                self.say("removed", "", f"update {target} = {old}")
            elif names.get(old, old) != new:
                self.say("changed", "", f"update {target}", f"{old} → {new}")


# ---- aligning --------------------------------------------------------------------------------


def _align(
    left: Sequence[Op], right: Sequence[Op], keys: Sequence[Callable[[Op], str]]
) -> Iterator[tuple[Op | None, Op | None]]:
    """Pairs by the first key; what that leaves, by the next ones."""
    if not keys or not left or not right:
        yield from ((op, None) for op in left)
        yield from ((None, op) for op in right)
        return
    key, *rest = keys
    matcher = SequenceMatcher(None, [key(op) for op in left], [key(op) for op in right], False)
    for how, a, b, c, d in matcher.get_opcodes():
        if how == "equal":
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from _align(left[a:b], right[c:d], rest)


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


# ---- what is different -----------------------------------------------------------------------


def _slot_changes(old: Op, new: Op, names: Mapping[str, str]) -> Iterator[str]:
    for slot in dict.fromkeys([*old.inputs, *new.inputs]):
        before, after = old.inputs.get(slot, ()), new.inputs.get(slot, ())
        if [names.get(n, n) for n in before] != list(after):
            yield f"{slot}: {_list(before)} → {_list(after)}"


def _attr_changes(old: Mapping[str, Attr], new: Mapping[str, Attr]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        before = _attr_shown(old[name]) if name in old else "absent"
        after = _attr_shown(new[name]) if name in new else "absent"
        if before != after:
            yield f"{name}: {before:.60} → {after:.60}"
        elif not _has_body(old[name]) and old[name] != new[name] and old[name] == old[name]:
            yield f"{name}: other values of {before:.60}"


def _attr_shown(value: Attr) -> str:
    if isinstance(value, Body):
        return "block"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_attr_shown, value))}]"
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


def _fixed(body: Body) -> dict[str, VarInfo]:
    return {n: info for n, info in body.vars.items() if info.kind not in (VALUE, ARGUMENT)}


def _declared(info: VarInfo) -> str:
    shown = f"{info.kind} {info.name}: {info.shown_type}"
    return shown + (" trainable" if info.trainable else "")


def _signature(op: Op) -> str:
    """The line of an operator in the text form, without its blocks."""
    attrs = {name: value for name, value in op.attrs.items() if not _has_body(value)}
    body = Body((), (), {}, (Op(op.type, op.name, op.inputs, op.outputs, attrs),))
    return print_body(body).splitlines()[1].strip()


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
