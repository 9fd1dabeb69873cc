"""Inlining of plain blocks into the enclosing block.

    w = block() as encoder                    encoder/y: f32[4] = tanh(x=x)
      body {                                  z: f32[4] = exp(x=encoder/y)
        encoder/y: f32[4] = tanh(x=x)    ->
        return encoder/y
      }
    z: f32[4] = exp(x=w)

Names stay unless the enclosing block uses them otherwise. A variable that is an output under
another name is renamed to it, so later reads, fetches and updates are still valid. A value with
two output names gets the second one by an `identity` operator:

    a: f32[4], b: f32[4] = block() as twice   a: f32[4] = tanh(x=x)
      body {                                  b: f32[4] = identity(x=a)
        h: f32[4] = tanh(x=x)            ->
        return h, h
      }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from braces.dtypes import ListType
from braces.ir.records import BLOCK, IDENTITY, Body, Op
from braces.ir.views import BlockView
from braces.ir.walk import all_bodies, free_names, rename_body, rename_op


@dataclass(frozen=True)
class InlinedBlock:
    """An inlined plain block.

    Attributes:
        body: Its operators and variables, including its outputs or copies of them.
        names: New names of outputs that are lists, which are not copied, by their old names.
        moved: New names of its operators and of its variables, by their names in the block;
            `None` if the operators are others than those of the block.
    """

    body: Body
    names: Mapping[str, str]
    moved: tuple[Mapping[str, str], Mapping[str, str]] | None = None


def is_inlinable(op: Op, always: bool = False) -> bool:
    """Return whether an operator is a plain block without unknown fields.

    Args:
        op: The operator.
        always: Whether blocks with `recompute` count too; the flag is then lost.
    """
    if op.type != BLOCK or op.unknown:
        return False
    view = BlockView.of(op)
    return not view.body.unknown and (always or not view.recompute)


def inline_block(
    op: Op, ambiguous: Collection[str], unique: Callable[[str], str]
) -> InlinedBlock:
    """Inline a plain block.

    Args:
        op: The operator.
        ambiguous: Names with another meaning in the enclosing block; see `ambiguous_in`.
        unique: Makes a new name from a name.
    """
    view = BlockView.of(op)
    outer_names = _outer_names(view)
    renames = {name: unique(name) for name in view.body.vars if name in ambiguous} | outer_names
    body = rename_body(view.body, renames) if renames else view.body
    ops = tuple(
        inner_op.with_(name=renames.get(inner_op.name) or unique(inner_op.name))
        if inner_op.name in ambiguous
        else inner_op
        for inner_op in body.ops
    )
    names = dict(zip((out.name for out in view.outputs), body.results, strict=True))
    others = {old: name for old, name in names.items() if old != name}
    lists = {old: name for old, name in others.items() if _is_list(body, name)}
    copies = tuple(
        Op(IDENTITY, unique(IDENTITY), {"x": (name,)}, {"out": (old,)}, source=op.source)
        for old, name in others.items()
        if old not in lists
    )
    pairs = zip(view.body.ops, ops, strict=True)
    operators = {old.name: new.name for old, new in pairs if old.name != new.name}
    return InlinedBlock(body.with_(ops=ops + copies), lists, (operators, renames))


def _outer_names(view: BlockView) -> dict[str, str]:
    """Return the outer names of variables of a plain block that can be their only names.

    Captures are excluded, and names that a nested block binds otherwise.
    """
    bodies = (body for op in view.body.ops for body in op.bodies().values())
    hidden = {name for body in bodies for name in _bound_names(body)}
    outer_names = {
        out.results[0]: out.name for out in view.outputs if out.name == out.results[0]
    }
    for out in view.outputs:
        if out.results[0] in view.body.vars and out.name not in hidden:
            outer_names.setdefault(out.results[0], out.name)
    return outer_names


def _bound_names(body: Body) -> Iterator[str]:
    """Yield the names that a block and its sub-blocks bind."""
    for inner, _ in all_bodies(body):
        yield from inner.vars


def _is_list(body: Body, name: str) -> bool:
    """Return whether a variable of a block is a list, which is never copied."""
    info = body.vars.get(name)
    return info is not None and isinstance(info.type, ListType)


def ambiguous_in(body: Body, opens: Callable[[Op], bool] = is_inlinable) -> frozenset[str]:
    """Return the names that would have two meanings in a block after inlining."""
    op_counts = Counter(op.name for op in _ops_after_inlining(body.ops, opens))
    bound_counts = Counter(free_names(body))
    for inner, _ in all_bodies(body):
        bound_counts.update(inner.vars.keys() - _forwarded_names(inner, opens))
    return frozenset(
        n for counts in (op_counts, bound_counts) for n, count in counts.items() if count > 1
    )


def _forwarded_names(body: Body, opens: Callable[[Op], bool]) -> set[str]:
    """Return the names that a block binds only as outputs of plain blocks of that name."""
    views = (BlockView.of(op) for op in body.ops if opens(op))
    return {out.name for view in views for out in view.outputs if out.results == (out.name,)}


def _ops_after_inlining(ops: Iterable[Op], opens: Callable[[Op], bool]) -> Iterator[Op]:
    """Yield the operators of a block and of its inlinable plain blocks, these included."""
    for op in ops:
        yield op
        if opens(op):
            yield from _ops_after_inlining(BlockView.of(op).body.ops, opens)


def inline_plain_blocks(body: Body, unique: Callable[[str], str]) -> Body:
    """Return a block with its plain blocks inlined, except those with `recompute`.

    Args:
        body: The block; nested loops and cases are not changed.
        unique: Makes a new name from a name.
    """
    if not any(map(is_inlinable, body.ops)):
        return body
    ambiguous = ambiguous_in(body)
    names, infos, new_ops = dict[str, str](), dict(body.vars), list[Op]()
    pending = list(reversed(body.ops))
    while pending:
        op = pending.pop()
        op = rename_op(op, names) if names else op
        if not is_inlinable(op):
            new_ops.append(op)
            continue
        block = inline_block(op, ambiguous, unique)
        for name in block.names:
            del infos[name]
        infos |= block.body.vars
        names |= {old: new for old, new in block.names.items() if old != new}
        pending += reversed(block.body.ops)
    results = tuple(names.get(name, name) for name in body.results)
    return body.with_(results=results, vars=infos, ops=tuple(new_ops))
