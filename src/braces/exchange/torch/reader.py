"""Convert the nodes of an exported graph to operators of the current block.

    aten.sym_size.int(x, 0) -> n        nothing; n is the size `batch`
    aten.view.default(x, [n, 12]) -> y  y = reshape(x=x, shape=[batch, 12])
    cond(p, true_graph, false_graph)    a switch of two blocks

Errors are collected per node and reading continues, so that one message lists all of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, cast

from braces.errors import BracesError, ProgramError, ShapeError, did_you_mean
from braces.exchange.common.model.names import clean_name, rename_result, unused_name
from braces.exchange.common.model.unsupported import MissingValue, UnsupportedNode
from braces.exchange.common.model.weights import LARGEST_LITERAL, Array, add_persistable
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.values.symbolic_arithmetic import NotConstant
from braces.exchange.torch.graph.convert import (
    array_from,
    dtype_from,
    is_torch,
    lines_of,
    module_of,
    source_of,
)
from braces.exchange.torch.graph.module_paths import paths_of
from braces.exchange.torch.graph.storage_aliasing import Storage, storage_of
from braces.exchange.torch.graph.symbolic_ints import Symbols
from braces.exchange.torch.rules import REFUSED, RULES
from braces.exchange.torch.rules.tensor.strides import MEMORY
from braces.extend import functions as ops
from braces.extend.building import Builder, Var, emit
from braces.extend.operators import Path, build_scopes, common_depth
from braces.extend.programs import STATE, Literal, Source
from braces.extend.types import is_float

Value: TypeAlias = Any
"""The value of a node: a variable, a number, a size, a graph, or a list."""

LAYOUT_ARGUMENTS = frozenset({
    "copy", "device", "generator", "layout", "memory_format", "non_blocking", "pin_memory",
    "requires_grad",
})  # fmt: skip
"""Arguments of torch for layout and device, which do not affect values."""
_SHAPE = re.compile(r"SymInt\[\d*\]\?? (\w+)")


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A subgraph, as rules of control flow receive it.

    Attributes:
        reader: The reader.
        module: The torch graph module.
    """

    reader: TorchReader
    module: Any

    def __call__(self, *given: Value) -> list[Value]:
        """Read the subgraph into the block that is being built, and return its outputs."""
        return self.reader.run(self.module, given)


@dataclass(eq=False)
class TorchReader:
    """Reads the nodes of one exported program.

    Attributes:
        program: The program that is built.
        values: The values of persistable variables.
        problems: The unsupported nodes.
        symbols: The sizes of the export's symbols.
        targets: Parameters and buffers by the module's names for them.
    """

    program: Builder
    values: dict[str, Array] = field(default_factory=dict)
    problems: list[UnsupportedNode] = field(default_factory=list)
    symbols: Symbols = field(default_factory=Symbols)
    targets: dict[str, Var] = field(default_factory=dict)
    _tensors: dict[int, Var] = field(default_factory=dict)

    # ---- values ------------------------------------------------------------------------------

    def persistable(self, name: str, tensor: Any, kind: str, *, trainable: bool) -> Var:
        """Create a parameter or state with the value of a tensor."""
        array = array_from(tensor)
        frozen = not (trainable and is_float(array.dtype))
        return add_persistable(
            self.program, self.values, clean_name(name), array, kind, frozen=frozen
        )

    def parameter_var(self, target: str, tensor: Any, kind: str) -> Var:
        """Return the variable of a parameter or buffer; tied ones share it."""
        variable = self._tensors.get(id(tensor))
        if variable is None:
            trainable = tensor.requires_grad and kind != STATE
            variable = self.persistable(target, tensor, kind, trainable=trainable)
        self.targets[target] = self._tensors[id(tensor)] = variable
        return variable

    def constant(self, name: str, tensor: Any) -> Var:
        """Return a constant tensor as a literal; a large one becomes a state."""
        array = array_from(tensor)
        if array.size > LARGEST_LITERAL:
            return self.persistable(name, tensor, STATE, trainable=False)
        with self.program.building(self.program.table):
            return emit("constant", value=Literal.of(array))

    # ---- nodes -------------------------------------------------------------------------------

    def run(self, module: Any, inputs: Sequence[Value]) -> list[Value]:
        """Read the nodes of a graph in order, and return its outputs.

        The nodes of a module become a plain block.
        """
        nodes = dict[str, list[Any]]()
        for node in module.graph.nodes:
            nodes.setdefault(node.op, []).append(node)
        values = dict[Any, Value](zip(nodes.get("placeholder", ()), inputs, strict=False))
        for node in nodes.get("get_attr", ()):
            values[node] = self._attribute(module, node)
        calls = nodes.get("call_function", [])
        paths = paths_of(calls)
        depth = common_depth(calls, paths.__getitem__)
        build_scopes(calls, depth, _ModuleScopes(self, values, paths))
        return list(_as_list(self._resolved(values, nodes["output"][0].args[0])))

    def append_node(self, values: dict[Any, Value], node: Any, name: str) -> None:
        """Append the operators of a node, named by the node or by its module."""
        with self.program.at(source_of(node)):
            values[node] = self._read_node(values, node, name)

    def _attribute(self, module: Any, node: Any) -> Value:
        attribute = module
        for part in node.target.split("."):
            attribute = getattr(attribute, part)
        return (
            Subgraph(self, attribute)
            if is_torch(attribute, "GraphModule")
            else self.constant(node.name, attribute)
        )

    def _read_node(self, values: Mapping[Any, Value], node: Any, name: str) -> Value:
        marks = len(self.values), len(self.problems)
        try:
            with self.program.transaction():
                result = self._node_result(values, node, name)
                if len(self.problems) > marks[1]:
                    raise MissingValue
        except (BracesError, MissingValue, NotConstant) as error:
            while len(self.values) > marks[0]:
                self.values.popitem()
            if isinstance(error, NotConstant):
                error = ShapeError("the result depends on the values of symbolic sizes.")
            if isinstance(error, BracesError):
                self.problems.append(unsupported_node(node, error))
            return self._placeholder(node.meta.get("val"))
        return result

    def _placeholder(self, declared: Any) -> Value:
        """Return zeros of a declared type, for the nodes after one that could not be read."""
        if isinstance(declared, list | tuple):
            return [self._placeholder(part) for part in cast("Sequence[Any]", declared)]
        if not is_torch(declared, "FakeTensor"):
            return MissingValue
        try:
            shape = [self.symbols.size(size) for size in declared.shape]
            return emit("full", shape=shape, value=0.0, dtype=dtype_from(declared.dtype))
        except (BracesError, NotConstant):
            return MissingValue

    def _node_result(self, values: Mapping[Any, Value], node: Any, name: str) -> Value:
        """Return the result of a node."""
        target = target_of(node)
        rule = rule_of(target)
        if rule is None:
            raise ProgramError(f"unsupported operator `{target}`.", fix=advice_for(target))
        shapes = _shapes_among(node.target)
        args = [self._argument(values, arg, at in shapes) for at, arg in enumerate(node.args)]
        if target.rpartition(".")[0] in MEMORY:
            args[0] = self._memory(values, node)
        kwargs = {
            key: self._argument(values, arg, key in shapes)
            for key, arg in node.kwargs.items()
            if key not in LAYOUT_ARGUMENTS and arg is not None
        }
        try:
            inspect.signature(rule).bind(*args, **kwargs)
        except TypeError as error:
            raise ProgramError(f"unsupported arguments of `{target}`: {error}.") from None
        table, before = self.program.current, len(self.program.current.ops)
        with table.naming(f"{name}/"), reporting_invalid_arguments(target):
            result = rule(*args, **kwargs)
        return self._as_said(node, result, before, name)

    def _as_said(self, node: Any, result: Value, before: int, name: str) -> Value:
        """Return a result in the declared dtype and with its name.

        Raises:
            ShapeError: If the shape of the result differs from the declared one.
        """
        declared = node.meta.get("val")
        if isinstance(result, tuple | list):
            parts = cast("Sequence[Value]", result)
            declared_parts = cast("Sequence[Any]", declared or [None] * len(parts))
            return [self._checked(*pair) for pair in zip(parts, declared_parts, strict=False)]
        result = self._checked(result, declared)
        if not isinstance(result, Var):
            return result
        return rename_result(self.program.current, before, result, name)

    def _checked(self, value: Value, declared: Any) -> Value:
        """Return a variable in the declared dtype, and with the declared sizes."""
        shape = getattr(declared, "shape", None)
        if not isinstance(value, Var) or shape is None:
            return value
        if len(shape) != value.ndim:
            raise _shape_error(value, shape)
        own_sizes = value.shape
        sizes = [self.symbols.agreed(*pair) for pair in zip(own_sizes, shape, strict=True)]
        if any(isinstance(a, int) and a != b for a, b in zip(own_sizes, sizes, strict=True)):
            raise _shape_error(value, shape)
        if any(a != b for a, b in zip(own_sizes, sizes, strict=True)):
            value = ops.ensure_shape(value, sizes)
        return cast_to_dtype(value, dtype_from(declared.dtype))

    def _memory(self, values: Mapping[Any, Value], node: Any) -> Storage:
        """Return the storage of the first argument of a node."""
        return storage_of(node, self.symbols.size, lambda other: self._resolved(values, other))

    def _argument(self, values: Mapping[Any, Value], arg: Any, shape: bool) -> Value:
        """Return an argument for a rule; in shapes, run-time numbers become sizes."""
        if not (shape and isinstance(arg, list | tuple)):
            return self._resolved(values, arg)
        parts = cast("Sequence[Any]", arg)
        resolved = [self._resolved(values, part) for part in parts]
        return [
            self.symbols.size_of_number(part.meta["val"], value)
            if isinstance(value, Var)
            else value
            for part, value in zip(parts, resolved, strict=True)
        ]

    def _resolved(self, values: Mapping[Any, Value], arg: Any) -> Value:
        """Replace the nodes in an argument by their values.

        Raises:
            Missing: If a node could not be read.
        """
        if isinstance(arg, list | tuple):
            return [self._resolved(values, part) for part in cast("Sequence[Any]", arg)]
        if is_torch(arg, "Node"):
            value = values[arg]
            if value is MissingValue:
                raise MissingValue
            return value
        if is_torch(arg, "dtype"):
            return dtype_from(arg)
        return str(arg) if is_torch(arg, "device") else arg


@dataclass(frozen=True)
class _ModuleScopes:
    """Reads the nodes of a graph for `build_scopes`.

    Attributes:
        reader: The reader.
        values: The values of nodes.
        paths: The names of the modules around the nodes.
    """

    reader: TorchReader
    values: dict[Any, Value]
    paths: Mapping[Any, Path]

    def path_of(self, node: Any) -> Path:
        return self.paths[node]

    def source_of(self, node: Any) -> Source | None:
        return source_of(node)

    def inner(self) -> Self:
        return self

    def append_equations(self, nodes: Sequence[Any], depth: int) -> None:
        for node in nodes:
            modules = [name.partition("@")[0] for name in self.paths[node][depth:]]
            own = "/".join(modules) if len(nodes) == 1 and modules else node.name
            self.reader.append_node(self.values, node, self._unused_name(own))

    def _unused_name(self, name: str) -> str:
        table = self.reader.program.current
        return unused_name(table, clean_name(table.names.prefix + name))


@contextmanager
def reporting_invalid_arguments(name: str) -> Generator[None]:
    """Report an exception of a rule as an error of its operator."""
    try:
        yield
    except (BracesError, NotConstant):
        raise
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise ProgramError(
            f"invalid arguments of `{name}`: {type(error).__name__}: {error!s:.200}",
            fix="If PyTorch runs this node, report it as a bug of Braces.",
        ) from error


def _as_list(value: Value) -> Sequence[Value]:
    return cast("Sequence[Value]", value) if isinstance(value, list) else [value]


def _shape_error(value: Var, shape: Sequence[Any]) -> ShapeError:
    return ShapeError(
        f"shape mismatch: expected {list(shape)} as exported, got {value.type}.",
        fix="Report this as a bug of the conversion rule in Braces.",
    )


def _shapes_among(target: Any) -> frozenset[Any]:
    """Return the size-list arguments of an operator, by position and name."""
    if not is_torch(target, "OpOverload"):
        return frozenset()
    shapes = set(_SHAPE.findall(str(target._schema)))
    schema_args = enumerate(target._schema.arguments)
    positions_and_names = ((at, arg.name) for at, arg in schema_args if arg.name in shapes)
    return frozenset(key for pair in positions_and_names for key in pair)


def rule_of(name: str) -> Callable[..., Any] | None:
    """Return the rule of an operator, or of its overload packet."""
    return RULES.get(name) or RULES.get(name.rpartition(".")[0])


def advice_for(name: str) -> str:
    """Return the advice for an operator without a rule."""
    if name.count(".") > 1:
        return "Replace it by operators of torch, or export the parts before and after it."
    known = {rule.partition(".")[0] for rule in RULES if rule.count(".") < 2}
    advice = REFUSED.get(name.rpartition(".")[0])
    suggestion = did_you_mean(name.partition(".")[0], known - {"python"})
    return advice or suggestion or "Use other operators of torch."


def target_of(node: Any) -> str:
    """Return the name of a node's target: an aten operator, or a Python function."""
    target = node.target
    if is_torch(target, "OpOverload"):
        return str(target).removeprefix("aten.")
    return f"python.{target.__name__}"


def unsupported_node(node: Any, error: BracesError) -> UnsupportedNode:
    """Return a node with its module and lines, for messages."""
    module = module_of(node)
    name = f"`{node.name}` in {module}" if module else f"`{node.name}`"
    return UnsupportedNode(target_of(node), name, error, lines_of(node))
