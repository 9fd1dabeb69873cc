"""Rules of what owns blocks, of feeds and fetches, and of what only looks.

A block of Paddle writes names of the blocks around it. In a loop such names are memories. A
block with a condition is kept until it is known who reads what it wrote: mostly `select_input`,
which chooses between two such blocks, and is one branch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from braces.builder.var import Var
from braces.dtypes import BOOL, ListType
from braces.errors import ProgramError
from braces.exchange.onnx_in.rules.arithmetic import in_dtype
from braces.exchange.onnx_in.rules.control import scalar
from braces.exchange.paddle_in.node import Node, Results, Rule
from braces.exchange.paddle_in.values import Case, Names, Value
from braces.frontend import functions as ops
from braces.frontend.rnn import create_rnn
from braces.frontend.while_blocks import create_while
from braces.ir.records import Body
from braces.ops.control.building import build_block, build_switch


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
    """A loop: names that stand for something before it, and that its block writes, change."""
    asked, at = node.name("Condition"), owned(node)
    names = [name for name in written(node, at) if node.names.find(name) is not None]
    if asked not in names:
        node.refuse(f"never writes its condition `{asked:.80}`, and would not end")
    init = [node.runner.lift(node.names.value(name)) for name in names]
    loop = create_while()
    with loop.block() as body:
        memories = [body.add_memory(init=value) for value in init]
        before = dict(zip(names, memories, strict=True))
        body.set_condition(in_dtype(scalar(before[asked]), BOOL))
        inner = node.names.inner()
        inner.values.update(before)
        node.runner.run(inner, at)
        for name, memory in before.items():
            memory.update(fitting(node.runner.lift(inner.value(name)), memory))
    node.names.values.update(zip(names, map(loop.final, memories), strict=True))
    return {}


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
        inner.values.update(zip(before, memories, strict=True))
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
    return {
        "Out": [
            Case(names, at, name, asked, None if isinstance(old, type) else old)
            for name, old in zip(made, before, strict=True)
        ]
    }


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


def resolved(case: Case) -> Var:
    """What a name stands for behind a block that ran if a condition held.

    Raises:
        ProgramError: It stands for something only if it did.
    """
    if case.before is None:
        raise ProgramError(
            f"`{case.name:.80}` is read, and stands for something only where a condition holds."
        )
    (made,) = alternatives(case.names, case.asked, [[case.before], [case]])
    return made


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
