"""Differences between two programs: by block and operator, not by names of temporaries.

    a                                        b
    h: f32[n,4] = matmul(x=x, y=w)           h: f32[n,4] = matmul(x=x, y=w)
    y: f32[n,4] = tanh(x=h)                  y: f32[n,4] = sigmoid(x=h)

    ~ y: tanh → sigmoid

Operators of the two blocks are aligned by their content (`align_ops`). Names follow the
alignment: operands of aligned operators are equal if aligned operators bind them. An operator
that binds a name of a removed operator replaces it; one with the same content and name in
another block has moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from braces.ir.fingerprint import fingerprint
from braces.ir.records import Body, Op, ProgramDef
from braces.report import count_text
from braces.surgery.op_alignment import align_ops, content_key
from braces.surgery.op_changes import (
    attr_changes,
    declaration_text,
    declared_vars,
    join_names,
    signature,
    slot_changes,
    type_changes,
)

ADDED, REMOVED, CHANGED, REPLACED, MOVED = "added", "removed", "changed", "replaced", "moved"
MARKS = {ADDED: "+", REMOVED: "-", CHANGED: "~", REPLACED: "~", MOVED: ">"}
"""The mark of each kind of change in printed lists."""


@dataclass(frozen=True)
class Change:
    """A difference between two programs.

    Attributes:
        how: `added`, `removed`, `changed`, `replaced` or `moved`.
        block: The path of the block; empty for the main one.
        what: The changed operator, variable or update.
        details: The differences, one line each.
    """

    how: str
    block: str
    what: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlignedLine:
    """A line of the two programs side by side.

    Attributes:
        blocks: The path of the block in the left program, and in the right one.
        left: The operator or declaration of the left program; empty for none.
        right: That of the right program.
        how: The kind of the change; empty for equal ones.
        names: The names of the operators; empty for none.
    """

    blocks: tuple[str, str]
    left: str
    right: str
    how: str = ""
    names: tuple[str, str] = ("", "")


def compare_definitions(
    left: ProgramDef, right: ProgramDef
) -> tuple[list[Change], list[AlignedLine]]:
    """Return the changes from `left` to `right`, and all lines side by side.

    There are no changes if both have the same fingerprint.
    """
    comparison = Comparison()
    names = comparison.block(left.main, right.main, "", "", {})
    comparison.updates(left.updates, right.updates, names)
    if fingerprint(left) == fingerprint(right):
        return [], comparison.lines
    changes = with_moves(comparison)
    return changes or [_order_change(left.main, right.main)], comparison.lines


def _order_change(left: Body, right: Body) -> Change:
    if left.results == right.results:
        return Change(CHANGED, "", "the order of operators or outputs")
    detail = f"{join_names(left.results)} → {join_names(right.results)}"
    return Change(CHANGED, "", "the order of operators or outputs", (detail,))


class Comparison:
    """Comparison of two programs.

    Attributes:
        changes: The changes so far.
        lines: The lines of both programs so far.
        removed: The removed operators, by the index of their change.
        added: The added operators, by the index of their change.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.lines: list[AlignedLine] = []
        self.removed: dict[int, Op] = {}
        self.added: dict[int, Op] = {}

    def say(self, how: str, block: str, what: str, *details: str) -> None:
        """Record a change."""
        self.changes.append(Change(how, block, what, details))

    def block(
        self, left: Body, right: Body, path: str, right_path: str, outer: Mapping[str, str]
    ) -> dict[str, str]:
        """Compare two blocks; return the map of names from the left block to the right one."""
        names = {**outer, **{n: n for n in left.vars}}
        names |= dict(zip(left.params, right.params, strict=False))
        self.declarations(left, right, (path, right_path))
        pairs = align_ops(left.ops, right.ops)
        replaced = _replacements(pairs)
        for old, new in pairs:
            if old is not None and new is not None:
                self.op(old, new, (left, right), (path, right_path), names)
            elif new is not None:
                self.add(new, (path, right_path), replaced.get(new.name))
            elif old is not None and old.name not in {op.name for op in replaced.values()}:
                self.remove(old, (path, right_path))
        if [names.get(n, n) for n in left.results] != list(right.results) and path:
            results = f"{join_names(left.results)} → {join_names(right.results)}"
            self.say(CHANGED, path, "results", results)
        return names

    def add(self, new: Op, paths: tuple[str, str], old: Op | None) -> None:
        """Record an added operator, which may replace one that bound the same name."""
        if old is None:
            self.added[len(self.changes)] = new
            self.say(ADDED, paths[1], signature(new), *_blocks_of(new))
            self._line(paths, "", signature(new), ADDED, ("", new.name))
            return
        texts = signature(old), signature(new)
        (name, *_) = (n for n in new.binds() if n in set(old.binds()))
        self.say(
            REPLACED,
            paths[0],
            f"{name}: {old.type} → {new.type}",
            f"- {texts[0]}",
            f"+ {texts[1]}",
        )
        self._line(paths, *texts, REPLACED, (old.name, new.name))

    def remove(self, old: Op, paths: tuple[str, str]) -> None:
        """Record a removed operator."""
        self.removed[len(self.changes)] = old
        self.say(REMOVED, paths[0], signature(old), *_blocks_of(old))
        self._line(paths, signature(old), "", REMOVED, (old.name, ""))

    def _line(
        self,
        blocks: tuple[str, str],
        left: str,
        right: str,
        how: str = "",
        names: tuple[str, str] = ("", ""),
    ) -> None:
        self.lines.append(AlignedLine(blocks, left, right, how, names))

    def declarations(self, left: Body, right: Body, paths: tuple[str, str]) -> None:
        """Compare data, persistable variables, and the parameters of a sub-block."""
        olds, news, path = declared_vars(left), declared_vars(right), paths[0]
        for name in dict.fromkeys([*olds, *news]):
            old, new = (declaration_text(of[name]) if name in of else "" for of in (olds, news))
            how = _how(old, new)
            self._line(paths, old, new, how)
            if how == CHANGED:
                self.say(CHANGED, path, f"variable {name}", f"{old} → {new}")
            elif how:
                self.say(how, path, old or new)
        kinds = [[str(b.vars[n].type) for n in b.params] for b in (left, right)]
        if kinds[0] != kinds[1]:
            detail = f"({', '.join(kinds[0])}) → ({', '.join(kinds[1])})"
            self.say(CHANGED, path, "parameters", detail)

    def op(
        self,
        old: Op,
        new: Op,
        bodies: tuple[Body, Body],
        paths: tuple[str, str],
        names: dict[str, str],
    ) -> None:
        """Compare two aligned operators, and their sub-blocks."""
        details = [*slot_changes(old, new, names), *attr_changes(old.attrs, new.attrs)]
        for slot in dict.fromkeys([*old.outputs, *new.outputs]):
            before, after = old.outputs.get(slot, ()), new.outputs.get(slot, ())
            names.update(zip(before, after, strict=False))
            details += type_changes(slot, before, after, bodies)
        if details:
            self.say(CHANGED, paths[0], f"{old.name} ({old.type})", *details)
        how = CHANGED if details else ""
        self._line(paths, signature(old), signature(new), how, (old.name, new.name))
        self._inner_blocks(old, new, paths, names)

    def _inner_blocks(
        self, old: Op, new: Op, paths: tuple[str, str], names: dict[str, str]
    ) -> None:
        old_bodies, new_bodies = old.bodies(), new.bodies()
        for label in dict.fromkeys([*old_bodies, *new_bodies]):
            path, right_path = (
                f"{path}/{op.name}/{label}".lstrip("/")
                for path, op in zip(paths, (old, new), strict=True)
            )
            if label not in new_bodies:
                self.say(REMOVED, paths[0], f"block {path}")
            elif label not in old_bodies:
                self.say(ADDED, paths[0], f"block {path}")
            else:
                self.block(old_bodies[label], new_bodies[label], path, right_path, names)

    def updates(
        self, left: Mapping[str, str], right: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        """Compare the updates of persistable variables."""
        for target in dict.fromkeys([*left, *right]):
            old, new = left.get(target), right.get(target)
            same = old is not None and names.get(old, old) == new
            texts = tuple(f"update {target} = {value}" if value else "" for value in (old, new))
            how = "" if same else _how(texts[0], texts[1]) or CHANGED
            self._line(("", ""), texts[0], texts[1], how)
            if how == CHANGED:
                self.say(CHANGED, "", f"update {target}", f"{old} → {new}")
            elif how:
                self.say(how, "", "".join(texts))


def _how(left: str, right: str) -> str:
    """Return the kind of the change from one text to another; empty for none."""
    if left and right:
        return CHANGED if left != right else ""
    return ADDED if right else REMOVED


def _blocks_of(op: Op) -> Iterator[str]:
    """Yield the size of each block of an operator."""
    for label, body in op.bodies().items():
        yield f"{label}: {count_text(len(body.ops), 'operator')}"


def _replacements(pairs: list[tuple[Op | None, Op | None]]) -> dict[str, Op]:
    """Return the removed operator for each added operator that binds one of its names."""
    makers = {
        name: old
        for old, new in pairs
        if old is not None and new is None
        for name in old.binds()
    }
    replaced = dict[str, Op]()
    for old, new in pairs:
        if old is None and new is not None:
            same = [makers[name] for name in new.binds() if name in makers]
            if same and all(same[0] is not other for other in replaced.values()):
                replaced[new.name] = same[0]
    return replaced


def with_moves(comparison: Comparison) -> list[Change]:
    """Return the changes, in which a removal and an equal addition elsewhere are one move."""
    changes = dict(enumerate(comparison.changes))
    olds = {(op.name, content_key(op)): at for at, op in comparison.removed.items()}
    for at, op in comparison.added.items():
        old = olds.pop((op.name, content_key(op)), None)
        if old is None or changes[old].block == changes[at].block or op.bodies():
            continue
        before, after = (changes[index].block or "0" for index in (old, at))
        move = replace(changes[old], how=MOVED, details=(f"block {before} → block {after}",))
        changes[old] = move
        del changes[at]
    return list(changes.values())
