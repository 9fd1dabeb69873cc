"""Convert the nodes of a model to operators of the current block.

    Shape(x) -> s          nothing; s is known: [N, 3]
    Reshape(x, s) -> y     y = reshape(x=x, shape=[N, 3])
    Gelu(y) -> z           the function body that ONNX defines, inline
    mine.layer(z) -> u     a plain block `layer`, if the model defines that function

Errors are collected per node and reading continues, so that one message lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from braces.errors import BracesError, ProgramError
from braces.exchange.common.model.names import (
    LONGEST_PREFIX,
    clean_name,
    defining_scope,
    rename_result,
)
from braces.exchange.common.model.unsupported import MissingValue, UnsupportedNode
from braces.exchange.common.model.weights import add_persistable
from braces.exchange.common.values.constants import Array, Constant, Value, write_constant
from braces.exchange.common.values.speculative_read import (
    Lifted,
    names_lifted,
    read_transaction,
    reporting_invalid_operator,
)
from braces.exchange.onnx.reader.file.dtypes import array_of, densify
from braces.exchange.onnx.reader.graph import function_bodies
from braces.exchange.onnx.reader.graph.call_counting import DEEPEST, NodeCounter, TooManyNodes
from braces.exchange.onnx.reader.graph.constant_folding import fold_constants
from braces.exchange.onnx.reader.graph.node import (
    GraphScope,
    OnnxNode,
    Rule,
    in_declared_dtypes,
    operator_of,
    read_by,
)
from braces.exchange.onnx.reader.graph.original_places import (
    unknown_operator,
    unsupported_node,
)
from braces.exchange.onnx.reader.graph.sequence_lengths import ListLengths
from braces.extend.building import Builder, SymbolTable, Var
from braces.extend.constructs import build_plain_block
from braces.extend.programs import PARAMETER, STATE, Source
from braces.extend.types import Size, is_float

T = TypeVar("T")
MOST_NODES = 1 << 17
"""The largest number of nodes of a model after its functions are expanded."""
LONGEST_CHAIN = 200
"""The longest chain of nodes that constant folding follows."""


class NeedsValue(Exception):
    """Constant folding needs inputs whose examples are available."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


@dataclass(eq=False)
class OnnxReader:
    """Reads the nodes of one model.

    Attributes:
        program: The program that is built.
        file: The name of the model in messages.
        functions: The functions that the model defines, by domain, name and overload.
        rules: The conversion rules, by operator.
        examples: The names of inputs with example values.
        updates: The outputs that are the next values of initializers, by the names of these.
        blocks: Whether functions of the model become plain blocks, or are inlined.
        parameters: The values of the program's parameters.
        problems: The unsupported nodes.
        sizes: The data-dependent sizes: by variable, index in it, and block.
        lengths: The sizes that lists have as arrays.
        trying: The depth of nested speculative reads; a fallback is only tried at depth 0.
        walks: Tree traversals that several nodes share, by graph and output.
    """

    program: Builder
    file: str
    functions: Mapping[function_bodies.FunctionId, Any]
    rules: Mapping[str, Rule]
    examples: Collection[str]
    updates: Mapping[str, str] = field(default_factory=dict[str, str])
    blocks: bool = True
    parameters: dict[str, Array] = field(default_factory=dict)
    problems: list[UnsupportedNode] = field(default_factory=list)
    sizes: dict[tuple[str, int | None, int], Size] = field(default_factory=dict)
    lengths: ListLengths = field(default_factory=ListLengths)
    _lifted: dict[tuple[int, int], Lifted[Constant]] = field(default_factory=dict)
    trying: int = 0
    walks: dict[tuple[int, str], Any] = field(default_factory=dict)
    _count: int = 0
    _work: int = 0
    _depth: int = 0

    # ---- nodes -------------------------------------------------------------------------------

    def admit(self, nodes: Sequence[Any]) -> None:
        """Check the number of nodes after expansion, before any is read.

        Raises:
            Endless: If there are too many nodes, or a function calls itself.
        """
        self._check_work(NodeCounter(self.functions).of(nodes))

    def _check_work(self, count: int) -> None:
        if count > MOST_NODES:
            raise TooManyNodes(
                f"{self.file} has more than {MOST_NODES} nodes after inlining of functions."
            )

    def run(self, names: GraphScope, nodes: Sequence[Any]) -> None:
        """Read nodes in order."""
        names.nodes = nodes
        for proto in nodes:
            self._count += 1
            self._work += 1
            self._check_work(self._work)
            with self.program.at(Source(self.file, self._count)):
                self._read_node(names, proto)

    def _read_node(self, names: GraphScope, proto: Any) -> None:
        problems = len(self.problems)
        try:
            with self.attempt(), _sensible(proto):
                results = self._node_outputs(names, proto)
        except TooManyNodes:
            raise
        except (BracesError, MissingValue) as error:
            if len(self.problems) == problems:
                self._note_unknown(names, proto)
            if isinstance(error, BracesError):
                self._note(names, proto, error)
            names.values.update(dict.fromkeys(proto.output, MissingValue))
            return
        names.values.update(zip(proto.output, results, strict=False))
        for at, name in enumerate(proto.output):
            names.makers.setdefault(name, (names, proto, at))

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Run the block as a transaction that an exception rolls back."""
        lengths = self.lengths
        caches = self.parameters, self._lifted, self.sizes, self.walks
        with read_transaction(self.program, *caches, lengths.atoms, lengths.named):
            yield

    def tried(self, read: Callable[[], T]) -> T | None:
        """Read speculatively; return `None` and roll back on failure."""
        problem_count, count = len(self.problems), self._count
        self.trying += 1
        try:
            with self.attempt():
                return read()
        except TooManyNodes:
            raise
        except (BracesError, MissingValue):
            del self.problems[problem_count:]
            self._count = count
            return None
        finally:
            self.trying -= 1

    def trial(self, read: Callable[[], T]) -> T | None:
        """Read speculatively, and always roll back."""
        results = list[T]()

        def read_and_abort() -> None:
            with self.program.building(SymbolTable(parent=self.program.current)):
                results.append(read())
            raise MissingValue("speculative read")

        self.tried(read_and_abort)
        return results[0] if results else None

    def _note(self, names: GraphScope, proto: Any, error: BracesError) -> None:
        self.problems.append(unsupported_node(OnnxNode(names, proto, {}), error))

    def _note_unknown(self, names: GraphScope, proto: Any) -> None:
        """Note the unsupported operators in the subgraphs of a node that was not read."""
        for inner in (node for attribute in proto.attribute for node in attribute.g.node):
            node = OnnxNode(names, inner, {})
            if not self._is_known(node):
                self._note(names, inner, unknown_operator(node))
            self._note_unknown(names, inner)

    def _is_known(self, node: OnnxNode) -> bool:
        """Return whether an operator has a rule, or a function body."""
        if node.type in self.rules or function_bodies.called_by(node.proto) in self.functions:
            return True
        return function_bodies.has_body(node.proto, node.version)

    def _node_outputs(self, names: GraphScope, proto: Any) -> Sequence[Value]:
        """Return the outputs of a node."""
        function = self.functions.get(function_bodies.called_by(proto))
        if function is not None:
            return self._by_function(
                function_bodies.call_node(names, proto, function), function
            )
        node = OnnxNode.of(names, proto)
        rule = self.rules.get(node.type)
        if not self._is_known(node):
            raise unknown_operator(node)
        operands = [names.value(name) if name else None for name in proto.input]
        constants = self._folded(node, operands, weights=False)
        if constants:
            return constants
        return self._by_body(node) if rule is None else self._by_rule(node, rule)

    def _by_body(self, node: OnnxNode) -> Sequence[Value]:
        body = function_bodies.schema_body(node)
        assert body is not None, "missing function body"
        first = next((name for name in node.proto.output if name), node.proto.op_type)
        outputs = self._call(node, body, f"{self.path_of(node.names, first)}/")
        return in_declared_dtypes(node, outputs)

    def _by_function(self, node: OnnxNode, function: Any) -> Sequence[Value]:
        """Convert a call to a plain block; known values pass through it.

        The call is inlined if the name of the block, with its prefix, would be too long.
        """
        table, path = self.program.current, node.names.path
        body = function_bodies.inline_attributes(function, node, {})
        block_name = clean_name(node.proto.name or node.proto.op_type).rpartition("/")[2]
        if not self.blocks or len(f"{path}{block_name}") > LONGEST_PREFIX:
            return self._call(node, body, f"{self.path_of(node.names, block_name)}/")

        def build_body() -> Sequence[Value]:
            return self._call(node, body, self.program.current.names.prefix)

        with table.naming(path):
            return build_plain_block(
                block_name, build_body, function_bodies.is_rematerialized(function)
            )

    def _by_rule(self, node: OnnxNode, rule: Rule) -> Sequence[Value]:
        table = self.program.current
        first = next((name for name in node.proto.output if name), "")
        before, lifted = len(table.ops), len(self._lifted)
        node_name = first or node.proto.name
        with table.naming(f"{self.path_of(node.names, node_name)}/"):
            result = rule(node)
            if isinstance(result, tuple):
                return in_declared_dtypes(node, result)
            (result,) = in_declared_dtypes(node, (result,))
        if isinstance(result, Var) and first:
            lifted_names = names_lifted(self._lifted, lifted)
            result = rename_result(
                table, before, result, self.path_of(node.names, first), lifted_names
            )
        return (result,)

    @staticmethod
    def path_of(names: GraphScope, name: str) -> str:
        """Return the name of a model's value in the program."""
        return clean_name(f"{names.path}{clean_name(name)}")

    def _call(
        self, node: OnnxNode, body: function_bodies.FunctionBody, path: str
    ) -> Sequence[Value]:
        """Read a function body inline, with names that begin with this path."""
        inner = GraphScope(self, body.versions, None, path)
        for at, name in enumerate(body.inputs):
            arguments = node.proto.input[at] if at < node.count else ""
            inner.values[name] = node.names.value(arguments) if arguments else None
            if arguments:
                inner.makers[name] = (node.names, arguments, 0)
        with self._deeper():
            self.run(inner, body.nodes)
        arguments = node.proto.output
        for at, (name, output_name) in enumerate(zip(body.outputs, arguments, strict=False)):
            node.names.makers[output_name] = (inner, name, at)
        outputs = zip(body.outputs, (*arguments, *[""] * len(body.outputs)), strict=False)
        return [inner.value(name) if output_name else None for name, output_name in outputs]

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooManyNodes(
                f"nesting of functions and graphs exceeds the maximum depth {DEEPEST}."
            )
        try:
            yield
        finally:
            self._depth -= 1

    def graph(self, outer: GraphScope, graph: Any, inputs: Sequence[Value]) -> list[Value]:
        """Read a subgraph, and return its outputs."""
        inner = self._inside(outer, graph, inputs)
        return [inner.value(entry.name) for entry in graph.output]

    def in_place(self, node: OnnxNode, graph: Any) -> list[Value]:
        """Read a subgraph of a node inline, and return its outputs."""
        inner = self._inside(node.names, graph, ())
        for at, (output_name, entry) in enumerate(
            zip(node.proto.output, graph.output, strict=False)
        ):
            node.names.makers[output_name] = (inner, entry.name, at)
        return [inner.value(entry.name) for entry in graph.output]

    def _inside(self, outer: GraphScope, graph: Any, arguments: Sequence[Value]) -> GraphScope:
        """Read a subgraph, and return its names."""
        inner = outer.inner()
        for entry, value in zip(graph.input, arguments, strict=False):
            inner.values[entry.name] = value
        self.initializers(inner, graph)
        with self._deeper():
            self.run(inner, graph.node)
        return inner

    def initializers(self, names: GraphScope, graph: Any) -> None:
        """Add the initializers of a graph to its names."""
        for tensor in graph.initializer:
            self._initializer(names, tensor.name, lambda tensor=tensor: array_of(tensor))
        for sparse in graph.sparse_initializer:
            self._initializer(names, sparse.values.name, lambda sparse=sparse: densify(sparse))

    def _initializer(self, names: GraphScope, name: str, read: Callable[[], Array]) -> None:
        try:
            array = read()
        except BracesError as error:
            self.problems.append(UnsupportedNode("initializer", f"`{name}`", error))
            names.values[name] = MissingValue
            return
        trainable = array.ndim > 0 and is_float(array.dtype)
        weight = self.path_of(names, name)
        if names.outer is None and name in self.updates:
            kind = PARAMETER if trainable else STATE
            variable = add_persistable(self.program, self.parameters, weight, array, kind)
            names.values[name] = variable
        else:
            names.values[name] = Constant(array, array.dtype, weight if trainable else "")

    # ---- values ------------------------------------------------------------------------------

    def lift(self, value: Value) -> Var:
        """Return a value as a variable; a constant is created in the block that reads it."""
        if isinstance(value, Var):
            return value
        if not isinstance(value, Constant):
            what = "a sequence" if isinstance(value, list) else "an optional without a value"
            raise ProgramError(f"expected an array, got {what}.")
        table = self.program.table if value.weight else self.program.current
        key = id(value), id(table)
        entry = self._lifted.get(key)
        if entry is None:
            entry = self._lifted[key] = Lifted(value, table, self._lift(value))
        return entry.var

    def _lift(self, value: Constant) -> Var:
        if value.weight:
            return add_persistable(
                self.program, self.parameters, value.weight, value.array, PARAMETER
            )
        return write_constant(self.program, self.parameters, value)

    # ---- constant folding --------------------------------------------------------------------

    def known_value(self, names: GraphScope, name: str) -> Constant | None:
        """Return a value by constant folding, or `None`.

        Raises:
            NeedsValue: If the value depends on inputs whose examples are available.
        """
        roots = set[str]()
        constant = self._follow(names, name, LONGEST_CHAIN, roots)
        needed = roots.intersection(self.examples)
        if constant is None and needed:
            raise NeedsValue(needed)
        return constant

    def _follow(
        self, names: GraphScope, name: str, depth: int, roots: set[str]
    ) -> Constant | None:
        value = names.value(name)
        if isinstance(value, Constant):
            return value
        scope = defining_scope(names, name)
        maker = scope.makers.get(name) if scope is not None else None
        if maker is None or not depth:
            roots.add(name)
            return None
        seen, proto, at = maker
        if isinstance(proto, str):
            return self._follow(seen, proto, depth - 1, roots)
        if any(attribute.HasField("g") for attribute in proto.attribute):
            for read in read_by(proto):
                if defining_scope(seen, read) is not None:
                    self._follow(seen, read, depth - 1, roots)
            return None
        node = OnnxNode.of(seen, proto)
        inputs = [self._follow(seen, n, depth - 1, roots) if n else None for n in proto.input]
        missing = any(v is None and n for v, n in zip(inputs, proto.input, strict=True))
        outputs = () if missing else self._folded(node, inputs, weights=True)
        if at >= len(outputs):
            return None
        if scope is not None:
            scope.values[name] = outputs[at]
        return outputs[at]

    def _folded(
        self, node: OnnxNode, operands: Sequence[Value], *, weights: bool
    ) -> Sequence[Constant]:
        """Return the outputs of a node if its inputs are known, else nothing."""
        inputs = list[Constant | None]()
        for value in operands:
            if value is not None and not isinstance(value, Constant):
                return ()
            if value is not None and value.weight and not weights:
                return ()
            inputs.append(value)
        return fold_constants(node, inputs)


@contextmanager
def _sensible(proto: Any) -> Generator[None]:
    """Report exceptions of an invalid node as errors of that node.

    Attributes and counts are checked against ONNX's schemas before a rule runs. Other mistakes,
    such as a wrong permutation, raise inside a rule. Valid models never get here: ONNX's own
    test suite checks that.
    """
    sizes = "Fix the sizes that it depends on: sizes={'N': 1}."
    checker_fix = "Run onnx.checker.check_model(model) for details."
    with reporting_invalid_operator(operator_of(proto), sizes, checker_fix):
        yield
