"""Aggregation of tree leaves, and the rule of TreeEnsemble with its arrays of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from braces.exchange.common.rules.elementwise import number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import ML_DOMAIN, OnnxNode, Rule
from braces.exchange.onnx.reader.rules.ml.scores import apply_post_transform
from braces.exchange.onnx.reader.rules.ml.tree_traversal import (
    MEMBER,
    Nodes,
    as_variable,
    look_up,
    reached_leaves,
    trees_of_leaves,
)
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import DType

MOST_TARGETS = 1 << 20
"""The largest number of targets; each row has a number for each."""
MOST_DENSE_TARGETS, MOST_DENSE = 32, 1 << 20
"""The largest table of the weights of leaves with a column for each target."""
MOST_MEMBERS = 1 << 24
"""The largest size of the padded table of membership sets."""
AVERAGE, SUM, MIN, MAX = range(4)
"""The aggregations of several trees' values for one target."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """The values of leaves.

    Attributes:
        targets: The targets of each leaf, padded with `count`.
        weights: The value for each of these targets.
        count: The number of targets.
        how: The aggregation over trees.
        otherwise: The result of a minimum or maximum for a target without values.
    """

    targets: Array
    weights: Array
    count: int
    how: int
    otherwise: float | None = None


# ---- predictions -----------------------------------------------------------------------------


def aggregate_leaves(node: OnnxNode, leaves: Leaves, leaf: Var, nodes: Nodes) -> Var:
    """Aggregate the leaves that a row reaches, for all trees at once."""
    trees, target_of_tree = len(nodes.roots), _target_of_each_tree(leaves, nodes)
    dense = _dense_weights(leaves)
    if target_of_tree is not None:
        weight = look_up(as_variable(node, leaves.weights[:, 0]), leaf)
        totals = ops.matmul(weight, target_of_tree)
    elif dense is not None:
        totals = ops.sum(look_up(as_variable(node, dense), leaf), axis=1)
    else:
        weight = look_up(as_variable(node, leaves.weights), leaf)
        flat_shape = (leaf.shape[0], trees * leaves.weights.shape[1])
        target = ops.reshape(look_up(as_variable(node, leaves.targets), leaf), flat_shape)
        totals = _by_target(leaves, target, ops.reshape(weight, flat_shape))
    return totals / float(trees) if leaves.how == AVERAGE else totals


def _target_of_each_tree(leaves: Leaves, nodes: Nodes) -> Array | None:
    """Return a matrix with a one for the target of each tree, if trees have one each."""
    single = leaves.how in (AVERAGE, SUM) and leaves.weights.shape[1] == 1 < leaves.count
    tree = trees_of_leaves(nodes) if single and leaves.count <= MOST_DENSE_TARGETS else None
    if tree is None:
        return None
    trees, heard = len(nodes.roots), (leaves.targets[:, 0] < leaves.count) & (tree >= 0)
    ones = np.zeros((trees, leaves.count), leaves.weights.dtype)
    ones[tree[heard], leaves.targets[heard, 0]] = 1
    return ones if (ones.sum(axis=1) <= 1).all() else None


def _dense_weights(leaves: Leaves) -> Array | None:
    """Return the weight of each leaf for each target, if sums are wanted and it is small."""
    number = len(leaves.weights)
    too_large = leaves.count > 1 and number * leaves.count > MOST_DENSE
    if leaves.how not in (AVERAGE, SUM) or leaves.count > MOST_DENSE_TARGETS or too_large:
        return None
    dense = np.zeros((number, leaves.count + 1), leaves.weights.dtype)
    np.add.at(dense, (np.arange(number)[:, None], leaves.targets), leaves.weights)
    return dense[:, : leaves.count]


def _by_target(leaves: Leaves, target: Var, weight: Var) -> Var:
    """Return the sum, the minimum or the maximum of the values of each target."""
    limits = np.finfo(leaves.weights.dtype)
    first = {MIN: limits.max, MAX: limits.min}.get(leaves.how, 0.0)
    start = np.full((), first, leaves.weights.dtype)
    accumulator = ops.broadcast_to(start, (target.shape[0], leaves.count + 1))
    if leaves.how in (AVERAGE, SUM):
        return emit("put_along_axis_add", accumulator, target, weight, axis=1)[
            :, : leaves.count
        ]
    operation = "min" if leaves.how == MIN else "max"
    extremes = ops.put_along_axis(accumulator, target, weight, axis=1, reduction=operation)[
        :, : leaves.count
    ]
    if leaves.otherwise is None:
        return extremes
    untouched = ops.equal(extremes, start)
    return ops.where(untouched, number(leaves.otherwise, extremes.dtype), extremes)


# ---- TreeEnsemble ----------------------------------------------------------------------------


def tree_ensemble(node: OnnxNode) -> Var:
    """The aggregated leaves that each row reaches, one number for each target."""
    x = node.var(0)
    weights, targets = _numbers(node, "leaf_weights"), integer_attribute(node, "leaf_targetids")
    count, how = int(node.attr("n_targets")), int(node.attr("aggregate_function", SUM))
    if (
        len(weights) != len(targets)
        or not are_valid_indices(targets, count)
        or how not in range(4)
    ):
        node.refuse("invalid targets, weights or aggregate function of the leaves")
    nodes = _parse_trees(node, x.dtype)
    leaves = Leaves(targets[:, None], weights[:, None], count, how)
    leaf = reached_leaves(node, nodes, x, _parse_trees)
    return apply_post_transform(node, aggregate_leaves(node, leaves, leaf, nodes))


def _parse_trees(node: OnnxNode, dtype: DType) -> Nodes:
    """Parse the trees from the attributes of a TreeEnsemble."""
    modes, missing = _numbers(node, "nodes_modes"), node.attr("nodes_missing_value_tracks_true")
    yes, no = (_successors(node, answer, len(modes)) for answer in ("true", "false"))
    return Nodes(
        modes, integer_attribute(node, "nodes_featureids"),
        _numbers(node, "nodes_splits").astype(dtype),
        yes, no, np.asarray(missing, bool) if missing else None, _members(node, modes),
        integer_attribute(node, "tree_roots"), len(_numbers(node, "leaf_weights")),
    )  # fmt: skip


def _numbers(node: OnnxNode, name: str) -> Array:
    numbers_tensor = node.tensor(name)
    if numbers_tensor is None:
        node.refuse(f"missing attribute `{name}`")
    return numbers_tensor.numbers().ravel()


def integer_attribute(node: OnnxNode, name: str) -> Array:
    """Return an attribute that is a list of integers."""
    return np.asarray(node.attr(name) or (), np.int64)


def are_valid_indices(places: Array, count: int) -> bool:
    """Return whether indices are below a count that is not too large."""
    return 0 < count <= MOST_TARGETS and (
        not len(places) or 0 <= places.min() <= places.max() < count
    )


def _successors(node: OnnxNode, answer: str, nodes: int) -> Array:
    """Return the successors of nodes for one answer; leaves are numbered after the nodes."""
    return integer_attribute(node, f"nodes_{answer}nodeids") + nodes * integer_attribute(
        node, f"nodes_{answer}leafs"
    )


def _members(node: OnnxNode, modes: Array) -> Array | None:
    """Return the membership sets of nodes, padded with NaN."""
    if MEMBER not in modes:
        return None
    flat = _numbers(node, "membership_values")
    ends = np.flatnonzero(np.isnan(flat))
    member_nodes = np.flatnonzero(modes == MEMBER)
    if len(ends) != len(member_nodes):
        node.refuse(
            f"{len(ends)} member sets do not match {len(member_nodes)} BRANCH_MEMBER nodes"
        )
    sets = np.split(flat, ends + 1)[:-1]
    widest = max(map(len, sets))
    if len(modes) * widest > MOST_MEMBERS:
        node.refuse(f"member sets are too large: {widest} members for {len(modes)} nodes")
    padded_sets = np.full((len(modes), widest), np.nan, flat.dtype)
    for at, numbers in zip(member_nodes, sets, strict=True):
        padded_sets[at, : len(numbers)] = numbers
    return padded_sets


TREES: Mapping[str, Rule] = {f"{ML_DOMAIN}.TreeEnsemble": tree_ensemble}
