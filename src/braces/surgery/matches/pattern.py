"""Patterns: functions of wildcards, whose operators are searched for in programs.

    def before(x, w, *, axis):
        return br.softmax(br.matmul(x, w), axis=axis)

The function builds its operators in a scratch program. `x` and `w` are data there, and match
any variable; `axis` matches any attribute. Operators have types, so a pattern is built for
sample types first: the skeleton, which finds candidates by operator types and slots. At each
candidate it is built again for the types of that place, and compared with attributes. One
pattern thus serves all ranks and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, product
from typing import Any, cast

from braces.builder.builder import Builder
from braces.builder.user_functions import calling, check_takes, function_text, signature_of
from braces.builder.var import Var, expose
from braces.define.axes.axis_map import shape_of
from braces.dims import Size
from braces.dtypes import BOOL, FLOAT32, INT64, TensorType, Type
from braces.errors import BracesError, ProgramError
from braces.frontend.core.pytree import tree_leaves
from braces.ir.records import CAPTURES, DATA, Body, Op
from braces.ir.walk import ancestors, dimensions, producers
from braces.surgery.matches.alternatives import Choices, all_choices
from braces.surgery.matches.type_hint import SAMPLE_SIZE, TypeHint, read_hint

SAMPLES: tuple[Any, ...] = (0, 0.5, False, "float32", (0,), (8, 8), None, 1)
"""Sample values of attribute wildcards."""
MOST_SAMPLES = 64
FIRST_UNNAMED = 1_000_000
"""Number of the first unnamed size in scratch programs; programs have smaller ones."""


@dataclass(frozen=True, eq=False)
class PatternGraph:
    """A pattern, built for some types.

    Attributes:
        body: The variables.
        makers: The operators of the outputs, by the names that they bind.
        outputs: Names of the outputs.
        choice: The alternative of each `br.any_of`.
        ops: All operators that the outputs need, in inner blocks, too.
        sizes: Names of the sizes of the wildcards.
    """

    body: Body
    makers: Mapping[str, Op]
    outputs: tuple[str, ...]
    choice: tuple[int, ...]
    ops: tuple[Op, ...]
    sizes: frozenset[str]

    @cached_property
    def steps(self) -> int:
        """Number of operators that read something."""
        return sum(any(True for _ in op.reads()) for op in self.ops)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the operators outside of inner blocks."""
        return frozenset(op.name for op in self.makers.values())

    @property
    def structure(self) -> object:
        """Operator types and slots without attributes: equal for equal skeletons."""
        slots = ((op.type, tuple(op.inputs.items()), tuple(op.outputs)) for op in self.ops)
        return self.choice, self.outputs, tuple(slots)


Built = PatternGraph | BracesError


class Pattern:
    """A function of wildcards, and a condition.

    Args:
        function: The function.
        where: Condition on a `Match`.

    Raises:
        ProgramError: If the function cannot be a pattern.
    """

    def __init__(
        self, function: Callable[..., Any], where: Callable[[Any], Any] | None = None
    ) -> None:
        if where is not None:
            check_takes(where, 1, "the condition `where`")
        self.function = function
        self.where = where
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = getattr(function, "__doc__", None)
        self.wildcards, self.attributes = _read_parameters(self.__name__, function)
        self._graphs: dict[object, Built] = {}
        self._skeletons: tuple[PatternGraph, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build the operators of the pattern."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        names = [*self.wildcards, *(f"{name}=" for name in self.attributes)]
        return f"<pattern {self.__name__}({', '.join(names)})>"

    @property
    def skeletons(self) -> tuple[PatternGraph, ...]:
        """The graphs for sample types, all of different structures.

        Raises:
            ProgramError: If the function fails for all sample types, or the graph can never
                match.
        """
        if not self._skeletons:
            self._skeletons = self._find_skeletons()
        return self._skeletons

    def build(
        self, types: Sequence[Type], values: Mapping[str, Any], choice: tuple[int, ...]
    ) -> Built:
        """Return the graph for types, attribute values and alternatives; cached."""
        key = tuple(types), tuple(map(repr, values.values())), choice
        if key not in self._graphs:
            choices = Choices(choice)
            self._graphs[key] = self._build(types, values, choices)
        return self._graphs[key]

    def _build(
        self, types: Sequence[Type], values: Mapping[str, Any], choices: Choices
    ) -> Built:
        with Builder() as scratch, choices.active():
            scratch.table.unifier.count = FIRST_UNNAMED
            scratch.table.names.take(_sizes(types))
            pairs = zip(self.wildcards, types, strict=True)
            infos = [scratch.table.new_var(name, type_, DATA) for name, type_ in pairs]
            wildcards = [Var(scratch, scratch.table, info.name) for info in infos]
            try:
                with calling(self.function, f"the pattern `{self.__name__}`"):
                    outputs = _outputs(self, self.function(*wildcards, **values), scratch)
                return _graph(scratch.definition.main, outputs, choices, _sizes(types))
            except BracesError as error:
                return error

    def _find_skeletons(self) -> tuple[PatternGraph, ...]:
        errors = list[BracesError]()
        graphs = self._graphs_for(self._sample_types(), errors)
        for own in (SAMPLE_SIZE, 1):
            numbers = (_with_sizes(types, own) for types in self._sample_types())
            graphs = graphs or self._graphs_for(numbers, errors)
        if not graphs:
            raise _unbuildable(self, errors[0] if errors else None)
        for graph in graphs.values():
            _check_can_match(self, graph)
        return tuple(graphs.values())

    def _graphs_for(
        self, samples: Iterable[tuple[Type, ...]], errors: list[BracesError]
    ) -> dict[object, PatternGraph]:
        """Return the graphs for sample types by structure; errors are appended."""
        graphs: dict[object, PatternGraph] = {}
        for types in samples:
            if graphs and any(type_ != FLOAT32 for type_ in _guessed_dtypes(types)):
                break
            for values in self._sample_values():
                tried = list(all_choices(lambda c, t=types, v=values: self._build(t, v, c)))
                built = [graph for graph in tried if isinstance(graph, PatternGraph)]
                graphs |= {graph.structure: graph for graph in built}
                errors += (each for each in tried if isinstance(each, BracesError))
                if built:
                    break
        return graphs

    def _sample_values(self) -> Iterator[dict[str, Any]]:
        count = len(self.attributes)
        alike = ((sample,) * count for sample in SAMPLES)
        for values in chain(alike, islice(product(SAMPLES, repeat=count), MOST_SAMPLES)):
            yield dict(zip(self.attributes, values, strict=True))

    def _sample_types(self) -> Iterator[tuple[Type, ...]]:
        hints = list(self.wildcards.values())
        for dtypes in _sample_dtypes(len(hints)):
            for ranks in _sample_ranks(len(hints)):
                yield tuple(
                    hint.sample(dtype, rank)
                    for hint, dtype, rank in zip(hints, dtypes, ranks, strict=True)
                )


def _guessed_dtypes(types: Sequence[Type]) -> list[Any]:
    return [type_.dtype for type_ in types if isinstance(type_, TensorType)]


def _with_sizes(types: tuple[Type, ...], own: int) -> tuple[Type, ...]:
    """Return types with a number for each symbol, as kernels of convolutions need.

    Args:
        types: The types.
        own: The size for symbols that the first type does not have.
    """
    first = _sizes(types[:1])

    def size(each: Size) -> int:
        if isinstance(each, int):
            return each
        return SAMPLE_SIZE if each.name in first else own

    return tuple(
        TensorType(each.dtype, tuple(map(size, each.shape)))
        if isinstance(each, TensorType)
        else each
        for each in types
    )


def _sample_dtypes(count: int) -> Iterator[tuple[Any, ...]]:
    yield (FLOAT32,) * count
    for dtype in (INT64, BOOL):
        for at in range(count):
            yield tuple(dtype if i == at else FLOAT32 for i in range(count))
    yield (INT64,) * count
    yield (BOOL,) * count


def _sample_ranks(count: int) -> list[tuple[int, ...]]:
    if not count:
        return [()]
    more = count - 1
    ranks = [(2,) * count, (3,) * count, (3, *(2,) * more), (1,) * count, (2, *(1,) * more)]
    ranks += [(4,) * count, (4, *(1,) * more), (0,) * count]
    steps = [(1, *(2,) * more), (2, *(3,) * more), (2, 3, *(2,) * (more - 1))]
    steps += [(rank, rank, *(1,) * (more - 1)) for rank in (4, 3, 5)]  # convolutions
    return list(dict.fromkeys(each for each in (*ranks, *steps) if len(each) == count))


def _read_parameters(
    name: str, function: Callable[..., Any]
) -> tuple[dict[str, TypeHint], tuple[str, ...]]:
    """Return the hints of wildcards by name, and the names of attribute wildcards."""
    if not callable(function):
        raise ProgramError(
            f"expected a function as a pattern, got {cast('Any', function)!r:.80}.",
            fix="Pass a function of variables: lambda x: br.tanh(x).",
        )
    parameters = signature_of(function, "a pattern").parameters.values()
    wildcards, attributes = dict[str, TypeHint](), list[str]()
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise ProgramError(
                f"the pattern `{name}` has a variable number of parameters, *{parameter.name}.",
                fix="Write a parameter for each variable.",
            )
        if parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            attributes.append(parameter.name)
        else:
            wildcards[parameter.name] = read_hint(parameter.annotation)
    return wildcards, tuple(attributes)


def _outputs(pattern: Pattern, result: Any, scratch: Builder) -> tuple[str, ...]:
    leaves = tree_leaves(result)
    for leaf in leaves:
        if not isinstance(leaf, Var) or leaf.program is not scratch:
            raise ProgramError(
                f"the pattern `{pattern.__name__}` returned {leaf!r:.80}; expected a variable "
                "that it computes.",
                fix="Return one variable, or a tuple of variables.",
            )
    return tuple(expose(leaf).name for leaf in leaves)


def _sizes(types: Sequence[Type]) -> frozenset[str]:
    """Return the names of the sizes in some types."""
    return frozenset(name for type_ in types for name in dimensions(tuple(shape_of(type_))))


def _graph(
    body: Body, outputs: tuple[str, ...], choices: Choices, sizes: frozenset[str]
) -> PatternGraph:
    needed = ancestors(body.ops, outputs)
    ops = [op for op in body.ops if not needed.isdisjoint(op.binds())]
    every = tuple(_needed_ops(body.ops, outputs))
    return PatternGraph(body, producers(ops), outputs, tuple(choices.taken), every, sizes)


def _needed_ops(ops: Sequence[Op], names: Iterable[str]) -> Iterator[Op]:
    """Yield the operators that some variables need, with those of inner blocks."""
    needed = ancestors(ops, names)
    for op in ops:
        if not needed.isdisjoint(op.binds()):
            yield op
            for body in op.bodies().values():
                yield from _needed_ops(body.ops, body.results)


def _unbuildable(pattern: Pattern, error: BracesError | None) -> ProgramError:
    return ProgramError(
        f"the pattern `{pattern.__name__}` cannot be built for any sample types.",
        at=function_text(pattern.function),
        given=str(error) if error else None,
        fix='Annotate its parameters with types: x: "f32[b,3,8,8]".',
    )


def _check_can_match(pattern: Pattern, graph: PatternGraph) -> None:
    """Raise an error if a graph matches nothing, whichever the program."""
    read = {name for op in graph.ops if not op.bodies() for name in op.reads()}
    read |= {name for op in graph.ops for name in _read_by_block_op(op)}
    unread = next((name for name in pattern.wildcards if name not in read), None)
    alone = next((name for name in graph.outputs if name not in graph.makers), None)
    problem, fix = None, None
    if not graph.outputs:
        problem, fix = "returns no variable", "Return the variable that it computes."
    elif alone is not None:
        problem = f"returns its input `{alone}`"
        fix = "Return variables that operators of the pattern compute."
    elif unread is not None:
        problem = f"does not use its parameter `{unread}`"
        fix = "Remove the parameter, or compute the result from it."
    elif (apart := _disconnected(graph)) is not None:
        problem = f"returns results that share no variable: `{apart}` and the first one"
        fix = "Rewrite by a pattern for each of them, one after the other."
    if problem:
        raise ProgramError(
            f"the pattern `{pattern.__name__}` {problem}, so it can never match.",
            at=function_text(pattern.function),
            fix=fix,
        )


def _disconnected(graph: PatternGraph) -> str | None:
    """Return an output that shares no operand, at any distance, with the others."""
    ops = graph.body.ops
    needs = {name: {name, *ancestors(ops, [name])} for name in graph.outputs}
    reached, rest = set[str](), list(needs)
    while rest:
        near = next((n for n in rest if not reached or not reached.isdisjoint(needs[n])), None)
        if near is None:
            return rest[0]
        reached |= needs[near]
        rest.remove(near)
    return None


def _read_by_block_op(op: Op) -> Iterator[str]:
    """Yield the operands of an operator other than captures, and the results of its blocks."""
    bodies = op.bodies()
    if bodies:
        yield from (
            name for slot, names in op.inputs.items() if slot != CAPTURES for name in names
        )
        yield from (name for body in bodies.values() for name in body.results)
