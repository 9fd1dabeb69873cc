"""Primitives that hold jaxprs of their own, and draws, which are made of others.

A call is put in its place. Random bits are those of Threefry, as JAX computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from braces.dims import product
from braces.dtypes import INT64, TensorType
from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if as loops
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.jaxpr_equation import WORD, Equation, Rule
from braces.exchange.onnx.writer.graph.loop_if import Trip
from braces.exchange.onnx.writer.primitives.shape import counted, reshaped, unsqueezed
from braces.lazy import extend, jax, jnp, keys

TURNS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA


def call(parameter: str) -> Rule:
    """The rule of a primitive that calls the jaxpr in one of its parameters."""

    def inlined(e: Equation, *values: str) -> list[str]:
        found = e.params[parameter]
        closed = found if hasattr(found, "consts") else extend.ClosedJaxpr(found, ())
        return e.call(closed, values)

    return inlined


def cond(e: Equation, index: str, *values: str) -> list[str]:
    """One of several jaxprs; JAX has brought the index into range."""
    branches = e.params["branches"]
    known = e.g.model.values.get(index)
    if known is not None:
        return e.call(branches[int(known)], values)
    types = [e.result(i) for i in range(len(e.eqn.outvars))]
    dtype = e.type().dtype

    def case(number: int, g: Graph) -> Sequence[str]:
        closed = branches[number]
        return e.runner.run(g, closed.jaxpr, closed.consts, values)

    def chosen(number: int, g: Graph) -> Sequence[str]:
        if number == len(branches) - 1:
            return case(number, g)
        here = widths.asked(g, "Equal", index, g.constant(number, dtype), dtype=dtype)
        rest = partial(chosen, number + 1)
        return loops.branch(g, f"cond.{number}", here, partial(case, number), rest, types)

    return list(chosen(0, e.g))


def platform(e: Equation) -> str:
    """Which of several ways a machine takes: that for all machines, which comes last."""
    return e.g.constant(len(e.params["platforms"]) - 1, e.dtype)


def while_loop(e: Equation, *values: str) -> list[str]:
    """A loop with a condition; one for each of several goes on while any holds.

    Those that ended keep what they have.
    """
    of_cond, of_body = e.params["cond_nconsts"], e.params["body_nconsts"]
    asked, read = values[:of_cond], values[of_cond : of_cond + of_body]
    inits, closed = values[of_cond + of_body :], e.params["cond_jaxpr"]
    several = len(closed.out_avals[0].shape)
    types = [e.result(i) for i in range(len(inits))]

    def running(g: Graph, carried: Sequence[str]) -> str:
        return e.runner.run(g, closed.jaxpr, closed.consts, [*asked, *carried])[0]

    def goes_on(g: Graph, carried: Sequence[str]) -> str:
        found = running(g, carried)
        if not several:
            return found
        count = g.op("ReduceSum", g.cast(found, INT64), keepdims=0)
        return g.op("Greater", count, g.constant(0, INT64))

    def step(g: Graph, index: str, carried: list[str]) -> Trip:
        del index
        body = e.params["body_jaxpr"]
        made = e.runner.run(g, body.jaxpr, body.consts, [*read, *carried])
        if several:
            mask = running(g, carried)
            made = [
                kept_where(g, mask, several, *pair)
                for pair in zip(made, carried, types, strict=True)
            ]
        return Trip(made, goes_on=goes_on(g, made))

    return loops.loop(e.g, "while", inits, types, step, goes_on=goes_on(e.g, inits)).carried


def kept_where(g: Graph, mask: str, axes: int, new: str, old: str, type_: TensorType) -> str:
    """What is new where a mask of the first axes holds, else what was there."""
    wide = unsqueezed(g, mask, range(axes, type_.rank))
    return widths.chosen(g, wide, new, old, type_.dtype)


def scan(e: Equation, *values: str) -> list[str]:
    """A counted loop."""
    fixed, carried = e.params["num_consts"], e.params["num_carry"]
    consts, inits = values[:fixed], values[fixed : fixed + carried]
    sliced, closed = values[fixed + carried :], e.params["jaxpr"]
    length, reverse = e.size(e.params["length"]), bool(e.params["reverse"])
    count = e.g.number(length)
    types = [e.result(i) for i in range(len(e.eqn.outvars))]
    rows = [one.with_shape(one.shape[1:]) for one in types[carried:]]

    def step(g: Graph, index: str, before: list[str]) -> Trip:
        place = loops.last_first(g, count, index) if reverse else index
        pieces = [loops.at(g, x, place) for x in sliced]
        made = e.runner.run(g, closed.jaxpr, closed.consts, [*consts, *before, *pieces])
        return Trip(made[:carried], made[carried:])

    found = loops.loop(e.g, "scan", inits, types[:carried], step, count=count, rows=rows)
    stacked = zip(found.rows, rows, strict=True)
    return [
        *found.carried,
        *(loops.collected(e.g, name, length, row, reverse) for name, row in stacked),
    ]


# ---- draws -----------------------------------------------------------------------------------


def drawn(name: str, parameters: Sequence[str], e: Equation, key: str, *more: str) -> list[str]:
    """What JAX makes of a key, as it makes it."""
    aval = e.eqn.invars[0].aval
    make: Callable[..., Any] = getattr(keys.threefry_prng_impl, name)
    given = [e.params[parameter] for parameter in parameters]

    common = e.eqn.outvars[0].aval.shape if more else aval.shape

    def each(key: Any, *values: Any) -> Any:
        return make(key, *values, *given)

    for _ in common:
        each = jax.vmap(each)

    def function(key: Any, *values: Any) -> Any:
        wide = (jnp.broadcast_to(value, common) for value in values)
        return each(jnp.broadcast_to(key, (*common, 2)), *wide)

    structs = [
        jax.ShapeDtypeStruct((*aval.shape, 2), WORD),
        *(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars[1:]),
    ]
    return e.runner.call(e.g, function, structs, [key, *more])


def threefry(e: Equation, *words: str) -> list[str]:
    """Twenty rounds of Threefry on pairs of words."""
    g = e.g
    add, xor = partial(g.op, "Add"), partial(g.op, "BitwiseXor")
    first, second, x, y = words
    third = xor(xor(first, second), g.constant(PARITY, WORD))
    schedule = first, second, third
    x, y = add(x, first), add(y, second)
    for group in range(5):
        for turn in TURNS[group % 2]:
            x = add(x, y)
            up = g.op("BitShift", y, g.constant(turn, WORD), direction="LEFT")
            down = g.op("BitShift", y, g.constant(32 - turn, WORD), direction="RIGHT")
            y = xor(g.op("BitwiseOr", up, down), x)
        x = add(x, schedule[(group + 1) % 3])
        y = add(y, add(schedule[(group + 2) % 3], g.constant(group + 1, WORD)))
    return [x, y]


def counters(e: Equation) -> list[str]:
    """The position of each element as two words, the high one first."""
    g, shape = e.g, e.shape
    line = reshaped(g, counted(g, product(shape)), shape)
    words = g.constant(1 << 32, INT64)
    return [g.cast(g.op(kind, line, words), WORD) for kind in ("Div", "Mod")]


def same_words(e: Equation, key: str) -> str:
    """A key is its words."""
    del e
    return key


CALLS: Mapping[str, Rule] = {
    "closed_call": call("call_jaxpr"),
    "cond": cond,
    "custom_jvp_call": call("call_jaxpr"),
    "custom_vjp_call": call("call_jaxpr"),
    "iota_2x32_shape": counters,
    "jit": call("jaxpr"),
    "platform_index": platform,
    "random_bits": partial(drawn, "random_bits", ("bit_width", "shape")),
    "random_fold_in": partial(drawn, "fold_in", ()),
    "random_split": partial(drawn, "split", ("shape",)),
    "random_unwrap": same_words,
    "random_wrap": same_words,
    "remat2": call("jaxpr"),
    "scan": scan,
    "threefry2x32": threefry,
    "while": while_loop,
}
