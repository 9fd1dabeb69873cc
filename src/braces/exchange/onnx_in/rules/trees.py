"""Trees, and TreeEnsemble, which is arrays of nodes and leaves.

All rows walk all trees at once, one level after the other: a row is at a node, which is a
number; what the node asks, and where it sends the row, is read from arrays by that number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var
from braces.dtypes import DType
from braces.exchange.known import Array, Known
from braces.exchange.numbers import number
from braces.exchange.onnx_in.node import LEARNED, Node, Rule
from braces.exchange.onnx_in.rules.scores import transformed
from braces.frontend import functions as ops

MOST_TARGETS = 1 << 20
"""Each row has a number for each target."""
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


@dataclass(frozen=True, eq=False)
class Nodes:
    """What asks, for all trees; leaves are numbered after them.

    Attributes:
        modes: What each node asks.
        features: Of which feature.
        splits: The number that it is held against.
        yes: Where those that it is true of go on.
        no: Where the others go on.
        missing: Whether it is true of what is missing.
        members: The numbers of those that ask for several, filled up with NaN.
        roots: Where each tree begins.
    """

    modes: Array
    features: Array
    splits: Array
    yes: Array
    no: Array
    missing: Array | None
    members: Array | None
    roots: Array


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


# ---- walking ---------------------------------------------------------------------------------


def reached(node: Node, nodes: Nodes, leaves: int, x: Var) -> Var:
    """The leaf of each tree that each row of features comes to."""
    count = len(nodes.modes)
    _check(node, nodes, count + leaves, x)
    at = ops.broadcast_to(nodes.roots, (x.shape[0], len(nodes.roots)))
    depth = _depth(node, nodes)
    if not depth:
        return at - count
    features, yes, no = (written(node, v) for v in (nodes.features, nodes.yes, nodes.no))
    answers = _answering(node, nodes, x.dtype)
    for _ in range(depth):
        inner = ops.minimum(at, count - 1)
        value = ops.take_along_axis(x, ops.take(features, inner), axis=1)
        true = answers(inner, value)
        after = ops.where(true, ops.take(yes, inner), ops.take(no, inner))
        at = ops.where(at < count, after, at)
    return at - count


def written(node: Node, array: Array) -> Var:
    """An array as a variable: each level reads the same one."""
    return node.names.runner.lift(Known.of(array))


def _check(node: Node, nodes: Nodes, count: int, x: Var) -> None:
    """Refuse trees that lead out of themselves, or ask of features that are not there."""
    if len({len(each) for each in (nodes.modes, nodes.features, nodes.splits, nodes.yes)}) > 1:
        node.refuse("says other numbers of nodes in its attributes")
    for places in (nodes.yes, nodes.no, nodes.roots):
        if len(places) and not 0 <= places.min() <= places.max() < count:
            node.refuse("has a tree with a way to no node")
    if not len(nodes.roots):
        node.refuse("has no tree")
    width = x.shape[-1]
    most = nodes.features.max() if len(nodes.features) else 0
    if isinstance(width, int) and most >= width:
        node.refuse(f"asks for the feature {most} of {width}")


def _depth(node: Node, nodes: Nodes) -> int:
    """How many nodes there are at most on the way to a leaf."""
    count, level, depth = len(nodes.modes), np.unique(nodes.roots), 0
    while len(level := level[level < count]):
        depth += 1
        if depth > min(count, DEEPEST):
            node.refuse(f"has a tree that goes in circles, or is deeper than {DEEPEST}")
        level = np.unique(np.concatenate([nodes.yes[level], nodes.no[level]]))
    return depth


def _answering(node: Node, nodes: Nodes, dtype: DType) -> Callable[[Var, Var], Var]:
    """What the nodes say of values."""
    modes, splits = written(node, nodes.modes), written(node, nodes.splits.astype(dtype))
    members = None if nodes.members is None else written(node, nodes.members)
    tracks = nodes.missing is not None and nodes.missing.any()
    missing = written(node, nodes.missing) if nodes.missing is not None and tracks else None

    def answers(at: Var, value: Var) -> Var:
        mode, split = ops.take(modes, at), ops.take(splits, at)
        found = ops.zeros_like(value, dtype="bool")
        for code, test in TESTS.items():
            if code in nodes.modes:
                found = ops.where(mode == number(code, mode.dtype), test(value, split), found)
        if members is not None:
            there = ops.expand_dims(value, axis=-1) == ops.take(members, at, axis=0)
            mine = mode == number(MEMBER, mode.dtype)
            found = ops.where(mine, ops.any(there, axis=-1), found)
        if missing is not None:
            found = found | (ops.isnan(value) & ops.take(missing, at))
        return found

    return answers


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
    """What the leaves say that a row reaches in each tree, together."""
    x, modes = node.var(0), _numbers(node, "nodes_modes")
    weights, targets = _numbers(node, "leaf_weights"), ints(node, "leaf_targetids")
    count, how = int(node.attr("n_targets")), int(node.attr("aggregate_function", SUM))
    if len(weights) != len(targets) or not among(targets, count) or how not in range(4):
        node.refuse("has leaves that speak of no target")
    missing = node.attr("nodes_missing_value_tracks_true")
    yes, no = (_following(node, answer, len(modes)) for answer in ("true", "false"))
    nodes = Nodes(
        modes, ints(node, "nodes_featureids"), _numbers(node, "nodes_splits"), yes, no,
        np.asarray(missing, bool) if missing else None, _members(node, modes),
        ints(node, "tree_roots"),
    )  # fmt: skip
    leaves = Leaves(targets[:, None], weights[:, None], count, how)
    leaf = reached(node, nodes, len(weights), x)
    return transformed(node, together(node, leaves, leaf, len(nodes.roots)))


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
