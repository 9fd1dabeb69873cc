"""How much there is to read when each call of a function is counted, before any is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from braces.errors import ProgramError
from braces.exchange.onnx.reader.graph.function_bodies import FunctionId, called_by

DEEPEST = 48
"""Functions within functions, and graphs within graphs."""


class Endless(ProgramError):
    """Functions that call themselves, or so many that reading them would take forever."""


class Work:
    """Counts nodes, and for each that calls a function of the model those of the function.

    Functions that call another twice, which calls another twice, are 2^n nodes: the number is
    known after each was looked at once.
    """

    def __init__(self, functions: Mapping[FunctionId, Any]) -> None:
        self._functions = functions
        self._known = dict[FunctionId, int]()
        self._open = list[FunctionId]()

    def of(self, nodes: Iterable[Any]) -> int:
        """How many nodes these are.

        Raises:
            Endless: A function calls itself, or they nest too deep.
        """
        total = 0
        for node in nodes:
            called = called_by(node)
            total += 1 + (self._of_function(called) if called in self._functions else 0)
            for attribute in node.attribute:
                total += sum(self.of(one.node) for one in (attribute.g, *attribute.graphs))
        return total

    def _of_function(self, called: FunctionId) -> int:
        if called in self._open:
            raise Endless(
                f"The function `{called[1]:.80}` calls itself.",
                fix="No function of a model may; a Loop runs nodes again.",
            )
        if called not in self._known:
            if len(self._open) == DEEPEST:
                raise Endless(f"Functions of this model nest deeper than {DEEPEST}.")
            self._open.append(called)
            self._known[called] = self.of(self._functions[called].node)
            self._open.pop()
        return self._known[called]
