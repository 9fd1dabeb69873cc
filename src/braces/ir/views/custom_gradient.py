"""View of a custom gradient: values that pass through, and cotangents of their sources.

y = custom_gradient(values=h, sources=[x, w]) captures [x]
    backward (out, g) { ... return x_grad, w_grad }

CustomGradientView(content=...,
                   passed=(PassedValue("h", "y", "out", "g"),),
                   ways=(CotangentTarget("x", "x_grad"), CotangentTarget("w", "w_grad")))
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from braces.ir.records import CUSTOM_GRADIENT, Attr, Body, Op
from braces.ir.views.common import Origin, fit_interface, replace_slots
from braces.ir.walk import with_captures

T = TypeVar("T")
BACKWARD = "backward"
"""The label of the block that computes a custom gradient."""


@dataclass(frozen=True, slots=True)
class PassedValue:
    """A value that passes through, and has another gradient from there on.

    Attributes:
        value: The input name.
        name: The output name.
        param: The name of the value in the gradient block.
        cotangent: The name of its cotangent in the gradient block.
    """

    value: str
    name: str
    param: str
    cotangent: str


@dataclass(frozen=True, slots=True)
class CotangentTarget:
    """A variable that receives a cotangent.

    Attributes:
        source: The variable.
        result: The name of its cotangent in the gradient block.
    """

    source: str
    result: str


@dataclass(frozen=True, slots=True)
class CustomGradientView:
    """View of values with a custom gradient; `to_op` builds the operator.

    Attributes:
        content: The variables and operators of the gradient.
        passed: The values.
        ways: The variables that receive cotangents.
        origin: The operator of this view.
    """

    content: Body
    passed: tuple[PassedValue, ...]
    ways: tuple[CotangentTarget, ...]
    origin: Op = field(default=Op(CUSTOM_GRADIENT, "", {}, {}), kw_only=True)

    @classmethod
    def of(cls, op: Op) -> Self:
        """Return the view of an operator in a well-formed program."""
        body = op.attrs[BACKWARD]
        assert isinstance(body, Body)
        values, count = op.inputs["values"], len(op.inputs["values"])
        params, cotangents = body.params[:count], body.params[count:]
        passed = map(PassedValue, values, op.outputs["out"], params, cotangents)
        ways = map(CotangentTarget, op.inputs.get("sources", ()), body.results)
        return cls(body, tuple(passed), tuple(ways), origin=op)

    def to_op(self) -> Op:
        """Return the operator; the captures of its gradient are recomputed."""
        inputs = replace_slots(
            self.origin.inputs,
            values=(item.value for item in self.passed),
            sources=(way.source for way in self.ways),
        )
        outputs = replace_slots(self.origin.outputs, out=(item.name for item in self.passed))
        attrs = {**self.origin.attrs, **self.attributes(self.body)}
        return with_captures(self.origin.with_(inputs=inputs, outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(body: Body) -> dict[str, Attr]:
        """Return the attributes of an operator with this gradient."""
        return {BACKWARD: body}

    @staticmethod
    def operands(values: Sequence[T], sources: Sequence[T]) -> dict[str, Sequence[T]]:
        """Return values by input slot: values that pass through, and sources."""
        return {"values": values, "sources": sources}

    @property
    def body(self) -> Body:
        """The gradient block: from the values and their cotangents to those of the inputs."""
        params = [item.param for item in self.passed] + [item.cotangent for item in self.passed]
        return fit_interface(self.content, params, (way.result for way in self.ways))

    def only(self, names: Container[str]) -> Self:
        """Return the operator with only these outputs."""
        return replace(self, passed=tuple(item for item in self.passed if item.name in names))

    def bound(self, values: Iterable[T]) -> Mapping[str, T]:
        """Return values by the names of the outputs."""
        return dict(zip((item.name for item in self.passed), values, strict=True))

    def sources(self, name: str) -> list[Origin]:
        """Return the source of an output: the value that passes through."""
        return [(None, item.value) for item in self.passed if item.name == name]
