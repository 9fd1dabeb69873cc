"""Differences between two operators as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from braces.errors import visible
from braces.ir.records import ARGUMENT, VALUE, Attr, Body, Op, VarInfo
from braces.ir.text.printer import print_body


def slot_changes(old: Op, new: Op, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the slots whose operands differ, under the names of the right program."""
    for slot in dict.fromkeys([*old.inputs, *new.inputs]):
        before, after = old.inputs.get(slot, ()), new.inputs.get(slot, ())
        if [names.get(n, n) for n in before] != list(after):
            yield f"{slot}: {join_names(before)} → {join_names(after)}"


def attr_changes(old: Mapping[str, Attr], new: Mapping[str, Attr]) -> Iterator[str]:
    """Yield the attributes that differ."""
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


def type_changes(
    slot: str, before: Sequence[str], after: Sequence[str], bodies: tuple[Body, Body]
) -> Iterator[str]:
    """Yield the change of the types of an output slot."""
    olds = [str(bodies[0].vars[n].type) for n in before if n in bodies[0].vars]
    news = [str(bodies[1].vars[n].type) for n in after if n in bodies[1].vars]
    if olds != news:
        yield f"{slot}: {', '.join(olds) or 'absent'} → {', '.join(news) or 'absent'}"


def declared_vars(body: Body) -> dict[str, VarInfo]:
    """Return the data and persistable variables of a block."""
    return {n: info for n, info in body.vars.items() if info.kind not in (VALUE, ARGUMENT)}


def declaration_text(info: VarInfo) -> str:
    """Return the declaration of a variable as text."""
    text = f"{info.kind} {info.name}: {info.shown_type}"
    return text + (" trainable" if info.trainable else "")


def signature(op: Op) -> str:
    """Return the line of an operator in the text form, without its blocks."""
    attrs = {name: value for name, value in op.attrs.items() if not _has_body(value)}
    body = Body((), (), {}, (Op(op.type, op.name, op.inputs, op.outputs, attrs),))
    return print_body(body).splitlines()[1].strip()


def join_names(names: Iterable[str]) -> str:
    """Return names separated by commas."""
    return ", ".join(names) or "nothing"
