"""Rules of what models had before networks: features, counts of n-grams, trees.

A tree is walked by all rows at once, one level after the other: a row is at a node, which is a
number; what the node asks, and where it sends the row, is read from arrays by that number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from braces.builder.var import Var
from braces.exchange.known import Array
from braces.exchange.numbers import number
from braces.exchange.onnx_in.node import Node, Rule
from braces.frontend import functions as ops

DOMAIN = "ai.onnx.ml"


def features(node: Node) -> Var:
    """Entries of the last axis, by their numbers."""
    chosen = node.var(1)
    x = node.var(0)
    x = ops.reshape(x, (1, -1)) if x.ndim == 1 else x
    return ops.take(x, ops.reshape(chosen, (-1,)), axis=-1)


def binarizer(node: Node) -> Var:
    """1 above a threshold, else 0."""
    x = node.var(0)
    return ops.cast(x > number(node.attr("threshold", 0.0), x.dtype), x.dtype)


# ---- n-grams ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """The n-grams of one length that are counted.

    Attributes:
        grams: The integers of each.
        columns: The place of the result where each is counted.
    """

    grams: Array
    columns: Array


def tf_idf(node: Node) -> Var:
    """How often n-grams occur in rows of integers, perhaps with some left out in between."""
    if node.attr("pool_strings"):
        node.refuse("counts texts", "Turn texts into numbers before the model.")
    x = node.var(0)
    columns = 1 + max(map(int, node.attr("ngram_indexes")))
    length, skipped = _length(node, x), int(node.attr("max_skip_count"))
    count = ops.broadcast_to(np.zeros((), "f4"), (*x.shape[:-1], columns))
    for pool in _pools(node):
        wide = pool.grams.shape[1] - 1
        steps = min(skipped, (length - 1) // wide - 1) if wide else 0
        for step in range(1, 2 + steps):
            found = _occurrences(x, pool.grams, step)
            count = ops.scatter_add(count, pool.columns, found, axis=-1)
    mode, weights = node.attr("mode"), node.attr("weights")
    if mode == "IDF":
        count = ops.minimum(count, 1.0)
    return count if mode == "TF" or not weights else count * np.asarray(weights, "f4")


def _length(node: Node, x: Var) -> int:
    length = x.shape[-1]
    if not isinstance(length, int):
        node.refuse("reads rows of a symbolic length", "Fix it: sizes=.")
    return length


def _pools(node: Node) -> list[Pool]:
    """The n-grams of each length that is asked for; those of length 1 come first."""
    flat = np.asarray(node.attr("pool_int64s"), np.int64)
    starts = [*map(int, node.attr("ngram_counts")), len(flat)]
    wanted = range(int(node.attr("min_gram_length")), 1 + int(node.attr("max_gram_length")))
    places, found, before = np.asarray(node.attr("ngram_indexes"), np.int64), list[Pool](), 0
    for length, (first, end) in enumerate(pairwise(starts), 1):
        grams = flat[first:end].reshape(-1, length)
        if length in wanted and len(grams):
            found.append(Pool(grams, places[before : before + len(grams)]))
        before += len(grams)
    return found


def _occurrences(x: Var, grams: Array, step: int) -> Var:
    """How often each n-gram occurs in each row, where its integers stand so far apart."""
    count = grams.shape[1]
    places = x.shape[-1] - (count - 1) * step
    found = [
        ops.expand_dims(x[..., at * step : at * step + places], axis=-1)
        == number(grams[:, at], x.dtype)
        for at in range(count)
    ]
    return ops.sum(ops.cast(reduce(ops.logical_and, found), "float32"), axis=-2)


# ---- trees -----------------------------------------------------------------------------------

DEEPEST = 512
"""Each level of a tree is a few operators."""
MOST_MEMBERS = 1 << 24
"""Each node has room for as many numbers as any has."""
MEMBER = 6
TESTS: Mapping[int, Callable[..., Var]] = {
    0: ops.less_equal, 1: ops.less, 2: ops.greater_equal, 3: ops.greater, 4: ops.equal,
    5: ops.not_equal,
}  # fmt: skip
"""What a node asks of a feature and its number, by ONNX's number of it."""
AVERAGE, SUM, MIN, MAX = range(4)
"""What becomes of what several trees say of one target."""


def tree_ensemble(node: Node) -> Var:
    """What the leaves say that a row reaches in each tree, together."""
    if node.attr("post_transform", 0):
        node.refuse("transforms what it gives", "Leave that out, and do it after the model.")
    x, roots = node.var(0), np.asarray(node.attr("tree_roots"), np.int64)
    modes = _numbers(node, "nodes_modes")
    following, nodes = _following(node, len(modes)), len(modes)
    at = ops.broadcast_to(roots, (x.shape[0], len(roots)))
    members = _members(node, modes)
    for _ in range(_depth(node, following, roots, nodes)):
        inner = ops.minimum(at, nodes - 1)
        feature = ops.take(np.asarray(node.attr("nodes_featureids"), np.int64), inner)
        value = ops.take_along_axis(x, feature, axis=1)
        yes = _answers(node, modes, members, inner, value)
        after = ops.where(yes, ops.take(following[0], inner), ops.take(following[1], inner))
        at = ops.where(at < nodes, after, at)
    return _together(node, x, at - nodes)


def _numbers(node: Node, name: str) -> Array:
    found = node.tensor(name)
    assert found is not None, "the schema asks for it"
    return found.numbers()


def _following(node: Node, nodes: int) -> tuple[Array, Array]:
    """Where each node sends rows, if it says yes and if no; leaves come after the nodes."""

    def of(answer: str) -> Array:
        leaf = np.asarray(node.attr(f"nodes_{answer}leafs"), np.int64)
        return np.asarray(node.attr(f"nodes_{answer}nodeids"), np.int64) + nodes * leaf

    return of("true"), of("false")


def _depth(node: Node, following: tuple[Array, Array], roots: Array, nodes: int) -> int:
    """How many nodes there are at most on the way to a leaf."""
    level, depth = np.unique(roots), 0
    while len(level := level[level < nodes]):
        depth += 1
        if depth > min(nodes, DEEPEST):
            node.refuse(f"has a tree that goes in circles, or is deeper than {DEEPEST}")
        level = np.unique(np.concatenate([each[level] for each in following]))
    return depth


def _members(node: Node, modes: Array) -> Array | None:
    """The numbers that each node asks for that asks for several, filled up with NaN."""
    if MEMBER not in modes:
        return None
    flat = _numbers(node, "membership_values")
    ends = np.flatnonzero(np.isnan(flat))
    asking = np.flatnonzero(modes == MEMBER)
    if len(ends) != len(asking):
        node.refuse("has other numbers of sets and of nodes that ask for them")
    sets = np.split(flat, ends + 1)[:-1]
    widest = max(map(len, sets))
    if len(modes) * widest > MOST_MEMBERS:
        node.refuse(f"asks for one of {widest} numbers, in one of {len(modes)} nodes")
    found = np.full((len(modes), widest), np.nan, flat.dtype)
    for at, numbers in zip(asking, sets, strict=True):
        found[at, : len(numbers)] = numbers
    return found


def _answers(node: Node, modes: Array, members: Array | None, at: Var, value: Var) -> Var:
    """What the nodes say of values."""
    mode, split = ops.take(modes, at), ops.take(_numbers(node, "nodes_splits"), at)
    found = ops.zeros_like(value, dtype="bool")
    for code, test in TESTS.items():
        if code in modes:
            found = ops.where(mode == number(code, mode.dtype), test(value, split), found)
    if members is not None:
        there = ops.expand_dims(value, axis=-1) == ops.take(members, at, axis=0)
        found = ops.where(mode == number(MEMBER, mode.dtype), ops.any(there, axis=-1), found)
    missing = node.attr("nodes_missing_value_tracks_true")
    if missing and any(missing):
        tracked = ops.take(np.asarray(missing, bool), at)
        found = ops.where(ops.isnan(value), tracked, found)
    return found


def _together(node: Node, x: Var, leaf: Var) -> Var:
    """The weights of leaves by their targets, for all trees at once."""
    weight = ops.take(_numbers(node, "leaf_weights"), leaf)
    target = ops.take(np.asarray(node.attr("leaf_targetids"), np.int64), leaf)
    mine = ops.one_hot(target, num_classes=int(node.attr("n_targets")), dtype="bool")
    weight, how = ops.expand_dims(weight, axis=-1), node.attr("aggregate_function", SUM)
    if how in (AVERAGE, SUM):
        found = ops.sum(ops.where(mine, weight, number(0, weight.dtype)), axis=1)
        return found / float(leaf.shape[1]) if how == AVERAGE else found
    limits, best = np.finfo(x.dtype), ops.min if how == MIN else ops.max
    rest = number(limits.max if how == MIN else limits.min, weight.dtype)
    return best(ops.where(mine, weight, rest), axis=1)


CLASSICAL: Mapping[str, Rule] = {
    f"{DOMAIN}.ArrayFeatureExtractor": features,
    f"{DOMAIN}.Binarizer": binarizer,
    f"{DOMAIN}.TreeEnsemble": tree_ensemble,
    "TfIdfVectorizer": tf_idf,
}
