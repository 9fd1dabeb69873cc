"""Rules of TreeEnsembleRegressor and TreeEnsembleClassifier.

They precede TreeEnsemble, and most files with trees use them. Nodes are named by a tree and a
number in it, leaves are among them, and each leaf may have weights for several targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import ML_DOMAIN, OnnxNode, Rule
from braces.exchange.onnx.reader.rules.ml.linear_svm import batched_features
from braces.exchange.onnx.reader.rules.ml.scores import (
    apply_post_transform,
    classify,
    classify_binary,
    labels_of,
)
from braces.exchange.onnx.reader.rules.ml.tree_ensemble import (
    AVERAGE,
    MAX,
    MIN,
    SUM,
    Leaves,
    aggregate_leaves,
    are_valid_indices,
    integer_attribute,
)
from braces.exchange.onnx.reader.rules.ml.tree_traversal import Nodes, reached_leaves
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import FLOAT32, INT64, DType, is_float

MOST_WEIGHTS = 1 << 20
"""The largest padded table of leaf weights, unless the file itself has more weights."""
TEST_CODES = {
    "BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
}  # fmt: skip
"""The codes of tests, by name."""
AGGREGATIONS = {"AVERAGE": AVERAGE, "SUM": SUM, "MIN": MIN, "MAX": MAX}


def tree_regressor(node: OnnxNode) -> Var:
    """The aggregated leaf weights of all trees, plus base values."""
    how = AGGREGATIONS.get(str(node.attr("aggregate_function", "SUM")))
    if how is None:
        node.refuse(f"unknown aggregate_function `{node.attr('aggregate_function'):.80}`")
    totals, _ = _aggregate(node, "target", int(node.attr("n_targets", 1)), how)
    base = node.floats("base_values")
    if len(base) not in (0, totals.shape[-1]):
        node.refuse(f"expected {totals.shape[-1]} base values, one per target, got {len(base)}")
    return cast_to_dtype(
        apply_post_transform(node, totals + base if len(base) else totals), FLOAT32
    )


def tree_classifier(node: OnnxNode) -> tuple[Var, ...]:
    """The class with the largest score, and the scores of all classes."""
    labels, base = labels_of(node, "classlabels_int64s"), node.floats("base_values")
    weighted_classes = np.unique(integer_attribute(node, "class_ids"))
    single_score = len(labels) == 2 and weighted_classes.tolist() == [0]
    totals, weights = _aggregate(node, "class", 1 if single_score else len(labels), SUM)
    if len(base) not in (0, totals.shape[-1]):
        node.refuse(f"expected {totals.shape[-1]} base values, one per score, got {len(base)}")
    scores = cast_to_dtype(totals + base if len(base) else totals, FLOAT32)
    if len(labels) == 2 and len(weighted_classes) == 1:
        return _classify_by_one(node, scores, labels, positive=bool((weights >= 0).all()))
    heard = None if len(base) else np.isin(np.arange(len(labels)), weighted_classes)
    return classify(node, scores, labels, heard)


def _classify_by_one(
    node: OnnxNode, scores: Var, labels: Array, positive: bool
) -> tuple[Var, ...]:
    """Classify into two classes by the weights of one: the second class if above the bound."""
    bound = 0.5 if positive else 0.0
    if scores.shape[-1] == 1:
        return classify_binary(
            node, scores, labels, bound, lambda s: 1.0 - s if positive else ops.negative(s)
        )
    chosen = ops.cast(scores[:, 1] > bound, INT64)
    return ops.take(labels, chosen), apply_post_transform(node, scores)


def _aggregate(node: OnnxNode, what: str, count: int, how: int) -> tuple[Var, Array]:
    """Aggregate all trees per target or class; return this, and all weights."""
    x = batched_features(node)
    x = x if is_float(x.dtype) else cast_to_dtype(x, FLOAT32)
    node_numbers, nodes = _nodes_by_name(node, x.dtype)
    ids, weights = integer_attribute(node, f"{what}_ids"), node.floats(f"{what}_weights")
    trees, names = (
        integer_attribute(node, f"{what}_treeids"),
        integer_attribute(node, f"{what}_nodeids"),
    )
    if len({len(ids), len(weights), len(trees), len(names)}) > 1:
        node.refuse(f"length mismatch of the attributes `{what}_...`")
    if not are_valid_indices(ids, count):
        node.refuse(f"weight index out of range for {count} scores")
    at, first = node_numbers(trees, names), len(nodes.modes)
    on_leaves = at >= first
    leaves = _leaves(
        node,
        (at[on_leaves] - first, ids[on_leaves], weights[on_leaves]),
        nodes.leaves,
        count,
        how,
    )
    leaf = reached_leaves(node, nodes, x, lambda other, dtype: _nodes_by_name(other, dtype)[1])
    return aggregate_leaves(node, leaves, leaf, nodes), weights


@dataclass(frozen=True, eq=False)
class NodeNumbering:
    """The numbers of nodes that are named by a tree and a number in it.

    Attributes:
        node: The node of the graph.
        trees: The names of trees, in order.
        names: The names of nodes in trees, in order.
        keys: The combined keys, in order.
        numbers: The number of the node of each key; leaves come after the others.
        leaves: The number of leaves.
    """

    node: OnnxNode
    trees: Array
    names: Array
    keys: Array
    numbers: Array
    leaves: int

    @staticmethod
    def of(node: OnnxNode, trees: Array, names: Array, leaf: Array) -> NodeNumbering:
        """Number all nodes.

        Raises:
            ProgramError: If two nodes have the same name.
        """
        tree_names, tree = np.unique(trees, return_inverse=True)
        node_names, name = np.unique(names, return_inverse=True)
        keys = tree * len(node_names) + name
        order = np.argsort(keys)
        if (np.diff(keys[order]) == 0).any():
            node.refuse("duplicate node id in a tree")
        inner = len(leaf) - int(leaf.sum())
        numbers = np.where(leaf, inner + np.cumsum(leaf) - 1, np.cumsum(~leaf) - 1)
        return NodeNumbering(
            node, tree_names, node_names, keys[order], numbers[order], int(leaf.sum())
        )

    def __call__(self, trees: Array, names: Array) -> Array:
        """Return the numbers of these nodes.

        Raises:
            ProgramError: If a node does not exist.
        """
        tree, name = _index_of(self.trees, trees), _index_of(self.names, names)
        at = _index_of(self.keys, tree * len(self.names) + name)
        if ((tree < 0) | (name < 0) | (at < 0)).any():
            self.node.refuse("unknown node id in a tree")
        return self.numbers[at]


def _index_of(ordered: Array, keys: Array) -> Array:
    """Return the indices of values in an ordered array; -1 for those absent."""
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.where(ordered[at] == keys, at, -1)


def _nodes_by_name(node: OnnxNode, dtype: DType) -> tuple[NodeNumbering, Nodes]:
    """Parse trees whose nodes are lists of attributes, leaves among them."""
    trees, names, features, true, false = (
        integer_attribute(node, f"nodes_{name}ids")
        for name in ("tree", "node", "feature", "truenode", "falsenode")
    )
    texts, values = node.texts("nodes_modes"), node.floats("nodes_values")
    missing = integer_attribute(node, "nodes_missing_value_tracks_true")
    lists: list[Any] = [trees, names, features, true, false, texts, values]
    if len({*map(len, lists)}) > 1 or not texts or len(missing) not in (0, len(texts)):
        node.refuse("length mismatch of the attributes `nodes_...`")
    unknown_modes = {*texts} - {*TEST_CODES, "LEAF"}
    if unknown_modes:
        node.refuse(f"unknown node mode `{min(unknown_modes):.80}`")
    is_inner = np.asarray([text in TEST_CODES for text in texts], bool)
    codes = np.asarray([TEST_CODES[text] for text in texts if text in TEST_CODES], np.uint8)
    places = NodeNumbering.of(node, trees, names, ~is_inner)
    roots = np.sort(np.unique(trees, return_index=True)[1])
    yes, no = (places(trees[is_inner], after[is_inner]) for after in (true, false))
    return places, Nodes(
        codes, features[is_inner], values[is_inner].astype(dtype), yes, no,
        missing[is_inner] == 1 if len(missing) else None, None,
        places(trees[roots], names[roots]),
        places.leaves,
    )  # fmt: skip


def _leaves(
    node: OnnxNode, entries: tuple[Array, Array, Array], leaves: int, count: int, how: int
) -> Leaves:
    """Build the leaf table from lists of a leaf, a target and a weight; merge duplicates."""
    leaf, target, weight = entries
    order = np.lexsort((target, leaf))
    leaf, target, weight = leaf[order], target[order], weight[order]
    first = np.flatnonzero(np.diff(leaf, prepend=-1) | np.diff(target, prepend=-1))
    if len(first):
        combine = {MIN: np.minimum, MAX: np.maximum}.get(how, np.add)
        weight = combine.reduceat(weight, first)
    leaf, target = leaf[first], target[first]
    weights_per_leaf = np.bincount(leaf, minlength=leaves)
    widest = max(int(weights_per_leaf.max(initial=0)), 1)
    if leaves * widest > max(MOST_WEIGHTS, 16 * len(leaf)):
        node.refuse(f"weights are too large: {leaves} leaves with up to {widest} weights each")
    column = np.arange(len(leaf)) - np.repeat(
        np.cumsum(weights_per_leaf) - weights_per_leaf, weights_per_leaf
    )
    targets = np.full((leaves, widest), count, np.int64)
    weights = np.zeros((leaves, widest), weight.dtype)
    targets[leaf, column], weights[leaf, column] = target, weight
    return Leaves(targets, weights, count, how, otherwise=0.0)


NAMED_TREES: Mapping[str, Rule] = {
    f"{ML_DOMAIN}.TreeEnsembleClassifier": tree_classifier,
    f"{ML_DOMAIN}.TreeEnsembleRegressor": tree_regressor,
}
