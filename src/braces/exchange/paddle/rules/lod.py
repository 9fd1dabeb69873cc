"""Rules of ragged sequences (LoD), and of their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.paddle.graph.environment import RaggedSequences
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import data_dependent, functions as ops
from braces.extend.building import Var, emit
from braces.extend.constructs import create_rnn
from braces.extend.types import INT64

# ---- pools -----------------------------------------------------------------------------------


def pool(node: PaddleOp) -> Results:
    """Pool each sequence: sum, mean, maximum, first or last row."""
    rows, kind = node.rows("X"), node.attr("pooltype", "AVERAGE").upper()
    if kind not in POOLS:
        node.refuse(f"unknown pooltype {kind:.40}", f"Use one of {', '.join(POOLS)}.")
    pooled = POOLS[kind](rows)
    empty = ops.reshape(ops.equal(rows.lengths, 0), (rows.batch, *[1] * (pooled.ndim - 1)))
    return {"Out": ops.where(empty, ops.full_like(pooled, node.attr("pad_value", 0.0)), pooled)}


def _sum(rows: RaggedSequences) -> Var:
    return ops.sum(rows.masked(), axis=1)


def _counts(rows: RaggedSequences, like: Var) -> Var:
    """Return the lengths of sequences, at least 1, shaped to broadcast."""
    counts = ops.maximum(cast_to_dtype(rows.lengths, like.dtype), 1)
    return ops.reshape(counts, (rows.batch, *[1] * (like.ndim - 1)))


def _mean(rows: RaggedSequences) -> Var:
    total = _sum(rows)
    return total / _counts(rows, total)


def _root(rows: RaggedSequences) -> Var:
    total = _sum(rows)
    return total / ops.sqrt(_counts(rows, total))


def _largest(rows: RaggedSequences) -> Var:
    dtype = rows.flat.dtype
    least = float(np.finfo(dtype).min) if dtype.kind == "f" else float(np.iinfo(dtype).min)
    return ops.max(rows.masked(least), axis=1)


def _at(rows: RaggedSequences, places: Var) -> Var:
    """Return one row of each sequence."""
    padded_rows = rows.padded()
    index = ops.reshape(places, (rows.batch, *[1] * (padded_rows.ndim - 1)))
    index = ops.broadcast_to(index, (rows.batch, 1, *padded_rows.shape[2:]))
    return ops.squeeze(ops.take_along_axis(padded_rows, index, axis=1), axis=1)


def _first(rows: RaggedSequences) -> Var:
    return _at(rows, cast_to_dtype(ops.zeros_like(rows.lengths), INT64))


def _last(rows: RaggedSequences) -> Var:
    return _at(rows, ops.maximum(cast_to_dtype(rows.lengths, INT64) - 1, 0))


POOLS: Mapping[str, Callable[[RaggedSequences], Var]] = {
    "AVERAGE": _mean,
    "FIRST": _first,
    "LAST": _last,
    "MAX": _largest,
    "SQRT": _root,
    "SUM": _sum,
}

# ---- row-wise, and with neighbors ------------------------------------------------------------


def softmax(node: PaddleOp) -> Results:
    """A softmax over each sequence."""
    rows = node.rows("X")
    probabilities = ops.softmax(rows.masked(-np.inf), axis=1)
    probabilities = ops.where(
        ops.isnan(probabilities), ops.zeros_like(probabilities), probabilities
    )  # of no rows
    return {"Out": RaggedSequences.of(probabilities, rows.lengths)}


def conv(node: PaddleOp) -> Results:
    """A convolution over the rows of each sequence, with zero padding."""
    rows, weight = node.rows("X"), node.var("Filter")
    length, first = node.attr("contextLength"), node.attr("contextStart", 0)
    if node.attr("contextStride", 1) != 1 or node.attr("paddingTrainable", False):
        node.refuse("unsupported contextStride or paddingTrainable")
    masked_rows = rows.masked()
    before, after = max(-first, 0), max(first + length - 1, 0)
    padded_rows = ops.pad(masked_rows, [(0, 0), (before, after), (0, 0)])
    shifted = [
        emit("window", padded_rows, start=first + at + before, size=rows.time, axis=1)
        for at in range(length)
    ]
    outputs = ops.matmul(ops.concat(shifted, axis=-1), weight)
    return {"Out": RaggedSequences.of(outputs, rows.lengths)}


def reverse(node: PaddleOp) -> Results:
    """Reverse the rows of each sequence."""
    rows = node.rows("X")
    padded_rows, steps = rows.padded(), emit("arange", stop=rows.time)
    last = ops.expand_dims(cast_to_dtype(rows.lengths, steps.dtype), axis=1) - 1
    at = ops.maximum(last - ops.expand_dims(steps, axis=0), 0)
    index = ops.reshape(at, (rows.batch, rows.time, *[1] * (padded_rows.ndim - 2)))
    reversed_rows = ops.take_along_axis(
        padded_rows, ops.broadcast_to(index, padded_rows.shape), axis=1
    )
    return {"Y": RaggedSequences.of(reversed_rows, rows.lengths)}


def expand(node: PaddleOp) -> Results:
    """Repeat one row per sequence for all its rows."""
    like = node.rows("Y")
    if isinstance(node.value("X"), RaggedSequences):
        node.refuse("unsupported operand `X` with LoD")
    x = ops.expand_dims(node.var("X"), axis=1)
    repeated = ops.broadcast_to(x, (like.batch, like.time, *x.shape[2:]))
    return {"Out": RaggedSequences.of(repeated, like.lengths)}


def reset(node: PaddleOp) -> Results:
    """Divide rows into the sequences of another array."""
    x = node.value("X")
    if not node.has("Y") or not isinstance(node.value("Y"), RaggedSequences):
        node.refuse("expected an operand `Y` with LoD")
    like = node.rows("Y")
    return {"Out": like.like(x.flat if isinstance(x, RaggedSequences) else node.runner.lift(x))}


# ---- padding ---------------------------------------------------------------------------------


def pad(node: PaddleOp) -> Results:
    """Sequences as a padded array, with their lengths."""
    rows, number = node.rows("X"), node.var("PadValue")
    padded_rows = rows.padded()
    inside = ops.reshape(rows.inside(), (rows.batch, rows.time, *[1] * (padded_rows.ndim - 2)))
    filled_rows = ops.where(inside, padded_rows, cast_to_dtype(number, padded_rows.dtype))
    length = node.attr("padded_length", -1)
    if length > 0:
        filled_rows = ops.ensure_shape(
            filled_rows, (rows.batch, length, *padded_rows.shape[2:])
        )
    return {"Out": filled_rows, "Length": cast_to_dtype(rows.lengths, INT64)}


def unpad(node: PaddleOp) -> Results:
    """A padded array as sequences."""
    lengths = node.var("Length")
    return {"Out": RaggedSequences.of(node.var("X"), ops.reshape(lengths, (lengths.shape[0],)))}


def mask(node: PaddleOp) -> Results:
    """A mask of positions below lengths."""
    lengths, max_length = node.var("X"), node.number("maxlen", "MaxLenTensor", -1)
    if max_length == -1:
        max_length = data_dependent.as_size(cast_to_dtype(ops.max(lengths), INT64))
    steps = emit("arange", stop=max_length)
    is_inside = steps < ops.expand_dims(cast_to_dtype(lengths, steps.dtype), axis=lengths.ndim)
    return {"Y": cast_to_dtype(is_inside, node.dtype("out_dtype", INT64))}


# ---- labels ----------------------------------------------------------------------------------


def crf_decoding(node: PaddleOp) -> Results:
    """The Viterbi path of each sequence, or its agreement with given labels.

    The first two rows of transitions are the scores of the first and the last label of a
    sequence, the others those of label pairs.
    """
    emission = node.value("Emission")
    if isinstance(emission, RaggedSequences):
        rows = emission
    else:
        lengths = node.var("Length")
        rows = RaggedSequences.of(
            node.var("Emission"), ops.reshape(lengths, (lengths.shape[0],))
        )
    path = ops.expand_dims(viterbi(rows, node.var("Transition")), axis=2)
    decoded = RaggedSequences.of(path, rows.lengths)
    if node.has("Label"):
        label = node.value("Label")
        expected = label.flat if isinstance(label, RaggedSequences) else node.var("Label")
        expected = ops.reshape(cast_to_dtype(expected, INT64), decoded.flat.shape)
        decoded = decoded.like(cast_to_dtype(ops.equal(decoded.flat, expected), INT64))
    if isinstance(emission, RaggedSequences):
        return {"ViterbiPath": decoded}
    return {"ViterbiPath": ops.reshape(decoded.masked(), (rows.batch, rows.time))}


def viterbi(rows: RaggedSequences, transition: Var) -> Var:
    """Return the most likely labels, `[batch, time]`, of scores `[batch, time, labels]`."""
    lengths = cast_to_dtype(rows.lengths, INT64)
    first, last, between = transition[0], transition[1], transition[2:]
    x = ops.swapaxes(rows.padded(), 0, 1)
    start = ops.broadcast_to(first, (rows.batch, first.shape[0]))
    forward = create_rnn(lengths=lengths)
    with forward.stepnet() as net:
        step = net.add_input(x)
        best, seen = net.add_memory(init=start), net.add_memory(init=_all_false(rows))
        scores = ops.expand_dims(best, axis=2) + between
        best_score = ops.where(seen, ops.max(scores, axis=1), best)
        best.update(best_score + step)
        seen.update(ops.ones_like(seen))
        net.add_output(cast_to_dtype(ops.argmax(scores, axis=1), INT64))
    back = forward()
    ends = cast_to_dtype(ops.argmax(forward.final(best) + last, axis=1), INT64)
    backward = create_rnn(reverse=True, lengths=lengths)
    with backward.stepnet() as net:
        back_pointers = net.add_input(back)
        label = net.add_memory(init=ends)
        column = ops.expand_dims(label, axis=1)
        net.add_output(ops.identity(label))
        label.update(ops.squeeze(ops.take_along_axis(back_pointers, column, axis=1), axis=1))
    return ops.swapaxes(backward(), 0, 1)


def _all_false(rows: RaggedSequences) -> Var:
    """Return false for each sequence."""
    return ops.expand_dims(ops.not_equal(rows.lengths, rows.lengths), axis=1)


SEQUENCES: Mapping[str, Rule] = {
    **dict.fromkeys(("sequence_expand", "sequence_expand_as"), expand),
    "crf_decoding": crf_decoding,
    "lod_reset": reset,
    "sequence_conv": conv,
    "sequence_mask": mask,
    "sequence_pad": pad,
    "sequence_pool": pool,
    "sequence_reverse": reverse,
    "sequence_softmax": softmax,
    "sequence_unpad": unpad,
}
