"""Symbol tables: the definitions of one block under construction."""

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
from braces.ir.plain_blocks import escaping_values
from braces.ir.records import ARGUMENT, BLOCK, VALUE, Attr, Body, Op, Slots, Source, VarInfo
from braces.ir.walk import resolve_vars

Mark: TypeAlias = (
    "tuple[Moment, tuple[int, int], tuple[int, int], tuple[int, int, int], tuple[int, int]]"
)
"""A journal moment, and the numbers of names, dimensions, contents and outer reads then."""


@dataclass(frozen=True)
class BatchIndices:
    """Indices of a block's batch elements in the full batch.

    Attributes:
        rows: The number of batch elements of the block.
        found: Return the variable of the indices, visible in the block; built on demand.
        batch: The number of elements of the full batch.
        block: The name of a block with a part of the batch, for messages.
    """

    rows: Size
    found: Callable[[], Any]
    batch: Size
    block: str = ""


@dataclass(frozen=True)
class StackedParameters:
    """A block that runs several times, each time with its own parameters.

    Attributes:
        count: The number of runs.
        cut: Return the variable in the block that is a slice of a stacked variable, whose
            leading axis has size `count`.
        parts: The slices, by the names of the stacked variables.
    """

    count: int
    cut: Callable[[Any], Any]
    parts: dict[str, Any] = field(default_factory=dict[str, Any])


class SymbolTable:
    """Variables and operators of one block, with a link to the enclosing block's table.

    A look-up continues in the enclosing tables; a definition is local and unique. Generated
    names are deterministic, and unique in the whole program.

    Args:
        parent: The enclosing block's table.
        block: The name of the plain block of this table; a prefix of the names inside.

    Attributes:
        lent: Whether the next layer that is a block is built in this table, instead of in its
            own block.
        closed: Whether this is a plain block that has become an operator of its parent.
        edited: Whether an edit of a program extends this block: names of parameters and states
            are then those of the whole program, without the prefix of the block.
        shown: Variables bound in closed blocks of this table and exposed by them, as keys.
        read_outside: The outer variables that were read here, as keys.
        journal: Undo log of the changes that are not appends, in the whole program.
        trip_index: The variable of the iteration number, in the body of a loop.
        numbers: Indices of the batch elements, in a block for part of a batch.
        owning: Stacking of the parameters defined here, if each run has its own.
        followed: Axis names of values, propagated from their operands; plain blocks share them
            with the enclosing block.
        any_axes: Whether any axis in the program has a name; set in the outermost table.

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
        self.edited = parent is not None and not block and parent.edited
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
        self.numbers: BatchIndices | None = None
        self.owning: StackedParameters | None = None
        self.followed: dict[str, AxisNames] = parent.followed if parent and block else {}
        self.any_axes = False

    def touch(self) -> None:
        """Increment the version, which invalidates frozen copies."""
        self.root.version += 1

    def within(self, op: Op) -> SymbolTable:
        """Create an empty table for a sub-block of one of the operators.

        In a plain block, generated names have the name of the block as a prefix.
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
        """Define a variable here; without a name, generate a unique one.

        Raises:
            DuplicateNameError: If the name is bound in this block, or this block has already
                read an outer variable of this name.
            ShapeError: If the array would take 2^63 bytes or more.
        """
        if type is None:
            raise ProgramError(
                "a new variable needs a type.", fix="Pass type=parse_type('f32[b,4]')."
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
                "the array would take 2^63 bytes or more.",
                given=f"{name}: {type_}",
                fix="Choose smaller sizes.",
            )
        if name in self.vars:
            raise DuplicateNameError(
                f"duplicate variable `{name}` in this block.",
                given=f"{name}: {self.vars[name].type}",
                fix="Choose another name; a block binds each name once.",
            )
        if name in self.read_outside:
            raise DuplicateNameError(
                f"`{name}` was already read from an outer block, so this block cannot bind it.",
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
        """Append an operator; without a name, generate a unique one."""
        if not name:
            name = self.names.unique(type.replace(".", "_") or "op")
        return self.append(Op(type, name, inputs or {}, outputs or {}, attrs or {}, source))

    def append(self, op: Op, binds: Iterable[VarInfo] = ()) -> Op:
        """Append a complete operator, and define its outputs.

        Args:
            op: The operator.
            binds: Variables of its outputs that are not defined yet.

        Raises:
            ProgramError: If the blocks of the operator nest deeper than the file format allows.
            DuplicateNameError: If a name is bound in this block.
            ShapeError: If the array would take 2^63 bytes or more.
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
        """Rename the last operator and its only output, which must not have been read yet.

        Raises:
            DuplicateNameError: If the name is bound in this block.
        """
        op = self.ops.pop()
        ((slot, (old_name,)),) = op.outputs.items()
        info = self.vars.pop(old_name)
        self.handles.pop(old_name, None)
        self.followed[name] = self.followed.pop(old_name, ())
        self.append(op.with_(name=name, outputs={slot: (name,)}), [info.with_(name=name)])

    def replace(self, old: Op, *new: Op) -> None:
        """Replace an operator by others, whose outputs must be declared."""
        limits.check_nesting(new)
        ops, at = self.ops, self._place_of(old)
        ops[at : at + 1] = new

        def undo() -> None:
            ops[at : at + len(new)] = [old]

        self.journal.note(undo)
        self.touch()

    def _place_of(self, op: Op) -> int:
        """Return the index of an operator of this block; searches from the end."""
        at = len(self.ops) - 1
        while self.ops[at] is not op:
            at -= 1
        return at

    def exchange(self, ops: list[Op], variables: dict[str, VarInfo] | None = None) -> None:
        """Replace all operators, and all variables if `variables` is set."""
        earlier = self.ops, self.vars
        self.ops, self.vars = ops, self.vars if variables is None else variables

        def undo() -> None:
            self.ops, self.vars = earlier

        self.journal.note(undo)
        self.touch()

    def mark(self) -> Mark:
        """Return the state that `rewind` needs to roll back to this point."""
        unifier, names = self.unifier, self.names
        return (
            self.journal.now,
            (len(names.taken), len(names.blocks)),
            (len(unifier.known), unifier.count),
            (len(self.ops), len(self.vars), len(self.params)),
            (len(self.read_outside), len(self.shown)),
        )

    def rewind(self, mark: Mark) -> None:
        """Roll back to a mark, including unified dimensions."""
        moment, names, (known, self.unifier.count), content, (read, shown) = mark
        ops, variables, params = content
        self.journal.back_to(moment)
        self.names.rewind(*names)
        del self.ops[ops:], self.params[params:]
        for entries, length in (
            (self.vars, variables),
            (self.read_outside, read),
            (self.shown, shown),
            (self.unifier.known, known),
        ):
            while len(entries) > length:
                self.followed.pop(str(entries.popitem()[0]), None)
        self.touch()

    # ---- looking up --------------------------------------------------------------------------

    def find_var(self, name: str, recursive: bool = True) -> VarInfo | None:
        """Return the variable of this name, from here or (recursively) an enclosing block."""
        info, table = self.vars.get(name), self.parent
        while info is None and recursive and table is not None:
            info, table = table.vars.get(name), table.parent
        return info

    def find_op(self, name: str) -> Op | None:
        """Return the operator of this name in this block, or `None`."""
        return next((op for op in self.ops if op.name == name), None)

    def get_var(self, name: str) -> VarInfo:
        """Return the variable of this name, from here or any enclosing block.

        Raises:
            UnknownNameError: If the variable does not exist; the error suggests similar names.
        """
        info = self.find_var(name)
        if info is None:
            visible = [name for table in self.chain() for name in table.vars]
            raise UnknownNameError(f"unknown variable `{name}`.", fix=suggest(name, visible))
        return info

    def table_of(self, name: str) -> SymbolTable | None:
        """Return the innermost enclosing table, or this one, that binds this name."""
        table: SymbolTable | None = self
        while table is not None and name not in table.vars:
            table = table.parent
        return table

    def own_part(self, name: str) -> Any:
        """Return the slice of a stacked parameter for the current run of a block, or `None`."""
        part = None
        for block in reversed([*self.chain()]):  # each slices the slice of its enclosing block
            if block.owning is not None and name in block.owning.parts:
                part = block.owning.parts[name]
                name = part.name
        return part

    def chain(self) -> Iterator[SymbolTable]:
        """Iterate over this table and its enclosing tables, innermost first."""
        table: SymbolTable | None = self
        while table is not None:
            yield table
            table = table.parent

    def type_of(self, name: str) -> Type:
        """Return the type of a visible variable, with dimensions resolved by the unifier."""
        info = self.vars.get(name) or self.get_var(name)
        if not self.unifier.known:
            return info.type
        return info.type.map_sizes(self.unifier.resolve)

    def axis_names(self, name: str) -> AxisNames:
        """Return the axis names of a visible variable, declared or propagated."""
        table = self.table_of(name)
        return () if table is None else table.vars[name].axes or table.followed.get(name, ())

    def name_axes(self, name: str, axes: AxisNames) -> None:
        """Set the axis names of a value."""
        self.followed[name] = axes
        if any(axes):
            self.root.any_axes = True

    # ---- plain blocks ------------------------------------------------------------------------

    @property
    def outside(self) -> SymbolTable:
        """This table, or for a closed block, the innermost enclosing table that is open."""
        table = self
        while table.closed and table.parent is not None:
            table = table.parent
        return table

    def show(self, *names: str) -> bool:
        """Expose variables of closed blocks as outputs; return whether all names were found.

        Raises:
            DuplicateNameError: If a name is bound or read here with a different meaning.
        """
        missing = {name: None for name in names if name not in self.shown}
        at = len(self.ops) if missing else 0
        while at and missing:  # from the end: mostly it is the block closed last
            at -= 1
            exposed = escaping_values.export_values(self.ops[at], missing)
            if exposed is not None:
                for info in exposed.infos:
                    self.new_var(info.name, info.type)
                    del missing[info.name]
                    self.shown[info.name] = None
                self.replace(self.ops[at], exposed.op)
        return not missing

    @contextmanager
    def naming(self, prefix: str) -> Generator[None]:
        """Context manager: prefix generated and chosen names."""
        outer = self.names
        self.names = outer.within(prefix)
        try:
            yield
        finally:
            self.names = outer

    def prefixed(self, name: str) -> str:
        """Return a user's name with the prefix of this table."""
        prefix = self.names.prefix
        return name if name.startswith(prefix) else prefix + name

    def persistable_name(self, name: str) -> str:
        """Return the full name of a parameter or state that a user names in this block."""
        return name if self.edited else self.prefixed(name)

    @property
    def runs_once(self) -> bool:
        """True for the main block, and for a plain block nested in plain blocks only."""
        return all(table.block or table is table.root for table in self.chain())

    def look_up(self, name: str) -> str | None:
        """Return the full name of a visible variable; `name` may lack the prefixes of blocks.

        The prefix of the innermost block is tried first.
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
        """Return the content of this block as an immutable record."""
        known = bool(self.unifier.known)
        infos = resolve_vars(self.vars, self.unifier.resolve) if known else dict(self.vars)
        return Body(tuple(self.params), tuple(results), infos, tuple(self.ops), self.unknown)

    def thaw(self, body: Body) -> SymbolTable:
        """Load the content of a block into this empty table, with its names unchanged."""
        if self.vars or self.ops:
            raise ProgramError("cannot thaw a block into a symbol table that is not empty.")
        limits.check_nesting(body.ops)
        self.params = list(body.params)
        self.vars = dict(body.vars)
        self.ops = list(body.ops)
        self.unknown = body.unknown
        self.root.any_axes |= any(info.axes for info in body.vars.values())
        self.names.take((*body.vars, *(op.name for op in body.ops)))
        self.names.blocks.update(dict.fromkeys(escaping_values.plain_blocks(body)))
        self.touch()
        return self

    def serialize(self, results: Iterable[str] = ()) -> Any:
        """Serialize this block and its sub-blocks as a protobuf `BlockDesc`."""
        return serde.body_to_desc(self.freeze(results))

    def deserialize(self, desc: Any) -> SymbolTable:
        """Load a protobuf `BlockDesc` into this empty table."""
        body = serde.body_from_desc(desc)
        self.names.take(serde.names_in(body))
        return self.thaw(body)

    def add_param(self, name: str, type: Type) -> VarInfo:
        """Define a block argument, bound by the operator that owns the block."""
        self.params.append(name)
        return self.new_var(name, type, ARGUMENT)
