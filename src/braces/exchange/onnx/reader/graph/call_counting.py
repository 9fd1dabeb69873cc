"""Count the nodes of a model with every call expanded, before any node is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from braces.errors import ProgramError
from braces.exchange.onnx.reader.graph.function_bodies import FunctionId, called_by

DEEPEST = 48
"""The deepest nesting of functions and of graphs."""


class TooManyNodes(ProgramError):
    """A recursive function, or too many nodes after expansion."""


class NodeCounter:
    """Counts nodes, with the nodes of called functions.

    Functions that call another twice, which calls another twice, expand to 2^n nodes. The count
    is memoized per function, so each is visited once.
    """

    def __init__(self, functions: Mapping[FunctionId, Any]) -> None:
        self._functions = functions
        self._known = dict[FunctionId, int]()
        self._open = list[FunctionId]()

    def of(self, nodes: Iterable[Any]) -> int:
        """Return the number of nodes after expansion.

        Raises:
            Endless: If a function calls itself, or the nesting is too deep.
        """
        total = 0
        for node in nodes:
            called = called_by(node)
            total += 1 + (self._of_function(called) if called in self._functions else 0)
            for attribute in node.attribute:
                total += sum(self.of(graph.node) for graph in (attribute.g, *attribute.graphs))
        return total

    def _of_function(self, called: FunctionId) -> int:
        if called in self._open:
            raise TooManyNodes(
                f"function `{called[1]:.80}` is recursive.",
                fix="Use a Loop node instead.",
            )
        if called not in self._known:
            if len(self._open) == DEEPEST:
                raise TooManyNodes(f"nesting of functions exceeds the maximum depth {DEEPEST}.")
            self._open.append(called)
            self._known[called] = self.of(self._functions[called].node)
            self._open.pop()
        return self._known[called]
