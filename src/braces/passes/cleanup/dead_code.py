"""Keep what the results and updates of a program need.

What is wanted comes first and what it needs after that, so this walks against the order of
execution. Operators that own blocks trim themselves: outputs, memories, captures and sub-block
operators that nobody needs go, at any depth.

    data x: f32[3]                          data x: f32[3]
    y: f32[3] = tanh(x=x)                   y: f32[3] = tanh(x=x)
    z: f32[3] = exp(x=y)            ->      return y
    return y

    i: i64[] = ...                          i: i64[] = ...
    final=[a: f32[], b: f32[]] =            final=[a: f32[]] =
      loop(init=[x, y]) as l                  loop(init=x) as l
      body (t: i64[], p: f32[], q: f32[]) {   body (t: i64[], p: f32[]) {
        r: f32[] = tanh(x=p)        ->          r: f32[] = tanh(x=p)
        s: f32[] = add(x=r, y=q)                return r
        return r, s                           }
      }                                     return a
    return a

A memory stays where a memory, a row or the condition that stays reads it: the first of the two
would stay if the second were wanted.

A size that only a run knows is told by an operator. What computes with it needs that operator,
though it reads none of its values; here that is the gradient of a sum:

    s: f32[m] = list_stack(list=l) {length=size(m)}        s: f32[m] = list_stack(…) {…}
    y: f32[] = sum(x=s)                              ->    g: f32[m] = broadcast_to(…) {…}
    g: f32[m] = broadcast_to(x=one) {shape=[size(m)]}      return g
    return g
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.dims import Dim
from braces.ir.records import Body, Op, ProgramDef
from braces.ir.walk import all_bodies, dimensions
from braces.ops.control.core.block_op import BlockOp
from braces.passes.core.pipeline import Pass


def eliminated(program: ProgramDef) -> ProgramDef:
    """A program with only what its results and updates need."""
    results, updates = program.main.results, program.updates
    main = eliminate(program.main, (*results, *updates.values(), *updates))
    return program.with_(main=main.with_(results=results))


def eliminate(body: Body, results: Sequence[str]) -> Body:
    """A block with only what these results need; they become its results."""
    return _Elimination(body).block(body, results)


def learned_size(op: Op) -> str | None:
    """The dimension of which an operator tells the size, which only a run knows."""
    role = OPS.get(op.type).roles.get("Learned")
    size = None if role is None else op.attrs[role]
    return size.name if isinstance(size, Dim) else None


@dataclass
class _Sizes:
    """The dimensions that an operator tells, and those that it computes with, inside too.

    Attributes:
        op: The operator, which lives as long as what is known of it.
    """

    op: Op
    told: set[str]
    used: set[str]


class _Elimination:
    """One walk through a block and all in it.

    What tells sizes is looked for in each operator once, however deep it is nested, and nowhere
    where no operator does.
    """

    def __init__(self, body: Body) -> None:
        types = {op.type for inner, _ in all_bodies(body) for op in inner.ops}
        self.tells = any("Learned" in OPS.get(type).roles for type in types)
        self.known: dict[int, _Sizes] = {}

    def block(self, body: Body, results: Sequence[str]) -> Body:
        """A block with only what these results need; they become its results."""
        live = set(results)
        kept = self.sized(body, live) if self.tells else self.read(body, live)
        ops = tuple(reversed(kept))
        named = live.union(body.params, *map(Op.binds, ops))
        infos = {name: info for name, info in body.vars.items() if name in named}
        return body.with_(results=tuple(results), vars=infos, ops=ops)

    def read(self, body: Body, live: set[str]) -> list[Op]:
        """The operators of which something is read, the last one first."""
        kept = list[Op]()
        for op in reversed(body.ops):
            trimmed = self.trimmed(op, live)
            if trimmed is not None:
                kept.append(trimmed)
                live.update(trimmed.reads())
        return kept

    def sized(self, body: Body, live: set[str]) -> list[Op]:
        """The operators of which something is read, or that tell a size, the last one first."""
        kept, sizes = list[Op](), set[str]()
        tellers = {size: op for op in reversed(body.ops) for size in self.sizes(op).told}
        for op in reversed(body.ops):
            trimmed = self.trimmed(op, live)
            needed = {size for size in sizes if tellers[size] is op}
            if needed and (trimmed is None or not needed <= self.sizes(trimmed).told):
                trimmed = op  # a block is kept whole then
            if trimmed is not None:
                kept.append(trimmed)
                live.update(trimmed.reads())
                found = self.sizes(trimmed)
                sizes.update(tellers.keys() & found.used)
                sizes -= found.told
        return kept

    def sizes(self, op: Op) -> _Sizes:
        """What is known of the sizes of an operator."""
        known = self.known.get(id(op))
        if known is None:
            size = learned_size(op)
            known = _Sizes(op, {size} if size else set(), dimensions(tuple(op.attrs.values())))
            for body in op.bodies().values():
                for info in body.vars.values():
                    known.used |= dimensions(shape_of(info.type))
                for found in map(self.sizes, body.ops):
                    known.told |= found.told
                    known.used |= found.used
            self.known[id(op)] = known
        return known

    def trimmed(self, op: Op, live: set[str]) -> Op | None:
        """An operator with only the outputs of which something is read."""
        wanted = live.intersection(op.binds())
        if not wanted:
            return None
        definition = OPS.get(op.type)
        if isinstance(definition, BlockOp):
            return definition.trim(op, frozenset(wanted), self.block)
        optional = {slot.name for slot in definition.outputs if slot.optional}
        outputs = {
            slot: names
            for slot, names in op.outputs.items()
            if slot not in optional or any(name in wanted for name in names)
        }
        return op if len(outputs) == len(op.outputs) else op.with_(outputs=outputs)


DCE = Pass(
    "dce", eliminated, "Eliminate operators that no result or update needs.", trusted=True
)
