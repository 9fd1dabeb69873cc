"""Dead code elimination: keep the operators that results and updates of a program depend on.

The walk is backward: it visits consumers before producers. Operators that own blocks trim
themselves: unread outputs, memories, captures and sub-block operators are removed, at any
depth.

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

A memory is live if a live memory, a live stacked output or the condition reads it: if `b` above
were read, `a` would be live too.

A data-dependent size is defined by an operator. Operators that use the size depend on that
operator, although they read none of its values; here it is the gradient of a sum:

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
from braces.ir.walk import all_bodies, dimensions, map_bodies, names_bound, with_captures
from braces.ops.control.core.block_op import BlockOp
from braces.passes.core.pipeline import Pass, is_collecting_notes, note


def eliminate_dead_code(program: ProgramDef) -> ProgramDef:
    """Return a program with only the operators that its results and updates depend on."""
    results, updates = program.main.results, program.updates
    main = eliminate(program.main, (*results, *updates.values(), *updates))
    return program.with_(main=main.with_(results=results))


def eliminate(body: Body, results: Sequence[str]) -> Body:
    """Return a block after dead code elimination for `results`, which become its own."""
    return _Elimination(body).block(body, results)


def trim_outputs(body: Body, results: Sequence[str]) -> Body:
    """Return a block after dead code elimination that keeps unread values of inner blocks.

    In inner blocks, operators are eliminated that serve removed outputs of blocks or depend on
    eliminated operators.
    """
    names = {*names_bound(eliminate(body, results))}
    return _Trimming(body, names).block(body, results)


def data_dependent_size(op: Op) -> str | None:
    """Return the data-dependent dimension that an operator defines; `None` if there is none."""
    role = OPS.get(op.type).roles.get("Learned")
    size = None if role is None else op.attrs[role]
    return size.name if isinstance(size, Dim) else None


@dataclass
class _Sizes:
    """Dimensions that an operator defines, and those that it uses, in its blocks too.

    Attributes:
        op: The operator; the reference keeps its id unique.
        defined: The data-dependent dimensions that it defines.
        used: The dimensions that it uses.
    """

    op: Op
    defined: set[str]
    used: set[str]


class _Elimination:
    """Backward walk through a block and all blocks in it.

    Definitions of sizes are searched once per operator, however deep it is nested, and only if
    some operator of the block defines a size.
    """

    def __init__(self, body: Body) -> None:
        types = {op.type for inner, _ in all_bodies(body) for op in inner.ops}
        self._defines_sizes = any("Learned" in OPS.get(type).roles for type in types)
        self._sizes_by_id: dict[int, _Sizes] = {}

    def block(self, body: Body, results: Sequence[str]) -> Body:
        """Return a block after elimination for these results, which become its results."""
        live = set(results)
        live_ops = (
            self.collect_with_sizes(body, live)
            if self._defines_sizes
            else self.collect_live(body, live)
        )
        ops = tuple(reversed(live_ops))
        named = live.union(body.params, *map(Op.binds, ops))
        infos = {name: info for name, info in body.vars.items() if name in named}
        return body.with_(results=tuple(results), vars=infos, ops=ops)

    def collect_live(self, body: Body, live: set[str]) -> list[Op]:
        """Return the live operators, last first."""
        live_ops = list[Op]()
        for op in reversed(body.ops):
            trimmed = self.trimmed(op, live)
            if trimmed is not None:
                live_ops.append(trimmed)
                live.update(trimmed.reads())
        return live_ops

    def collect_with_sizes(self, body: Body, live: set[str]) -> list[Op]:
        """Return the live operators and those that define a used size, last first."""
        live_ops, sizes = list[Op](), set[str]()
        size_ops = {size: op for op in reversed(body.ops) for size in self.sizes(op).defined}
        for op in reversed(body.ops):
            trimmed = self.trimmed(op, live)
            needed = {size for size in sizes if size_ops[size] is op}
            if needed and (trimmed is None or not needed <= self.sizes(trimmed).defined):
                trimmed = op  # keep the block untrimmed
            if trimmed is not None:
                live_ops.append(trimmed)
                live.update(trimmed.reads())
                op_sizes = self.sizes(trimmed)
                sizes.update(size_ops.keys() & op_sizes.used)
                sizes -= op_sizes.defined
        return live_ops

    def sizes(self, op: Op) -> _Sizes:
        """Return the dimensions of an operator (memoized)."""
        known = self._sizes_by_id.get(id(op))
        if known is None:
            size = data_dependent_size(op)
            known = _Sizes(op, {size} if size else set(), dimensions(tuple(op.attrs.values())))
            for body in op.bodies().values():
                for info in body.vars.values():
                    known.used |= dimensions(shape_of(info.type))
                for inner_sizes in map(self.sizes, body.ops):
                    known.defined |= inner_sizes.defined
                    known.used |= inner_sizes.used
            self._sizes_by_id[id(op)] = known
        return known

    def trimmed(self, op: Op, live: set[str]) -> Op | None:
        """Return an operator with only its live outputs; `None` if it is dead."""
        live_outputs = live.intersection(op.binds())
        if not live_outputs:
            return None
        definition = OPS.get(op.type)
        if isinstance(definition, BlockOp):
            return definition.trim(op, frozenset(live_outputs), self.block)
        optional = {slot.name for slot in definition.outputs if slot.optional}
        outputs = {
            slot: names
            for slot, names in op.outputs.items()
            if slot not in optional or any(name in live_outputs for name in names)
        }
        return op if len(outputs) == len(op.outputs) else op.with_(outputs=outputs)


class _Trimming(_Elimination):
    """Elimination in which operators of inner blocks stay if nothing reads their outputs.

    Attributes:
        names: The names that stay, and those of operators that depend on these only.
    """

    def __init__(self, body: Body, names: set[str]) -> None:
        super().__init__(body)
        self._main = body
        self.names = names

    def collect_live(self, body: Body, live: set[str]) -> list[Op]:
        return super().collect_live(body, self._with_unread(body, live))

    def collect_with_sizes(self, body: Body, live: set[str]) -> list[Op]:
        return super().collect_with_sizes(body, self._with_unread(body, live))

    def trimmed(self, op: Op, live: set[str]) -> Op | None:
        if any(op.binds()) or not op.bodies():
            return super().trimmed(op, live)
        known = self.names
        new = with_captures(map_bodies(op, lambda body: self.block(body, body.results)))
        empty = not any(body.ops for body in new.bodies().values())
        return None if empty or not known.issuperset(new.reads()) else new

    def _with_unread(self, body: Body, live: set[str]) -> set[str]:
        """Add the outputs of operators of an inner block that nothing reads."""
        if body is self._main:
            return live
        read = {*body.results, *(name for op in body.ops for name in op.reads())}
        known = set(self.names)
        for op in body.ops:
            if known.issuperset(op.reads()):
                known.update(op.binds())
                if read.isdisjoint(op.binds()):
                    live.update(op.binds())
        self.names = known
        return live


def _eliminate_with_notes(program: ProgramDef) -> ProgramDef:
    """Return a program after dead code elimination, with notes."""
    new_program = eliminate_dead_code(program)
    if is_collecting_notes():
        _note_removed(program.main, new_program.main, "")
    return new_program


def _note_removed(before: Body, after: Body, path: str) -> None:
    """Note the operators that a block has lost, and those of its sub-blocks."""
    remaining = {op.name: op for op in after.ops}
    for op in before.ops:
        where = f"{path}/{op.name}".lstrip("/")
        if op.name not in remaining:
            note(where, "removed: no result or update needs it")
            continue
        new_bodies = remaining[op.name].bodies()
        for label, body in op.bodies().items():
            if label in new_bodies:
                _note_removed(body, new_bodies[label], f"{where}/{label}")


DCE = Pass(
    "dce",
    _eliminate_with_notes,
    "Eliminate operators that no result or update needs.",
    trusted=True,
)
