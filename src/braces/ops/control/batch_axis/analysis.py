"""Batch axis analysis: abstract interpretation of a block, with the axis kinds of each value.

- Lattice and join: `braces.ops.control.batch_axis.axis_kinds`.
- Transfer function of each operator: `braces.ops.control.batch_axis.transfer`.
- Sub-blocks: kinds flow along the edges of `value_flow`, and are joined at parameters. They
  only go up in the lattice, so interpretation of a construct reaches a fixpoint.

Example, for n rows:

    (valid: bool[n], r: f32[n,3])     valid: (BATCH,)  r: (BATCH, OTHER)
      k: f32[n,3] = full()            k: (UNIFORM, UNIFORM)
      y: f32[n,3] = add(r, k)         y: (BATCH, OTHER)    join along each axis
      m: f32[3] = sum(y) {axis=[0]}   reduces the batch axis: masked before it has padding
      z: f32[n,3] = cumsum(y) {axis=0}  error: an entry depends on others along the batch axis
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from braces.define.axes.axis_map import shape_of
from braces.dims import Size
from braces.errors import BracesError
from braces.ir.records import Body, Op
from braces.ops.control.batch_axis.axis_kinds import (
    AxisKind,
    AxisKinds,
    OpAxes,
    Types,
    join,
    leading_row_kinds,
)
from braces.ops.control.batch_axis.transfer import TransferFunctions
from braces.ops.control.core.value_flow import ValueEdge, value_edges


@dataclass
class BlockState:
    """Abstract state of a block.

    Attributes:
        types: The types of all visible variables.
        params: The kinds at its parameters; they only go up in the lattice.
        kinds: The kinds of all visible variables that have been interpreted.
        constructs: The states of its constructs, by name.
    """

    types: Types
    params: AxisKinds = field(default_factory=dict[str, "tuple[AxisKind, ...]"])
    kinds: AxisKinds = field(default_factory=dict[str, "tuple[AxisKind, ...]"])
    constructs: dict[str, ConstructState] = field(default_factory=dict[str, "ConstructState"])

    def at_entry(self, outer: AxisKinds | None = None) -> BlockState:
        """Return the state at entry to the block; the states of its constructs are shared.

        Args:
            outer: The kinds of the variables of enclosing blocks.
        """
        return replace(self, kinds={**(outer or {}), **self.params})


@dataclass
class ConstructState:
    """Abstract state of a construct.

    The state is kept while an enclosing block is interpreted again. So each block is
    interpreted only as often as kinds at its parameters change, at any depth.

    Attributes:
        edges: The edges between the construct and its blocks.
        blocks: The states of its blocks by label; `""` is the enclosing block.
        inputs: The kinds of captures and parameters in the latest interpretation.
    """

    edges: tuple[ValueEdge, ...]
    blocks: dict[str, BlockState]
    inputs: tuple[AxisKinds, list[AxisKinds]] | None = None


def is_row_wise(body: Body, types: Types, rows: Size) -> bool:
    """Return whether each row of a block's values depends on one row of its parameters only.

    Args:
        body: The block; its parameters have rows on axis 0.
        types: The types of all visible variables.
        rows: The number of rows.
    """
    analysis = BatchAxisAnalysis(rows)
    block = BlockState(types, {name: leading_row_kinds(types[name]) for name in body.params})
    block = block.at_entry()
    try:
        return not any([analysis.step(op, block).reduced() for op in body.ops])
    except BracesError:  # rows are mixed, or may be
        return False


def _unresolved(size: Size) -> Size:
    return size


@dataclass
class BatchAxisAnalysis(TransferFunctions):
    """Batch axis analysis of blocks.

    Attributes:
        resolve: Resolves an unnamed size.
    """

    resolve: Callable[[Size], Size] = _unresolved

    def run(self, ops: Iterable[Op], block: BlockState) -> None:
        """Interpret operators of a block in order, and add the kinds of their outputs to it.

        Raises:
            ProgramError: If an operator mixes batch elements, or may do so.
        """
        for op in ops:
            self.step(op, block)

    def step(self, op: Op, block: BlockState) -> OpAxes:
        """Interpret one operator, add the kinds of its outputs, and return its own.

        Raises:
            ProgramError: If the operator mixes batch elements, or may do so.
        """
        op_axes = self.transfer(op, block.types, block.kinds)
        block.kinds |= self.output_kinds(op_axes, block.types)
        if op.bodies():
            self._interpret_blocks(op, block)
        return op_axes

    def _interpret_blocks(self, op: Op, block: BlockState) -> None:
        """Interpret the blocks of a construct to a fixpoint."""
        construct = block.constructs.get(op.name) or self._initial_construct(op, block)
        block.constructs[op.name] = construct
        construct.blocks[""] = block
        self._propagate(op, construct, "", inwards=True)
        captured = {name: block.kinds[name] for name in op.reads() if name in block.kinds}
        while construct.inputs != (inputs := (captured, self._params_of(op, construct))):
            construct.inputs = inputs
            for label, body in op.bodies().items():
                inner_block = construct.blocks[label].at_entry(block.kinds)
                construct.blocks[label] = inner_block
                self.run(body.ops, inner_block)
                self._propagate(op, construct, label, inwards=True)
        for label in construct.blocks:
            self._propagate(op, construct, label, inwards=False)

    def _initial_construct(self, op: Op, block: BlockState) -> ConstructState:
        blocks = {"": block}
        for label, body in op.bodies().items():
            own = {n: info.type.map_sizes(self.resolve) for n, info in body.vars.items()}
            blocks[label] = BlockState({**block.types, **own})
        return ConstructState(value_edges(op), blocks)

    @staticmethod
    def _params_of(op: Op, construct: ConstructState) -> list[AxisKinds]:
        """Return copies of the kinds at the parameters of the blocks."""
        return [dict(construct.blocks[label].params) for label in op.bodies()]

    def _propagate(self, op: Op, construct: ConstructState, label: str, inwards: bool) -> None:
        """Propagate kinds from a block to block parameters, or to outputs of the construct."""
        for edge in construct.edges:
            if edge.origin == label and bool(edge.block) == inwards:
                self._join_edge(op, construct, edge)

    def _join_edge(self, op: Op, construct: ConstructState, edge: ValueEdge) -> None:
        """Join the kinds of an edge's source into those of its target.

        Raises:
            ProgramError: If an axis is a batch axis of one value and not of the other.
        """
        block = construct.blocks[edge.block]
        shape = shape_of(block.types[edge.target])
        kinds = block.params if edge.block else block.kinds
        others = (AxisKind.OTHER,) * (len(shape) - edge.shift)
        source = construct.blocks[edge.origin].kinds.get(edge.source, others)
        target = list(kinds.get(edge.target, (AxisKind.UNIFORM,) * len(shape)))
        for axis in range(edge.first, len(source)):
            at = axis + edge.shift
            kind = join((target[at], source[axis]))
            if kind is None and shape[at] != self.rows_name:
                why = (
                    f"axis {at} of `{edge.target}` is a batch axis for some of its values only."
                )
                raise self.conflict(op, why)
            target[at] = kind or AxisKind.BATCH
        kinds[edge.target] = tuple(target)
