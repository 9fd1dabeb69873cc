"""From the nodes of an exported graph to operators of the current block.

    aten.sym_size.int(x, 0) -> n        nothing; n is the size `batch`
    aten.view.default(x, [n, 12]) -> y  y = reshape(x=x, shape=[batch, 12])
    cond(p, true_graph, false_graph)    a switch of two blocks

What cannot be read is noted with its node, and so the rest is read all the same: a user learns
of everything at once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from braces.builder.append import one
from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.dtypes import is_float
from braces.errors import BracesError, ProgramError, ShapeError, did_you_mean
from braces.exchange.common.model.names import cleaned, rename_made
from braces.exchange.common.model.unsupported import Missing, Problem
from braces.exchange.common.model.weights import LITTLE, Array, persistable
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.values.symbolic_arithmetic import Unknown
from braces.exchange.torch.graph.convert import (
    array_from,
    dtype_from,
    is_torch,
    module_of,
    source_of,
)
from braces.exchange.torch.graph.storage_aliasing import Memory, memory_of
from braces.exchange.torch.graph.symbolic_ints import Symbols
from braces.exchange.torch.rules import REFUSED, RULES
from braces.exchange.torch.rules.tensor.strides import MEMORY
from braces.frontend.core import functions as ops
from braces.ir.records import STATE, Literal

Value: TypeAlias = Any
"""What a node of a graph stands for: a variable, a number, a size, a graph, or a list."""

PLACES = frozenset({
    "copy", "device", "generator", "layout", "memory_format", "non_blocking", "pin_memory",
    "requires_grad",
})  # fmt: skip
"""Arguments of torch that say where and how numbers lie, not what they are."""
_SHAPE = re.compile(r"SymInt\[\d*\]\?? (\w+)")


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph inside another one, as rules of constructs have it.

    Attributes:
        reader: What reads it.
        module: torch's own record.
    """

    reader: Reader
    module: Any

    def __call__(self, *given: Value) -> list[Value]:
        """Read it into the block that is being built, and return what it gives."""
        return self.reader.run(self.module, given)


@dataclass(eq=False)
class Reader:
    """Reads the nodes of one exported program.

    Attributes:
        program: What is built.
        values: What the persistables of the program hold.
        problems: What could not be read.
        symbols: The sizes that the symbols of the export are.
        targets: Parameters and buffers by the module's names for them.
    """

    program: Builder
    values: dict[str, Array] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    symbols: Symbols = field(default_factory=Symbols)
    targets: dict[str, Var] = field(default_factory=dict)
    _tensors: dict[int, Var] = field(default_factory=dict)

    # ---- values ------------------------------------------------------------------------------

    def persistable(self, name: str, tensor: Any, kind: str, *, trainable: bool) -> Var:
        """A parameter or state of the program, which holds a tensor."""
        array = array_from(tensor)
        frozen = not (trainable and is_float(array.dtype))
        return persistable(self.program, self.values, cleaned(name), array, kind, frozen=frozen)

    def kept(self, target: str, tensor: Any, kind: str) -> Var:
        """A parameter or buffer of the module; those that are tied are one."""
        found = self._tensors.get(id(tensor))
        if found is None:
            trainable = tensor.requires_grad and kind != STATE
            found = self.persistable(target, tensor, kind, trainable=trainable)
        self.targets[target] = self._tensors[id(tensor)] = found
        return found

    def constant(self, name: str, tensor: Any) -> Var:
        """A tensor that is written in the program; a large one is a state of it."""
        array = array_from(tensor)
        if array.size > LITTLE:
            return self.persistable(name, tensor, STATE, trainable=False)
        with self.program.building(self.program.table):
            return one("constant", value=Literal.of(array))

    # ---- nodes -------------------------------------------------------------------------------

    def run(self, module: Any, given: Sequence[Value]) -> list[Value]:
        """Read the nodes of a graph, in order, and return what it gives."""
        values, left = dict[Any, Value](), iter(given)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(left)
            elif node.op == "get_attr":
                values[node] = self._attribute(module, node)
            elif node.op == "output":
                return list(_flat(self._resolved(values, node.args[0])))
            else:
                with self.program.at(source_of(node)):
                    values[node] = self._read(values, node)
        return []

    def _attribute(self, module: Any, node: Any) -> Value:
        found = module
        for part in node.target.split("."):
            found = getattr(found, part)
        return (
            Graph(self, found)
            if is_torch(found, "GraphModule")
            else self.constant(node.name, found)
        )

    def _read(self, values: Mapping[Any, Value], node: Any) -> Value:
        marks = len(self.values), len(self.problems)
        try:
            with self.program.transaction():
                made = self._made(values, node)
                if len(self.problems) > marks[1]:
                    raise Missing
        except (BracesError, Missing, Unknown) as error:
            while len(self.values) > marks[0]:
                self.values.popitem()
            if isinstance(error, Unknown):
                error = ShapeError("What it gives depends on what sizes are.")
            if isinstance(error, BracesError):
                self.problems.append(Problem(target_of(node), str_of(node), error))
            return Missing
        return made

    def _made(self, values: Mapping[Any, Value], node: Any) -> Value:
        """What a node gives."""
        name = target_of(node)
        rule = rule_of(name)
        if rule is None:
            raise ProgramError(f"There is no rule for `{name}`.", fix=way_out(name))
        shapes = _shapes_among(node.target)
        args = [self._argument(values, arg, at in shapes) for at, arg in enumerate(node.args)]
        if name.rpartition(".")[0] in MEMORY:
            args[0] = self._memory(values, node)
        kwargs = {
            key: self._argument(values, arg, key in shapes)
            for key, arg in node.kwargs.items()
            if key not in PLACES and arg is not None
        }
        try:
            inspect.signature(rule).bind(*args, **kwargs)
        except TypeError as error:
            raise ProgramError(f"`{name}` with these arguments is not read: {error}.") from None
        table, before = self.program.current, len(self.program.current.ops)
        with table.naming(f"{cleaned(node.name)}/"):
            made = rule(*args, **kwargs)
        return self._as_said(node, made, before)

    def _as_said(self, node: Any, made: Value, before: int) -> Value:
        """What was made, in the dtype that the export says and under its name.

        Raises:
            ShapeError: It has another shape than the export says.
        """
        said = node.meta.get("val")
        if isinstance(made, tuple | list):
            parts = cast("Sequence[Value]", made)
            wanted = cast("Sequence[Any]", said or [None] * len(parts))
            return [self._checked(*pair) for pair in zip(parts, wanted, strict=False)]
        made = self._checked(made, said)
        if not isinstance(made, Var):
            return made
        return rename_made(self.program.current, before, made, cleaned(node.name))

    def _checked(self, made: Value, said: Any) -> Value:
        """A variable in the dtype that the export says, and with sizes as it says them."""
        shape = getattr(said, "shape", None)
        if not isinstance(made, Var) or shape is None:
            return made
        if len(shape) != made.ndim:
            raise _other_shape(made, shape)
        own = made.shape
        sizes = [self.symbols.agreed(*pair) for pair in zip(own, shape, strict=True)]
        if any(isinstance(a, int) and a != b for a, b in zip(own, sizes, strict=True)):
            raise _other_shape(made, shape)
        if any(a != b for a, b in zip(own, sizes, strict=True)):
            made = ops.ensure_shape(made, sizes)
        return in_dtype(made, dtype_from(said.dtype))

    def _memory(self, values: Mapping[Any, Value], node: Any) -> Memory:
        """What the first argument of a node lies in."""
        return memory_of(node, self.symbols.size, lambda other: self._resolved(values, other))

    def _argument(self, values: Mapping[Any, Value], arg: Any, shape: bool) -> Value:
        """An argument as rules have it; of a shape, numbers that a run tells are sizes."""
        if not (shape and isinstance(arg, list | tuple)):
            return self._resolved(values, arg)
        parts = cast("Sequence[Any]", arg)
        resolved = [self._resolved(values, part) for part in parts]
        return [
            self.symbols.told(part.meta["val"], value) if isinstance(value, Var) else value
            for part, value in zip(parts, resolved, strict=True)
        ]

    def _resolved(self, values: Mapping[Any, Value], arg: Any) -> Value:
        """An argument as rules have it: nodes as what they stand for.

        Raises:
            Missing: What makes it could not be read.
        """
        if isinstance(arg, list | tuple):
            return [self._resolved(values, part) for part in cast("Sequence[Any]", arg)]
        if is_torch(arg, "Node"):
            found = values[arg]
            if found is Missing:
                raise Missing
            return found
        if is_torch(arg, "dtype"):
            return dtype_from(arg)
        return str(arg) if is_torch(arg, "device") else arg


def _flat(value: Value) -> Sequence[Value]:
    return cast("Sequence[Value]", value) if isinstance(value, list) else [value]


def _other_shape(made: Var, shape: Sequence[Any]) -> ShapeError:
    return ShapeError(
        f"This gives {made.type}, where the export says {list(shape)}.",
        fix="This is a fault of Braces' rule for it; please report it.",
    )


def _shapes_among(target: Any) -> frozenset[Any]:
    """The arguments of an operator that are lists of sizes, by place and name."""
    if not is_torch(target, "OpOverload"):
        return frozenset()
    shapes = set(_SHAPE.findall(str(target._schema)))
    given = enumerate(target._schema.arguments)
    found = ((at, arg.name) for at, arg in given if arg.name in shapes)
    return frozenset(key for pair in found for key in pair)


def rule_of(name: str) -> Callable[..., Any] | None:
    """The rule of an operator, or of one of its overloads."""
    return RULES.get(name) or RULES.get(name.rpartition(".")[0])


def way_out(name: str) -> str:
    """A way out for an operator without a rule."""
    bare, known = name.partition(".")[0], {rule.partition(".")[0] for rule in RULES}
    refused = REFUSED.get(name.rpartition(".")[0])
    near = did_you_mean(bare, known - {"python"})
    return refused or near or "Write it with other operators of torch."


def target_of(node: Any) -> str:
    """What a node calls: an operator of aten without that word, or a function of Python."""
    target = node.target
    if is_torch(target, "OpOverload"):
        return str(target).removeprefix("aten.")
    return f"python.{target.__name__}"


def str_of(node: Any) -> str:
    """A node with its line, as messages name it."""
    source, module = source_of(node), module_of(node)
    return "".join((
        f"`{node.name}`", f" in {module}" if module else "", f" at {source}" if source else "",
    ))  # fmt: skip
