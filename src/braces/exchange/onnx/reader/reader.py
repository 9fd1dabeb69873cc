"""From the nodes of a model to operators of the current block.

    Shape(x) -> s          nothing; s is known: [N, 3]
    Reshape(x, s) -> y     y = reshape(x=x, shape=[N, 3])
    Gelu(y) -> z           the nodes that ONNX writes it as, in its place
    mine.layer(z) -> u     a plain block `layer`, where the model brings that function along

What cannot be read is noted with its node, and so the rest is read all the same: a user learns
of everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import is_float
from braces.errors import BracesError, ProgramError
from braces.exchange.common.model.names import ROOM, cleaned, holder, rename_made
from braces.exchange.common.model.unsupported import Missing, Problem
from braces.exchange.common.model.weights import persistable
from braces.exchange.common.values.constants import Array, Known, Value, written
from braces.exchange.common.values.speculative_read import (
    Lifted,
    attempt,
    names_lifted,
    sensible,
)
from braces.exchange.onnx.reader.file.dtypes import array_of, dense
from braces.exchange.onnx.reader.graph import function_bodies as bodies
from braces.exchange.onnx.reader.graph.call_counting import DEEPEST, Endless, Work
from braces.exchange.onnx.reader.graph.constant_folding import fold
from braces.exchange.onnx.reader.graph.node import (
    Names,
    Node,
    Rule,
    in_declared_dtypes,
    operator_of,
    read_by,
)
from braces.exchange.onnx.reader.graph.sequence_lengths import Lengths
from braces.exchange.onnx.reader.rules import RULES
from braces.ir.records import PARAMETER, STATE, Source
from braces.ops.control.construct.build import build_plain_block

T = TypeVar("T")
MOST_NODES = 1 << 17
"""What a model is at most when all its functions are written out."""
INSTEAD = {"ImageDecoder": "Decode pictures before the model, and feed their pixels."}
"""What to do about operators that will not be read."""
FARTHEST = 200
"""How many nodes a size is followed back through."""


class NeedsValue(Exception):
    """A value must be known that follows from inputs, whose examples are given."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


@dataclass(eq=False)
class Reader:
    """Reads the nodes of one model.

    Attributes:
        program: What is built.
        file: What messages call the model.
        functions: Those that the model brings along, by domain, name and overload.
        examples: The names of inputs whose values are given, should they be needed.
        updates: The outputs that are the next values of initializers, by the names of these.
        blocks: Whether functions of the model become plain blocks, or are written out.
        parameters: What the parameters of the program hold.
        problems: What could not be read.
        sizes: The sizes of numbers that a run tells: by variable, place in it, and block.
        lengths: The sizes that lists have as arrays.
        trying: How many attempts go on that may fail; within them none has a second way.
        walks: Walks through trees that several nodes share, by graph and output.
    """

    program: Builder
    file: str
    functions: Mapping[bodies.FunctionId, Any]
    examples: Collection[str]
    updates: Mapping[str, str] = field(default_factory=dict[str, str])
    blocks: bool = True
    parameters: dict[str, Array] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    sizes: dict[tuple[str, int | None, int], Size] = field(default_factory=dict)
    lengths: Lengths = field(default_factory=Lengths)
    _lifted: dict[tuple[int, int], Lifted[Known]] = field(default_factory=dict)
    trying: int = 0
    walks: dict[tuple[int, str], Any] = field(default_factory=dict)
    _count: int = 0
    _work: int = 0
    _depth: int = 0

    # ---- nodes -------------------------------------------------------------------------------

    def admit(self, nodes: Sequence[Any]) -> None:
        """Refuse nodes that are too many before any is read, each call counted.

        Raises:
            Endless: They are, or a function calls itself.
        """
        self._check_work(Work(self.functions).of(nodes))

    def _check_work(self, count: int) -> None:
        if count > MOST_NODES:
            raise Endless(
                f"{self.file} has more than {MOST_NODES} nodes, those of each call of a"
                " function counted."
            )

    def run(self, names: Names, nodes: Sequence[Any]) -> None:
        """Read nodes, in order."""
        names.nodes = nodes
        for proto in nodes:
            self._count += 1
            self._work += 1
            self._check_work(self._work)
            with self.program.at(Source(self.file, self._count)):
                self._read(names, proto)

    def _read(self, names: Names, proto: Any) -> None:
        try:
            with self.attempt(), _sensible(proto):
                made = self._made(names, proto)
        except Endless:
            raise
        except (BracesError, Missing) as error:
            if isinstance(error, BracesError):
                self._note(names, proto, error)
            names.values.update(dict.fromkeys(proto.output, Missing))
            return
        names.values.update(zip(proto.output, made, strict=False))
        for at, name in enumerate(proto.output):
            names.makers.setdefault(name, (names, proto, at))

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Where an exception leaves, nothing was built."""
        lengths = self.lengths
        held = self.parameters, self._lifted, self.sizes, self.walks
        with attempt(self.program, *held, lengths.atoms, lengths.named):
            yield

    def tried(self, read: Callable[[], T]) -> T | None:
        """What is read; `None`, and nothing was built or noted, where that cannot be."""
        noted, count = len(self.problems), self._count
        self.trying += 1
        try:
            with self.attempt():
                return read()
        except Endless:
            raise
        except (BracesError, Missing):
            del self.problems[noted:]
            self._count = count
            return None
        finally:
            self.trying -= 1

    def trial(self, read: Callable[[], T]) -> T | None:
        """What would be read: nothing is built, and nothing noted."""
        found = list[T]()

        def seen() -> None:
            with self.program.building(SymbolTable(parent=self.program.current)):
                found.append(read())
            raise Missing("nothing is kept")

        self.tried(seen)
        return found[0] if found else None

    def _note(self, names: Names, proto: Any, error: BracesError) -> None:
        node = Node(names, proto, {})
        self.problems.append(Problem(f"{node.type}-{node.version}", str(node), error))

    def _made(self, names: Names, proto: Any) -> Sequence[Value]:
        """What a node gives, output by output."""
        function = self.functions.get(bodies.called_by(proto))
        if function is not None:
            return self._by_function(bodies.caller(names, proto, function), function)
        node = Node.of(names, proto)
        if node.type not in RULES and not bodies.has_body(proto, node.version):
            node.refuse("is an operator that cannot be read", INSTEAD.get(node.type))
        given = [names.value(name) if name else None for name in proto.input]
        found = self._folded(node, given, weights=False)
        if found:
            return found
        rule = RULES.get(node.type)
        return self._by_body(node) if rule is None else self._by_rule(node, rule)

    def _by_body(self, node: Node) -> Sequence[Value]:
        body = bodies.schema_body(node)
        assert body is not None, "what has a body has one"
        first = next((name for name in node.proto.output if name), node.proto.op_type)
        made = self._call(node, body, f"{self.path_of(node.names, first)}/")
        return in_declared_dtypes(node, made)

    def _by_function(self, node: Node, function: Any) -> Sequence[Value]:
        """A plain block; what is known goes in and out of it.

        Where its name, with those of the blocks around it, is too long for one, it is written
        out.
        """
        table, path = self.program.current, node.names.path
        body = bodies.written_out(function, node, {})
        called = cleaned(node.proto.name or node.proto.op_type).rpartition("/")[2]
        if not self.blocks or len(f"{path}{called}") > ROOM:
            return self._call(node, body, f"{self.path_of(node.names, called)}/")

        def built() -> Sequence[Value]:
            return self._call(node, body, self.program.current.names.prefix)

        with table.naming(path):
            return build_plain_block(called, built, bodies.runs_again(function))

    def _by_rule(self, node: Node, rule: Rule) -> Sequence[Value]:
        table = self.program.current
        first = next((name for name in node.proto.output if name), "")
        before, lifted = len(table.ops), len(self._lifted)
        called = first or node.proto.name
        with table.naming(f"{self.path_of(node.names, called)}/"):
            made = rule(node)
            if isinstance(made, tuple):
                return in_declared_dtypes(node, made)
            (made,) = in_declared_dtypes(node, (made,))
        if isinstance(made, Var) and first:
            kept = names_lifted(self._lifted, lifted)
            made = rename_made(table, before, made, self.path_of(node.names, first), kept)
        return (made,)

    @staticmethod
    def path_of(names: Names, name: str) -> str:
        """What a value of the model is called in the program."""
        return cleaned(f"{names.path}{cleaned(name)}")

    def _call(self, node: Node, body: bodies.FunctionBody, path: str) -> Sequence[Value]:
        """Read the nodes that stand for one, with names that begin with this path."""
        inner = Names(self, body.versions, None, path)
        for at, name in enumerate(body.inputs):
            given = node.proto.input[at] if at < node.count else ""
            inner.values[name] = node.names.value(given) if given else None
            if given:
                inner.makers[name] = (node.names, given, 0)
        with self._deeper():
            self.run(inner, body.nodes)
        given = node.proto.output
        for at, (name, wanted) in enumerate(zip(body.outputs, given, strict=False)):
            node.names.makers[wanted] = (inner, name, at)
        outputs = zip(body.outputs, (*given, *[""] * len(body.outputs)), strict=False)
        return [inner.value(name) if wanted else None for name, wanted in outputs]

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self._depth += 1
        if self._depth > DEEPEST:
            raise Endless(f"Functions and graphs of this model nest deeper than {DEEPEST}.")
        try:
            yield
        finally:
            self._depth -= 1

    def graph(self, outer: Names, graph: Any, given: Sequence[Value]) -> list[Value]:
        """Read a graph inside another one, and return what it gives."""
        inner = self._inside(outer, graph, given)
        return [inner.value(entry.name) for entry in graph.output]

    def in_place(self, node: Node, graph: Any) -> list[Value]:
        """Read a graph of a node in its place, and return what it gives."""
        inner = self._inside(node.names, graph, ())
        for at, (wanted, entry) in enumerate(
            zip(node.proto.output, graph.output, strict=False)
        ):
            node.names.makers[wanted] = (inner, entry.name, at)
        return [inner.value(entry.name) for entry in graph.output]

    def _inside(self, outer: Names, graph: Any, given: Sequence[Value]) -> Names:
        """The names of a graph that was read inside another one."""
        inner = outer.inner()
        for entry, value in zip(graph.input, given, strict=False):
            inner.values[entry.name] = value
        self.initializers(inner, graph)
        with self._deeper():
            self.run(inner, graph.node)
        return inner

    def initializers(self, names: Names, graph: Any) -> None:
        """Make what a graph brings along known by name."""
        for tensor in graph.initializer:
            self._initializer(names, tensor.name, lambda tensor=tensor: array_of(tensor))
        for sparse in graph.sparse_initializer:
            self._initializer(names, sparse.values.name, lambda sparse=sparse: dense(sparse))

    def _initializer(self, names: Names, name: str, read: Callable[[], Array]) -> None:
        try:
            array = read()
        except BracesError as error:
            self.problems.append(Problem("initializer", f"`{name}`", error))
            names.values[name] = Missing
            return
        trained = array.ndim > 0 and is_float(array.dtype)
        weight = self.path_of(names, name)
        if names.outer is None and name in self.updates:
            kind = PARAMETER if trained else STATE
            made = persistable(self.program, self.parameters, weight, array, kind)
            names.values[name] = made
        else:
            names.values[name] = Known(array, array.dtype, weight if trained else "")

    # ---- values ------------------------------------------------------------------------------

    def lift(self, value: Value) -> Var:
        """A value as a variable; a constant becomes one where it is read."""
        if isinstance(value, Var):
            return value
        if not isinstance(value, Known):
            what = "a sequence" if isinstance(value, list) else "an optional without a value"
            raise ProgramError(f"An array is read, and {what} is given.")
        table = self.program.table if value.weight else self.program.current
        key = id(value), id(table)
        found = self._lifted.get(key)
        if found is None:
            found = self._lifted[key] = Lifted(value, table, self._lift(value))
        return found.var

    def _lift(self, value: Known) -> Var:
        if value.weight:
            return persistable(
                self.program, self.parameters, value.weight, value.array, PARAMETER
            )
        return written(self.program, self.parameters, value)

    # ---- values that are known ---------------------------------------------------------------

    def known(self, names: Names, name: str) -> Known | None:
        """A value, computed while the model is read where that is possible.

        Raises:
            NeedsValue: It follows from inputs, whose examples are given.
        """
        roots = set[str]()
        found = self._follow(names, name, FARTHEST, roots)
        wanted = roots.intersection(self.examples)
        if found is None and wanted:
            raise NeedsValue(wanted)
        return found

    def _follow(self, names: Names, name: str, far: int, roots: set[str]) -> Known | None:
        value = names.value(name)
        if isinstance(value, Known):
            return value
        held = holder(names, name)
        maker = held.makers.get(name) if held is not None else None
        if maker is None or not far:
            roots.add(name)
            return None
        seen, proto, at = maker
        if isinstance(proto, str):
            return self._follow(seen, proto, far - 1, roots)
        if any(attribute.HasField("g") for attribute in proto.attribute):
            for read in read_by(proto):
                if holder(seen, read) is not None:
                    self._follow(seen, read, far - 1, roots)
            return None
        node = Node.of(seen, proto)
        inputs = [self._follow(seen, n, far - 1, roots) if n else None for n in proto.input]
        missing = any(v is None and n for v, n in zip(inputs, proto.input, strict=True))
        made = () if missing else self._folded(node, inputs, weights=True)
        if at >= len(made):
            return None
        if held is not None:
            held.values[name] = made[at]
        return made[at]

    def _folded(self, node: Node, given: Sequence[Value], *, weights: bool) -> Sequence[Known]:
        """What a node gives where its inputs are known, else nothing."""
        inputs = list[Known | None]()
        for value in given:
            if value is not None and not isinstance(value, Known):
                return ()
            if value is not None and value.weight and not weights:
                return ()
            inputs.append(value)
        return fold(node, inputs)


@contextmanager
def _sensible(proto: Any) -> Generator[None]:
    """Inside, what only a node that makes no sense leads to is said of the node.

    Attributes and counts are held against ONNX's schemas before a rule runs; what they leave
    open, a permutation of other axes, say, a rule trips over. Models that are right never come
    here: ONNX's own suite holds that.
    """
    sizes = "Fix sizes that it follows from, sizes={'N': 1}."
    otherwise = "onnx.checker.check_model(model) may tell more."
    with sensible(operator_of(proto), sizes, otherwise):
        yield
