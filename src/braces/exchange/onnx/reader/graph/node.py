"""The interface of rules to a node of a model, and to the names that are in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np

from braces.errors import ProgramError
from braces.exchange.common.model.names import defining_scope
from braces.exchange.common.model.unsupported import MissingValue
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.values.constants import Array, Constant, Value
from braces.exchange.onnx.reader.file.dtypes import array_of, dtype_named
from braces.exchange.onnx.reader.file.schema_check import attributes_of, output_dtype_sources
from braces.exchange.onnx.reader.graph.sequence_lengths import ListLengths
from braces.exchange.onnx.reader.graph.value_numbering import ValueNumbers
from braces.extend.building import Var
from braces.extend.types import DType, ListType, Shape, Size
from braces.lazy import onnx

T = TypeVar("T")
ONNX_DOMAIN = "ai.onnx"
"""The domain of ONNX's own operators; models mostly leave it empty."""
ML_DOMAIN = "ai.onnx.ml"
"""The domain of classical machine learning: trees, linear models, and feature preprocessing."""


class NodeReader(Protocol):
    """Reads nodes into the block that is being built.

    Attributes:
        sizes: The data-dependent sizes: by variable, index in it, and block.
        lengths: The sizes that lists have as arrays.
        trying: The depth of nested speculative reads; a fallback is only tried at depth 0.
        walks: Tree traversals that several nodes share, by graph and output.
    """

    sizes: dict[tuple[str, int | None, int], Size]
    lengths: ListLengths
    trying: int
    walks: dict[tuple[int, str], Any]

    def lift(self, value: Value) -> Var:
        """Return a value as a variable."""
        ...

    def graph(self, outer: GraphScope, graph: Any, inputs: Sequence[Value]) -> list[Value]:
        """Read a subgraph, and return its outputs."""
        ...

    def in_place(self, node: OnnxNode, graph: Any) -> list[Value]:
        """Read a subgraph of a node inline, and return its outputs."""
        ...

    def known_value(self, names: GraphScope, name: str) -> Constant | None:
        """Return a value by constant folding, or `None`."""
        ...

    def tried(self, read: Callable[[], T]) -> T | None:
        """Read speculatively; return `None` and roll back on failure."""
        ...

    def trial(self, read: Callable[[], T]) -> T | None:
        """Read speculatively, and always roll back."""
        ...


@dataclass(eq=False)
class GraphScope:
    """The names visible to the nodes of one graph.

    Attributes:
        runner: The reader of the nodes.
        versions: The version of each domain's operators.
        outer: The names of the enclosing graph; `None` in a function.
        path: The prefix of operator names.
        values: The value of each name; `MissingValue` if its node could not be read.
        makers: The node that produces a name, and the names visible to it.
        nodes: The nodes of the graph, read or not.
    """

    runner: NodeReader
    versions: Mapping[str, int]
    outer: GraphScope | None = None
    path: str = ""
    values: dict[str, Value | type[MissingValue]] = field(default_factory=dict)
    makers: dict[str, Maker] = field(default_factory=dict)
    nodes: Sequence[Any] = ()
    _numbers: ValueNumbers | None = None

    def value(self, name: str) -> Value:
        """Return the value of a name.

        Raises:
            Missing: If the node that produces it could not be read.
            ProgramError: If the name is read before its definition.
        """
        scope = defining_scope(self, name)
        if scope is None:
            raise ProgramError(
                f"`{name:.80}` is used before it is defined.",
                fix="Sort the nodes topologically; onnx.checker may report more.",
            )
        value_or_missing = scope.values[name]
        if isinstance(value_or_missing, type):
            raise MissingValue(name)
        return value_or_missing

    def maker(self, name: str) -> tuple[GraphScope, Any, int] | None:
        """Return the node that produces a name, and its output index; `None` for an input."""
        scope = defining_scope(self, name)
        definition = scope.makers.get(name) if scope is not None else None
        while definition is not None and isinstance(definition[1], str):
            scope = defining_scope(definition[0], definition[1])
            definition = scope.makers.get(definition[1]) if scope is not None else None
        return definition

    def value_numbers(self) -> ValueNumbers:
        """Return the value numbering of the graph."""
        if self._numbers is None:
            self._numbers = ValueNumbers(self, self.nodes)
        return self._numbers

    def inner(self, path: str = "") -> GraphScope:
        """Return an empty scope for a subgraph."""
        return GraphScope(self.runner, self.versions, self, path or self.path)


Maker: TypeAlias = "tuple[GraphScope, Any, int]"
"""The names visible to a node, the node, and the index of an output.

If the second entry is a name instead of a node, it is an alias in those names.
"""


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """A node: its operator, its inputs and attributes.

    Attributes:
        names: The names visible to it.
        proto: The protobuf record.
        attrs: Its attributes as Python values.
    """

    names: GraphScope
    proto: Any
    attrs: Mapping[str, Any]

    @staticmethod
    def of(names: GraphScope, proto: Any) -> OnnxNode:
        """Return the node of a record.

        Raises:
            ProgramError: If the attributes, or the numbers of inputs and outputs, violate the
                schema of the operator.
        """
        version = names.versions.get(proto.domain or ONNX_DOMAIN, 1)
        return OnnxNode(names, proto, attributes_of(proto, version))

    def over(self, op_type: str, *values: Value, **attrs: Any) -> OnnxNode:
        """Return a standard ONNX node with other inputs and some other attributes."""
        proto = onnx.NodeProto()
        proto.CopyFrom(self.proto)
        proto.op_type, proto.domain = op_type, ""
        names, input_names = self.names.inner(), [f"input {at}" for at in range(len(values))]
        names.values.update(zip(input_names, values, strict=True))
        proto.input[:] = input_names
        return OnnxNode(names, proto, {**self.attrs, **attrs})

    @property
    def type(self) -> str:
        """The operator, with its domain unless that is ONNX's own."""
        return operator_of(self.proto)

    @property
    def version(self) -> int:
        """The opset version of the operator's domain."""
        return self.names.versions.get(self.proto.domain or ONNX_DOMAIN, 1)

    def __str__(self) -> str:
        called = f" `{self.proto.name}`" if self.proto.name else ""
        return f"{self.type}-{self.version}{called}"

    # ---- attributes --------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute or a default value."""
        return self.attrs.get(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an attribute that is 0 or 1 as a bool."""
        return bool(self.attr(name, int(default)))

    def axis(self, name: str, default: int, rank: int) -> int:
        """Return an attribute that is an axis; negative ones count from the end.

        Raises:
            ProgramError: If the axis is out of range.
        """
        axis_ = int(self.attr(name, default))
        if not -rank <= axis_ < max(rank, 1):
            self.refuse(f"axis {axis_} is out of range for an array of rank {rank}")
        return axis_ % max(rank, 1)

    def texts(self, name: str) -> list[str]:
        """Return an attribute that is a list of strings."""
        return list(self.attr(name, ()))

    def floats(self, name: str) -> Array:
        """Return an attribute that is a list of numbers, or the tensor that may replace it."""
        as_tensor = self.tensor(f"{name}_as_tensor")
        if as_tensor is not None:
            return as_tensor.numbers().ravel()
        return np.asarray(self.attr(name) or (), np.float32)

    def dtype_attr(self, name: str, default: Any = None) -> DType:
        """Return an attribute that is a dtype code as a dtype."""
        code = self.attr(name)
        return np.dtype(default) if code is None else dtype_named(code)

    # ---- inputs ------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(self.proto.input)

    def has(self, at: int) -> bool:
        """Return whether an input is present."""
        return self.value(at) is not None

    def value(self, at: int) -> Value:
        """Return the value of an input; `None` if it is omitted."""
        input_name = self.proto.input[at] if at < self.count else ""
        return self.names.value(input_name) if input_name else None

    def var(self, at: int) -> Var:
        """Return an input as a variable."""
        return self.names.runner.lift(self.value(at))

    def maybe(self, at: int) -> Var | None:
        """Return an input as a variable, or `None` if it is omitted."""
        return self.var(at) if self.has(at) else None

    def vars(self) -> list[Var]:
        """Return all inputs as variables."""
        return [self.var(at) for at in range(self.count)]

    def shape(self, at: int = 0) -> Shape:
        """Return the shape of an input."""
        value = self.value(at)
        return tuple(value.array.shape) if isinstance(value, Constant) else self.var(at).shape

    def maybe_known(self, at: int) -> Constant | None:
        """Return an input by constant folding, or `None`."""
        if not self.has(at):
            return None
        return self.names.runner.known_value(self.names, self.proto.input[at])

    def known_value(self, at: int, what: str) -> Constant:
        """Return an input that must be known at import time.

        Args:
            at: The index of the input.
            what: The meaning of the input, for messages.

        Raises:
            ProgramError: If the input depends on the feeds of a run.
        """
        constant = self.maybe_known(at)
        if constant is None:
            raise ProgramError(
                f"{self.type}: expected a constant as {what.lower()}, but "
                f"`{self.proto.input[at]}` depends on inputs.",
                fix="Fix the sizes that it depends on, sizes={'N': 1}, or pass the values of "
                "the inputs that it depends on, inputs={'name': array}.",
            )
        return constant

    def ints(self, at: int, what: str) -> list[Size] | None:
        """Return the numbers and sizes of an optional input that must be known."""
        if not self.has(at):
            return None
        constant = self.known_value(at, what)
        return [v if not isinstance(v, float) else int(v) for v in constant.items()]

    def number(self, at: int, what: str, default: Any = None) -> Any:
        """Return the only element of an input that must be known."""
        if not self.has(at):
            return default
        return self.known_value(at, what).numbers().ravel()[0].item()

    # ---- outputs -----------------------------------------------------------------------------

    def wants(self, at: int) -> bool:
        """Return whether an output is present."""
        return at < len(self.proto.output) and bool(self.proto.output[at])

    def tensor(self, name: str) -> Constant | None:
        """Return an attribute that is a tensor, or `None`."""
        proto_tensor = self.attr(name)
        return None if proto_tensor is None else Constant.of(array_of(proto_tensor))

    def graph(self, name: str, inputs: Sequence[Value] = ()) -> list[Value]:
        """Read the subgraph of an attribute, and return its outputs."""
        return self.names.runner.graph(self.names, self.attrs[name], inputs)

    def refuse(self, why: str, fix: str | None = None) -> NoReturn:
        """Raise an error that this node is not supported.

        Raises:
            ProgramError: Always.
        """
        raise ProgramError(f"{self.type}: {why}.", fix=fix)


Rule: TypeAlias = "Callable[[OnnxNode], Value | tuple[Value, ...]]"
"""Maps a node to its output, or to a tuple of its outputs."""


def operator_of(proto: Any) -> str:
    """Return the operator of a node, with its domain unless that is ONNX's own."""
    domain = proto.domain or ONNX_DOMAIN
    return proto.op_type if domain == ONNX_DOMAIN else f"{domain}.{proto.op_type}"


def in_declared_dtypes(node: OnnxNode, values: Sequence[Value]) -> Sequence[Value]:
    """Cast each output of a node to the dtype of the input that the schema ties it to."""
    source_inputs = output_dtype_sources(node.proto.op_type, node.version, node.proto.domain)
    return [
        cast_to_dtype(value, dtype)
        if isinstance(value, Var) and (dtype := _dtype_at(node, source_inputs, at)) is not None
        else value
        for at, value in enumerate(values)
    ]


def _dtype_at(node: OnnxNode, places: Sequence[int], at: int) -> DType | None:
    source = node.value(places[at]) if at < len(places) and places[at] >= 0 else None
    if isinstance(source, Constant):
        return source.dtype
    return (
        source.dtype
        if isinstance(source, Var) and not isinstance(source.type, ListType)
        else None
    )


def read_by(proto: Any) -> Iterator[str]:
    """Yield the names that a node and its subgraphs read."""
    yield from filter(None, proto.input)
    for attribute in proto.attribute:
        for inner in attribute.g.node:
            yield from read_by(inner)
