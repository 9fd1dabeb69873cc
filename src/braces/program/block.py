"""A block: the public view of nested code, which runs like a single operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from braces.builder.symbol_table import SymbolTable
from braces.ir import serde
from braces.ir.records import Body, Op, VarInfo
from braces.ir.text import printer
from braces.runtime.bare_block import BlockRunner
from braces.viewer.notebook_fragment import block_fragment

if TYPE_CHECKING:
    import numpy as np


class Block:
    """Operators and variables between two braces.

    Args:
        desc: A protobuf `BlockDesc`, or the record of one.
        parent: The enclosing block, where there is one.

    Attributes:
        desc: The content as an immutable record.
        parent: The enclosing block; `None` for a main block.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.tanh(br.data("x", ["n"])) + 1.0
        >>> [op.type for op in prog.block(0).ops]
        ['tanh', 'constant', 'add']
    """

    def __init__(self, desc: Any, parent: Block | None = None) -> None:
        self.desc: Body = desc if isinstance(desc, Body) else serde.body_from_desc(desc)
        self.parent = parent
        self._runner: BlockRunner | None = None

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operators, in the order of execution."""
        return self.desc.ops

    @property
    def vars(self) -> Mapping[str, VarInfo]:
        """The variables that are bound in this block, by name."""
        return self.desc.vars

    @property
    def symbol_table(self) -> SymbolTable:
        """The definitions of this block as a table that looks up through its parents."""
        return SymbolTable(self.parent.symbol_table if self.parent else None).thaw(self.desc)

    def serialize(self) -> Any:
        """This block as a protobuf `BlockDesc`."""
        return serde.body_to_desc(self.desc)

    def infer_shape(self, scope: Any = None) -> dict[str, Any]:
        """Infer the type of every variable again, from the values in `scope` where it has them.

        Returns:
            Name to type.

        Raises:
            ShapeError: If shapes do not match; the message names operator and source line.
        """
        return self._runs.infer(scope)

    def run(self, scope: Any, device: str = "cpu:0") -> None:
        """Run all operators in a scope: read its variables, and store all values in it."""
        self._runs.run(scope, device)

    def eval(
        self, targets: Iterable[Any], scope: Any, device: str = "cpu:0"
    ) -> list[np.ndarray[Any, Any]]:
        """Prune to `targets`, run in `scope`, and return their latest values."""
        return self._runs.eval(targets, scope, device)

    @property
    def _runs(self) -> BlockRunner:
        """The runner of this block, with its cache of compiled code."""
        if self._runner is None:
            self._runner = BlockRunner(self.desc, self._visible())
        return self._runner

    def _visible(self) -> dict[str, VarInfo]:
        """The declarations visible in the block: its own and those of the enclosing blocks."""
        outer = self.parent._visible() if self.parent else {}
        return {**outer, **self.vars}

    def __str__(self) -> str:
        return printer.print_body(self.desc)

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        return block_fragment("block", self.desc)

    def __repr__(self) -> str:
        return f"<Block: {len(self.ops)} ops, {len(self.vars)} vars>"
