"""A gradient that a user wrote, taken apart: what passes through, and where cotangents go.

y = custom_gradient(values=h, sources=[x, w]) captures [x]
    backward (out, g) { ... return x_grad, w_grad }

CustomGradientView(content=...,
                   passed=(Passed("h", "y", "out", "g"),),
                   ways=(Way("x", "x_grad"), Way("w", "w_grad")))
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from braces.ir.records import CUSTOM_GRADIENT, Attr, Body, Op
from braces.ir.views.common import Origin, fitted, slots
from braces.ir.walk import with_captures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Passed:
    """A value that passes through, and has another gradient from there on.

    Attributes:
        value: What it was called before.
        name: What it is called from there on.
        param: What the gradient calls it.
        cotangent: What the gradient calls its cotangent.
    """

    value: str
    name: str
    param: str
    cotangent: str


@dataclass(frozen=True, slots=True)
class Way:
    """A way that cotangents go.

    Attributes:
        source: The variable that gets one.
        result: What the gradient calls it.
    """

    source: str
    result: str


@dataclass(frozen=True, slots=True)
class CustomGradientView:
    """Values with a gradient of their own, taken apart; `to_op` puts it together again.

    Attributes:
        content: The variables and operators of the gradient.
        passed: The values.
        ways: Where cotangents go.
        origin: The operator that this was made from.
    """

    content: Body
    passed: tuple[Passed, ...]
    ways: tuple[Way, ...]
    origin: Op = field(default=Op(CUSTOM_GRADIENT, "", {}, {}), kw_only=True)

    @classmethod
    def of(cls, op: Op) -> Self:
        """An operator of a program that is well formed, taken apart."""
        body = op.attrs["backward"]
        assert isinstance(body, Body)
        values, count = op.inputs["values"], len(op.inputs["values"])
        params, cotangents = body.params[:count], body.params[count:]
        passed = map(Passed, values, op.outputs["out"], params, cotangents)
        ways = map(Way, op.inputs.get("sources", ()), body.results)
        return cls(body, tuple(passed), tuple(ways), origin=op)

    def to_op(self) -> Op:
        """The operator; what its gradient reads from outside is listed anew."""
        inputs = slots(
            self.origin.inputs,
            values=(one.value for one in self.passed),
            sources=(way.source for way in self.ways),
        )
        outputs = slots(self.origin.outputs, out=(one.name for one in self.passed))
        attrs = {**self.origin.attrs, **self.attributes(self.body)}
        return with_captures(self.origin.with_(inputs=inputs, outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(body: Body) -> dict[str, Attr]:
        """The attributes of an operator with this gradient."""
        return {"backward": body}

    @staticmethod
    def operands(values: Sequence[T], sources: Sequence[T]) -> dict[str, Sequence[T]]:
        """What belongs to the inputs by slot: to what passes through, and to the rest."""
        return {"values": values, "sources": sources}

    @property
    def body(self) -> Body:
        """The gradient: from the values and their cotangents to those of the inputs."""
        params = [one.param for one in self.passed] + [one.cotangent for one in self.passed]
        return fitted(self.content, params, (way.result for way in self.ways))

    def only(self, names: Container[str]) -> Self:
        """The operator with no other outputs than these."""
        return replace(self, passed=tuple(one for one in self.passed if one.name in names))

    def bound(self, values: Iterable[T]) -> Mapping[str, T]:
        """What belongs to each output by its name."""
        return dict(zip((one.name for one in self.passed), values, strict=True))

    def sources(self, name: str) -> list[Origin]:
        """Where an output comes from: from the value that passes through."""
        return [(None, one.value) for one in self.passed if one.name == name]
