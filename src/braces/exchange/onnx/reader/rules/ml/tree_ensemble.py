"""The sums over the leaves of trees, and TreeEnsemble, which is arrays of nodes and leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var
from braces.dtypes import DType
from braces.exchange.common.rules.elementwise import number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import LEARNED, Node, Rule
from braces.exchange.onnx.reader.rules.ml.scores import transformed
from braces.exchange.onnx.reader.rules.ml.tree_traversal import MEMBER, Nodes, reached, written
from braces.frontend.core import functions as ops

MOST_TARGETS = 1 << 20
"""Each row has a number for each target."""
MOST_MEMBERS = 1 << 24
"""Each node has room for as many numbers as any has."""
AVERAGE, SUM, MIN, MAX = range(4)
"""What becomes of what several trees say of one target."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """What leaves say.

    Attributes:
        targets: What each speaks of, filled up with their count.
        weights: What it says of them.
        count: How many targets there are.
        how: What becomes of what several trees say.
        otherwise: What no tree says anything of, where the largest or smallest is taken.
    """

    targets: Array
    weights: Array
    count: int
    how: int
    otherwise: float | None = None


# ---- predictions -----------------------------------------------------------------------------


def together(node: Node, leaves: Leaves, leaf: Var, trees: int) -> Var:
    """What the leaves that a row comes to say of each target, for all trees at once."""
    weight = ops.take(written(node, leaves.weights), leaf, axis=0)
    if leaves.count == 1 and leaves.how in (AVERAGE, SUM):
        found = ops.sum(weight, axis=(1, 2))
        found = ops.expand_dims(found, axis=-1)
    else:
        said = (leaf.shape[0], trees * leaves.weights.shape[1])
        target = ops.reshape(ops.take(written(node, leaves.targets), leaf, axis=0), said)
        found = _by_target(leaves, target, ops.reshape(weight, said))
    return found / float(trees) if leaves.how == AVERAGE else found


def _by_target(leaves: Leaves, target: Var, weight: Var) -> Var:
    """The sum, the smallest or the largest of what is said of each target."""
    limits = np.finfo(leaves.weights.dtype)
    first = {MIN: limits.max, MAX: limits.min}.get(leaves.how, 0.0)
    start = np.full((), first, leaves.weights.dtype)
    room = ops.broadcast_to(start, (target.shape[0], leaves.count + 1))
    if leaves.how in (AVERAGE, SUM):
        return one("put_along_axis_add", room, target, weight, axis=1)[:, : leaves.count]
    way = "min" if leaves.how == MIN else "max"
    made = ops.put_along_axis(room, target, weight, axis=1, reduction=way)[:, : leaves.count]
    if leaves.otherwise is None:
        return made
    silent = ops.equal(made, start)
    return ops.where(silent, number(leaves.otherwise, made.dtype), made)


# ---- as it is now ----------------------------------------------------------------------------


def tree_ensemble(node: Node) -> Var:
    """The sums of the leaves at which each row ends, one for each target."""
    x = node.var(0)
    weights, targets = _numbers(node, "leaf_weights"), ints(node, "leaf_targetids")
    count, how = int(node.attr("n_targets")), int(node.attr("aggregate_function", SUM))
    if len(weights) != len(targets) or not among(targets, count) or how not in range(4):
        node.refuse("has leaves that speak of no target")
    nodes = _parse_trees(node, x.dtype)
    leaves = Leaves(targets[:, None], weights[:, None], count, how)
    leaf = reached(node, nodes, x, _parse_trees)
    return transformed(node, together(node, leaves, leaf, len(nodes.roots)))


def _parse_trees(node: Node, dtype: DType) -> Nodes:
    """The trees that the attributes of a TreeEnsemble describe."""
    modes, missing = _numbers(node, "nodes_modes"), node.attr("nodes_missing_value_tracks_true")
    yes, no = (_following(node, answer, len(modes)) for answer in ("true", "false"))
    return Nodes(
        modes, ints(node, "nodes_featureids"), _numbers(node, "nodes_splits").astype(dtype),
        yes, no, np.asarray(missing, bool) if missing else None, _members(node, modes),
        ints(node, "tree_roots"), len(_numbers(node, "leaf_weights")),
    )  # fmt: skip


def _numbers(node: Node, name: str) -> Array:
    found = node.tensor(name)
    if found is None:
        node.refuse(f"has no attribute `{name}`")
    return found.numbers().ravel()


def ints(node: Node, name: str) -> Array:
    """An attribute that is a list of integers."""
    return np.asarray(node.attr(name) or (), np.int64)


def among(places: Array, count: int) -> bool:
    """Whether these are places of so many, and there are not absurdly many."""
    return 0 < count <= MOST_TARGETS and (
        not len(places) or 0 <= places.min() <= places.max() < count
    )


def _following(node: Node, answer: str, nodes: int) -> Array:
    """Where each node sends the rows that it answers so; leaves come after the nodes."""
    return ints(node, f"nodes_{answer}nodeids") + nodes * ints(node, f"nodes_{answer}leafs")


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


TREES: Mapping[str, Rule] = {f"{LEARNED}.TreeEnsemble": tree_ensemble}
