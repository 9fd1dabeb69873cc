"""The compile-time twin of a scope: the definitions of one block while it is being built."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from braces.builder.undo_journal import Journal, Moment
from braces.dims import Size, Unifier
from braces.dtypes import AxisNames, Type, too_large
from braces.errors import (
    DuplicateNameError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.ir import limits, serde
from braces.ir.names import Names
from braces.ir.plain_blocks import escaping_values as inside
from braces.ir.records import ARGUMENT, BLOCK, VALUE, Attr, Body, Op, Slots, Source, VarInfo
from braces.ir.walk import resolve_vars

Mark: TypeAlias = (
    "tuple[Moment, tuple[int, int], tuple[int, int], tuple[int, int, int], tuple[int, int]]"
)
"""A moment, and how much there was of names, dimensions, content and what was read."""


@dataclass(frozen=True)
class RowNumbers:
    """The numbers that rows of a block have in the whole batch.

    Attributes:
        rows: How many rows the block has.
        found: Gives the variable, visible there, that tells them; made where it is asked.
    """

    rows: Size
    found: Callable[[], Any]


@dataclass(frozen=True)
class Owning:
    """A block that runs several times, each time with parameters of its own.

    Attributes:
        count: How many times.
        cut: Gives the variable in the block for one that has a first axis of so many.
        parts: Those variables, by the names of the ones that they are cut from.
    """

    count: int
    cut: Callable[[Any], Any]
    parts: dict[str, Any] = field(default_factory=dict[str, Any])


class SymbolTable:
    """Variables and operators of one block, with a link to the enclosing block's table.

    Looking up goes outwards; defining is local and happens once. Names that are not given are
    made up, the same on every run and unique in the whole program.

    Args:
        parent: The enclosing block's table.
        block: The name of the plain block whose table this is; names inside begin with it.

    Attributes:
        lent: Whether the next layer that is a block is built in it, in place of a block of its
            own.
        closed: Whether it is a plain block that has become an operator of its parent.
        shown: What closed blocks in it bind and give out, as keys.
        read_outside: The outer variables that were read here, as keys.
        journal: How to undo what did not simply append, in the whole program.
        trip_index: The variable that counts trips, where it is the body of a loop.
        numbers: Those of its rows, where it is built for some rows.
        owning: What parameters become that are made in it, where each run has its own.
        followed: The names of axes of values, which came from those of what they are made of;
            plain blocks share them with the block around.
        any_axes: Whether axes have names anywhere in the program; of the outermost table.

    Example:
        >>> from braces.dtypes import parse_type
        >>> outer = SymbolTable()
        >>> w = outer.new_var("w", parse_type("f32[4]"))
        >>> inner = SymbolTable(parent=outer)
        >>> inner.find_var("w") is w, inner.find_var("w", recursive=False)
        (True, None)
    """

    def __init__(self, parent: SymbolTable | None = None, block: str = "") -> None:
        self.parent = parent
        self.block = block
        self.lent = False
        self.closed = False
        self.params: list[str] = []
        self.vars: dict[str, VarInfo] = {}
        self.ops: list[Op] = []
        self.unknown = b""
        self.read_outside: dict[str, None] = {}
        self.shown: dict[str, None] = {}
        names = parent.names if parent else Names()
        self.names: Names = names.within(f"{block}/") if block else names
        self.unifier: Unifier = parent.unifier if parent else Unifier()
        self.journal: Journal = parent.journal if parent else Journal()
        self.root: SymbolTable = parent.root if parent else self
        self.version = 0
        self.handles: dict[str, Any] = {}
        self.trip_index: str | None = None
        self.numbers: RowNumbers | None = None
        self.owning: Owning | None = None
        self.followed: dict[str, AxisNames] = parent.followed if parent and block else {}
        self.any_axes = False

    def touch(self) -> None:
        """Say that something changed, so that frozen copies are made anew."""
        self.root.version += 1

    def within(self, op: Op) -> SymbolTable:
        """An empty table for a sub-block of one of the operators.

        In a plain block, names that are made up begin with its own.
        """
        return SymbolTable(parent=self, block=op.name if op.type == BLOCK else "")

    # ---- defining ----------------------------------------------------------------------------

    def new_var(
        self,
        name: str = "",
        type: Type | None = None,
        kind: str = VALUE,
        *,
        trainable: bool = False,
        axes: AxisNames = (),
        stem: str = "var",
    ) -> VarInfo:
        """Define a variable here; a unique name is made up where none is given.

        Raises:
            DuplicateNameError: The name is bound in this block, or this block has already read
                an outer variable of this name.
            ShapeError: No machine holds an array of this type.
        """
        if type is None:
            raise ProgramError(
                "A variable needs a type.", fix="Pass type=parse_type('f32[b,4]')."
            )
        if not name:
            name = self.names.unique(stem)
        info = VarInfo(name, type, kind, trainable, axes)
        self._define(info)
        self.touch()
        return info

    def _define(self, info: VarInfo) -> None:
        name, type_ = info.name, info.type
        if too_large(type_):
            raise ShapeError(
                "An array would take 2^63 bytes or more.",
                given=f"{name}: {type_}",
                fix="No machine holds that; choose smaller sizes.",
            )
        if name in self.vars:
            raise DuplicateNameError(
                f"`{name}` is already bound in this block.",
                given=f"{name}: {self.vars[name].type}",
                fix="A name is bound once in a block; choose another name.",
            )
        if name in self.read_outside:
            raise DuplicateNameError(
                f"`{name}` was read from an outer block before it is bound here.",
                fix="Choose another name for the inner variable.",
            )
        self.vars[self.names.claim(name)] = info
        if info.axes:
            self.root.any_axes = True

    def new_op(
        self,
        type: str = "",
        name: str = "",
        *,
        inputs: Slots | None = None,
        outputs: Slots | None = None,
        attrs: Mapping[str, Attr] | None = None,
        source: Source | None = None,
    ) -> Op:
        """Append an operator; a unique name is made up where none is given."""
        if not name:
            name = self.names.unique(type.replace(".", "_") or "op")
        return self.append(Op(type, name, inputs or {}, outputs or {}, attrs or {}, source))

    def append(self, op: Op, binds: Iterable[VarInfo] = ()) -> Op:
        """Append an operator that is complete, and define what it binds.

        Args:
            op: The operator.
            binds: Variables of its outputs that are not defined yet.

        Raises:
            ProgramError: Its blocks nest deeper than a file can hold.
            DuplicateNameError: A name is bound in this block.
            ShapeError: No machine holds an array of such a type.
        """
        limits.check_nesting((op,))
        for info in binds:
            self._define(info)
        if op.name not in self.vars:  # else it was claimed with the variable
            self.names.claim(op.name)
        for names in op.inputs.values():
            for name in names:
                if name not in self.vars:
                    self.read_outside[name] = None
        self.ops.append(op)
        self.touch()
        return op

    def rename_last(self, name: str) -> None:
        """Call the operator that was appended last, and its one output, otherwise.

        Nothing may have read that yet.

        Raises:
            DuplicateNameError: The name is bound in this block.
        """
        op = self.ops.pop()
        ((slot, (made,)),) = op.outputs.items()
        info = self.vars.pop(made)
        self.handles.pop(made, None)
        self.followed[name] = self.followed.pop(made, ())
        self.append(op.with_(name=name, outputs={slot: (name,)}), [info.with_(name=name)])

    def replace(self, old: Op, *new: Op) -> None:
        """Put operators in the place of another; what they bind is declared."""
        limits.check_nesting(new)
        ops, at = self.ops, self._place_of(old)
        ops[at : at + 1] = new

        def undo() -> None:
            ops[at : at + len(new)] = [old]

        self.journal.note(undo)
        self.touch()

    def _place_of(self, op: Op) -> int:
        """Where an operator of this block stands; those before the end are found soonest."""
        at = len(self.ops) - 1
        while self.ops[at] is not op:
            at -= 1
        return at

    def exchange(self, ops: list[Op], variables: dict[str, VarInfo] | None = None) -> None:
        """Hold these operators from now on, and these variables where any are said."""
        earlier = self.ops, self.vars
        self.ops, self.vars = ops, self.vars if variables is None else variables

        def undo() -> None:
            self.ops, self.vars = earlier

        self.journal.note(undo)
        self.touch()

    def mark(self) -> Mark:
        """What `rewind` needs to come back to this moment."""
        unifier, names = self.unifier, self.names
        return (
            self.journal.now,
            (len(names.taken), len(names.blocks)),
            (len(unifier.known), unifier.count),
            (len(self.ops), len(self.vars), len(self.params)),
            (len(self.read_outside), len(self.shown)),
        )

    def rewind(self, mark: Mark) -> None:
        """Undo what was done here since a mark, and what it taught of dimensions."""
        moment, names, (known, self.unifier.count), content, (read, shown) = mark
        ops, variables, params = content
        self.journal.back_to(moment)
        self.names.rewind(*names)
        del self.ops[ops:], self.params[params:]
        for found, length in (
            (self.vars, variables),
            (self.read_outside, read),
            (self.shown, shown),
            (self.unifier.known, known),
        ):
            while len(found) > length:
                self.followed.pop(str(found.popitem()[0]), None)
        self.touch()

    # ---- looking up --------------------------------------------------------------------------

    def find_var(self, name: str, recursive: bool = True) -> VarInfo | None:
        """The variable of this name, from here or (recursively) from an enclosing block."""
        found, table = self.vars.get(name), self.parent
        while found is None and recursive and table is not None:
            found, table = table.vars.get(name), table.parent
        return found

    def find_op(self, name: str) -> Op | None:
        """The operator of this name in this block."""
        return next((op for op in self.ops if op.name == name), None)

    def get_var(self, name: str) -> VarInfo:
        """The variable of this name, from here or any enclosing block.

        Raises:
            UnknownNameError: There is none; near misses are suggested.
        """
        found = self.find_var(name)
        if found is None:
            visible = [name for table in self.chain() for name in table.vars]
            raise UnknownNameError(
                f"There is no variable `{name}`.", fix=suggest(name, visible)
            )
        return found

    def table_of(self, name: str) -> SymbolTable | None:
        """The innermost table, from here outwards, that binds this name."""
        table: SymbolTable | None = self
        while table is not None and name not in table.vars:
            table = table.parent
        return table

    def own_part(self, name: str) -> Any:
        """The part of a parameter that each run of a block here has for itself, if any has."""
        part = None
        for block in reversed([*self.chain()]):  # each cuts what the one around it has
            if block.owning is not None and name in block.owning.parts:
                part = block.owning.parts[name]
                name = part.name
        return part

    def chain(self) -> Iterator[SymbolTable]:
        """This table and all that enclose it, innermost first."""
        table: SymbolTable | None = self
        while table is not None:
            yield table
            table = table.parent

    def type_of(self, name: str) -> Type:
        """The type of a visible variable, with all that is known of its dimensions."""
        info = self.vars.get(name) or self.get_var(name)
        if not self.unifier.known:
            return info.type
        return info.type.map_sizes(self.unifier.resolve)

    def axis_names(self, name: str) -> AxisNames:
        """The names of the axes of a visible variable, as declared or followed."""
        table = self.table_of(name)
        return () if table is None else table.vars[name].axes or table.followed.get(name, ())

    def name_axes(self, name: str, axes: AxisNames) -> None:
        """Let the axes of a value have these names."""
        self.followed[name] = axes
        if any(axes):
            self.root.any_axes = True

    # ---- plain blocks ------------------------------------------------------------------------

    @property
    def outside(self) -> SymbolTable:
        """This table, or where it is a closed block, the one in which that is an operator."""
        table = self
        while table.closed and table.parent is not None:
            table = table.parent
        return table

    def show(self, *names: str) -> bool:
        """Let closed blocks of this one give out what they bind; whether they bind all of it.

        Raises:
            DuplicateNameError: A name is bound or read here with another meaning.
        """
        missing = {name: None for name in names if name not in self.shown}
        at = len(self.ops) if missing else 0
        while at and missing:  # mostly it is a block that was closed just now
            at -= 1
            found = inside.shown(self.ops[at], missing)
            if found is not None:
                for info in found.infos:
                    self.new_var(info.name, info.type)
                    del missing[info.name]
                    self.shown[info.name] = None
                self.replace(self.ops[at], found.op)
        return not missing

    @contextmanager
    def naming(self, prefix: str) -> Generator[None]:
        """Inside, names that are made up or chosen here begin with this."""
        before = self.names
        self.names = before.within(prefix)
        try:
            yield
        finally:
            self.names = before

    def prefixed(self, name: str) -> str:
        """A name that a user chose, as it is called here."""
        prefix = self.names.prefix
        return name if name.startswith(prefix) else prefix + name

    @property
    def runs_once(self) -> bool:
        """Whether this is the main block, or a plain block that is plainly part of it."""
        return all(table.block or table is table.root for table in self.chain())

    def look_up(self, name: str) -> str | None:
        """The full name of a visible variable, where `name` may lack the prefix of blocks.

        The names of the innermost block come first, as its variables do.
        """
        prefix = self.names.prefix
        while self.find_var(prefix + name) is None:
            if not prefix:
                return None
            outer, slash, _ = prefix[:-1].rpartition("/")
            prefix = outer + slash
        return prefix + name

    # ---- freezing ----------------------------------------------------------------------------

    def freeze(self, results: Iterable[str] = ()) -> Body:
        """The content of this block as an immutable record."""
        known = bool(self.unifier.known)
        infos = resolve_vars(self.vars, self.unifier.resolve) if known else dict(self.vars)
        return Body(tuple(self.params), tuple(results), infos, tuple(self.ops), self.unknown)

    def thaw(self, body: Body) -> SymbolTable:
        """Fill this empty table with the content of a block; names are taken as they are."""
        if self.vars or self.ops:
            raise ProgramError("Only an empty symbol table can take over a block.")
        limits.check_nesting(body.ops)
        self.params = list(body.params)
        self.vars = dict(body.vars)
        self.ops = list(body.ops)
        self.unknown = body.unknown
        self.root.any_axes |= any(info.axes for info in body.vars.values())
        self.names.take((*body.vars, *(op.name for op in body.ops)))
        self.names.blocks.update(dict.fromkeys(inside.plain_blocks(body)))
        self.touch()
        return self

    def serialize(self, results: Iterable[str] = ()) -> Any:
        """This block as a protobuf `BlockDesc`, sub-blocks included."""
        return serde.body_to_desc(self.freeze(results))

    def deserialize(self, desc: Any) -> SymbolTable:
        """Fill this empty table from a protobuf `BlockDesc`."""
        body = serde.body_from_desc(desc)
        self.names.take(serde.names_in(body))
        return self.thaw(body)

    def add_param(self, name: str, type: Type) -> VarInfo:
        """Define a variable that the owner of this block binds."""
        self.params.append(name)
        return self.new_var(name, type, ARGUMENT)
