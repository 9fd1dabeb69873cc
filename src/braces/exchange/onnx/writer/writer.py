"""Export blocks of operators as nodes, and collect unsupported operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from braces.errors import BracesError, ProgramError
from braces.exchange.onnx.writer.constructs.constructs import CONSTRUCTS
from braces.exchange.onnx.writer.constructs.sequences import LISTS
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.node import NodeDesc
from braces.exchange.onnx.writer.kernel_tracing import write_kernel
from braces.exchange.onnx.writer.operators import OPERATORS
from braces.extend.operators import OPS
from braces.extend.programs import Body, Op, producers
from braces.extend.types import Type

MISSING = "missing"
"""The placeholder for an unsupported output, so that export goes on."""


@dataclass
class Problems:
    """The unsupported operators, by type and reason."""

    found: dict[tuple[str, str], list[Op]] = field(
        default_factory=dict[tuple[str, str], "list[Op]"]
    )

    def add(self, op: Op, error: BracesError) -> None:
        """Record an unsupported operator."""
        self.found.setdefault((op.type, error.what), []).append(op)

    def refuse(self) -> None:
        """Raise an error that lists all unsupported operators.

        Raises:
            ProgramError: If an operator is unsupported.
        """
        if not self.found:
            return
        raise ProgramError(
            "the program has operators without an ONNX export.",
            given="; ".join(_format_problem(*entry) for entry in self.found.items()),
            fix="Fix sizes by sizes={...}, or fetch variables without these operators.",
        )


def _format_problem(key: tuple[str, str], ops: Sequence[Op]) -> str:
    type_, reason = key
    sources = list(dict.fromkeys(str(op.source) for op in ops if op.source))
    location = f", built at {', '.join(sources[:3])}" if sources else ""
    return f"{len(ops)} {type_} ({reason.rstrip('.')}){location}"


@dataclass
class BlockExporter:
    """Exports blocks.

    Attributes:
        problems: The unsupported operators.
    """

    problems: Problems = field(default_factory=Problems)

    def body(self, g: OnnxGraph, body: Body, inputs: Sequence[str]) -> list[str]:
        """Export a block with these parameter names; return the names of its results."""
        for param, name in zip(body.params, inputs, strict=True):
            g.bind(param, name, body.vars[param].type)
            g.call(name, param)
        g.binders.update(producers(body.ops))
        for op in body.ops:
            self._op(g, op, {name: body.vars[name].type for name in op.binds()})
        return [g.name(name) for name in body.results]

    def _op(self, g: OnnxGraph, op: Op, types: Mapping[str, Type]) -> None:
        try:
            outputs = self._export_node(NodeDesc(g, op, list(types.values())))
        except BracesError as error:
            self.problems.add(op, error)
            outputs = dict.fromkeys(types, MISSING)
        for variable, type_ in types.items():
            g.bind(variable, outputs[variable], type_)
            g.call(outputs[variable], variable)

    def _export_node(self, n: NodeDesc) -> Mapping[str, str]:
        op = n.op
        construct = CONSTRUCTS.get(op.type)
        if construct is not None:
            return construct(n, self.body)
        rule = LISTS.get(op.type) or OPERATORS.get(op.type)
        results = rule(n) if rule is not None else None
        if results is None:
            return _by_name(op, write_kernel(n.g, op))
        slots = [slot.name for slot in OPS.get(op.type).outputs]
        slot_results = [results] if isinstance(results, str) else results
        return _by_name(op, dict(zip(slots, map(_listed, slot_results), strict=False)))


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _by_name(op: Op, names_by_slot: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {
        variable: name
        for slot, variables in op.outputs.items()
        for variable, name in zip(variables, names_by_slot[slot], strict=True)
    }
