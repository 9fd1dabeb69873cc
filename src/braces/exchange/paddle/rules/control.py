"""Rules of operators with blocks, of feeds and fetches, and of prints and assertions.

A block of Paddle writes names of the enclosing blocks. In a loop such names become memories. A
conditional block is kept until its results are read: mostly by `select_input`, which chooses
between two such blocks, and becomes one branch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import cast_to_dtype, scalar
from braces.exchange.common.values.constants import Constant
from braces.exchange.paddle.graph.environment import BlockScope, ConditionalResult, Held, Value
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.exchange.paddle.rules.tensor.tensor_array import has_value, is_unwritten_array
from braces.extend import functions as ops, lists
from braces.extend.building import Var
from braces.extend.constructs import build_block, build_switch, create_rnn, create_while
from braces.extend.programs import Body
from braces.extend.types import BOOL, ListType, Type

UNDEFINED = (1.77113e27, 1.77113e279)
"""The numbers that Paddle uses for undefined names."""


def owned_block(node: PaddleOp) -> int:
    """Return the index of the block that an operator owns.

    Raises:
        ProgramError: If the operator owns no block.
    """
    blocks_ = node.op.blocks.get("sub_block", ())
    if len(blocks_) != 1:
        node.refuse(f"expected one sub_block, got {len(blocks_)}")
    return blocks_[0]


def outer_writes(node: PaddleOp, at: int) -> list[str]:
    """Return the outer names that a block writes, in order and without duplicates."""
    block = node.runner.block(at)
    output_names = (name for op in block.operators for name in op.output_names())
    return list(dict.fromkeys(name for name in output_names if name not in block.variables))


# ---- loops -----------------------------------------------------------------------------------


def while_(node: PaddleOp) -> Results:
    """Convert a loop: the memories are names with a value before it that its block writes.

    Tensor arrays may begin inside the loop, and so may names that are undefined before it.
    """
    condition, at = node.name("Condition"), owned_block(node)
    names = [name for name in outer_writes(node, at) if has_value(node.names, name)]
    late_names = [
        name for name in outer_writes(node, at) if is_unwritten_array(node.names, name)
    ]
    if condition not in names:
        node.refuse(f"the body never assigns the condition `{condition:.80}`")
    late_names += [name for name in names if undefined(node.names.find(name))]
    names = [name for name in names if name not in late_names]
    initial = {name: node.runner.lift(node.names.value(name)) for name in names}
    if late_names:
        types = node.runner.tried(
            lambda: _types_after(node, at, initial, condition, late_names)
        )
        initial |= {name: initial_value(type_) for name, type_ in types.items()}
    finals = _loop(node, at, initial, condition)
    node.names.values.update(zip(initial, finals, strict=True))
    return {}


def _loop(node: PaddleOp, at: int, before: Mapping[str, Var], condition: str) -> list[Var]:
    """Build the loop around a block with these initial memories; return the final ones."""
    loop = create_while()
    with loop.block() as body:
        memories = {name: body.add_memory(init=value) for name, value in before.items()}
        body.set_condition(cast_to_dtype(scalar(memories[condition]), BOOL))
        inner = _read_body(node, at, {name: memory.pre() for name, memory in memories.items()})
        for name, memory in memories.items():
            memory.update(fit_to_memory(node.runner.lift(inner.value(name)), memory))
    return [loop.final(memory) for memory in memories.values()]


def _read_body(node: PaddleOp, at: int, memories: Mapping[str, Var]) -> BlockScope:
    """Read a block with these memories, and return its names."""
    inner = node.names.inner()
    inner.values.update(memories)
    node.runner.run(inner, at)
    return inner


def _types_after(
    node: PaddleOp, at: int, before: Mapping[str, Var], condition: str, names: Sequence[str]
) -> dict[str, Type]:
    """Return the types of names that begin inside a block."""
    types = dict[str, Type]()
    body = create_while().block()
    with body:
        memories = {name: body.add_memory(init=value) for name, value in before.items()}
        inner = _read_body(node, at, {name: memory.pre() for name, memory in memories.items()})
        for name in names:
            if has_value(inner, name) and not undefined(inner.find(name)):
                types[name] = node.runner.lift(inner.value(name)).type
        body.set_condition(cast_to_dtype(scalar(memories[condition]), BOOL))
        for memory in memories.values():
            memory.update(memory)
    return types


def initial_value(type_: Type) -> Var:
    """Return the initial value of an undefined name: zeros, or an empty list."""
    if isinstance(type_, ListType):
        return lists.create(type_.element.shape, type_.element.dtype)
    return ops.broadcast_to(np.zeros((), type_.dtype), type_.shape)


def undefined(value: Held) -> bool:
    """Return whether a value is Paddle's marker of an undefined name."""
    if (
        not isinstance(value, Constant)
        or value.array.size != 1
        or value.array.dtype.kind != "f"
    ):
        return False
    return any(np.isclose(value.array.item(), number, rtol=1e-4) for number in UNDEFINED)


def fit_to_memory(value: Var, memory: Var) -> Var:
    """Return a value in the dtype of a memory; a single number also in its shape."""
    if isinstance(value.type, ListType):
        return value
    value = cast_to_dtype(value, memory.dtype)
    single = all(n == 1 for n in (*value.shape, *memory.shape))
    return ops.reshape(value, memory.shape) if single and value.ndim != memory.ndim else value


def recurrent(node: PaddleOp) -> Results:
    """Convert a StaticRNN: a counted loop over the first axis of its inputs."""
    at, back = owned_block(node), bool(node.attr("reverse", False))
    sequences, states = node.input_names("inputs"), node.vars("initial_states")
    old_names, new_names = node.many("ex_states"), node.many("states")
    output_names = node.output_names("outputs")
    xs = node.vars("inputs")
    rnn = create_rnn(reverse=back)
    with rnn.stepnet() as net:
        inner = node.names.inner()
        inner.values.update(zip(sequences, (net.add_input(x) for x in xs), strict=True))
        memories = [net.add_memory(init=state) for state in states]
        inner.values.update(zip(old_names, (m.pre() for m in memories), strict=True))
        node.runner.run(inner, at)
        for memory, name in zip(memories, new_names, strict=True):
            memory.update(fit_to_memory(node.runner.lift(inner.value(name)), memory))
        results = [node.runner.lift(inner.value(name)) for name in output_names]
        net.add_output(*(ops.identity(row) for row in results))
    outputs = rnn()
    return {"outputs": [outputs] if isinstance(outputs, Var) else list(outputs)}


# ---- branches --------------------------------------------------------------------------------


def conditional(node: PaddleOp) -> Results:
    """Convert a conditional block."""
    if not node.attr("is_scalar_condition", False):
        node.refuse("expected a scalar condition")
    at, output_names = owned_block(node), node.output_names("Out")
    known = node.known_value("Cond")
    if known is not None and known.plain:
        if not known.numbers().ravel()[0]:
            return {}
        inner = node.names.inner()
        node.runner.run(inner, at)
        return {"Out": [inner.value(name) for name in output_names]}
    predicate, names = node.var("Cond"), node.names.frozen()
    previous = [node.names.find(name) for name in output_names]
    return {"Out": _cases(names, at, output_names, predicate, previous)}


def _cases(
    names: BlockScope,
    at: int,
    result_names: Sequence[str],
    condition: Var,
    before: Sequence[Held],
) -> list[Value]:
    """Return the results of a conditional block, name by name."""
    results = list[ConditionalResult]()
    for name, previous in zip(result_names, before, strict=True):
        previous_value = None if isinstance(previous, type) or undefined(previous) else previous
        results.append(ConditionalResult(names, at, name, condition, previous_value, results))
    return list(results)


def build_cases(cases: Sequence[Value]) -> Iterator[Value]:
    """Yield the values of one alternative; each block is built once."""
    built_blocks = dict[tuple[int, int], BlockScope]()
    for value in cases:
        if not isinstance(value, ConditionalResult):
            yield value
            continue
        key = value.block, id(value.asked)
        if key not in built_blocks:
            built_blocks[key] = value.names.inner()
            value.names.runner.run(built_blocks[key], value.block)
        yield built_blocks[key].value(value.name)


def build_alternatives(
    names: BlockScope, index: Var, each: Sequence[Sequence[Value]]
) -> tuple[Var, ...]:
    """Build a switch between several rows of values.

    A name that is undefined in some rows is zero in these, in the type that it has in another.
    """
    built = [_body(names, values, [None] * len(values)) for values in each]
    types = [
        next((type_ for type_ in column if type_ is not None), None)
        for column in zip(*(types for _, types in built), strict=True)
    ]
    bodies = [
        _body(names, values, types)[0] if None in row_types else body
        for values, (body, row_types) in zip(each, built, strict=True)
    ]
    return build_switch(ops.cast(scalar(index), "int32"), bodies, total=True)


def _body(
    names: BlockScope, values: Sequence[Value], types: Sequence[Type | None]
) -> tuple[Body, list[Type | None]]:
    """Build the block of one alternative, and return the types of its results.

    Args:
        names: The names in scope.
        values: The results; an undefined one, whose type is returned as `None`, is zero in the
            type that is given for it.
        types: The types of undefined results.
    """
    types_found = list[Any]()

    def results() -> Iterator[Var]:
        for value, type_ in zip(build_cases(values), types, strict=True):
            if type_ is not None and undefined(value):
                result = initial_value(type_)
            else:
                result = names.runner.lift(value)
            types_found.append(None if undefined(value) else result.type)
            yield result

    return build_block((), lambda _: list(results())), types_found


def resolve_cases(case: ConditionalResult) -> dict[ConditionalResult, Var]:
    """Return the values of names after a conditional block.

    Raises:
        ProgramError: If a name is bound only if the condition holds.
    """
    if case.before is None:
        raise ProgramError(
            f"`{case.name:.80}` may be undefined: it is assigned in a branch only."
        )
    known_cases = [case_ for case_ in case.beside if case_.before is not None]
    alternative_rows = [[case_.before for case_ in known_cases], known_cases]
    results = build_alternatives(case.names, case.asked, alternative_rows)
    return dict(zip(known_cases, results, strict=True))


def select(node: PaddleOp) -> Results:
    """Select among values by a mask; following selections by the same mask share the branch."""
    values, known = node.values("X"), node.known_value("Mask")
    if known is not None and known.plain:
        return {"Out": values[int(known.numbers().ravel()[0])]}
    chosen = node.runner.chosen
    key = (id(node.names), *map(id, values))
    if key not in chosen:
        groups = _group_by_mask(node)
        results = build_alternatives(
            node.names, node.var("Mask"), list(zip(*groups, strict=True))
        )
        for values_, result in zip(groups, results, strict=True):
            chosen[id(node.names), *map(id, values_)] = result, (node.names, *values_)
    return {"Out": chosen[key][0]}


def _group_by_mask(node: PaddleOp) -> list[list[Value]]:
    """Return the values of this and of directly following selections by the same mask."""
    mask = node.input_names("Mask")
    same_mask_ops = takewhile(
        lambda op: op.type == "select_input" and op.inputs.get("Mask") == mask, node.later
    )
    groups = [node.values("X")]
    for op in same_mask_ops:
        values = [node.names.find(name) for name in op.inputs.get("X", ())]
        if len(values) != len(groups[0]) or any(
            v is None or isinstance(v, type) for v in values
        ):
            break
        groups.append([v for v in values if not isinstance(v, type)])
    return groups


# ---- feeds and fetches -----------------------------------------------------------------------


def feed(node: PaddleOp) -> Results:
    """An input of the program."""
    return {"Out": node.runner.feed(node.output_names("Out")[0])}


def fetch(node: PaddleOp) -> Results:
    """An output of the program."""
    node.runner.fetch(int(node.attr("col", 0)), node.name("X"), node.value("X"))
    return {}


def same(node: PaddleOp) -> Results:
    """The identity: a copy, or a printed value."""
    return node.value("In" if node.has("In") else "X")


CONTROL: Mapping[str, Rule] = {
    "assert": lambda node: {},
    "conditional_block": conditional,
    "feed": feed,
    "fetch": fetch,
    "print": same,
    "recurrent": recurrent,
    "rnn_memory_helper": same,
    "select_input": select,
    "while": while_,
}
