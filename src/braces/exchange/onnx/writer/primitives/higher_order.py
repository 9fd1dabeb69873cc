"""Export of primitives with inner jaxprs, and of random bits.

Calls are inlined. Random bits are computed by Threefry, as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.jaxpr_equation import WORD, ExportedEquation, Rule
from braces.exchange.onnx.writer.graph.loop_if import IterationResult
from braces.exchange.onnx.writer.primitives.shape import add_axes, arange_to, reshape_to
from braces.extend.operators import inlined_call, split_scan_operands
from braces.extend.types import INT64, TensorType, product
from braces.lazy import jax, jnp, keys

TURNS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA


def high_level_call(e: ExportedEquation, *values: str) -> list[str]:
    """A function of JAX that defines its own derivative, such as `custom_root`, expanded."""
    structs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars]
    return e.runner.call(e.g, partial(e.eqn.primitive.to_lojax, **e.params), structs, values)


def cond(e: ExportedEquation, index: str, *values: str) -> list[str]:
    """One of several jaxprs; JAX has clamped the index."""
    branches = e.params["branches"]
    constant_index = e.g.model.values.get(index)
    if constant_index is not None:
        return e.call(branches[int(constant_index)], values)
    types = [e.result(i) for i in range(len(e.eqn.outvars))]

    def case(closed: Any, g: OnnxGraph) -> Sequence[str]:
        return e.runner.run(g, closed.jaxpr, closed.consts, values)

    cases = [partial(case, closed) for closed in branches]
    return list(loop_if.switch(e.g, "cond", index, e.type().dtype, cases, types))


def platform(e: ExportedEquation) -> str:
    """The index of the platform-independent variant, which comes last."""
    return e.g.constant(len(e.params["platforms"]) - 1, e.dtype)


def while_loop(e: ExportedEquation, *values: str) -> list[str]:
    """A loop with a condition; a batched loop runs while any element is active.

    Elements that have ended keep their values.
    """
    of_cond, of_body = e.params["cond_nconsts"], e.params["body_nconsts"]
    cond_consts, body_consts = values[:of_cond], values[of_cond : of_cond + of_body]
    inits, closed = values[of_cond + of_body :], e.params["cond_jaxpr"]
    batch_rank = len(closed.out_avals[0].shape)
    types = [e.result(i) for i in range(len(inits))]

    def running(g: OnnxGraph, carried: Sequence[str]) -> str:
        return e.runner.run(g, closed.jaxpr, closed.consts, [*cond_consts, *carried])[0]

    def goes_on(g: OnnxGraph, carried: Sequence[str]) -> str:
        condition = running(g, carried)
        if not batch_rank:
            return condition
        count = g.op("ReduceSum", g.cast(condition, INT64), keepdims=0)
        return g.op("Greater", count, g.constant(0, INT64))

    def step(g: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        del index
        body = e.params["body_jaxpr"]
        next_values = e.runner.run(g, body.jaxpr, body.consts, [*body_consts, *carried])
        if batch_rank:
            mask = running(g, carried)
            next_values = [
                select_rows(g, mask, batch_rank, *pair)
                for pair in zip(next_values, carried, types, strict=True)
            ]
        return IterationResult(next_values, goes_on=goes_on(g, next_values))

    return loop_if.loop(e.g, "while", inits, types, step, goes_on=goes_on(e.g, inits)).carried


def select_rows(
    g: OnnxGraph, mask: str, axes: int, new: str, old: str, type_: TensorType
) -> str:
    """Select new values by a mask over the first axes, else the old ones."""
    broadcast_mask = add_axes(g, mask, range(axes, type_.rank))
    return widths.widened_where(g, broadcast_mask, new, old, type_.dtype)


def scan(e: ExportedEquation, *values: str) -> list[str]:
    """A counted loop."""
    consts, inits, scanned = split_scan_operands(e.params, values)
    closed, carried = e.params["jaxpr"], len(inits)
    length, reverse = e.size(e.params["length"]), bool(e.params["reverse"])
    count = e.g.number(length)
    types = [e.result(i) for i in range(len(e.eqn.outvars))]
    rows = [output_type.with_shape(output_type.shape[1:]) for output_type in types[carried:]]

    def step(g: OnnxGraph, index: str, before: list[str]) -> IterationResult:
        position = loop_if.reversed_index(g, count, index) if reverse else index
        slices_ = [loop_if.take_index(g, x, position) for x in scanned]
        outputs = e.runner.run(g, closed.jaxpr, closed.consts, [*consts, *before, *slices_])
        return IterationResult(outputs[:carried], outputs[carried:])

    results = loop_if.loop(e.g, "scan", inits, types[:carried], step, count=count, rows=rows)
    stacked = zip(results.rows, rows, strict=True)
    return [
        *results.carried,
        *(loop_if.stacked_output(e.g, name, length, row, reverse) for name, row in stacked),
    ]


# ---- random bits -----------------------------------------------------------------------------


def threefry_function(
    name: str, parameters: Sequence[str], e: ExportedEquation, key: str, *more: str
) -> list[str]:
    """Export a function of random keys by tracing JAX's implementation."""
    aval = e.eqn.invars[0].aval
    primitive: Callable[..., Any] = getattr(keys.threefry_prng_impl, name)
    param_values = [e.params[parameter] for parameter in parameters]

    common = e.eqn.outvars[0].aval.shape if more else aval.shape

    def batched(key: Any, *values: Any) -> Any:
        return primitive(key, *values, *param_values)

    for _ in common:
        batched = jax.vmap(batched)

    def function(key: Any, *values: Any) -> Any:
        broadcast_values = (jnp.broadcast_to(value, common) for value in values)
        return batched(jnp.broadcast_to(key, (*common, 2)), *broadcast_values)

    structs = [
        jax.ShapeDtypeStruct((*aval.shape, 2), WORD),
        *(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars[1:]),
    ]
    return e.runner.call(e.g, function, structs, [key, *more])


def threefry(e: ExportedEquation, *words: str) -> list[str]:
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


def counters(e: ExportedEquation) -> list[str]:
    """The position of each element as two words, the high one first."""
    g, shape = e.g, e.shape
    line = reshape_to(g, arange_to(g, product(shape)), shape)
    words = g.constant(1 << 32, INT64)
    return [g.cast(g.op(kind, line, words), WORD) for kind in ("Div", "Mod")]


def same_words(e: ExportedEquation, key: str) -> str:
    """A key is represented by its words."""
    del e
    return key


CALLS: Mapping[str, Rule] = {
    "call_hi_primitive": high_level_call,
    "closed_call": inlined_call("call_jaxpr"),
    "cond": cond,
    "custom_jvp_call": inlined_call("call_jaxpr"),
    "custom_vjp_call": inlined_call("call_jaxpr"),
    "eval_jaxpr": inlined_call("call_jaxpr"),
    "iota_2x32_shape": counters,
    "jit": inlined_call("jaxpr"),
    "platform_index": platform,
    "random_bits": partial(threefry_function, "random_bits", ("bit_width", "shape")),
    "random_fold_in": partial(threefry_function, "fold_in", ()),
    "random_split": partial(threefry_function, "split", ("shape",)),
    "random_unwrap": same_words,
    "random_wrap": same_words,
    "remat2": inlined_call("jaxpr"),
    "scan": scan,
    "threefry2x32": threefry,
    "while": while_loop,
}
