"""Rules of n-gram counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from braces.exchange.common.model.unsupported import FIX_SIZE
from braces.exchange.common.rules.elementwise import number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var


@dataclass(frozen=True)
class Pool:
    """The n-grams of one length that are counted.

    Attributes:
        grams: The integers of each.
        columns: The index of the result where each is counted.
    """

    grams: Array
    columns: Array


def tf_idf(node: OnnxNode) -> Var:
    """Counts of n-grams in rows of integers, with skips."""
    if node.attr("pool_strings"):
        node.refuse("unsupported strings", "Convert strings to numbers before the model.")
    x = node.var(0)
    columns = 1 + max(map(int, node.attr("ngram_indexes")))
    length, skipped = _length(node, x), int(node.attr("max_skip_count"))
    count = ops.broadcast_to(np.zeros((), "f4"), (*x.shape[:-1], columns))
    for pool in _pools(node):
        gaps = pool.grams.shape[1] - 1
        steps = min(skipped, (length - 1) // gaps - 1) if gaps else 0
        for step in range(1, 2 + steps):
            occurrences = _occurrences(x, pool.grams, step)
            count = ops.scatter_add(count, pool.columns, occurrences, axis=-1)
    mode, weights = node.attr("mode"), node.attr("weights")
    if mode == "IDF":
        count = ops.minimum(count, 1.0)
    return count if mode == "TF" or not weights else count * np.asarray(weights, "f4")


def _length(node: OnnxNode, x: Var) -> int:
    length = x.shape[-1]
    if not isinstance(length, int):
        node.refuse("unsupported symbolic length of the last axis", FIX_SIZE)
    return length


def _pools(node: OnnxNode) -> list[Pool]:
    """Return the n-grams of each requested length, those of length 1 first."""
    flat = np.asarray(node.attr("pool_int64s"), np.int64)
    starts = [*map(int, node.attr("ngram_counts")), len(flat)]
    lengths = range(int(node.attr("min_gram_length")), 1 + int(node.attr("max_gram_length")))
    indexes, pools, before = np.asarray(node.attr("ngram_indexes"), np.int64), list[Pool](), 0
    for length, (first, end) in enumerate(pairwise(starts), 1):
        grams = flat[first:end].reshape(-1, length)
        if length in lengths and len(grams):
            pools.append(Pool(grams, indexes[before : before + len(grams)]))
        before += len(grams)
    return pools


def _occurrences(x: Var, grams: Array, step: int) -> Var:
    """Count the occurrences of each n-gram in each row, with `step` between its integers."""
    count = grams.shape[1]
    positions = x.shape[-1] - (count - 1) * step
    matches = [
        ops.expand_dims(x[..., at * step : at * step + positions], axis=-1)
        == number(grams[:, at], x.dtype)
        for at in range(count)
    ]
    return ops.sum(ops.cast(reduce(ops.logical_and, matches), "float32"), axis=-2)


N_GRAMS: Mapping[str, Rule] = {"TfIdfVectorizer": tf_idf}
