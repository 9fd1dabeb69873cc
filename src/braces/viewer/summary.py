"""A summary of a program: its layers with output types, parameters, bytes and operations.

Operators that read the parameters of one layer, as `out.w` and `out.b`, form one row, and so do
those of a metric. Rows of blocks, loops and branches contain those of their operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from braces.builder.builder import Builder
from braces.dims import Size, sum_of
from braces.dtypes import bytes_of
from braces.errors import ProgramError, ShapeError
from braces.ir.records import PARAMETER, STATE, ProgramDef
from braces.keywords import hint_keywords
from braces.passes.analysis.cost import ProgramCost
from braces.passes.analysis.flops import check_sizes, cost_at
from braces.passes.analysis.phases import FORWARD, phases
from braces.passes.autodiff.drop_custom_gradients import drop_custom_gradients
from braces.report import Sheet, Table, count_text
from braces.viewer.summary_rows import SummaryRow, element_count, number_text, rows_of

HEAD = ("layer", "type", "output", "parameters", "bytes", "operations")
DEPTH = 2
"""The number of nested blocks that a summary shows by default."""
INDENT = "\u00a0" * 2
_MOST_ROWS = 1000


@dataclass(frozen=True)
class ProgramSummary:
    """The layers of a program, and totals; `print` shows them, and so do notebooks.

    Attributes:
        rows: The layers in program order; rows of blocks come before those of their operators.
        parameters: The number of elements of all parameters.
        trainable: The number of elements of the trainable parameters.
        bytes: The bytes of all parameters.
        state_bytes: The bytes of all states: optimizer, running statistics, random numbers.
        operations: The operations of the forward part, in FLOPs.
        run_operations: The operations of a run with its gradients and updates.
        peak_bytes: The peak memory of a run, in bytes; an estimate.
        folded: The number of rows that are deeper than `depth`.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.fc(br.data("x", ["n", 4]), 2, name="out")
        >>> summary = prog.summary(sizes={"n": 1})
        >>> summary.parameters, summary.bytes, [row.name for row in summary.rows]
        (10, 40, ['out'])
    """

    rows: tuple[SummaryRow, ...]
    parameters: Size
    trainable: Size
    bytes: Size
    state_bytes: Size
    operations: Size | None
    run_operations: Size | None
    peak_bytes: Size | None
    folded: int = 0

    @property
    def frozen(self) -> Size:
        """The number of elements of the frozen parameters."""
        return self.parameters - self.trainable

    def sheet(self) -> Sheet:
        """Return the tables."""
        return self._sheet(self._cells())

    def _sheet(self, cells: list[tuple[str, ...]]) -> Sheet:
        left = len(self.rows) - len(cells)
        layers = Table("", HEAD, cells, (3, 4, 5), f"and {left} more" if left else "")
        totals = Table("", ("total", ""), list(self._totals()))
        return Sheet((), [layers, totals], list(self._notes()))

    def _notes(self) -> Iterator[str]:
        if None in (self.operations, self.run_operations):
            yield "?: the number has too many symbols; pass sizes={…}"
        if self.folded:
            yield f"{count_text(self.folded, 'inner row')} folded; depth=None shows all"

    def _totals(self) -> Iterator[tuple[str, str]]:
        count, size = number_text(self.parameters), number_text(self.bytes, "B")
        yield "parameters", f"{count} ({size})"
        yield "  trainable", number_text(self.trainable)
        yield "  frozen", number_text(self.frozen)
        if self.state_bytes != 0:
            yield "states", number_text(self.state_bytes, "B")
        yield "operations", number_text(self.operations, "FLOP")
        if self.run_operations != self.operations:
            yield "  with gradients and updates", number_text(self.run_operations, "FLOP")
        yield "peak memory", number_text(self.peak_bytes, "B")

    def __str__(self) -> str:
        return self.sheet().text().strip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        indented = (tuple(cell.replace("  ", INDENT) for cell in row) for row in self._cells())
        return self._sheet(list(indented)).html()

    def _cells(self) -> list[tuple[str, ...]]:
        return [row.cells() for row in self.rows[:_MOST_ROWS]]


@hint_keywords
def summary(
    program: Builder, *, sizes: Mapping[str, int] | None = None, depth: int | None = DEPTH
) -> ProgramSummary:
    """Return the layers of a program with their costs; see `Program.summary`."""
    if depth is not None and (type(depth) is not int or depth < 0):
        raise ProgramError(
            f"expected an integer of at least 0 for `depth`, got {depth!r:.80}.",
            fix="Write prog.summary(depth=1).",
        )
    numbers = check_sizes(program.definition, sizes)
    whole = drop_custom_gradients(program.definition)
    phase_of = phases(whole)
    forward_ops = tuple(op for op in whole.main.ops if phase_of[op.name] == FORWARD)
    forward = whole.with_(main=whole.main.with_(ops=forward_ops), updates={}, derivations=())
    part, run = _cost(forward, numbers), _cost(whole, numbers)
    rows = rows_of(forward, part, numbers)
    shown = tuple(row for row in rows if depth is None or row.depth <= depth)
    infos = whole.main.vars.values()
    parameters = [info for info in infos if info.kind == PARAMETER]
    return ProgramSummary(
        shown,
        element_count(parameters),
        element_count(info for info in parameters if info.trainable),
        sum_of(bytes_of(info.type) for info in parameters),
        sum_of(bytes_of(info.type) for info in infos if info.kind == STATE),
        None if part is None else part.operations,
        None if run is None else run.operations,
        None if run is None else run.peak_bytes,
        len(rows) - len(shown),
    )


def _cost(program: ProgramDef, sizes: Mapping[str, int]) -> ProgramCost | None:
    """Return the cost of a program; `None` if it is too complex as a symbolic size."""
    try:
        return cost_at(program, sizes)
    except ShapeError:
        return None
