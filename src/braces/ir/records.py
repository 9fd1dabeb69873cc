"""Records of a program; all are immutable.

    Body    := params, results, vars: name -> VarInfo, ops: Op*
    Op      := type, name, inputs: slot -> names, outputs: slot -> names, attrs: name -> Attr
    VarInfo := name, type, kind, axes
    Attr    := none | bool | int | float | str | dtype | size | Literal | Body | tuple of Attr

Each record except attributes may have `unknown`: fields of a later schema, as the bytes of a
file. They have no effect, and stay with their record through passes that change it, as a source
line does; see `ir/proto/program.proto`.

A sub-block is a `Body` among the attributes of the operator that owns it. It reads outer
variables by name; the owner lists them in its `captures` slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from braces.dims import Dim, Shape
from braces.dtypes import AxisNames, DType, TensorType, Type, dtype_of, named_text, short_name
from braces.errors import DTypeError, visible
from braces.ir.lineage import Lineage, Move
from braces.notebook import line_text

Attr: TypeAlias = (
    "bool | int | float | str | DType | Dim | Literal | Body | tuple[Attr, ...] | None"
)
Slots: TypeAlias = "Mapping[str, tuple[str, ...]]"

CAPTURES = "captures"
"""The input slot that lists the captures: outer variables read by sub-blocks."""

BLOCK = "block"
"""The operator type of a plain block: a brace without a `for`."""

CUSTOM_GRADIENT = "custom_gradient"
"""The operator type that gives values a user-defined gradient."""

IDENTITY = "identity"
"""The operator type that gives a value another name."""

VALUE, DATA, PARAMETER, STATE, ARGUMENT = "value", "data", "parameter", "state", "argument"
VARIABLE_KINDS = (VALUE, DATA, PARAMETER, STATE, ARGUMENT)


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's own program."""

    file: str
    line: int

    def __str__(self) -> str:
        return visible(line_text(self.file, self.line))


@dataclass(frozen=True, slots=True)
class VarInfo:
    """The declaration of a variable.

    Attributes:
        name: Unique in its block.
        type: Dtype and symbolic shape.
        kind: `value` (an operator binds it), `data` (a run feeds it), `parameter` or `state`
            (persistable: it lives in a scope from run to run), or `argument` (the operator that
            owns the block binds it).
        trainable: Whether optimizers update it; for parameters.
        axes: The name of each axis, or `None`; empty if no axis has one. Only axes with numbers
            have names: a symbolic size has a name itself.
        unknown: Fields of a later schema; no part of the program's meaning.
    """

    name: str
    type: Type
    kind: str = VALUE
    trainable: bool = False
    axes: AxisNames = ()
    unknown: bytes = field(default=b"", compare=False)

    def with_(self, **changes: Any) -> VarInfo:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    @property
    def shown_type(self) -> str:
        """The text of its type, with the names of axes: `f32[embed=16,mlp=32]`."""
        return named_text(self.type, self.axes)

    @property
    def persistable(self) -> bool:
        """True if the value outlives a run."""
        return self.kind in (PARAMETER, STATE)

    @property
    def shape(self) -> Shape:
        """The size of each axis; symbolic ones are `Dim`s."""
        return self._tensor.shape

    @property
    def dtype(self) -> DType:
        """The dtype, a `numpy.dtype`."""
        return self._tensor.dtype

    @property
    def _tensor(self) -> TensorType:
        if isinstance(self.type, TensorType):
            return self.type
        raise DTypeError(
            f"expected an array in `{self.name}`, got a list ({self.type}).",
            fix="Use the type of its elements: info.type.element.",
        )


@dataclass(frozen=True, slots=True)
class Literal:
    """An array that is part of a program, as immutable bytes in C order, little endian."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> Literal:
        """Return the literal that holds `array`."""
        array = np.asarray(array)
        return Literal(dtype_of(array.dtype), array.shape, array.tobytes())

    def array(self) -> np.ndarray[Any, Any]:
        """Return the value, read-only."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Op:
    """One operator.

    Attributes:
        type: The computation; derived operators carry their transforms: `tanh.vjp`.
        name: Unique in its block.
        inputs: Slot to the names that it reads.
        outputs: Slot to the names that it binds; unused slots may be absent.
        attrs: Constants, sub-blocks included.
        source: The user's line that built it; no part of the program's meaning.
        unknown: Fields of a later schema; no part of it either.
    """

    type: str
    name: str
    inputs: Slots
    outputs: Slots
    attrs: Mapping[str, Attr] = field(default_factory=dict[str, Attr])
    source: Source | None = field(default=None, compare=False)
    unknown: bytes = field(default=b"", compare=False)

    def reads(self) -> Iterator[str]:
        """Return all names that this operator reads, captures included."""
        return chain.from_iterable(self.inputs.values())

    def binds(self) -> Iterator[str]:
        """Return all names that this operator binds."""
        return chain.from_iterable(self.outputs.values())

    def captures(self) -> tuple[str, ...]:
        """Return the outer names that sub-blocks read; empty without sub-blocks."""
        return self.inputs.get(CAPTURES, ()) if self.bodies() else ()

    def bodies(self) -> dict[str, Body]:
        """Return the sub-blocks by attribute name; the cases of a list as `cases[0]`, …."""
        blocks: dict[str, Body] = {}
        for name, value in self.attrs.items():
            if isinstance(value, Body):
                blocks[name] = value
            elif isinstance(value, tuple):
                blocks |= {
                    f"{name}[{i}]": v for i, v in enumerate(value) if isinstance(v, Body)
                }
        return blocks

    def with_(self, **changes: Any) -> Op:
        """Return a copy with some fields replaced.

        With another type or name it is another operator, without this one's unknown fields.
        """
        if "type" in changes or "name" in changes:
            changes = {"unknown": b"", **changes}
        return replace(self, **changes)

    def describe(self) -> str:
        """Return operator and source line, for messages."""
        return f"op `{self.name}` ({self.type})" + (
            f", built at {self.source}" if self.source else ""
        )


@dataclass(frozen=True, slots=True)
class Body:
    """The content of a block.

    Attributes:
        params: Names that the owner binds before the block runs, in its order.
        results: Names that the owner reads after the block ran, in its order.
        vars: All names bound in this block.
        ops: In the order of execution.
        unknown: Fields of a later schema; no part of the program's meaning.
    """

    params: tuple[str, ...]
    results: tuple[str, ...]
    vars: Mapping[str, VarInfo]
    ops: tuple[Op, ...]
    unknown: bytes = field(default=b"", compare=False)

    def with_(self, **changes: Any) -> Body:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A call that derived a part of the main block from another, such as `gradients`.

    Names may belong to variables that exist no more.

    Attributes:
        function: The name of the function.
        targets: The variables that were differentiated.
        inputs: The variables by which they were differentiated.
        every: Whether these were all trainable parameters.
        seeds: The given cotangents or tangents; empty names for the default.
        results: The derivatives; empty names for none.
        updates: The updates that the call added.
        states: The persistable variables that the call added.
        ends: Unread outputs, before the call, of differentiated operators with several outputs.
        unread: Variables that the call added, and that nothing reads.
        optimizer: The call that creates the optimizer: tuples, numbers and texts.
        inner: Whether the call was in an inner block.
        edited: Whether derivatives, updates or states of the call were edited afterwards.
        earlier: Names at the time of the call, by those to which they were changed since.
        live: The optimizer itself, in the process that built it.
    """

    function: str
    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    every: bool = False
    seeds: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    updates: Mapping[str, str] = field(default_factory=dict[str, str])
    states: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    optimizer: Attr = None
    inner: bool = False
    edited: bool = False
    earlier: Mapping[str, str] = field(default_factory=dict[str, str])
    live: Any = field(default=None, compare=False)

    def with_(self, **changes: Any) -> Derivation:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    def remains_in(self, program: ProgramDef) -> bool:
        """Return whether a program has a derivative or an update of this call."""
        updates = program.updates
        kept = any(updates.get(name) == value for name, value in self.updates.items())
        return kept or _binds_any(program.main, self.results)

    def __deepcopy__(self, memo: object) -> Derivation:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the call that rebuilds it: without the optimizer, which has functions."""
        stored = (each.name for each in fields(self) if each.compare)
        return Derivation, tuple(getattr(self, name) for name in stored)


def _binds_any(body: Body, names: tuple[str, ...]) -> bool:
    """Return whether a block, or a block in it, binds one of some variables."""
    inner = (sub for op in body.ops for sub in op.bodies().values())
    return any(name in body.vars for name in names) or any(_binds_any(b, names) for b in inner)


@dataclass(frozen=True, slots=True)
class ProgramDef:
    """A whole program at one moment: its main block and the state after a run.

    Attributes:
        main: Block 0.
        updates: Persistable name to the variable that holds its next value.
        unknown: Fields of a later schema; no part of the program's meaning.
        modules: Operator type to its defining module according to the file; for messages.
        derivations: How derived parts were built; for rewriting, no part of the meaning.
        lineage: The versions it was made from; for handles, no part of the meaning.
    """

    main: Body
    updates: Mapping[str, str]
    unknown: bytes = field(default=b"", compare=False)
    modules: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    derivations: tuple[Derivation, ...] = field(default=(), compare=False)
    lineage: Lineage = field(default_factory=Lineage, compare=False, repr=False)

    @property
    def empty(self) -> bool:
        """True if nothing was ever put into this program."""
        main = self.main
        return not (main.vars or main.ops or self.updates or self.unknown or main.unknown)

    def with_(self, **changes: Any) -> ProgramDef:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    def with_move(self, move: Move) -> ProgramDef:
        """Return the next version: a change has moved or renamed operators or variables."""
        return self.with_(lineage=self.lineage.then(move))
