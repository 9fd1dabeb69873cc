"""Rules of control flow: branches, loops, and inlined graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.exchange.torch.rules.tensor.creation_random import scalar
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.constructs import build_block, build_switch, create_rnn, create_while
from braces.extend.types import BOOL

Graph = Callable[..., list[Any]]


def variables(values: Sequence[Any]) -> list[Var]:
    """Return block results or loop carries as variables: numbers become arrays."""
    return [value if isinstance(value, Var) else scalar(value) for value in values]


def cond(asked: Any, yes: Graph, no: Graph, operands: Sequence[Any] = ()) -> list[Any]:
    """A branch; a known condition selects one graph at import time."""
    if isinstance(asked, bool):
        return (yes if asked else no)(*operands)

    def case(graph: Graph) -> Any:
        return build_block((), lambda _: variables(graph(*operands)))

    index = ops.cast(ops.reshape(operand(asked, BOOL), ()), "int32")
    return list(build_switch(index, [case(no), case(yes)], total=True))


def while_loop(
    going: Graph, body: Graph, carried: Sequence[Any], captures: Sequence[Any] = ()
) -> list[Var]:
    """A loop with a condition."""
    loop = create_while()
    with loop.block() as block:
        memories = [block.add_memory(init=value) for value in variables(carried)]
        before = [memory.pre() for memory in memories]
        (condition,) = variables(going(*before, *captures))
        block.set_condition(ops.reshape(condition, ()))
        after = variables(body(*before, *captures))
        for memory, value in zip(memories, after, strict=True):
            memory.update(cast_to_dtype(value, memory.dtype))
    return [loop.final(memory) for memory in memories]


def scan(
    step: Graph, init: Sequence[Var], xs: Sequence[Var], captures: Sequence[Any] = ()
) -> list[Var]:
    """A counted loop over the first axis: the final carries, and the stacked outputs."""
    rnn = create_rnn()
    with rnn.stepnet() as net:
        slices_ = [net.add_input(x) for x in xs]
        memories = [net.add_memory(init=value) for value in init]
        results = variables(step(*(memory.pre() for memory in memories), *slices_, *captures))
        for memory, value in zip(memories, results, strict=False):
            memory.update(cast_to_dtype(value, memory.dtype))
        collected = [ops.identity(row) for row in results[len(memories) :]]
        if collected:
            net.add_output(*collected)
    stacked = rnn() if collected else None
    ends = [rnn.final(memory) for memory in memories]
    return [*ends, *([stacked] if isinstance(stacked, Var) else stacked or ())]


def map_slices(body: Graph, xs: Sequence[Var], captures: Sequence[Any] = ()) -> list[Var]:
    """A map of a graph over the slices of the first axis."""
    return scan(body, (), xs, captures)


def inline_graph(*given: Any) -> list[Any]:
    """A graph with torch execution settings, inlined."""
    at = next(i for i, value in enumerate(given) if callable(value))
    return given[at](*given[at + 1 :])


def subgraph(graph: Graph, name: str, *given: Any) -> list[Any]:
    """A shared graph, inlined."""
    return graph(*given)


def with_effects(token: Any, operator: Any, *given: Any, **options: Any) -> tuple[Any, ...]:
    """Ordered side effects, which are checks and are dropped.

    Raises:
        ProgramError: If the operator is not a check.
    """
    name = str(operator).removeprefix("aten.").partition(".")[0]
    if name not in ("_linalg_check_errors", "_print", "_assert_async"):
        raise ProgramError(f"unsupported operator with side effects `{name}`.")
    return (None,)


CONTROL: Mapping[str, Callable[..., Any]] = {
    "python.cond": cond,
    "python.invoke_subgraph": subgraph,
    "python.map_impl": map_slices,
    "python.scan": scan,
    "python.with_effects": with_effects,
    "python.while_loop": while_loop,
    "python.wrap_with_autocast": inline_graph,
    "python.wrap_with_set_grad_enabled": inline_graph,
}
