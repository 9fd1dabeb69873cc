"""One node of a model, and the names that it sees, as rules have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np

from braces.builder.var import Var
from braces.dims import Shape, Size
from braces.dtypes import DType, ListType
from braces.errors import ProgramError
from braces.exchange.common.model.names import holder
from braces.exchange.common.model.unsupported import Missing
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.values.constants import Array, Known, Value
from braces.exchange.onnx.reader.file.dtypes import array_of, dtype_named
from braces.exchange.onnx.reader.file.schema_check import attributes_of, followed
from braces.exchange.onnx.reader.graph.sequence_lengths import Lengths
from braces.exchange.onnx.reader.graph.value_numbering import ValueNumbers
from braces.lazy import onnx

T = TypeVar("T")
STANDARD = "ai.onnx"
"""The domain of ONNX's own operators; models mostly leave it empty."""
LEARNED = "ai.onnx.ml"
"""The domain of what learns from tables: trees, linear models, and what prepares features."""


class Runner(Protocol):
    """What reads nodes into the block that is being built.

    Attributes:
        sizes: The sizes of numbers that a run tells: by variable, place in it, and block.
        lengths: The sizes that lists have as arrays.
        trying: How many attempts go on that may fail; within them none has a second way.
        walks: Walks through trees that several nodes share, by graph and output.
    """

    sizes: dict[tuple[str, int | None, int], Size]
    lengths: Lengths
    trying: int
    walks: dict[tuple[int, str], Any]

    def lift(self, value: Value) -> Var:
        """A value as a variable."""
        ...

    def graph(self, outer: Names, graph: Any, given: Sequence[Value]) -> list[Value]:
        """Read a graph inside another one, and return what it gives."""
        ...

    def in_place(self, node: Node, graph: Any) -> list[Value]:
        """Read a graph of a node in its place, and return what it gives."""
        ...

    def known(self, names: Names, name: str) -> Known | None:
        """A value, computed while the model is read where that is possible."""
        ...

    def tried(self, read: Callable[[], T]) -> T | None:
        """What is read; `None`, and nothing was built or noted, where that cannot be."""
        ...

    def trial(self, read: Callable[[], T]) -> T | None:
        """What would be read: nothing is built, and nothing noted."""
        ...


@dataclass(eq=False)
class Names:
    """The names that nodes of one graph see, inner ones first.

    Attributes:
        runner: What reads the nodes.
        versions: The version of each domain's operators.
        outer: The names of the graph around this one; `None` in a function.
        path: What names of operators begin with.
        values: What each name stands for; `Missing` is said for what could not be read.
        makers: The node that makes a name, and the names that it sees.
        nodes: The nodes of the graph, read or not.
    """

    runner: Runner
    versions: Mapping[str, int]
    outer: Names | None = None
    path: str = ""
    values: dict[str, Value | type[Missing]] = field(default_factory=dict)
    makers: dict[str, Maker] = field(default_factory=dict)
    nodes: Sequence[Any] = ()
    _numbers: ValueNumbers | None = None

    def value(self, name: str) -> Value:
        """What a name stands for.

        Raises:
            Missing: What makes it could not be read.
            ProgramError: Nothing makes it before it is read.
        """
        held = holder(self, name)
        if held is None:
            raise ProgramError(
                f"`{name:.80}` is read before anything makes it.",
                fix="Nodes stand after those that they read; onnx.checker tells more.",
            )
        found = held.values[name]
        if isinstance(found, type):
            raise Missing(name)
        return found

    def maker(self, name: str) -> tuple[Names, Any, int] | None:
        """The node that makes a name, and which of its outputs it is; `None` for an input."""
        held = holder(self, name)
        found = held.makers.get(name) if held is not None else None
        while found is not None and isinstance(found[1], str):
            held = holder(found[0], found[1])
            found = held.makers.get(found[1]) if held is not None else None
        return found

    def value_numbers(self) -> ValueNumbers:
        """The numbers of the values of the graph."""
        if self._numbers is None:
            self._numbers = ValueNumbers(self, self.nodes)
        return self._numbers

    def inner(self, path: str = "") -> Names:
        """The names of a graph inside this one."""
        return Names(self.runner, self.versions, self, path or self.path)


Maker: TypeAlias = "tuple[Names, Any, int]"
"""The names that a node sees, the node, and which of its outputs it is. Without a node, it is
the name in the node's place that says the same value among those names."""


@dataclass(frozen=True, eq=False)
class Node:
    """A node: its operator, its inputs and attributes.

    Attributes:
        names: What it sees.
        proto: ONNX's own record.
        attrs: Its attributes, as Python has them.
    """

    names: Names
    proto: Any
    attrs: Mapping[str, Any]

    @staticmethod
    def of(names: Names, proto: Any) -> Node:
        """The node of a record.

        Raises:
            ProgramError: Its attributes, or how many inputs and outputs it has, are not what
                ONNX says of the operator.
        """
        version = names.versions.get(proto.domain or STANDARD, 1)
        return Node(names, proto, attributes_of(proto, version))

    def over(self, op_type: str, *values: Value, **attrs: Any) -> Node:
        """This node as one of ONNX's own, with other inputs and some other attributes."""
        proto = onnx.NodeProto()
        proto.CopyFrom(self.proto)
        proto.op_type, proto.domain = op_type, ""
        names, given = self.names.inner(), [f"input {at}" for at in range(len(values))]
        names.values.update(zip(given, values, strict=True))
        proto.input[:] = given
        return Node(names, proto, {**self.attrs, **attrs})

    @property
    def type(self) -> str:
        """The operator, with its domain where that is not ONNX's own."""
        return operator_of(self.proto)

    @property
    def version(self) -> int:
        """The version of the operator's domain that the model is written in."""
        return self.names.versions.get(self.proto.domain or STANDARD, 1)

    def __str__(self) -> str:
        called = f" `{self.proto.name}`" if self.proto.name else ""
        return f"{self.type}-{self.version}{called}"

    # ---- attributes --------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or what stands for it where it is left out."""
        return self.attrs.get(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.attr(name, int(default)))

    def axis(self, name: str, default: int, rank: int) -> int:
        """An attribute that is an axis, from the end where it is negative.

        Raises:
            ProgramError: There is no such axis.
        """
        found = int(self.attr(name, default))
        if not -rank <= found < max(rank, 1):
            self.refuse(f"has the axis {found} of an array with {rank}")
        return found % max(rank, 1)

    def texts(self, name: str) -> list[str]:
        """An attribute that is a list of texts."""
        return list(self.attr(name, ()))

    def floats(self, name: str) -> Array:
        """An attribute that is a list of numbers, or the array that may stand for it."""
        written = self.tensor(f"{name}_as_tensor")
        if written is not None:
            return written.numbers().ravel()
        return np.asarray(self.attr(name) or (), np.float32)

    def dtype_attr(self, name: str, default: Any = None) -> DType:
        """An attribute that names a dtype."""
        code = self.attr(name)
        return np.dtype(default) if code is None else dtype_named(code)

    # ---- inputs ------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many inputs there are."""
        return len(self.proto.input)

    def has(self, at: int) -> bool:
        """Whether an input is given."""
        return self.value(at) is not None

    def value(self, at: int) -> Value:
        """What an input stands for; `None` where it is left out."""
        given = self.proto.input[at] if at < self.count else ""
        return self.names.value(given) if given else None

    def var(self, at: int) -> Var:
        """An input as a variable."""
        return self.names.runner.lift(self.value(at))

    def maybe(self, at: int) -> Var | None:
        """An input as a variable, where it is given."""
        return self.var(at) if self.has(at) else None

    def vars(self) -> list[Var]:
        """All inputs as variables."""
        return [self.var(at) for at in range(self.count)]

    def shape(self, at: int = 0) -> Shape:
        """The shape of an input."""
        value = self.value(at)
        return tuple(value.array.shape) if isinstance(value, Known) else self.var(at).shape

    def maybe_known(self, at: int) -> Known | None:
        """An input, computed while the model is read, where that is possible."""
        if not self.has(at):
            return None
        return self.names.runner.known(self.names, self.proto.input[at])

    def known(self, at: int, what: str) -> Known:
        """An input that must be known while the model is read.

        Args:
            at: Which input.
            what: What it says, for messages.

        Raises:
            ProgramError: It is computed from what a run is fed.
        """
        found = self.maybe_known(at)
        if found is None:
            raise ProgramError(
                f"{what} of {self.type} must be known when the model is read, and "
                f"`{self.proto.input[at]}` is computed from what a run is fed.",
                fix="Fix sizes that it follows from, sizes={'N': 1}, or give the values of "
                "inputs that it follows from: inputs={'name': array}.",
            )
        return found

    def ints(self, at: int, what: str) -> list[Size] | None:
        """The numbers and sizes of an input that must be known, where it is given."""
        if not self.has(at):
            return None
        found = self.known(at, what)
        return [v if not isinstance(v, float) else int(v) for v in found.items()]

    def number(self, at: int, what: str, default: Any = None) -> Any:
        """The one number of an input that is known while the model is read."""
        if not self.has(at):
            return default
        return self.known(at, what).numbers().ravel()[0].item()

    # ---- outputs -----------------------------------------------------------------------------

    def wants(self, at: int) -> bool:
        """Whether an output is read by anything."""
        return at < len(self.proto.output) and bool(self.proto.output[at])

    def tensor(self, name: str) -> Known | None:
        """An attribute that is an array, where it is given."""
        found = self.attr(name)
        return None if found is None else Known.of(array_of(found))

    def graph(self, name: str, given: Sequence[Value] = ()) -> list[Value]:
        """Read the graph of an attribute, and return what it gives."""
        return self.names.runner.graph(self.names, self.attrs[name], given)

    def refuse(self, why: str, fix: str | None = None) -> NoReturn:
        """Say that this node cannot be read.

        Raises:
            ProgramError: In any case.
        """
        raise ProgramError(f"{self.type} {why}.", fix=fix)


Rule: TypeAlias = "Callable[[Node], Value | tuple[Value, ...]]"
"""From a node to what it gives: one value, or a tuple of several."""


def operator_of(proto: Any) -> str:
    """The operator of a node, with its domain where that is not ONNX's own."""
    domain = proto.domain or STANDARD
    return proto.op_type if domain == STANDARD else f"{domain}.{proto.op_type}"


def in_declared_dtypes(node: Node, made: Sequence[Value]) -> Sequence[Value]:
    """What a node gives, each array in the dtype of the input that ONNX says it has."""
    places = followed(node.proto.op_type, node.version, node.proto.domain)
    return [
        in_dtype(value, dtype)
        if isinstance(value, Var) and (dtype := _dtype_at(node, places, at)) is not None
        else value
        for at, value in enumerate(made)
    ]


def _dtype_at(node: Node, places: Sequence[int], at: int) -> DType | None:
    given = node.value(places[at]) if at < len(places) and places[at] >= 0 else None
    if isinstance(given, Known):
        return given.dtype
    return (
        given.dtype if isinstance(given, Var) and not isinstance(given.type, ListType) else None
    )


def read_by(proto: Any) -> Iterator[str]:
    """What a node and those in its graphs read."""
    yield from filter(None, proto.input)
    for attribute in proto.attribute:
        for inner in attribute.g.node:
            yield from read_by(inner)
