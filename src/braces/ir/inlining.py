"""Plain blocks taken apart: what they do, where they stand.

    w = block() as encoder                    encoder/y: f32[4] = tanh(x=x)
      body {                                  z: f32[4] = exp(x=encoder/y)
        encoder/y: f32[4] = tanh(x=x)    ->
        return encoder/y
      }
    z: f32[4] = exp(x=w)

Names stay as they are where they have no other meaning in the block around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from braces.ir.records import BLOCK, Body, Op
from braces.ir.views import BlockView
from braces.ir.walk import all_bodies, free_names, rename_body, rename_op


@dataclass(frozen=True)
class Opened:
    """A plain block that is taken apart.

    Attributes:
        body: Its operators and variables.
        names: What is called otherwise where it stood, by the names of its outputs.
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
    new = {name: unique(name) for name in view.body.vars if name in ambiguous}
    body = rename_body(view.body, new) if new else view.body
    ops = tuple(
        one.with_(name=new.get(one.name) or unique(one.name)) if one.name in ambiguous else one
        for one in body.ops
    )
    results = (new.get(out.results[0], out.results[0]) for out in view.outputs)
    names = dict(zip((out.name for out in view.outputs), results, strict=True))
    return Opened(body.with_(ops=ops), names)


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
        for name in op.binds():
            del infos[name]
        infos |= found.body.vars
        names |= {old: new for old, new in found.names.items() if old != new}
        pending += reversed(found.body.ops)
    results = tuple(names.get(name, name) for name in body.results)
    return body.with_(results=results, vars=infos, ops=tuple(done))
