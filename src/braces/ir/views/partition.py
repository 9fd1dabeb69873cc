"""View of a partitioned branch over the batch axis: cases, operands and outputs.

y, s = partition(masks=[p, q], rows=x) {counts=[m, n], outs=1, compact=true, linear=[]}
    cases [ (u, a) { ... return b, c }, (v, d) { ... return e, f } ]

PartitionView(cases=(Case("p", m, "u", ...), Case("q", n, "v", ...)),
              rows=(Operand("x", ("a", "d")),),
              outs=(Output("y", ("b", "e")),), sums=(Output("s", ("c", "f")),), compact=True)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeVar

from braces.dims import Size
from braces.ir.records import Attr, Body, Op
from braces.ir.views.common import (
    Origin,
    Output,
    cases_in,
    fit_interface,
    outputs_of,
    replace_slots,
    size_in,
)
from braces.ir.walk import with_captures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a partitioned branch.

    Attributes:
        mask: The variable that selects its batch elements.
        count: The batch size of the case.
        valid: The name of the validity mask in the block; false for padding.
        content: The block's variables and operators.
    """

    mask: str
    count: Size
    valid: str
    content: Body


@dataclass(frozen=True, slots=True)
class Operand:
    """Operand of a partitioned branch, split along the batch axis.

    Attributes:
        source: The variable outside.
        params: The names inside, in the order of the cases.
        linear: Whether results are linear in it, so that padding is zero.
    """

    source: str
    params: tuple[str, ...]
    linear: bool = False


class PartitionDeclaration(NamedTuple):
    """Unchecked declarations of a partitioned branch.

    Attributes:
        counts: The batch size of each case.
        outs: Declared number of results with the batch axis.
        bound: Number of outputs with the batch axis.
        linear: Positions of the operands in which results are linear.
        compact: Whether a case sees only its own batch elements.
    """

    counts: tuple[Attr, ...]
    outs: int
    bound: int
    linear: tuple[int, ...]
    compact: bool


@dataclass(frozen=True, slots=True)
class PartitionView:
    """View of a partitioned branch; `to_op` builds the operator.

    Attributes:
        cases: Its cases.
        rows: The operands with the batch axis.
        outs: The outputs with the batch axis.
        sums: The outputs that are summed over the cases.
        compact: Whether a case sees only its own batch elements.
        masked: Whether the cases mask padding themselves.
        origin: The operator of this view, or the one that it will replace.
    """

    cases: tuple[Case, ...]
    rows: tuple[Operand, ...] = ()
    outs: tuple[Output, ...] = ()
    sums: tuple[Output, ...] = ()
    compact: bool = True
    masked: bool = False
    origin: Op = field(default=Op("partition", "", {}, {}))

    @classmethod
    def of(cls, op: Op) -> Self:
        """Return the view of a partitioned branch in a well-formed program."""
        bodies, counts, linear = cases_in(op.attrs), op.attrs["counts"], op.attrs["linear"]
        assert isinstance(counts, tuple)
        assert isinstance(linear, tuple)
        each = zip(op.inputs.get("masks", ()), counts, bodies, strict=True)
        sources, outs = op.inputs.get("rows", ()), op.outputs.get("out", ())
        params = zip(sources, *(body.params[1:] for body in bodies), strict=True)
        return cls(
            tuple(Case(mask, size_in(n), body.params[0], body) for mask, n, body in each),
            tuple(
                Operand(x, tuple(names), i in linear) for i, (x, *names) in enumerate(params)
            ),
            outputs_of(outs, [body.results[: len(outs)] for body in bodies]),
            outputs_of(
                op.outputs.get("sums", ()), [body.results[len(outs) :] for body in bodies]
            ),
            bool(op.attrs["compact"]),
            bool(op.attrs["masked"]),
            op,
        )

    @staticmethod
    def declared(op: Op) -> PartitionDeclaration:
        """Return the declarations of a partitioned branch, well formed or not."""
        counts, out_count, linear = (op.attrs[name] for name in ("counts", "outs", "linear"))
        assert isinstance(counts, tuple)
        assert isinstance(out_count, int)
        assert isinstance(linear, tuple)
        positions = tuple(i for i in linear if isinstance(i, int))
        bound = len(op.outputs.get("out", ()))
        return PartitionDeclaration(
            counts, out_count, bound, positions, bool(op.attrs["compact"])
        )

    def only(self, names: Container[str]) -> Self:
        """Return the branch with only these outputs."""
        outs = tuple(out for out in self.outs if out.name in names)
        return replace(
            self, outs=outs, sums=tuple(out for out in self.sums if out.name in names)
        )

    def containing(self, contents: Iterable[Body]) -> Self:
        """Return the branch with other operators and variables in its cases."""
        pairs = zip(self.cases, contents, strict=True)
        return replace(self, cases=tuple(replace(case, content=body) for case, body in pairs))

    def bound(self, values: Iterable[T]) -> dict[str, T]:
        """Return values by the names of the outputs: outputs with batch axis, then sums."""
        return dict(zip((out.name for out in self.outputs), values, strict=True))

    def to_op(self) -> Op:
        """Return the operator; the captures of its blocks are recomputed."""
        inputs = replace_slots(
            self.origin.inputs,
            masks=(case.mask for case in self.cases),
            rows=(row.source for row in self.rows),
        )
        outputs = replace_slots(
            self.origin.outputs,
            out=(out.name for out in self.outs if out.name),
            sums=(out.name for out in self.sums if out.name),
        )
        counts = [case.count for case in self.cases]
        attrs = {
            **self.origin.attrs,
            **self.attributes(self.bodies, counts, len(self.outs), self.compact),
            "linear": tuple(i for i, row in enumerate(self.rows) if row.linear),
            "masked": self.masked,
        }
        return with_captures(self.origin.with_(inputs=inputs, outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(
        cases: Sequence[Body], counts: Sequence[Size], outs: int, compact: bool
    ) -> dict[str, Attr]:
        """Return the attributes of a branch with these cases, which need not be consistent."""
        return {
            "cases": tuple(cases),
            "counts": tuple(counts),
            "outs": outs,
            "compact": compact,
        }

    @staticmethod
    def operands(masks: Sequence[T], sources: Sequence[T]) -> dict[str, Sequence[T]]:
        """Return values by input slot, from values of cases and operands."""
        return {"masks": masks, "rows": sources}

    @property
    def captures(self) -> tuple[str, ...]:
        """Captures of the cases of the original operator."""
        return self.origin.captures()

    @property
    def outputs(self) -> tuple[Output, ...]:
        """All outputs: those with the batch axis, then sums."""
        return self.outs + self.sums

    def sources(self, name: str) -> list[Origin]:
        """Return the sources of an output: one in each case."""
        results = next(out.results for out in self.outputs if out.name == name)
        return list(zip(self.bodies, results, strict=True))

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The blocks of the cases."""
        return tuple(
            fit_interface(
                case.content,
                (case.valid, *(row.params[k] for row in self.rows)),
                [out.results[k] for out in self.outputs],
            )
            for k, case in enumerate(self.cases)
        )
