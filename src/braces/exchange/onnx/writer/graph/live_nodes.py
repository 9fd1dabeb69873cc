"""Removal of ONNX nodes whose outputs nothing reads, such as constants of an unused branch.

    c = Constant()            (unread)
    a, b = Split(x)           out = Relu(a)
    d = Cast(b)               (unread)          the nodes of `c` and `d` are removed

ONNX Runtime reports each unread constant of a model with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any


def live_nodes(nodes: Iterable[Any], outputs: Iterable[str]) -> list[Any]:
    """Return the nodes that the outputs of a graph depend on, in their order.

    The same holds for the subgraphs of these nodes.

    Args:
        nodes: The nodes of a graph or a function, in order of execution.
        outputs: The names of its outputs.

    Example:
        >>> from types import SimpleNamespace as Node
        >>> nodes = [Node(input=["x"], output=[name], attribute=[]) for name in ("a", "b")]
        >>> [node.output for node in live_nodes(nodes, ["b"])]
        [['b']]
    """
    kept, read = list[Any](), set(outputs)
    for node in reversed(list(nodes)):
        if not read.isdisjoint(node.output):
            for attribute in node.attribute:
                _prune_graph(attribute.g)
            read.update(filter(None, names_read([node])))  # an omitted input is ""
            kept.append(node)
    return kept[::-1]


def _prune_graph(graph: Any) -> None:
    """Remove the nodes of a subgraph that its outputs do not need."""
    _replace_nodes(graph, live_nodes(graph.node, [entry.name for entry in graph.output]))


def prune_function(function: Any) -> None:
    """Remove the nodes of a function that its outputs do not need."""
    _replace_nodes(function, live_nodes(function.node, function.output))


def _replace_nodes(owner: Any, kept: list[Any]) -> None:
    if len(kept) < len(owner.node):
        copies = list[Any](map(deepcopy, kept))  # a deletion invalidates nodes
        del owner.node[:]
        owner.node.extend(copies)


def names_read(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield all names that nodes and their subgraphs read."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from names_read(attribute.g.node)
            yield from (entry.name for entry in attribute.g.output)
