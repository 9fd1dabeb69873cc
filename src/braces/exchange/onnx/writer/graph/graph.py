"""ONNX graphs under construction: nodes, names, constants, and sizes as tensors.

A subgraph sees the names of enclosing graphs. ONNX requires names that are unique in the model,
so inner names begin with the path of their block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braces.errors import DTypeError, ShapeError
from braces.exchange.onnx.writer.graph.unsupported import COMPLEX
from braces.extend.programs import Op
from braces.extend.types import (
    INT64,
    Call,
    Dim,
    DType,
    ListType,
    Shape,
    Size,
    TensorType,
    Type,
    is_float,
    is_narrow,
)
from braces.lazy import onnx

IR_VERSIONS = {21: 10, 22: 10, 23: 11, 24: 12}
"""The operator set versions of exported models, with their IR versions."""
OPSET = 21
"""The default version, which runtimes of 2024 read."""


def code_of(dtype: DType) -> int:
    """Return the dtype code of ONNX.

    Raises:
        DTypeError: If the dtype has fewer than 8 bits, which few operators of ONNX support.
    """
    if is_narrow(dtype):
        raise DTypeError(
            f"unsupported dtype {dtype} in ONNX models.",
            fix="Store such values in 8 bits: br.cast the inputs.",
        )
    return onnx.helper.np_dtype_to_tensor_dtype(dtype)


@dataclass(frozen=True)
class ModelFunction:
    """A function of a model.

    Attributes:
        proto: The protobuf record.
        names: The names of its values, by their numbers in it.
    """

    proto: Any
    names: Mapping[str, str]


@dataclass
class ModelState:
    """The shared state of all graphs of a model, or of one of its functions.

    Attributes:
        kept: The names of the main block, which are reserved.
        prefix: The prefix of names that is removed.
        functions: The functions of the whole model, by their names and content.
        spare: Unused data of the program, which may determine sizes.
        main: The graph that gets them as inputs.
        used: All names in use.
        made: Generated names, which may be renamed at the end.
        called: The final names of these.
        constants: The nodes of constants, which come first.
        numbers: Constants by their dtypes, shapes and bytes.
        values: The arrays of constants, by name.
        opset: The operator set version.
        recurrent_nodes: Whether loops over standard cells become `LSTM`, `GRU` and `RNN`.
    """

    kept: frozenset[str] = frozenset()
    prefix: str = ""
    functions: dict[Any, ModelFunction] = field(default_factory=dict[Any, ModelFunction])
    spare: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    main: OnnxGraph | None = None
    used: set[str] = field(default_factory=set[str])
    made: set[str] = field(default_factory=set[str])
    called: dict[str, str] = field(default_factory=dict[str, str])
    constants: list[Any] = field(default_factory=list[Any])
    numbers: dict[Any, str] = field(default_factory=dict[Any, str])
    values: dict[str, np.ndarray[Any, Any]] = field(
        default_factory=dict[str, "np.ndarray[Any, Any]"]
    )
    opset: int = OPSET
    recurrent_nodes: bool = False

    def teller(self, dimension: str) -> OnnxGraph | None:
        """Add an unused input that determines a size; return the main graph, or `None`."""
        for name, type_ in self.spare.items():
            if self.main is not None and Dim.named(dimension) in type_.shape:
                self.main.bind(name, name, self.spare.pop(name))
                return self.main
        return None

    def fresh(self, stem: str) -> str:
        """Return an unused name."""
        name, number = stem, 1
        while name in self.used:
            name, number = f"{stem}.{number}", number + 1
        self.used.add(name)
        return name

    def constant(self, array: Any) -> str:
        """Return a constant, shared by all graphs."""
        array = np.asarray(array)
        key = array.dtype, array.shape, array.tobytes()
        if key not in self.numbers:
            name = self.numbers[key] = self.fresh(f"constant.{len(self.numbers)}")
            tensor = onnx.numpy_helper.from_array(array)
            self.constants.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
            self.values[name] = array
        return self.numbers[key]


@dataclass
class OnnxGraph:
    """One graph.

    Attributes:
        model: The shared state of all graphs.
        path: The prefix of generated names.
        outer: The enclosing graph.
        nodes: The nodes in order of execution.
        names: The ONNX names of program variables.
        types: The types of those variables.
        told: The tensor that determines a dimension, and its axis; -1 if it is the size itself.
        binders: The operators that bind program variables.
    """

    model: ModelState
    path: str = ""
    outer: OnnxGraph | None = None
    nodes: list[Any] = field(default_factory=list[Any])
    names: dict[str, str] = field(default_factory=dict[str, str])
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    told: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    binders: dict[str, Op] = field(default_factory=dict[str, Op])
    _sizes: dict[Size, str] = field(default_factory=dict[Size, str])

    def inside(self, label: str) -> OnnxGraph:
        """Return a subgraph."""
        return OnnxGraph(self.model, f"{self.path}{label}/", self)

    def beside(self, label: str) -> OnnxGraph:
        """Return the same graph with its own variable names."""
        path = f"{self.path}{label}/"
        return OnnxGraph(self.model, path, self, self.nodes, told=self.told, _sizes=self._sizes)

    # ---- variables ---------------------------------------------------------------------------

    def bind(self, variable: str, name: str, type_: Type) -> None:
        """Set the name of a variable, and record the sizes that it determines."""
        self.names[variable], self.types[variable] = name, type_
        if isinstance(type_, TensorType):
            self.learn(name, type_)

    def learn(self, name: str, type_: TensorType) -> None:
        """Record the sizes that a tensor determines."""
        for axis, size in enumerate(type_.shape):
            if isinstance(size, Dim) and size.name and self._teller(size.name) is None:
                self.told[size.name] = name, axis

    def call(self, name: str, variable: str) -> None:
        """Rename a generated name after its variable.

        Names of the main block are kept. Others are unique in most programs; if not, they get
        the path of their block as a prefix.
        """
        called, variable = self.model.called, variable.removeprefix(self.model.prefix)
        if name not in self.model.made or called.get(name) in self.model.kept:
            return
        if not self.path:
            called[name] = variable
        elif name not in called:
            is_free = variable not in self.model.used
            called[name] = self.model.fresh(variable if is_free else f"{self.path}{variable}")

    def name(self, variable: str) -> str:
        """Return the name of a variable."""
        return self._home(variable).names[variable]

    def type(self, variable: str) -> Type:
        """Return the type of a variable."""
        return self._home(variable).types[variable]

    def _home(self, variable: str) -> OnnxGraph:
        graph: OnnxGraph | None = self
        while graph is not None and variable not in graph.names:
            graph = graph.outer
        assert graph is not None, variable
        return graph

    # ---- nodes -------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with one output, and return its name."""
        if kind == "Div" and self._is_one(inputs[0]):
            kind, inputs = "Reciprocal", inputs[1:]
        return self.several(kind, *inputs, count=1, **attrs)[0]

    def _is_one(self, name: str) -> bool:
        """Return whether a value is 1.0, since ONNX Runtime loses values when it fuses `1 / x`.

        It replaces y / x by 1 / x * y, even if y is not computed yet.
        """
        value = self.model.values.get(name)
        return value is not None and value.shape == () and is_float(value.dtype) and value == 1

    def several(self, kind: str, *inputs: str, count: int, **attrs: Any) -> list[str]:
        """Add a node with several outputs."""
        outputs = [self.fresh(kind.lower()) for _ in range(count)]
        attributes = {name: value for name, value in attrs.items() if value is not None}
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs

    def fresh(self, stem: str) -> str:
        """Return a generated name in this graph."""
        name = self.model.fresh(f"{self.path}{stem}")
        self.model.made.add(name)
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return a constant."""
        return self.model.constant(np.asarray(value, dtype))

    def integers(self, *values: int) -> str:
        """Return a constant vector of int64."""
        return self.constant(values, INT64)

    def cast(self, value: str, dtype: DType) -> str:
        """Cast a value."""
        return self.op("Cast", value, to=code_of(dtype))

    # ---- sizes -------------------------------------------------------------------------------

    def number(self, size: Size) -> str:
        """Return a size as a scalar."""
        if isinstance(size, int):
            return self.constant(size, INT64)
        return self.op("Squeeze", self.size(size), self.integers(0))

    def shape(self, shape: Sequence[Size]) -> str:
        """Return sizes as a vector."""
        if all(isinstance(size, int) for size in shape):
            return self.constant(shape, INT64)
        return self.op("Concat", *map(self.size, shape), axis=0)

    def size(self, size: Size) -> str:
        """Return a size as a vector of one element.

        Raises:
            ShapeError: If no input of the model determines it.
        """
        if isinstance(size, int):
            return self.integers(size)
        size_name = self._sizes.get(size)
        if size_name is None:
            size_name = self._sizes[size] = self._add_size(size)
        return size_name

    def _add_size(self, size: Dim) -> str:
        if size.name:
            graph = self._teller(size.name) or self.model.teller(size.name)
            if graph is None:
                raise ShapeError(
                    f"size `{size}` does not follow from the inputs of the model.",
                    fix="Fetch a variable that depends on data of that size, or pass "
                    f"sizes={{{size.name!r}: 4}}.",
                )
            teller, axis = graph.told[size.name]
            return graph.size_along(size, teller, axis)
        total: str | None = None
        for monomial, factor in size.terms:
            term: str | None = None if factor == 1 and monomial else self.integers(factor)
            for atom in monomial:
                value = self._atom(atom)
                term = value if term is None else self.op("Mul", term, value)
            assert term is not None
            total = term if total is None else self.op("Add", total, term)
        return total or self.integers(0)

    def size_along(self, size: Dim, teller: str, axis: int) -> str:
        """Return the size of an axis of a tensor of this graph."""
        if axis < 0:
            return teller
        size_name = self._sizes.get(size)
        if size_name is None:
            size_name = self.op("Shape", teller, start=axis, end=axis + 1)
            self._sizes[size] = size_name
        return size_name

    def _atom(self, atom: Any) -> str:
        if not isinstance(atom, Call):
            return self.size(Dim.named(atom))
        left, right = map(self.size, atom.arguments)
        if atom.name == "floordiv":  # ONNX's own division truncates towards zero
            return self.op("Div", self.op("Sub", left, self.op("Mod", left, right)), right)
        return self.op({"mod": "Mod", "max": "Max", "min": "Min"}[atom.name], left, right)

    def _teller(self, dimension: str) -> OnnxGraph | None:
        graph: OnnxGraph | None = self
        while graph is not None and dimension not in graph.told:
            graph = graph.outer
        return graph

    # ---- the end -----------------------------------------------------------------------------

    def proto(self, inputs: Iterable[Any], outputs: Iterable[Any], name: str = "") -> Any:
        """Return the graph as a protobuf record."""
        graph_name = name or self.path.rstrip("/").replace("/", ".")
        return onnx.helper.make_graph(self.nodes, graph_name, list(inputs), list(outputs))


def rename_values(nodes: Iterable[Any], called: Mapping[str, str]) -> None:
    """Rename all values of nodes and of their subgraphs."""
    for node in nodes:
        for io_names in (node.input, node.output):
            io_names[:] = [called.get(name, name) for name in io_names]
        for graph in graphs_in([node]):
            for entry in (*graph.input, *graph.output):
                entry.name = called.get(entry.name, entry.name)
            rename_values(graph.node, called)


def graphs_in(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield the graphs that nodes have as attributes."""
    for node in nodes:
        yield from (attr.g for attr in node.attribute if attr.HasField("g"))


def value_info(name: str, type_: Type) -> Any:
    """Return the declaration of an input or output."""
    if isinstance(type_, ListType):
        element = type_.element
        return onnx.helper.make_tensor_sequence_value_info(
            name, code_of(element.dtype), _axes(element.shape)
        )
    return onnx.helper.make_tensor_value_info(name, code_of(type_.dtype), _axes(type_.shape))


def _axes(shape: Shape) -> list[int | str | None]:
    """Return the declared sizes: a number, a name, or `None` if unknown."""
    return [
        size if isinstance(size, int) else (None if size.unnamed else size.name)
        for size in shape
    ]


def refuse_complex(types: Iterable[Type]) -> None:
    """Raise an error for complex numbers, which few ONNX operators support.

    Raises:
        DTypeError: If a dtype is complex.
    """
    for type_ in types:
        tensor = type_.element if isinstance(type_, ListType) else type_
        if tensor.dtype.kind == "c":
            raise DTypeError(f"{COMPLEX}.")
