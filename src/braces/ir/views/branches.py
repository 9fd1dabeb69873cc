"""Base of views whose blocks are alternatives: a switch, and a plain block."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from braces.ir.records import Body, Op
from braces.ir.views.common import Origin, Output, fit_interface, outputs_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesView:
    """An operator that runs one of its blocks, which computes the outputs.

    Attributes:
        contents: The variables and operators of each case; its results are in `outputs`.
        outputs: The outputs.
        origin: The operator of this view, or the one that it will replace.
    """

    contents: tuple[Body, ...]
    outputs: tuple[Output, ...] = ()
    origin: Op

    @property
    def captures(self) -> tuple[str, ...]:
        """Captures of the cases of the original operator."""
        return self.origin.captures()

    def output(self, name: str, results: Mapping[int, str], otherwise: str) -> Output:
        """Return one more output from its results in some cases and a default for others."""
        cases = range(len(self.contents))
        return Output(name, tuple(results.get(k, otherwise) for k in cases))

    def like(self, name: str, cases: Sequence[Body], outputs: Sequence[str]) -> Self:
        """Return another such operator, whose cases compute these outputs, in their order."""
        return replace(
            self,
            contents=tuple(cases),
            outputs=outputs_of(outputs, [case.results for case in cases]),
            origin=self.origin.with_(name=name),
        )

    def only(self, names: Container[str]) -> Self:
        """Return the operator with only these outputs."""
        return replace(self, outputs=tuple(out for out in self.outputs if out.name in names))

    def bound(self, values: Iterable[T]) -> dict[str, T]:
        """Return values by the names of the outputs."""
        return dict(zip((out.name for out in self.outputs), values, strict=True))

    def sources(self, name: str) -> list[Origin]:
        """Return the sources of an output: one in each case."""
        results = next(out.results for out in self.outputs if out.name == name)
        return list(zip(self.cases, results, strict=True))

    @property
    def cases(self) -> tuple[Body, ...]:
        """The blocks."""
        return tuple(
            fit_interface(content, (), [out.results[k] for out in self.outputs])
            for k, content in enumerate(self.contents)
        )
