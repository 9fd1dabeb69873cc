"""Handles of operators, variables and blocks of a program, and selections of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, final, overload

from braces.builder.checked_calls import checked_elements, checked_item
from braces.dtypes import Type
from braces.errors import UnknownNameError
from braces.ir.paths import (
    BLOCK,
    Located,
    block_at,
    follow,
    locate,
    operator_at,
    unknown_path,
    variable_at,
)
from braces.ir.places import Chain, Place
from braces.ir.records import PARAMETER, Attr, Body, Op, ProgramDef, VarInfo
from braces.notebook import TextView
from braces.report import ROWS, Table, count_text, without_folders


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Handle(TextView):
    """An operator, a variable or a block of a program at its path.

    A handle describes the program at the moment of the search. It stays usable after edits and
    passes: `new[handle]` looks it up again, and follows renamed and moved operators. Two
    handles are equal if kind, block and name are.

    Attributes:
        kind: `operator`, `variable` or `block`. A parameter is a variable.
        place: The block that contains it, at its place.
        name: The name in its block; for a block its label, as `body` or `cases[0]`.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["steps", 8])
        ...     y = br.scan(lambda h, row: (br.tanh(h + row, name="act"),) * 2, 0.0 * x[0], x)
        >>> act = prog["loop_0/body/act"]
        >>> act.type, act.block, [h.path for h in act.users]
        ('tanh', 'loop_0/body', ['loop_0'])
    """

    kind: str
    place: Place
    name: str
    content: Op | VarInfo | Place

    # ---- where -------------------------------------------------------------------------------

    @property
    def block(self) -> str:
        """The path of the block that contains it; empty for block 0."""
        return self.place.path

    @property
    def path(self) -> str:
        """The path, as `loop_0/body/act`; `prog[path]` returns this handle."""
        return self._located.path

    @property
    def _located(self) -> Located:
        return Located(self.kind, self.place, self.name, self.content)

    @property
    def chain(self) -> Chain:
        """Names of the owners and labels of the blocks around it, outermost first."""
        return self.place.chain

    @property
    def key(self) -> tuple[str, Chain, str]:
        """Kind, blocks and name, which identify it in all versions of a program."""
        return self._located.key

    @property
    def position(self) -> tuple[int, ...]:
        """Position in program order; variables that no operator binds come first."""
        place, content = self.place, self.content
        if isinstance(content, Place):
            return content.position
        if isinstance(content, Op):
            return (*place.position, place.order[self.name])
        maker = place.makers.get(self.name)
        index = -1 if maker is None else place.order[maker.name]
        return (*place.position, index, -1, place.var_order[self.name])

    # ---- content -----------------------------------------------------------------------------

    @property
    def op(self) -> Op | None:
        """The operator: itself, the one that binds a variable, or the owner of a block.

        `None` for data and persistable variables.
        """
        if isinstance(self.content, Op):
            return self.content
        if isinstance(self.content, Place):
            return self.content.owner
        maker = self.place.maker(self.name)
        return maker[1] if maker else None

    @property
    def info(self) -> VarInfo | None:
        """The declaration of a variable; `None` for operators and blocks."""
        return self.content if isinstance(self.content, VarInfo) else None

    @property
    def body(self) -> Body | None:
        """The content of a block; `None` for operators and variables."""
        return self.content.body if isinstance(self.content, Place) else None

    @property
    def type(self) -> str | Type:
        """The type of an operator, of the owner of a block, or of the values of a variable."""
        if isinstance(self.content, VarInfo):
            return self.content.type
        assert self.op is not None
        return self.op.type

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The attributes of the operator, blocks included; empty if there is no operator."""
        return MappingProxyType(self.op.attrs) if self.op else MappingProxyType({})

    @property
    def source(self) -> str:
        """The user's line that built it, as `train.py:12`; empty if unknown."""
        return str(self.op.source) if self.op and self.op.source else ""

    # ---- neighbours --------------------------------------------------------------------------

    @property
    def maker(self) -> Handle | None:
        """The operator that binds a variable; for other handles, `op` as a handle."""
        if isinstance(self.content, Op):
            return self
        if isinstance(self.content, VarInfo):
            maker = self.place.maker(self.name)
            return operator_handle(*maker) if maker else None
        return operator_handle(self.place, self.content.owner) if self.content.owner else None

    @property
    def inputs(self) -> Selection:
        """The variables that the operator reads, each once: for a variable, its operator.

        An owner of blocks also reads the variables that its blocks capture.
        """
        if isinstance(self.content, Place):
            names: Iterable[str] = self.content.body.params
            return Selection(variable_handle(self.content, name) for name in names)
        maker = self.maker
        if maker is None or maker.op is None:
            return Selection()
        names = dict.fromkeys(maker.op.reads())
        return Selection(h for name in names if (h := visible_handle(maker.place, name)))

    @property
    def outputs(self) -> Selection:
        """The variables that the operator binds; the results of a block; a variable itself."""
        if isinstance(self.content, VarInfo):
            return Selection((self,))
        if isinstance(self.content, Place):
            place, names = self.content, dict.fromkeys(self.content.body.results)
        else:
            place, names = self.place, dict.fromkeys(self.content.binds())
        return Selection(h for name in names if (h := visible_handle(place, name)))

    @property
    def users(self) -> Selection:
        """The operators that read the variable, or an output of the operator.

        Operators in inner blocks count; the owner of a block counts for the results of the
        block.
        """
        if isinstance(self.content, Op):
            bound = ((self.place, name) for name in self.content.binds())
        else:
            bound = ((var.place, var.name) for var in self.outputs)
        users = (user for place, name in bound for user in place.users(name))
        return Selection(operator_handle(*user) for user in users)

    @property
    def blocks(self) -> Selection:
        """The blocks of the operator."""
        owner = self.content if isinstance(self.content, Op) else None
        inner = self.place.inner(owner).values() if owner else ()
        return Selection(map(block_handle, inner))

    @property
    def types(self) -> Mapping[str, Type]:
        """The types of its inputs and outputs, by name."""
        infos = ((h.name, h.info) for h in (*self.inputs, *self.outputs))
        return {name: info.type for name, info in infos if info is not None}

    # ---- as a value --------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handle):
            return False
        return self.content is other.content or self.key == other.key

    def __hash__(self) -> int:
        return hash((self.kind, self.place.path, self.name))

    def __repr__(self) -> str:
        what = f": {self.type}" if self.kind != BLOCK else ""
        built = f", built at {self.source}" if self.source else ""
        return f"<{self.kind} {self.path}{what}{built}>"


def operator_handle(place: Place, op: Op) -> Handle:
    """Return the handle of an operator of a block."""
    return Handle(*operator_at(place, op))


def variable_handle(place: Place, name: str) -> Handle:
    """Return the handle of a variable that a block binds."""
    return Handle(*variable_at(place, name))


def visible_handle(place: Place, name: str) -> Handle | None:
    """Return the handle of a variable that is visible in a block; `None` if there is none."""
    binder = place.binder(name)
    return None if binder is None else variable_handle(binder, name)


def block_handle(place: Place) -> Handle:
    """Return the handle of a block that an operator owns."""
    return Handle(*block_at(place))


def is_parameter(handle: Handle) -> bool:
    """Return whether a handle is that of a parameter, trainable or frozen."""
    return handle.info is not None and handle.info.kind == PARAMETER


# ---- selections ------------------------------------------------------------------------------


_position: Callable[[Any], tuple[int, ...]] = attrgetter("position")


@final
class Selection(Sequence[Handle]):
    """An immutable sequence of handles in program order, each once.

    `a | b` has the handles of either, `a & b` those of both, `a - b` those of `a` alone. A
    selection is false if it is empty. It prints as a table.

    Example:
        >>> import braces as br
        >>> prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) return y }")
        >>> prog.find(type="tanh")
        1 operator:
          path  type  inputs  outputs    source
          y     tanh  x       y: f32[3]
        >>> len(prog.find() - prog.find(type="tanh"))
        0
    """

    __slots__ = ("_handles",)

    def __init__(self, handles: Iterable[Handle] = ()) -> None:
        self._handles: tuple[Handle, ...] = tuple(dict.fromkeys(handles))

    @staticmethod
    def of_unique(handles: Iterable[Handle]) -> Selection:
        """Return the selection of handles that are known to differ."""
        selection = Selection()
        selection._handles = tuple(handles)
        return selection

    # ---- sequence ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[Handle]:
        return iter(self._handles)

    @overload
    def __getitem__(self, index: int) -> Handle: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...
    def __getitem__(self, index: int | slice) -> Handle | Selection:
        if isinstance(index, slice):
            return Selection.of_unique(self._handles[index])
        return checked_item(self._handles, index, "handle")

    def __contains__(self, handle: object) -> bool:
        return handle in self._handles

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self._handles == other._handles

    def __hash__(self) -> int:
        return hash(self._handles)

    # ---- sets --------------------------------------------------------------------------------

    def __or__(self, other: Iterable[Handle] | Handle) -> Selection:
        return Selection(sorted((*self, *_operand(other)), key=_position))

    def __and__(self, other: Iterable[Handle] | Handle) -> Selection:
        common = set(_operand(other))
        return Selection(handle for handle in self if handle in common)

    def __sub__(self, other: Iterable[Handle] | Handle) -> Selection:
        removed = set(_operand(other))
        return Selection(handle for handle in self if handle not in removed)

    # ---- neighbours --------------------------------------------------------------------------

    @property
    def inputs(self) -> Selection:
        """The inputs of all of them."""
        return Selection(sorted((v for h in self for v in h.inputs), key=_position))

    @property
    def outputs(self) -> Selection:
        """The outputs of all of them."""
        return Selection(sorted((v for h in self for v in h.outputs), key=_position))

    @property
    def users(self) -> Selection:
        """The users of all of them."""
        return Selection(sorted((op for h in self for op in h.users), key=_position))

    # ---- for people --------------------------------------------------------------------------

    def __repr__(self) -> str:
        return "\n".join(self._table().text()) if self else "empty selection"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        return self._table().html() if self else "<p>empty selection</p>"

    def _table(self) -> Table:
        kinds = {handle.kind for handle in self}
        title = count_text(len(self), kinds.pop() if len(kinds) == 1 else "handle")
        head = ("path", "type", "inputs", "outputs", "source")
        table = Table(title, head, [_row(handle) for handle in self[:ROWS]]).limit_rows(None)
        return replace(table, more=f"and {len(self) - ROWS:,} more" if self[ROWS:] else "")


def _operand(other: Any) -> list[Handle]:
    fix = "Pass the result of prog.find, or a list of handles."
    return checked_elements(other, Handle, "a selection as the operand", fix)


def _row(handle: Handle) -> list[str]:
    inputs = ", ".join(h.name for h in handle.inputs)
    outputs = ", ".join(f"{h.name}: {_type_text(h)}" for h in handle.outputs)
    return [handle.path, _type_text(handle), inputs, outputs, without_folders(handle.source)]


def _type_text(handle: Handle) -> str:
    return handle.info.shown_type if handle.info else str(handle.type)


# ---- lookup ----------------------------------------------------------------------------------


def resolve(program: ProgramDef | Place, path: object, kind: str | None = None) -> Handle:
    """Return the operator, variable or block at a path, as errors, reports and pages show it.

    See `braces.ir.paths.locate`. A handle of another version of the program is looked up by its
    blocks and its name; those that edits and passes have changed since then are followed.

    Raises:
        UnknownNameError: If there is none; the message has similar paths.
    """
    if isinstance(path, str):
        return Handle(*locate(program, path, kind))
    if not isinstance(path, Handle):
        raise UnknownNameError(
            f"expected a path or a handle, got {path!r:.80}.",
            fix='Pass the path of an operator, variable or block: prog["loop_0/body/act"].',
        )
    handle = find_again(program, path)
    if handle is None:
        raise unknown_path(Place.main(program), path.path, path.kind)
    return handle


def find_again(program: ProgramDef | Place, handle: Handle) -> Handle | None:
    """Return a handle of another version of a program in this one; `None` if it is gone."""
    located = follow(program, handle)
    return None if located is None else Handle(*located)
