"""A switch taken apart: its cases, and each output with what gives it in every case.

out = switch(index=i) {total=true} captures [x]
    cases [ { ... return a }, { ... return b } ]

SwitchView(index="i", outputs=(Output("out", ("a", "b")),), contents=(..., ...), total=True)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from braces.ir.records import Attr, Body, Op
from braces.ir.views.parts import Origin, Output, cases_in, fitted, outputs_of, slots
from braces.ir.walk import with_captures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SwitchView:
    """A switch as a value; `to_op` puts it together again.

    Attributes:
        index: The variable that says which case runs.
        contents: The variables and operators of each case; its results are in `outputs`.
        outputs: What it binds.
        total: Whether the index always names a case.
        origin: The operator that this was made from, or that it will replace.
    """

    index: str
    contents: tuple[Body, ...]
    outputs: tuple[Output, ...] = ()
    total: bool = False
    origin: Op = field(default=Op("switch", "", {}, {}))

    @classmethod
    def of(cls, op: Op) -> Self:
        """A switch of a program that is well formed, taken apart."""
        (index,), cases = op.inputs["index"], cases_in(op.attrs)
        outputs = outputs_of(op.outputs["out"], [body.results for body in cases])
        return cls(index, cases, outputs, bool(op.attrs["total"]), op)

    def to_op(self) -> Op:
        """The operator; what its blocks read from outside is listed anew."""
        inputs = slots(self.origin.inputs, index=(self.index,))
        outputs = slots(self.origin.outputs, out=(out.name for out in self.outputs if out.name))
        attrs = {**self.origin.attrs, **self.attributes(self.cases, self.total)}
        return with_captures(self.origin.with_(inputs=inputs, outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(cases: Sequence[Body], total: bool) -> dict[str, Attr]:
        """The attributes of a switch that has these cases, which need not fit together."""
        return {"cases": tuple(cases), "total": total}

    @staticmethod
    def operands(index: T) -> dict[str, Sequence[T]]:
        """What belongs to the inputs, by slot, from what belongs to the index."""
        return {"index": (index,)}

    @property
    def captures(self) -> tuple[str, ...]:
        """What the cases of the operator that this was made from read from outside."""
        return self.origin.captures()

    def output(self, name: str, results: Mapping[int, str], otherwise: str) -> Output:
        """One more output: what gives it in some cases, and what in the others."""
        cases = range(len(self.contents))
        return Output(name, tuple(results.get(k, otherwise) for k in cases))

    def like(self, name: str, cases: Sequence[Body], outputs: Sequence[str]) -> Self:
        """Another switch on the same index, whose cases give these outputs, in their order."""
        return replace(
            self,
            contents=tuple(cases),
            outputs=outputs_of(outputs, [case.results for case in cases]),
            origin=self.origin.with_(name=name),
        )

    def only(self, names: Container[str]) -> Self:
        """The switch with no other outputs than these."""
        return replace(self, outputs=tuple(out for out in self.outputs if out.name in names))

    def bound(self, values: Iterable[T]) -> dict[str, T]:
        """What belongs to each output by its name."""
        return dict(zip((out.name for out in self.outputs), values, strict=True))

    def sources(self, name: str) -> list[Origin]:
        """Where an output comes from: from each case."""
        results = next(out.results for out in self.outputs if out.name == name)
        return list(zip(self.cases, results, strict=True))

    @property
    def cases(self) -> tuple[Body, ...]:
        """The blocks."""
        return tuple(
            fitted(content, (), [out.results[k] for out in self.outputs])
            for k, content in enumerate(self.contents)
        )
