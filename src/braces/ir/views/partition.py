"""A row-wise branch taken apart: its cases, what they get row by row, and what they give.

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
from braces.ir.views.common import Origin, Output, cases_in, fitted, outputs_of, size_in, slots
from braces.ir.walk import with_captures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a row-wise branch.

    Attributes:
        mask: The variable that says which rows are its own.
        count: How many rows it sees.
        valid: The block's name of what tells rows from padding.
        content: The block's variables and operators.
    """

    mask: str
    count: Size
    valid: str
    content: Body


@dataclass(frozen=True, slots=True)
class Operand:
    """What the cases get row by row.

    Attributes:
        source: The variable outside.
        params: What it is called inside, in the order of the cases.
        linear: Whether results are linear in it, so that a stand-in for a row is zero.
    """

    source: str
    params: tuple[str, ...]
    linear: bool = False


class Declared(NamedTuple):
    """What a row-wise branch says of itself, before anything of it is checked.

    Attributes:
        counts: How many rows each case sees.
        outs: How many of the results it says are rows.
        bound: How many rows it binds.
        linear: The positions of the rows that results are linear in.
        compact: Whether a case sees its own rows alone.
    """

    counts: tuple[Attr, ...]
    outs: int
    bound: int
    linear: tuple[int, ...]
    compact: bool


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A row-wise branch as a value; `to_op` puts it together again.

    Attributes:
        cases: Its cases.
        rows: What they get row by row.
        outs: What they give row by row.
        sums: What is added up over the cases.
        compact: Whether a case sees its own rows alone.
        masked: Whether the cases leave padding out themselves.
        origin: The operator that this was made from, or that it will replace.
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
        """A row-wise branch of a program that is well formed, taken apart."""
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
    def declared(op: Op) -> Declared:
        """What a row-wise branch says of itself, well formed or not."""
        counts, said, linear = (op.attrs[name] for name in ("counts", "outs", "linear"))
        assert isinstance(counts, tuple)
        assert isinstance(said, int)
        assert isinstance(linear, tuple)
        positions = tuple(i for i in linear if isinstance(i, int))
        bound = len(op.outputs.get("out", ()))
        return Declared(counts, said, bound, positions, bool(op.attrs["compact"]))

    def only(self, names: Container[str]) -> Self:
        """The branch with no other outputs than these."""
        outs = tuple(out for out in self.outs if out.name in names)
        return replace(
            self, outs=outs, sums=tuple(out for out in self.sums if out.name in names)
        )

    def containing(self, contents: Iterable[Body]) -> Self:
        """The branch with other operators and variables in its cases."""
        pairs = zip(self.cases, contents, strict=True)
        return replace(self, cases=tuple(replace(case, content=body) for case, body in pairs))

    def bound(self, values: Iterable[T]) -> dict[str, T]:
        """What belongs to each output by its name, from rows and sums."""
        return dict(zip((out.name for out in self.outputs), values, strict=True))

    def to_op(self) -> Op:
        """The operator; what its blocks read from outside is listed anew."""
        inputs = slots(
            self.origin.inputs,
            masks=(case.mask for case in self.cases),
            rows=(row.source for row in self.rows),
        )
        outputs = slots(
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
        """The attributes of a branch that has these cases, which need not fit together."""
        return {
            "cases": tuple(cases),
            "counts": tuple(counts),
            "outs": outs,
            "compact": compact,
        }

    @staticmethod
    def operands(masks: Sequence[T], sources: Sequence[T]) -> dict[str, Sequence[T]]:
        """What belongs to the inputs, by slot, from what belongs to cases and operands."""
        return {"masks": masks, "rows": sources}

    @property
    def captures(self) -> tuple[str, ...]:
        """What the cases of the operator that this was made from read from outside."""
        return self.origin.captures()

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What it binds: rows, then sums."""
        return self.outs + self.sums

    def sources(self, name: str) -> list[Origin]:
        """Where an output comes from: from each case."""
        results = next(out.results for out in self.outputs if out.name == name)
        return list(zip(self.bodies, results, strict=True))

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The blocks of the cases."""
        return tuple(
            fitted(
                case.content,
                (case.valid, *(row.params[k] for row in self.rows)),
                [out.results[k] for out in self.outputs],
            )
            for k, case in enumerate(self.cases)
        )
