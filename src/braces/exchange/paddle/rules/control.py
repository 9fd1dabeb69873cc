"""Rules of what owns blocks, of feeds and fetches, and of what only looks.

A block of Paddle writes names of the blocks around it. In a loop such names are memories. A
block with a condition is kept until it is known who reads what it wrote: mostly `select_input`,
which chooses between two such blocks, and is one branch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

import numpy as np

from braces.builder.var import Var
from braces.dtypes import BOOL, ListType, Type
from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import in_dtype, scalar
from braces.exchange.common.values.constants import Known
from braces.exchange.paddle.graph.environment import Case, Held, Names, Value
from braces.exchange.paddle.graph.node import Node, Results, Rule
from braces.exchange.paddle.rules.tensor_array import begun, unwritten
from braces.frontend.control import lists
from braces.frontend.control.rnn import create_rnn
from braces.frontend.control.while_loop import create_while
from braces.frontend.core import functions as ops
from braces.ir.records import Body
from braces.ops.control.construct.build import build_block, build_switch

UNDEFINED = (1.77113e27, 1.77113e279)
"""Numbers by which Paddle says that a name stands for nothing yet."""


def owned(node: Node) -> int:
    """The number of the block that an operator owns.

    Raises:
        ProgramError: It owns none.
    """
    found = node.op.blocks.get("sub_block", ())
    if len(found) != 1:
        node.refuse("owns no block")
    return found[0]


def written(node: Node, at: int) -> list[str]:
    """The names around a block that operators in it write, in order, each once."""
    block = node.runner.block(at)
    found = (name for op in block.operators for name in op.made())
    return list(dict.fromkeys(name for name in found if name not in block.variables))


# ---- loops -----------------------------------------------------------------------------------


def while_(node: Node) -> Results:
    """A loop: names that stand for something before it, and that its block writes, change.

    Arrays of arrays may begin in it; and so may what Paddle calls undefined before.
    """
    asked, at = node.name("Condition"), owned(node)
    names = [name for name in written(node, at) if begun(node.names, name)]
    later = [name for name in written(node, at) if unwritten(node.names, name)]
    if asked not in names:
        node.refuse(f"never writes its condition `{asked:.80}`, and would not end")
    later += [name for name in names if undefined(node.names.find(name))]
    names = [name for name in names if name not in later]
    before = {name: node.runner.lift(node.names.value(name)) for name in names}
    if later:
        types = node.runner.tried(lambda: _types_after(node, at, before, asked, later))
        before |= {name: blank(type_) for name, type_ in types.items()}
    finals = _loop(node, at, before, asked)
    node.names.values.update(zip(before, finals, strict=True))
    return {}


def _loop(node: Node, at: int, before: Mapping[str, Var], asked: str) -> list[Var]:
    """The loop around a block whose memories begin so: what they are in the end."""
    loop = create_while()
    with loop.block() as body:
        memories = {name: body.add_memory(init=value) for name, value in before.items()}
        body.set_condition(in_dtype(scalar(memories[asked]), BOOL))
        inner = _read(node, at, {name: memory.pre() for name, memory in memories.items()})
        for name, memory in memories.items():
            memory.update(fitting(node.runner.lift(inner.value(name)), memory))
    return [loop.final(memory) for memory in memories.values()]


def _read(node: Node, at: int, memories: Mapping[str, Var]) -> Names:
    """The names of a block that was read, where some stand for these."""
    inner = node.names.inner()
    inner.values.update(memories)
    node.runner.run(inner, at)
    return inner


def _types_after(
    node: Node, at: int, before: Mapping[str, Var], asked: str, names: Sequence[str]
) -> dict[str, Type]:
    """The types that names have behind a block in which they begin."""
    found = dict[str, Type]()
    body = create_while().block()
    with body:
        memories = {name: body.add_memory(init=value) for name, value in before.items()}
        inner = _read(node, at, {name: memory.pre() for name, memory in memories.items()})
        for name in names:
            if begun(inner, name) and not undefined(inner.find(name)):
                found[name] = node.runner.lift(inner.value(name)).type
        body.set_condition(in_dtype(scalar(memories[asked]), BOOL))
        for memory in memories.values():
            memory.update(memory)
    return found


def blank(type_: Type) -> Var:
    """What a name stands for where nothing says it: zeros, or no arrays."""
    if isinstance(type_, ListType):
        return lists.create_list(type_.element.shape, type_.element.dtype)
    return ops.broadcast_to(np.zeros((), type_.dtype), type_.shape)


def undefined(value: Held) -> bool:
    """Whether a value is the one by which Paddle says that a name stands for nothing."""
    if not isinstance(value, Known) or value.array.size != 1 or value.array.dtype.kind != "f":
        return False
    return any(np.isclose(value.array.item(), number, rtol=1e-4) for number in UNDEFINED)


def fitting(value: Var, memory: Var) -> Var:
    """A value in the dtype of a memory; one number in its shape."""
    if isinstance(value.type, ListType):
        return value
    value = in_dtype(value, memory.dtype)
    single = all(n == 1 for n in (*value.shape, *memory.shape))
    return ops.reshape(value, memory.shape) if single and value.ndim != memory.ndim else value


def recurrent(node: Node) -> Results:
    """A counted loop over the first axis of its inputs: a StaticRNN."""
    at, back = owned(node), bool(node.attr("reverse", False))
    given, states = node.given("inputs"), node.vars("initial_states")
    before, after = node.many("ex_states"), node.many("states")
    made = node.made("outputs")
    xs = node.vars("inputs")
    rnn = create_rnn(reverse=back)
    with rnn.stepnet() as net:
        inner = node.names.inner()
        inner.values.update(zip(given, (net.add_input(x) for x in xs), strict=True))
        memories = [net.add_memory(init=state) for state in states]
        inner.values.update(zip(before, (m.pre() for m in memories), strict=True))
        node.runner.run(inner, at)
        for memory, name in zip(memories, after, strict=True):
            memory.update(fitting(node.runner.lift(inner.value(name)), memory))
        rows = [node.runner.lift(inner.value(name)) for name in made]
        net.add_output(*(ops.identity(row) for row in rows))
    found = rnn()
    return {"outputs": [found] if isinstance(found, Var) else list(found)}


# ---- branches --------------------------------------------------------------------------------


def conditional(node: Node) -> Results:
    """A block that runs if a condition holds."""
    if not node.attr("is_scalar_condition", False):
        node.refuse("whose condition has a value for each row is not read")
    at, made = owned(node), node.made("Out")
    known = node.known("Cond")
    if known is not None and known.plain:
        if not known.numbers().ravel()[0]:
            return {}
        inner = node.names.inner()
        node.runner.run(inner, at)
        return {"Out": [inner.value(name) for name in made]}
    asked, names = node.var("Cond"), node.names.frozen()
    before = [node.names.find(name) for name in made]
    return {"Out": _cases(names, at, made, asked, before)}


def _cases(
    names: Names, at: int, made: Sequence[str], asked: Var, before: Sequence[Held]
) -> list[Value]:
    """What a block gives if a condition holds, name by name."""
    found = list[Case]()
    for name, old in zip(made, before, strict=True):
        kept = None if isinstance(old, type) or undefined(old) else old
        found.append(Case(names, at, name, asked, kept, found))
    return list(found)


def of_cases(cases: Sequence[Value], lift: Names) -> Iterator[Var]:
    """Values of one alternative: what one block gives is built once."""
    inside = dict[tuple[int, int], Names]()
    for value in cases:
        if not isinstance(value, Case):
            yield lift.runner.lift(value)
            continue
        key = value.block, id(value.asked)
        if key not in inside:
            inside[key] = value.names.inner()
            value.names.runner.run(inside[key], value.block)
        yield value.names.runner.lift(inside[key].value(value.name))


def alternatives(names: Names, index: Var, each: Sequence[Sequence[Value]]) -> tuple[Var, ...]:
    """One of several rows of values, as an index says."""
    bodies = [_body(names, values) for values in each]
    return build_switch(ops.cast(scalar(index), "int32"), bodies, total=True)


def _body(names: Names, values: Sequence[Value]) -> Body:
    return build_block((), lambda _: list(of_cases(values, names)))


def resolved(case: Case) -> dict[Case, Var]:
    """What names stand for behind a block that ran if a condition held.

    Raises:
        ProgramError: One stands for something only if it did.
    """
    if case.before is None:
        raise ProgramError(
            f"`{case.name:.80}` is read, and stands for something only where a condition holds."
        )
    together = [one for one in case.beside if one.before is not None]
    rows = [[one.before for one in together], together]
    made = alternatives(case.names, case.asked, rows)
    return dict(zip(together, made, strict=True))


def select(node: Node) -> Results:
    """One of several values, as a mask says; what follows with the same mask, in one branch."""
    values, known = node.values("X"), node.known("Mask")
    if known is not None and known.plain:
        return {"Out": values[int(known.numbers().ravel()[0])]}
    chosen = node.runner.chosen
    key = (id(node.names), *map(id, values))
    if key not in chosen:
        together = _together(node)
        made = alternatives(node.names, node.var("Mask"), list(zip(*together, strict=True)))
        for each, one_made in zip(together, made, strict=True):
            chosen[id(node.names), *map(id, each)] = one_made, each
    return {"Out": chosen[key][0]}


def _together(node: Node) -> list[list[Value]]:
    """The values of this operator and of those right behind it with the same mask."""
    mask = node.given("Mask")
    alike = takewhile(
        lambda op: op.type == "select_input" and op.inputs.get("Mask") == mask, node.later
    )
    found = [node.values("X")]
    for op in alike:
        values = [node.names.find(name) for name in op.inputs.get("X", ())]
        if len(values) != len(found[0]) or any(
            v is None or isinstance(v, type) for v in values
        ):
            break
        found.append([v for v in values if not isinstance(v, type)])
    return found


# ---- feeds and fetches -----------------------------------------------------------------------


def feed(node: Node) -> Results:
    """An input of the program."""
    return {"Out": node.runner.feed(node.made("Out")[0])}


def fetch(node: Node) -> Results:
    """An output of the program."""
    node.runner.fetch(int(node.attr("col", 0)), node.name("X"), node.value("X"))
    return {}


def same(node: Node) -> Results:
    """The value itself: a copy of it, or one that is printed."""
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
