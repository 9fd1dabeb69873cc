"""Rules of TreeEnsembleRegressor and TreeEnsembleClassifier.

They were before TreeEnsemble, and most files of trees are of them: nodes have names, a tree and
a number in it, leaves are among them, and each leaf may have weights for several targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.builder.var import Var
from braces.dtypes import FLOAT32, INT64, DType, is_float
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import LEARNED, Node, Rule
from braces.exchange.onnx.reader.rules.ml.linear_svm import examples
from braces.exchange.onnx.reader.rules.ml.scores import (
    classified,
    labels_of,
    of_two,
    transformed,
)
from braces.exchange.onnx.reader.rules.ml.tree_ensemble import (
    AVERAGE,
    MAX,
    MIN,
    SUM,
    Leaves,
    among,
    ints,
    together,
)
from braces.exchange.onnx.reader.rules.ml.tree_traversal import Nodes, reached
from braces.frontend.core import functions as ops

MOST_WEIGHTS = 1 << 20
"""Each leaf has room for as many weights as any has; more are fine where they are there."""
ASKED = {
    "BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
}  # fmt: skip
"""What a node asks, by its name."""
TOGETHER = {"AVERAGE": AVERAGE, "SUM": SUM, "MIN": MIN, "MAX": MAX}


def tree_regressor(node: Node) -> Var:
    """What the leaves say that a row reaches in each tree, and what is there from the start."""
    how = TOGETHER.get(str(node.attr("aggregate_function", "SUM")))
    if how is None:
        node.refuse(f"puts trees together by `{node.attr('aggregate_function'):.80}`")
    found, _ = _said(node, "target", int(node.attr("n_targets", 1)), how)
    base = node.floats("base_values")
    if len(base) not in (0, found.shape[-1]):
        node.refuse(f"has {len(base)} base values for {found.shape[-1]} targets")
    return in_dtype(transformed(node, found + base if len(base) else found), FLOAT32)


def tree_classifier(node: Node) -> tuple[Var, ...]:
    """The class that most of what the leaves say speaks for, and the scores of all."""
    labels, base = labels_of(node, "classlabels_int64s"), node.floats("base_values")
    spoken = np.unique(ints(node, "class_ids"))
    alone = len(labels) == 2 and spoken.tolist() == [0]
    found, weights = _said(node, "class", 1 if alone else len(labels), SUM)
    if len(base) not in (0, found.shape[-1]):
        node.refuse(f"has {len(base)} base values for {found.shape[-1]} scores")
    scores = in_dtype(found + base if len(base) else found, FLOAT32)
    if len(labels) == 2 and len(spoken) == 1:
        return _of_one(node, scores, labels, positive=bool((weights >= 0).all()))
    heard = None if len(base) else np.isin(np.arange(len(labels)), spoken)
    return classified(node, scores, labels, heard)


def _of_one(node: Node, scores: Var, labels: Array, positive: bool) -> tuple[Var, ...]:
    """The class of two where weights speak of one: the second, whatever its number."""
    bound = 0.5 if positive else 0.0
    if scores.shape[-1] == 1:
        return of_two(
            node, scores, labels, bound, lambda s: 1.0 - s if positive else ops.negative(s)
        )
    chosen = ops.cast(scores[:, 1] > bound, INT64)
    return ops.take(labels, chosen), transformed(node, scores)


def _said(node: Node, what: str, count: int, how: int) -> tuple[Var, Array]:
    """What all trees say of each target or class, and all weights that there are."""
    x = examples(node)
    x = x if is_float(x.dtype) else in_dtype(x, FLOAT32)
    where, nodes = _nodes_by_name(node, x.dtype)
    ids, weights = ints(node, f"{what}_ids"), node.floats(f"{what}_weights")
    trees, names = ints(node, f"{what}_treeids"), ints(node, f"{what}_nodeids")
    if len({len(ids), len(weights), len(trees), len(names)}) > 1:
        node.refuse(f"has attributes `{what}_...` of unlike lengths")
    if not among(ids, count):
        node.refuse(f"has weights of something else than its {count} scores")
    at, first = where(trees, names), len(nodes.modes)
    kept = at >= first
    leaves = _leaves(
        node, (at[kept] - first, ids[kept], weights[kept]), nodes.leaves, count, how
    )
    leaf = reached(node, nodes, x, lambda other, dtype: _nodes_by_name(other, dtype)[1])
    return together(node, leaves, leaf, len(nodes.roots)), weights


@dataclass(frozen=True, eq=False)
class Places:
    """The numbers of nodes that are named by a tree and a number in it.

    Attributes:
        node: The node of the graph.
        trees: The names of trees, in order.
        names: The names of nodes in trees, in order.
        keys: Both as one number, in order.
        numbers: The number of the node of each key; leaves come after the others.
        leaves: How many leaves there are.
    """

    node: Node
    trees: Array
    names: Array
    keys: Array
    numbers: Array
    leaves: int

    @staticmethod
    def of(node: Node, trees: Array, names: Array, leaf: Array) -> Places:
        """The numbers of all nodes.

        Raises:
            ProgramError: Two nodes have one name.
        """
        kinds, tree = np.unique(trees, return_inverse=True)
        known, name = np.unique(names, return_inverse=True)
        keys = tree * len(known) + name
        order = np.argsort(keys)
        if (np.diff(keys[order]) == 0).any():
            node.refuse("has two nodes of one tree with the same number")
        inner = len(leaf) - int(leaf.sum())
        numbers = np.where(leaf, inner + np.cumsum(leaf) - 1, np.cumsum(~leaf) - 1)
        return Places(node, kinds, known, keys[order], numbers[order], int(leaf.sum()))

    def __call__(self, trees: Array, names: Array) -> Array:
        """The numbers of these nodes.

        Raises:
            ProgramError: There is no such node.
        """
        tree, name = _found(self.trees, trees), _found(self.names, names)
        at = _found(self.keys, tree * len(self.names) + name)
        if ((tree < 0) | (name < 0) | (at < 0)).any():
            self.node.refuse("has a tree with a way to no node")
        return self.numbers[at]


def _found(ordered: Array, wanted: Array) -> Array:
    """Where each of these is; -1 where it is not."""
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[at] == wanted, at, -1)


def _nodes_by_name(node: Node, dtype: DType) -> tuple[Places, Nodes]:
    """The nodes of trees that are lists of nodes, leaves among them."""
    trees, names, features, true, false = (
        ints(node, f"nodes_{name}ids")
        for name in ("tree", "node", "feature", "truenode", "falsenode")
    )
    texts, values = node.texts("nodes_modes"), node.floats("nodes_values")
    missing = ints(node, "nodes_missing_value_tracks_true")
    lists: list[Any] = [trees, names, features, true, false, texts, values]
    if len({*map(len, lists)}) > 1 or not texts or len(missing) not in (0, len(texts)):
        node.refuse("has attributes `nodes_...` of unlike lengths")
    strange = {*texts} - {*ASKED, "LEAF"}
    if strange:
        node.refuse(f"has a node that asks `{min(strange):.80}`")
    asks = np.asarray([text in ASKED for text in texts], bool)
    codes = np.asarray([ASKED[text] for text in texts if text in ASKED], np.uint8)
    where = Places.of(node, trees, names, ~asks)
    roots = np.sort(np.unique(trees, return_index=True)[1])
    yes, no = (where(trees[asks], after[asks]) for after in (true, false))
    return where, Nodes(
        codes, features[asks], values[asks].astype(dtype), yes, no,
        missing[asks] == 1 if len(missing) else None, None, where(trees[roots], names[roots]),
        where.leaves,
    )  # fmt: skip


def _leaves(
    node: Node, said: tuple[Array, Array, Array], leaves: int, count: int, how: int
) -> Leaves:
    """What leaves say, from lists of a leaf, a target and a weight, once for each pair."""
    leaf, target, weight = said
    order = np.lexsort((target, leaf))
    leaf, target, weight = leaf[order], target[order], weight[order]
    first = np.flatnonzero(np.diff(leaf, prepend=-1) | np.diff(target, prepend=-1))
    if len(first):
        joined = {MIN: np.minimum, MAX: np.maximum}.get(how, np.add)
        weight = joined.reduceat(weight, first)
    leaf, target = leaf[first], target[first]
    each = np.bincount(leaf, minlength=leaves)
    widest = max(int(each.max(initial=0)), 1)
    if leaves * widest > max(MOST_WEIGHTS, 16 * len(leaf)):
        node.refuse(f"has {leaves} leaves, one of them with {widest} weights")
    column = np.arange(len(leaf)) - np.repeat(np.cumsum(each) - each, each)
    targets = np.full((leaves, widest), count, np.int64)
    weights = np.zeros((leaves, widest), weight.dtype)
    targets[leaf, column], weights[leaf, column] = target, weight
    return Leaves(targets, weights, count, how, otherwise=0.0)


NAMED_TREES: Mapping[str, Rule] = {
    f"{LEARNED}.TreeEnsembleClassifier": tree_classifier,
    f"{LEARNED}.TreeEnsembleRegressor": tree_regressor,
}
