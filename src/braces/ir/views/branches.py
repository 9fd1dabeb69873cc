"""What views of operators share whose blocks are alternatives: a switch, and a plain block."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from braces.ir.records import Body, Op
from braces.ir.views.common import Origin, Output, fitted, outputs_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesView:
    """An operator of which one block runs, and gives the outputs.

    Attributes:
        contents: The variables and operators of each case; its results are in `outputs`.
        outputs: What it binds.
        origin: The operator that this was made from, or that it will replace.
    """

    contents: tuple[Body, ...]
    outputs: tuple[Output, ...] = ()
    origin: Op

    @property
    def captures(self) -> tuple[str, ...]:
        """What the cases of the operator that this was made from read from outside."""
        return self.origin.captures()

    def output(self, name: str, results: Mapping[int, str], otherwise: str) -> Output:
        """One more output: what gives it in some cases, and what in the others."""
        cases = range(len(self.contents))
        return Output(name, tuple(results.get(k, otherwise) for k in cases))

    def like(self, name: str, cases: Sequence[Body], outputs: Sequence[str]) -> Self:
        """Another such operator, whose cases give these outputs, in their order."""
        return replace(
            self,
            contents=tuple(cases),
            outputs=outputs_of(outputs, [case.results for case in cases]),
            origin=self.origin.with_(name=name),
        )

    def only(self, names: Container[str]) -> Self:
        """The operator with no other outputs than these."""
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
