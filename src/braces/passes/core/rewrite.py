"""Rewriting walk: the one traversal that all rewriting passes share.

A rule receives one operator at a time and returns its replacement. The walk takes care of
names, types, captures and enclosing blocks. This rule writes `x * x` for the square of `x`:

    def squares(op: Op, place: InsertionPoint) -> Replacement:
        if op.type != "square":
            return op
        with place.building():
            x = place.var(op.inputs["x"][0])
            product = x * x
        return {op.outputs["out"][0]: product.name}

    data x: f32[n]                            data x: f32[n]
    final=[], stacked=[s: f32[n]], … =        final=[], stacked=[s: f32[n]], … =
      loop(sliced=x) as rows                    loop(sliced=x) as rows
      body (t: i64[], r: f32[]) {               body (t: i64[], r: f32[]) {
        y: f32[] = square(x=r)          ->        multiply_0: f32[] = multiply(x=r, y=r)
        z: f32[] = tanh(x=y)                      z: f32[] = tanh(x=multiply_0)
        return z                                  return z
      }                                         }

Inputs are never mutated. If no rule changes anything, the same records (`is`) are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, visible_var
from braces.define.decorator import OPS
from braces.errors import ProgramError
from braces.ir.lineage import Chain, Relocation, all_of
from braces.ir.plain_blocks.escaping_values import with_exported
from braces.ir.plain_blocks.inlining import InlinedBlock
from braces.ir.records import VALUE, Body, Op, ProgramDef, Source, VarInfo
from braces.ir.views import VIEWS, LoopView, loop_index, view_of
from braces.ir.walk import (
    all_bodies,
    map_bodies,
    names_bound_by,
    rename_op,
    resolve_body,
    with_captures,
)
from braces.passes.core.hoisted_op import HoistedOp
from braces.passes.core.initial_values import attach_initial_values, save_initial_values
from braces.passes.core.op_index import OpIndex
from braces.passes.core.pipeline import note
from braces.passes.verifier.program import next_dim_number

Replacement: TypeAlias = "Op | InlinedBlock | Mapping[str, str] | None"
"""Replacement of an operator; see `rewrite`."""

Rule: TypeAlias = "Callable[[Op, InsertionPoint], Replacement]"
LoopRule: TypeAlias = "Callable[[LoopView, Op, InsertionPoint], Replacement]"


def rewrite(program: ProgramDef, rule: Rule) -> ProgramDef:
    """Rewrite a program: a rule keeps or replaces each operator, or turns it into several.

    Blocks are walked in the order of execution and inside out. A rule meets an operator when
    all operators before it, and all in its sub-blocks, are rewritten. A rule may build
    operators, which are inserted before this one (`InsertionPoint.building`), or hoist this one
    (`InsertionPoint.lift`). It returns

    - the operator itself, which stays;
    - an operator that replaces it and binds the same names, or fewer;
    - a mapping from old to new names: the operator is removed, and its outputs are renamed in
      all later reads, results, updates and sub-blocks;
    - an inlined plain block (`InlinedBlock`), whose operators replace it;
    - `None`: the operator is removed, and nothing reads its outputs.

    A method `enter(place)` of a rule is called before the first operator of each block.

    Raises:
        ProgramError: If a new name is shadowed by another variable in a sub-block.
    """
    builder = extend_program(program)
    place = InsertionPoint(builder, program.main, "", None, None, "")
    main, unifier = _walk(place, rule), builder.table.unifier
    if main is program.main:
        return program
    if unifier.known:
        main = resolve_body(main, unifier.resolve)
    save_initial_values(builder)
    updates = {name: place.names.get(value, value) for name, value in builder.updates.items()}
    inner = [value for value in updates.values() if value not in main.vars]
    main = with_exported(main, inner) if inner else main
    new = program.with_(main=main, updates=updates, lineage=builder.lineage)
    return new.with_move(all_of(place.moves)) if place.moves else new


def extend_program(program: ProgramDef) -> Builder:
    """Return a builder that extends a program, with fresh unnamed dimensions."""
    builder = Builder(program)
    builder.table.unifier.count = next_dim_number(program.main)
    attach_initial_values(builder)
    return builder


def rewrite_loops(
    program: ProgramDef, loops: Collection[str] | None, rule: LoopRule
) -> ProgramDef:
    """Rewrite a program by a rule for loops; see `rewrite`.

    Args:
        program: The program.
        loops: Paths of loops, as `loop_0/body/loop_1`, or `None` for all; others are noted.
        rule: Returns the replacement of a loop from its view.
    """
    seen_paths = set[str]()

    def loops_only(op: Op, place: InsertionPoint) -> Replacement:
        view, path = view_of(op), place.where(op)
        if not isinstance(view, LoopView) or (loops is not None and path not in loops):
            return op
        seen_paths.add(path)
        return rule(view, op, place)

    new_program = rewrite(program, loops_only) if contains_loops(program.main) else program
    for path in loops or ():
        if path not in seen_paths:
            note(path, "not found: the program has no loop with this path", "missed")
    return new_program


def contains_loops(body: Body) -> bool:
    """Return whether a block contains a loop, at any depth."""
    return contains_types(body, lambda type_: VIEWS.get(type_) is LoopView)


def contains_types(body: Body, wanted: Callable[[str], bool]) -> bool:
    """Return whether a block contains an operator of certain types, at any depth.

    Args:
        body: The block.
        wanted: Whether a type matches; called once for each type in a block.
    """
    types = set(map(attrgetter("type"), body.ops))
    if any(map(wanted, types)):
        return True
    owners = {type_ for type_ in types if OPS.get(type_).owns_blocks}
    owner_ops = (op for op in body.ops if op.type in owners) if owners else ()
    return any(
        contains_types(inner, wanted) for op in owner_ops for inner in op.bodies().values()
    )


class InsertionPoint:
    """Insertion point: a block under rewriting, at the operator that a rule receives.

    Attributes:
        body: The original block.
        path: Path of the block, as `loop_0/body`; empty for block 0.
        outer: The enclosing block, at the operator that owns this one; `None` for block 0.
        owner: That operator, before rewriting.
        label: Label of this block in its owner, as `body` or `cases[0]`.
        table: The symbol table of the block, for building.
        names: Current names of renamed variables, by their old names.
        moves: The operators that the walk has moved to other blocks, for handles.
    """

    def __init__(
        self,
        program: Builder,
        body: Body,
        path: str,
        outer: InsertionPoint | None,
        owner: Op | None,
        label: str,
    ) -> None:
        self.program = program
        self.body = body
        self.path = path
        self.outer = outer
        self.owner = owner
        self.label = label
        self.table: SymbolTable = program.table
        if outer is not None and owner is not None:
            self.table = outer.table.within(owner)
            self.table.edited = True
            self.table.trip_index = loop_index(owner, body)
        self.table.vars, self.table.ops = dict(body.vars), []
        self.names: dict[str, str] = {}
        self.moves: list[Relocation] = [] if outer is None else outer.moves
        self._op: Op | None = None
        self._done: list[Op] = []
        self._index = OpIndex(self._done)
        self._start = 0
        self._kept: set[str] = set()
        self._changed = False

    def inner(self, body: Body, owner: Op, label: str) -> InsertionPoint:
        """Return the insertion point of a block of one of the operators."""
        path = f"{self.where(owner)}/{label}"
        return InsertionPoint(self.program, body, path, self, owner, label)

    @property
    def chain(self) -> Chain:
        """Names of the owners and labels of the blocks around, outermost first."""
        if self.outer is None or self.owner is None:
            return ()
        return (*self.outer.chain, (self.owner.name, self.label))

    # ---- for rules ---------------------------------------------------------------------------

    def where(self, op: Op) -> str:
        """Return the path of an operator of this block."""
        return f"{self.path}/{op.name}".lstrip("/")

    def info(self, name: str) -> VarInfo:
        """Return the declaration of a visible variable."""
        return self.table.get_var(name)

    def var(self, name: str) -> Var:
        """Return a visible variable, to build with."""
        return visible_var(self.program, self.table, name)

    def maker(self, name: str) -> Op | None:
        """Return the operator that binds a visible variable now; `None` if there is none."""
        if name not in self.table.vars:
            return self.outer.maker(name) if self.outer else None
        return self._index.maker(name)

    def readers(self, name: str) -> Iterator[Op]:
        """Yield the operators of this block, up to the current one, that read a variable."""
        return self._index.readers(name)

    @contextmanager
    def building(self) -> Generator[SymbolTable]:
        """Build operators that are inserted before the current operator.

        Operators built in enclosing blocks are inserted before the construct there. An error
        discards all of them.
        """
        program, source = self.program, self._op.source if self._op else None
        with program.building(self.table), program.at(source), program.transaction():
            yield self.table
        place: InsertionPoint | None = self
        while place is not None:
            place._take_built(source)
            place = place.outer

    def _take_built(self, source: Source | None) -> None:
        """Insert the operators built in this block before the next one."""
        new_ops, self.table.ops = self.table.ops, []
        self._done += (op if source else op.with_(source=None) for op in new_ops)
        self._changed |= bool(new_ops)

    def lift(self, op: Op, to: InsertionPoint) -> Mapping[str, str]:
        """Hoist an operator in front of an enclosing construct; return names for the rule.

        Args:
            op: The current operator.
            to: The destination, one of the enclosing blocks.
        """
        lifted = HoistedOp.out_of(self.table, op, to._named.__contains__)
        to._named.add(lifted.op.name)
        to.table.vars |= {info.name: info for info in lifted.binds}
        to._done.append(lifted.op)
        to._changed = True
        own = {op.name: lifted.op.name}
        self.moves.append(Relocation(self.chain, to.chain, own, lifted.names))
        return lifted.names

    def keep(self, op: Op, binds: Iterable[VarInfo] = ()) -> None:
        """Insert the replacement of the operator before all operators built from here on.

        The rule then returns new names for the outputs that the replacement does not bind.

        Args:
            op: The replacement.
            binds: Variables that only the replacement binds.
        """
        self.table.vars |= {info.name: info for info in binds}
        self._kept.update(op.binds())
        self._done.append(op)

    def stand_for(self, names: Mapping[str, str]) -> None:
        """Rename outputs of the operator; its replacement binds fewer."""
        self.names |= names

    def keep_names(self, names: Mapping[str, str]) -> None:
        """Give values that the rule has built here the names of the outputs that they replace.

        Later operators then read them without a change.

        Args:
            names: Names of outputs of the current operator, or of one that `retire` renamed,
                by the names of the new values.
        """
        for at in range(self._start, len(self._done)):
            self._index.replace(at, _renamed_maker(self._done[at], names))
        for new, old in names.items():
            info = self.table.vars.pop(new)
            self.table.vars[old] = info.with_(name=old)
            self.table.handles.pop(new, None)
        updates = self.program.updates
        updates |= {key: names[value] for key, value in updates.items() if value in names}
        self._kept.update(names.values())

    def is_built(self, name: str) -> bool:
        """Return whether the rule has built this variable, for the current operator."""
        return any(name in op.binds() for op in self._done[self._start :])

    def retire(self, name: str) -> str:
        """Rename a variable that an earlier operator of this block binds; return its new name.

        The operators that read it read the new name. The old one is free for `keep_names`.
        """
        new = self.table.names.unique(name)
        names = {name: new}
        for at in range(len(self._done) - 1, -1, -1):
            op = self._done[at]
            if name in op.binds():
                self._index.replace(at, _renamed_maker(op, names))
                break
            if name in op.reads():
                self._index.replace(at, rename_op(op, names))
        self.table.vars[new] = self.table.vars.pop(name).with_(name=new)
        self._changed = True
        return new

    def within(self, op: Op, rule: Rule) -> Op:
        """Rewrite the sub-blocks of the current operator by another rule.

        That rule may build in the enclosing blocks, too.
        """
        return self._inside(op, rule)

    @cached_property
    def _named(self) -> set[str]:
        """Names of operators that are or were here, moved here, or came out of a sub-block."""
        return {op.name for op in self.body.ops}

    # ---- for the walk ------------------------------------------------------------------------

    def rewrite_op(self, op: Op, rule: Rule) -> None:
        """Rewrite one operator."""
        self._kept.clear()
        self._start = len(self._done)
        self._op = current = self._inside(self._renamed(op), rule)
        change = rule(current, self)
        if isinstance(change, Op):
            self._changed |= change is not op
            self._done.append(change)
            return
        self._changed = True
        for name in change.names if isinstance(change, InlinedBlock) else current.binds():
            if name not in self._kept:
                self.table.vars.pop(name)
        if isinstance(change, InlinedBlock):
            self.table.vars |= change.body.vars
            self._done += change.body.ops
            self._named.update(op.name for op in change.body.ops)
            self._record_inlined(current, change)
            change = change.names
        self.names |= {old: new for old, new in (change or {}).items() if old != new}

    def _record_inlined(self, op: Op, block: InlinedBlock) -> None:
        if block.moved is not None:
            chain, (label,) = self.chain, op.bodies()
            inner = (*chain, (op.name, label))
            self.moves.append(Relocation(inner, chain, *block.moved, whole=True))

    def _renamed(self, op: Op) -> Op:
        names = {name: self.names[name] for name in op.reads() if name in self.names}
        if not names:
            return op
        inner = [body for sub in op.bodies().values() for body, _ in all_bodies(sub)]
        hidden = next((n for n in names.values() if any(n in b.vars for b in inner)), None)
        if hidden is not None:
            raise ProgramError(
                f"`{hidden}` is shadowed by another variable inside `{op.name}`.",
                fix="Build a variable with a new name, or rename the inner one.",
            )
        return rename_op(op, names)

    def _inside(self, op: Op, rule: Rule) -> Op:
        """Return the operator with its sub-blocks rewritten."""
        before = op.bodies()
        if not before:
            return op
        labels = iter(before)
        new_op = map_bodies(op, lambda body: _walk(self.inner(body, op, next(labels)), rule))
        same = all(
            a is b for a, b in zip(before.values(), new_op.bodies().values(), strict=True)
        )
        return op if same else with_captures(new_op)

    def close(self) -> Body:
        """Return the rewritten block."""
        if not self._changed:
            return self.body
        bound = names_bound_by(self._done)
        infos = {
            name: info
            for name, info in self.table.freeze().vars.items()
            if info.kind != VALUE or name in bound
        }
        results = tuple(self.names.get(name, name) for name in self.body.results)
        return self.body.with_(results=results, vars=infos, ops=tuple(self._done))


def _renamed_maker(op: Op, names: Mapping[str, str]) -> Op:
    """Return an operator with names replaced, its own too if it is that of its output."""
    renamed = rename_op(op, names)
    own = op.name in names and op.name in op.binds()
    return renamed.with_(name=names[op.name]) if own else renamed


def _walk(place: InsertionPoint, rule: Rule) -> Body:
    if enter := getattr(rule, "enter", None):
        enter(place)
    for op in place.body.ops:
        place.rewrite_op(op, rule)
    return place.close()
