"""Removal of matched operators that nothing reads any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import is_

from braces.ir.records import VALUE, Body, Op
from braces.ir.walk import map_bodies, names_bound_by, with_captures


def sweep(
    body: Body, path: str, unread: Mapping[str, Collection[str]], wanted: Collection[str]
) -> Body:
    """Return a block without some operators, where nothing reads their outputs.

    Args:
        body: The block.
        path: Its path.
        unread: Names of operators that may be removed, by the path of their block.
        wanted: Variables of this block that are read elsewhere.
    """
    removable = unread.get(path, ())
    read, ops = {*body.results, *wanted}, list[Op]()
    for op in reversed(body.ops):
        if op.name in removable and read.isdisjoint(op.binds()):
            continue
        op = _swept_op(op, path, unread)
        read.update(op.reads())
        ops.append(op)
    if len(ops) == len(body.ops) and all(map(is_, ops, reversed(body.ops))):
        return body
    bound = names_bound_by(ops)
    infos = {n: info for n, info in body.vars.items() if info.kind != VALUE or n in bound}
    return body.with_(ops=tuple(reversed(ops)), vars=infos)


def _swept_op(op: Op, path: str, unread: Mapping[str, Collection[str]]) -> Op:
    """Return an operator with its blocks swept; the same one if they do not change."""
    before = op.bodies()
    if not before:
        return op
    head = f"{path}/{op.name}".lstrip("/")
    if not any(where.startswith(f"{head}/") for where in unread):
        return op
    labels = iter(before)
    new = map_bodies(op, lambda inner: sweep(inner, f"{head}/{next(labels)}", unread, ()))
    same = all(map(is_, before.values(), new.bodies().values()))
    return op if same else with_captures(new)
