"""Value numbering of the nodes of one graph: names with equal definitions share a number.

a = Gather(X, [0, 1]); b = Gather(X, [0, 1])        a and b have one number
c = Gather(X, [1, 0])                               c has another one
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from braces.exchange.common.values.constants import Constant

DEEPEST = 16
"""The longest chain of nodes that is followed; a name behind it has its own number."""
LARGEST_BYTES = 1 << 14
"""The largest node or constant that is compared by its content."""


class GraphNames(Protocol):
    """The names of a graph, with the values that were read already."""

    values: dict[str, Any]


class ValueNumbers:
    """The value numbers of one graph, and its nodes by operator and first input."""

    def __init__(self, names: GraphNames, nodes: Sequence[Any]) -> None:
        self._names = names
        self._nodes = nodes
        self._producers = {name: (node, at) for node in nodes for at, name in _outputs(node)}
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[str, int] = {}
        self._groups: dict[str, dict[int, list[Any]]] = {}

    def nodes_like(self, node: Any) -> Sequence[Any]:
        """Return the nodes with the operator and first input of `node`, in order."""
        groups = self._groups.get(_operator(node))
        if groups is None:
            groups = self._groups[_operator(node)] = defaultdict(list)
            for other in self._nodes:
                if _operator(other) == _operator(node) and other.input:
                    groups[self.number(other.input[0])].append(other)
        return groups[self.number(node.input[0])]

    def number(self, name: str, depth: int = 0) -> int:
        """Return the value number of a name."""
        if name not in self._known:
            key = self._key(name, depth) if depth < DEEPEST else ("name", name)
            self._known[name] = self._numbers.setdefault(key, len(self._numbers))
        return self._known[name]

    def _key(self, name: str, depth: int) -> Hashable:
        """Return the hashable definition of a name; the name itself if it has none."""
        definition = self._producers.get(name)
        if definition is None:
            return _constant(self._names.values.get(name)) or ("name", name)
        node, at = definition
        if not _is_pure(node) or node.ByteSize() > LARGEST_BYTES:
            return "name", name
        inputs = tuple(self.number(each, depth + 1) if each else None for each in node.input)
        attributes = sorted(
            each.SerializeToString(deterministic=True) for each in node.attribute
        )
        return _operator(node), at, inputs, tuple(attributes)


def _outputs(node: Any) -> list[tuple[int, str]]:
    return [(at, name) for at, name in enumerate(node.output) if name]


def _operator(node: Any) -> str:
    return f"{node.domain}.{node.op_type}"


def _is_pure(node: Any) -> bool:
    """Return whether equal inputs give equal outputs: no subgraph, function or random op."""
    return (
        node.domain in ("", "ai.onnx", "ai.onnx.ml")
        and not node.op_type.startswith(("Random", "Bernoulli", "Dropout", "Multinomial"))
        and not any(each.HasField("g") or each.graphs for each in node.attribute)
    )


def _constant(value: Any) -> Hashable | None:
    """Return the content of a small constant."""
    if not isinstance(value, Constant) or value.array.nbytes > LARGEST_BYTES:
        return None
    if value.array.dtype.hasobject:
        return None
    return "constant", str(value.dtype), value.array.shape, value.array.tobytes()
