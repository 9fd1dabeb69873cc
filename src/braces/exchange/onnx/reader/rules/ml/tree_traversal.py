"""Tree traversal of rows of features, vectorized over rows and trees.

All rows walk all trees at once, in one loop over the levels. The carry of the loop is the
number of the node at which each row is in each tree. The test of a node and its successors are
read from arrays:

    x: f32[rows, 2]                tests: x0 <= 0.5, x1 <= 2.0

    node    feature  split  successors (no, yes)
    0       0        0.5    2, 1
    1       1        2.0    4, 3
    2, 3, 4 leaves          themselves

Ensembles of one graph that read the same features share one walk: an isolation forest is
written as a hundred ensembles of one tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from braces.errors import BracesError
from braces.exchange.common.rules.elementwise import number
from braces.exchange.common.values.constants import Array, Constant
from braces.exchange.onnx.reader.graph.node import OnnxNode
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.constructs import create_rnn
from braces.extend.types import INT32, DType

DEEPEST = 512
"""The most levels of a tree; each is an iteration of the loop."""
MEMBER = 6
"""The code of the test whether a feature is in a set."""
TESTS: Mapping[int, Callable[..., Var]] = {
    0: ops.less_equal, 1: ops.less, 2: ops.greater_equal, 3: ops.greater, 4: ops.equal,
    5: ops.not_equal,
}  # fmt: skip
"""The tests of a feature against a split, by ONNX's codes."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """The inner nodes of all trees; leaves are numbered after them.

    Attributes:
        modes: The code of the test of each node.
        features: The feature that it tests.
        splits: The number that the feature is compared with.
        yes: The next node where the test is true.
        no: The next node where it is false.
        missing: Whether the test is true of NaN.
        members: The sets of tests for membership, padded with NaN.
        roots: The first node of each tree.
        leaves: The number of leaves.
    """

    modes: Array
    features: Array
    splits: Array
    yes: Array
    no: Array
    missing: Array | None
    members: Array | None
    roots: Array
    leaves: int


@dataclass(frozen=True, eq=False)
class WalkTable:
    """The arrays that a walk reads, with a row for each node; leaves come after inner nodes.

    A leaf is its own successor. So all walks take the same number of steps, and a step is the
    same for inner nodes and for leaves.

    Attributes:
        features: The feature that each node tests. If tests may be true of NaN, twice its
            number, plus one where that is so.
        successors: The next node where the test is false, then where it is true: node `n` has
            the entries `2 n` and `2 n + 1`.
        test: From nodes and values of their features to the results of the tests.
        tracks_missing: Whether a test may be true of NaN.
    """

    features: Var
    successors: Var
    test: Callable[[Var, Var], Var]
    tracks_missing: bool

    @staticmethod
    def of(node: OnnxNode, nodes: Nodes, dtype: DType) -> WalkTable:
        """Build the table of an ensemble, for features of a dtype."""
        leaves = nodes.leaves
        leaf_numbers = np.arange(len(nodes.modes), len(nodes.modes) + leaves)
        successor_lists = [np.concatenate([way, leaf_numbers]) for way in (nodes.no, nodes.yes)]
        padded = replace(
            nodes,
            modes=_padded(nodes.modes, leaves),
            splits=_padded(nodes.splits, leaves),
            members=None if nodes.members is None else _padded(nodes.members, leaves),
        )
        tracks_missing = nodes.missing is not None and bool(nodes.missing.any())
        features = nodes.features * 2 + nodes.missing if tracks_missing else nodes.features
        return WalkTable(
            as_variable(node, _padded(features, leaves).astype(np.int32)),
            as_variable(node, np.stack(successor_lists, axis=1).ravel().astype(np.int32)),
            _build_test(node, padded, nodes.modes, dtype),
            tracks_missing,
        )

    def step(self, at: Var, x: Var) -> Var:
        """Return the next nodes of the walks of each row of features."""
        features = look_up(self.features, at)
        value = _own_features(x, features // 2 if self.tracks_missing else features)
        result = self.test(at, value)
        if self.tracks_missing:
            result = result | (ops.isnan(value) & (features % 2 == 1))
        return look_up(self.successors, at * 2 + ops.cast(result, INT32))


@dataclass(frozen=True, eq=False)
class Walk:
    """The part of a shared walk that belongs to one ensemble.

    Attributes:
        owner: The names of the graph, kept alive since their identity is part of the key.
        ends: The last node of each row in each tree of all ensembles.
        columns: The trees of this ensemble.
        first: The number of its first leaf.
    """

    owner: object
    ends: Var
    columns: slice
    first: int

    def leaves(self) -> Var:
        """Return the leaf of each tree of the ensemble at which each row ends."""
        is_only = self.columns == slice(0, self.ends.shape[1])
        return (self.ends if is_only else self.ends[:, self.columns]) - self.first


def look_up(table: Var, at: Var) -> Var:
    """Return entries of a table, or its rows, at numbers that are valid by construction.

    `take` would check each of them at run time, which takes longer than the entries.
    """
    rows = table.shape[1:]
    return emit(
        "lax_gather",
        table,
        ops.expand_dims(at, axis=-1),
        offset_dims=tuple(range(at.ndim, at.ndim + len(rows))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        slice_sizes=(1, *rows),
    )


def _own_features(x: Var, features: Var) -> Var:
    """Return the features of each row that its own walks test."""
    if not isinstance(x.shape[1], int):  # features may be missing
        return ops.take_along_axis(x, features, axis=1)
    return emit(
        "lax_gather",
        x,
        ops.expand_dims(features, axis=-1),
        offset_dims=(),
        collapsed_slice_dims=(1,),
        start_index_map=(1,),
        slice_sizes=(1, 1),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )


Parse: TypeAlias = "Callable[[OnnxNode, DType], Nodes]"
"""Maps a node of the graph to the trees in its attributes."""


class Ensemble(NamedTuple):
    """A node of the graph, its trees, and their depth in inner nodes."""

    node: OnnxNode
    nodes: Nodes
    depth: int


def reached_leaves(node: OnnxNode, nodes: Nodes, x: Var, parse: Parse) -> Var:
    """Return the leaf of each tree that each row of features reaches.

    Args:
        node: The node of the graph.
        nodes: Its trees.
        x: The features, a row for each example.
        parse: Parses the trees of other nodes of its operator.
    """
    walks = node.names.runner.walks
    key = _key(node)
    if key not in walks:
        own = Ensemble(node, nodes, _checked_depth(node, nodes, x))
        others = _ensembles_like(node, x, parse) if nodes.members is None else []
        walks.update(_walk_together([own, *others], x))
    return walks[key].leaves()


def _key(node: OnnxNode) -> tuple[int, str]:
    return id(node.names), next(iter(node.proto.output), "")


def _ensembles_like(node: OnnxNode, x: Var, parse: Parse) -> list[Ensemble]:
    """Return other supported ensembles of the graph that read the same features."""
    ensembles = list[Ensemble]()
    for proto in node.names.value_numbers().nodes_like(node.proto):
        other = OnnxNode(node.names, proto, {})
        if _key(other) == _key(node) or _key(other) in node.names.runner.walks:
            continue
        try:
            other = OnnxNode.of(node.names, proto)
            nodes = parse(other, x.dtype)
            depth = _checked_depth(other, nodes, x)
        except BracesError:  # the error is reported where that node is read
            continue
        if nodes.members is None:
            ensembles.append(Ensemble(other, nodes, depth))
    return ensembles


def _walk_together(ensembles: Sequence[Ensemble], x: Var) -> dict[tuple[int, str], Walk]:
    """Build one walk through the trees of several ensembles."""
    joint = _join([each.nodes for each in ensembles])
    depth = max(each.depth for each in ensembles)
    ends = _walk(ensembles[0].node, joint, depth, x)
    walks, column, first = dict[tuple[int, str], Walk](), 0, len(joint.modes)
    for other, nodes, _ in ensembles:
        columns = slice(column, column + len(nodes.roots))
        walks[_key(other)] = Walk(other.names, ends, columns, first)
        column, first = columns.stop, first + nodes.leaves
    return walks


def _join(several: Sequence[Nodes]) -> Nodes:
    """Concatenate the trees of several ensembles: inner nodes first, then all leaves."""
    if len(several) == 1:
        return several[0]
    inner = sum(len(nodes.modes) for nodes in several)
    renumbered, offset, leaves = list[Nodes](), 0, 0
    for nodes in several:
        count = len(nodes.modes)
        leaf_offset = inner - count + leaves
        yes, no, roots = (
            np.where(at < count, at + offset, at + leaf_offset)
            for at in (nodes.yes, nodes.no, nodes.roots)
        )
        absent = np.zeros(count, bool)
        missing = absent if nodes.missing is None else nodes.missing
        renumbered.append(replace(nodes, yes=yes, no=no, roots=roots, missing=missing))
        offset, leaves = offset + count, leaves + nodes.leaves
    fields = ("modes", "features", "splits", "yes", "no", "missing", "roots")
    field_arrays = {
        name: np.concatenate([getattr(n, name) for n in renumbered]) for name in fields
    }
    return Nodes(**field_arrays, members=None, leaves=leaves)


def _walk(node: OnnxNode, nodes: Nodes, depth: int, x: Var) -> Var:
    """Return the last node of each row in each tree.

    One loop over the levels walks all trees: the number of operators does not depend on depth.
    """
    roots = nodes.roots.astype(np.int32)
    start = ops.broadcast_to(roots, (x.shape[0], len(roots)))
    if not depth:
        return start
    table = WalkTable.of(node, nodes, x.dtype)
    walk = create_rnn(steps=depth)
    with walk.stepnet() as net:
        at = net.add_memory(init=start)
        at.update(table.step(at.pre(1), x))
    return walk.final(at)


def _checked_depth(node: OnnxNode, nodes: Nodes, x: Var) -> int:
    """Validate the successors and features of trees, and return their depth."""
    lists = (nodes.modes, nodes.features, nodes.splits, nodes.yes, nodes.no)
    if len({len(each) for each in lists}) > 1:
        node.refuse("length mismatch of the attributes of nodes")
    count = len(nodes.modes) + nodes.leaves
    for targets in (nodes.yes, nodes.no, nodes.roots):
        if len(targets) and not 0 <= targets.min() <= targets.max() < count:
            node.refuse(f"child or root index out of range for {count} nodes and leaves")
    if not len(nodes.roots):
        node.refuse("missing trees")
    width = x.shape[-1]
    largest_feature = nodes.features.max() if len(nodes.features) else 0
    if isinstance(width, int) and largest_feature >= width:
        node.refuse(f"feature {largest_feature} is out of range for {width} features")
    return _depth(node, nodes)


def _depth(node: OnnxNode, nodes: Nodes) -> int:
    """Return the largest number of inner nodes on the way to a leaf."""
    count, level, depth = len(nodes.modes), np.unique(nodes.roots), 0
    while len(level := level[level < count]):
        depth += 1
        if depth > min(count, DEEPEST):
            node.refuse(f"a tree has a cycle or exceeds the maximum depth {DEEPEST}")
        level = np.unique(np.concatenate([nodes.yes[level], nodes.no[level]]))
    return depth


def trees_of_leaves(nodes: Nodes) -> Array | None:
    """Return the tree of each leaf; -1 for a leaf of none, `None` if trees share nodes."""
    inner = len(nodes.modes)
    if np.bincount(np.concatenate([nodes.yes, nodes.no, nodes.roots])).max(initial=0) > 1:
        return None
    tree = np.full(inner + nodes.leaves, -1)
    level, tree[nodes.roots] = nodes.roots, np.arange(len(nodes.roots))
    while len(level := level[level < inner]):
        for successors in (nodes.yes, nodes.no):
            tree[successors[level]] = tree[level]
        level = np.concatenate([nodes.yes[level], nodes.no[level]])
    return tree[inner:]


def as_variable(node: OnnxNode, array: Array) -> Var:
    """Return an array as a variable."""
    return node.names.runner.lift(Constant.of(array))


def _padded(array: Array, count: int) -> Array:
    """Pad an array with rows of zeros at its end."""
    return np.concatenate([array, np.zeros((count, *array.shape[1:]), array.dtype)])


def _build_test(
    node: OnnxNode, nodes: Nodes, modes: Array, dtype: DType
) -> Callable[[Var, Var], Var]:
    """Build the function from nodes and the values of their features to test results.

    Args:
        node: The node of the graph.
        nodes: The nodes of the trees, with rows for leaves.
        modes: The kinds of tests that occur.
        dtype: The dtype of the features.
    """
    codes = np.unique(modes)
    kinds, splits = (
        as_variable(node, nodes.modes),
        as_variable(node, nodes.splits.astype(dtype)),
    )
    members = None if nodes.members is None else as_variable(node, nodes.members)

    def result_of(code: int, at: Var, value: Var) -> Var:
        if code != MEMBER:
            return TESTS[code](value, look_up(splits, at))
        assert members is not None, "missing member sets"
        return ops.any(ops.expand_dims(value, axis=-1) == look_up(members, at), axis=-1)

    def test(at: Var, value: Var) -> Var:
        first, *others = map(int, codes)
        result = result_of(first, at, value)
        for code in others:
            has_code = look_up(kinds, at) == number(code, kinds.dtype)
            result = ops.where(has_code, result_of(code, at, value), result)
        return result

    return test
