"""Blocks of operators as nodes, and what cannot be written, collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from braces.define.decorator import OPS
from braces.dtypes import Type
from braces.errors import BracesError, ProgramError
from braces.exchange.onnx.writer.constructs.constructs import CONSTRUCTS
from braces.exchange.onnx.writer.constructs.sequences import LISTS
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.node import Node
from braces.exchange.onnx.writer.kernel_tracing import write_kernel
from braces.exchange.onnx.writer.operators import OPERATORS
from braces.ir.records import Body, Op

MISSING = "missing"
"""What stands for what could not be written, so that the rest is looked at, too."""


@dataclass
class Problems:
    """What cannot be written, by operator and reason, with the operators that it is of."""

    found: dict[tuple[str, str], list[Op]] = field(
        default_factory=dict[tuple[str, str], "list[Op]"]
    )

    def add(self, op: Op, error: BracesError) -> None:
        """One operator cannot be written."""
        self.found.setdefault((op.type, error.what), []).append(op)

    def refuse(self) -> None:
        """Say all that cannot be written.

        Raises:
            ProgramError: There is something.
        """
        if not self.found:
            return
        raise ProgramError(
            "ONNX does not have what this program needs.",
            given="; ".join(_told(*one) for one in self.found.items()),
            fix="Fix sizes with sizes={...}, or fetch what does not need these operators.",
        )


def _told(key: tuple[str, str], ops: Sequence[Op]) -> str:
    type_, reason = key
    places = list(dict.fromkeys(str(op.source) for op in ops if op.source))
    where = f", built at {', '.join(places[:3])}" if places else ""
    return f"{len(ops)} {type_} ({reason.rstrip('.')}){where}"


@dataclass
class Writer:
    """Writes blocks.

    Attributes:
        problems: What could not be written.
    """

    problems: Problems = field(default_factory=Problems)

    def body(self, g: Graph, body: Body, given: Sequence[str]) -> list[str]:
        """Write a block whose parameters are called so; what its results are called."""
        for param, name in zip(body.params, given, strict=True):
            g.bind(param, name, body.vars[param].type)
            g.call(name, param)
        for op in body.ops:
            self._op(g, op, {name: body.vars[name].type for name in op.binds()})
        return [g.name(name) for name in body.results]

    def _op(self, g: Graph, op: Op, types: Mapping[str, Type]) -> None:
        try:
            found = self._found(Node(g, op, list(types.values())))
        except BracesError as error:
            self.problems.add(op, error)
            found = dict.fromkeys(types, MISSING)
        for variable, type_ in types.items():
            g.bind(variable, found[variable], type_)
            g.call(found[variable], variable)

    def _found(self, n: Node) -> Mapping[str, str]:
        op = n.op
        construct = CONSTRUCTS.get(op.type)
        if construct is not None:
            return construct(n, self.body)
        rule = LISTS.get(op.type) or OPERATORS.get(op.type)
        made = rule(n) if rule is not None else None
        if made is None:
            return _by_name(op, write_kernel(n.g, op))
        slots = [slot.name for slot in OPS.get(op.type).outputs]
        each = [made] if isinstance(made, str) else made
        return _by_name(op, dict(zip(slots, map(_listed, each), strict=False)))


def _listed(made: str | Sequence[str]) -> Sequence[str]:
    return [made] if isinstance(made, str) else made


def _by_name(op: Op, found: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {
        variable: name
        for slot, variables in op.outputs.items()
        for variable, name in zip(variables, found[slot], strict=True)
    }
