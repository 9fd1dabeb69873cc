"""From the nodes of an exported graph to operators of the current block.

    aten.sym_size.int(x, 0) -> n        nothing; n is the size `batch`
    aten.view.default(x, [n, 12]) -> y  y = reshape(x=x, shape=[batch, 12])
    cond(p, true_graph, false_graph)    a switch of two blocks

What cannot be read is noted with its node, and so the rest is read all the same: a user learns
of everything at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from braces.builder.append import one
from braces.builder.program import Builder
from braces.builder.var import Var
from braces.dtypes import is_float
from braces.errors import BracesError, ProgramError, ShapeError, suggest
from braces.exchange.names import cleaned, rename_made
from braces.exchange.onnx_in.known import Array
from braces.exchange.persistables import LITTLE, persistable
from braces.exchange.problems import Missing, Problem
from braces.exchange.torch_in.convert import (
    array_from,
    dtype_from,
    in_dtype,
    is_torch,
    source_of,
)
from braces.exchange.torch_in.rules import RULES
from braces.ir.records import STATE, Literal

Value: TypeAlias = Any
"""What a node of a graph stands for: a variable, a number, a size, a graph, or a list."""

PLACES = frozenset({
    "copy", "device", "generator", "layout", "memory_format", "non_blocking", "pin_memory",
    "requires_grad",
})  # fmt: skip
"""Arguments of torch that say where and how numbers lie, not what they are."""


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
    """

    program: Builder
    values: dict[str, Array] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    # ---- values ------------------------------------------------------------------------------

    def persistable(self, name: str, tensor: Any, kind: str, *, trainable: bool) -> Var:
        """A parameter or state of the program, which holds a tensor."""
        array = array_from(tensor)
        frozen = not (trainable and is_float(array.dtype))
        return persistable(self.program, self.values, cleaned(name), array, kind, frozen=frozen)

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
        except (BracesError, Missing) as error:
            while len(self.values) > marks[0]:
                self.values.popitem()
            if isinstance(error, BracesError):
                self.problems.append(Problem(target_of(node), str_of(node), error))
            return Missing
        return made

    def _made(self, values: Mapping[Any, Value], node: Any) -> Value:
        """What a node gives."""
        name = target_of(node)
        rule = RULES.get(name) or RULES.get(name.rpartition(".")[0])
        if rule is None:
            near = suggest(name, list(RULES))
            raise ProgramError(f"There is no rule for `{name}`.", fix=near)
        args = [self._resolved(values, arg) for arg in node.args]
        kwargs = {
            key: self._resolved(values, arg)
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
            return [_checked(part, each) for part, each in zip(parts, wanted, strict=False)]
        made = _checked(made, said)
        if not isinstance(made, Var):
            return made
        return rename_made(self.program.current, before, made, cleaned(node.name))

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


def _checked(made: Value, said: Any) -> Value:
    """A variable in the dtype that the export says."""
    if not isinstance(made, Var) or said is None or isinstance(said, tuple | list):
        return made
    shape = getattr(said, "shape", None)
    if shape is None:
        return made
    fits = len(shape) == made.ndim and all(
        a == b for a, b in zip(made.shape, shape, strict=True) if _numbers(a, b)
    )
    if not fits:
        raise ShapeError(
            f"This gives {made.type}, where the export says {list(shape)}.",
            fix="This is a fault of Braces' rule for it; please report it.",
        )
    return in_dtype(made, dtype_from(said.dtype))


def _numbers(*sizes: Any) -> bool:
    return all(isinstance(size, int) for size in sizes)


def target_of(node: Any) -> str:
    """What a node calls: an operator of aten without that word, or a function of Python."""
    target = node.target
    if is_torch(target, "OpOverload"):
        return str(target).removeprefix("aten.")
    return f"python.{target.__name__}"


def str_of(node: Any) -> str:
    """A node with its line, as messages name it."""
    source = source_of(node)
    return f"`{node.name}`" + (f" at {source}" if source else "")
