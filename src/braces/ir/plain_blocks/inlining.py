"""Plain blocks taken apart: what they do, where they stand.

    w = block() as encoder                    encoder/y: f32[4] = tanh(x=x)
      body {                                  z: f32[4] = exp(x=encoder/y)
        encoder/y: f32[4] = tanh(x=x)    ->
        return encoder/y
      }
    z: f32[4] = exp(x=w)

Names stay as they are where they have no other meaning in the block around. What is an output
under another name has that one from then on, so all that was read after the block, fetched or
updated is so still; a value that has two names has the second by an operator of its own:

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
class Opened:
    """A plain block that is taken apart.

    Attributes:
        body: Its operators and variables; its outputs are among them, or copied from them.
        names: What is called otherwise where it stood, by the names of its outputs: lists.
    """

    body: Body
    names: Mapping[str, str]


def opens(op: Op, always: bool = False) -> bool:
    """Whether an operator is a plain block, all of which is known.

    Args:
        op: The operator.
        always: Whether it may be one that gradients run again, which is then forgotten.
    """
    if op.type != BLOCK or op.unknown:
        return False
    view = BlockView.of(op)
    return not view.body.unknown and (always or not view.recompute)


def opened(op: Op, ambiguous: Collection[str], unique: Callable[[str], str]) -> Opened:
    """A plain block taken apart.

    Args:
        op: The operator.
        ambiguous: Names that mean something else, too, where it stands; see `ambiguous_in`.
        unique: What makes a new name of one.
    """
    view = BlockView.of(op)
    given = _given_out(view)
    new = {name: unique(name) for name in view.body.vars if name in ambiguous} | given
    body = rename_body(view.body, new) if new else view.body
    ops = tuple(
        one.with_(name=new.get(one.name) or unique(one.name)) if one.name in ambiguous else one
        for one in body.ops
    )
    names = dict(zip((out.name for out in view.outputs), body.results, strict=True))
    others = {old: name for old, name in names.items() if old != name}
    lists = {old: name for old, name in others.items() if _is_list(body, name)}
    copies = tuple(
        Op(IDENTITY, unique(IDENTITY), {"x": (name,)}, {"out": (old,)}, source=op.source)
        for old, name in others.items()
        if old not in lists
    )
    return Opened(body.with_(ops=ops + copies), lists)


def _given_out(view: BlockView) -> dict[str, str]:
    """What variables of a plain block are called outside, where that can be their only name.

    Not what is read from outside, and not where a block further in has the name for another.
    """
    bodies = (body for op in view.body.ops for body in op.bodies().values())
    hidden = {name for body in bodies for name in _bound(body)}
    found = {out.results[0]: out.name for out in view.outputs if out.name == out.results[0]}
    for out in view.outputs:
        if out.results[0] in view.body.vars and out.name not in hidden:
            found.setdefault(out.results[0], out.name)
    return found


def _bound(body: Body) -> Iterator[str]:
    """The names that a block and those in it bind."""
    for inner, _ in all_bodies(body):
        yield from inner.vars


def _is_list(body: Body, name: str) -> bool:
    """Whether a variable of a block is a list, of which nobody makes another."""
    info = body.vars.get(name)
    return info is not None and isinstance(info.type, ListType)


def ambiguous_in(body: Body, opens: Callable[[Op], bool] = opens) -> frozenset[str]:
    """The names that would have two meanings in a block, were its plain blocks taken apart."""
    named = Counter(op.name for op in _flat(body.ops, opens))
    meant = Counter(free_names(body))
    for inner, _ in all_bodies(body):
        meant.update(inner.vars.keys() - _handed_on(inner, opens))
    return frozenset(n for found in (named, meant) for n, count in found.items() if count > 1)


def _handed_on(body: Body, opens: Callable[[Op], bool]) -> set[str]:
    """What a block binds only because a plain block in it does, under the same name."""
    views = (BlockView.of(op) for op in body.ops if opens(op))
    return {out.name for view in views for out in view.outputs if out.results == (out.name,)}


def _flat(ops: Iterable[Op], opens: Callable[[Op], bool]) -> Iterator[Op]:
    """The operators of a block whose plain blocks are taken apart, and these themselves."""
    for op in ops:
        yield op
        if opens(op):
            yield from _flat(BlockView.of(op).body.ops, opens)


def inlined(body: Body, unique: Callable[[str], str]) -> Body:
    """A block without the plain blocks that stand in it, but for those that run again.

    Args:
        body: The block; loops and cases in it keep theirs.
        unique: What makes a new name of one.
    """
    if not any(map(opens, body.ops)):
        return body
    ambiguous = ambiguous_in(body)
    names, infos, done = dict[str, str](), dict(body.vars), list[Op]()
    pending = list(reversed(body.ops))
    while pending:
        op = pending.pop()
        op = rename_op(op, names) if names else op
        if not opens(op):
            done.append(op)
            continue
        found = opened(op, ambiguous, unique)
        for name in found.names:
            del infos[name]
        infos |= found.body.vars
        names |= {old: new for old, new in found.names.items() if old != new}
        pending += reversed(found.body.ops)
    results = tuple(names.get(name, name) for name in body.results)
    return body.with_(results=results, vars=infos, ops=tuple(done))
