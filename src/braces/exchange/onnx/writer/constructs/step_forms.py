"""Symbolic values of the step of a loop: gates, and elementwise functions of gates.

    split_0.1 of matmul(x_t, w) + b + matmul(h, u)        x_t @ w[:, H:2H] + b[H:2H]
                                                            + h @ u[:, H:2H]

A gate is a sum of products and biases. Its form does not depend on the order of the summands,
nor on whether the columns of all gates are computed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np

from braces.extend.programs import Body, Literal, Op, producers
from braces.extend.types import FLOAT32, TensorType, Type


class Unrecognized(Exception):
    """Raised for a value that no standard cell has."""


@dataclass(frozen=True)
class Columns:
    """Consecutive columns of a weight, or elements of a bias.

    Attributes:
        name: The weight.
        start: The first column.
        stop: The end of the columns.
        rows: The start and the end of the rows, if not all belong to a product.
    """

    name: str
    start: int
    stop: int
    rows: tuple[int, int] | None = None

    def part(self, start: int, stop: int) -> Columns:
        """Return some of these columns."""
        return replace(self, start=self.start + start, stop=self.start + stop)


@dataclass(frozen=True)
class Weight:
    """An array that is the same in all steps."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant without axes."""

    value: float


@dataclass(frozen=True)
class Input:
    """The slice of the scanned array."""


@dataclass(frozen=True)
class CarriedState:
    """The value of a memory before the step."""

    at: int


@dataclass(frozen=True)
class Product:
    """A value times columns of a weight."""

    factor: Form
    columns: Columns


@dataclass(frozen=True)
class Gate:
    """A sum of products and biases."""

    products: tuple[Product, ...] = ()
    biases: tuple[Columns, ...] = ()

    def part(self, start: int, stop: int) -> Gate:
        """Return some of the columns."""
        products = (replace(p, columns=p.columns.part(start, stop)) for p in self.products)
        return Gate(tuple(products), tuple(b.part(start, stop) for b in self.biases))

    def plus(self, other: Gate) -> Gate:
        """Return the sum of two gates."""
        return Gate(self.products + other.products, self.biases + other.biases)


@dataclass(frozen=True)
class Joined:
    """Values next to each other, with their widths."""

    parts: tuple[tuple[Form, int], ...]


@dataclass(frozen=True)
class Apply:
    """An elementwise operator of values with the shape of a memory."""

    kind: str
    operands: tuple[Form, ...]


Form: TypeAlias = "Weight | Number | Input | CarriedState | Gate | Joined | Apply"


@dataclass
class Forms:
    """Evaluates the variables of a block.

    Attributes:
        body: The block.
        known: The forms of its parameters.
        type_of: Returns the type of an outer variable.
        constants: The operators that bind outer variables.
        memory: The type of elementwise values; `None` to evaluate gates only.
    """

    body: Body
    known: dict[str, Form]
    type_of: Callable[[str], Type]
    constants: Mapping[str, Op]
    memory: TensorType | None = None
    _binders: dict[str, Op] = field(init=False)

    def __post_init__(self) -> None:
        self._binders = producers(self.body.ops)

    def of(self, name: str) -> Form:
        """Return the form of a variable.

        Raises:
            Unrecognized: If no standard cell has such a value.
        """
        if name not in self.known:
            op = self._binders.get(name)
            self.known[name] = self._outer(name) if op is None else self._result(op, name)
        return self.known[name]

    def type(self, name: str) -> TensorType:
        """Return the type of a variable.

        Raises:
            Unrecognized: If the variable is not a float32 array.
        """
        info = self.body.vars.get(name)
        type_ = self.type_of(name) if info is None else info.type
        if not isinstance(type_, TensorType) or type_.dtype != FLOAT32:
            raise Unrecognized
        return type_

    def _outer(self, name: str) -> Form:
        if name in self.body.params:
            raise Unrecognized
        op = self.constants.get(name)
        if op is not None and op.type == "constant" and not self.type(name).rank:
            return Number(_value(op))
        return Weight(name)

    def _result(self, op: Op, name: str) -> Form:
        rule = _RULES.get(op.type)
        if rule is None or op.bodies():
            raise Unrecognized
        return rule(self, op, name)


def _value(op: Op) -> float:
    """Return the value of a constant."""
    return float(cast("Literal", op.attrs["value"]).array())


def _numbers(forms: Forms, op: Op, name: str) -> Form:
    """A constant of the step."""
    if forms.type(name).rank:
        raise Unrecognized
    return Number(_value(op))


def _product(forms: Forms, op: Op, name: str) -> Form:
    """A product of a value and a weight."""
    x, weight = forms.of(op.inputs["x"][0]), forms.of(op.inputs["y"][0])
    if not isinstance(weight, Weight) or isinstance(x, Weight | Number | Gate):
        raise Unrecognized
    type_ = forms.type(weight.name)
    width = forms.type(name).shape[-1]
    if type_.rank != 2 or not isinstance(width, int):
        raise Unrecognized
    if not isinstance(x, Joined):
        return Gate((Product(x, Columns(weight.name, 0, width)),))
    ends = np.cumsum([size for _, size in x.parts])
    return Gate(
        tuple(
            Product(part, Columns(weight.name, 0, width, (int(end) - size, int(end))))
            for (part, size), end in zip(x.parts, ends, strict=True)
        )
    )


def _join_forms(forms: Forms, op: Op, name: str) -> Form:
    """Values next to each other, as the factor of a product."""
    rank = forms.type(name).rank
    parts = [(forms.of(x), _static(forms.type(x).shape[-1])) for x in op.reads()]
    if _axis(op, rank) != rank - 1 or any(
        isinstance(form, Weight | Number | Gate | Joined) for form, _ in parts
    ):
        raise Unrecognized
    return Joined(tuple(parts))


def _sum(forms: Forms, op: Op, name: str) -> Form:
    """A sum of gates and biases, or of other values."""
    operands = [forms.of(op.inputs[slot][0]) for slot in ("x", "y")]
    width = forms.type(name).shape[-1:]
    terms = [_summand(forms, operand, width) for operand in operands]
    gates = [term for term in terms if term is not None]
    if len(gates) == 2 and any(isinstance(operand, Gate) for operand in operands):
        return gates[0].plus(gates[1])
    return _elementwise(forms, op, name)


def _summand(forms: Forms, form: Form, width: Sequence[Any]) -> Gate | None:
    """Return a gate, or a bias of its width, as a gate."""
    if isinstance(form, Weight) and forms.type(form.name).shape == tuple(width):
        return Gate((), (Columns(form.name, 0, width[0]),))
    return form if isinstance(form, Gate) else None


def _part(forms: Forms, op: Op, name: str) -> Form:
    """One of the equal parts of a gate."""
    x = op.inputs["x"][0]
    gate, rank = forms.of(x), forms.type(x).rank
    if not isinstance(gate, Gate) or _axis(op, rank) != rank - 1:
        raise Unrecognized
    widths = [_static(forms.type(part).shape[-1]) for part in op.binds()]
    at = list(op.binds()).index(name)
    return gate.part(sum(widths[:at]), sum(widths[: at + 1]))


def _slice(forms: Forms, op: Op, name: str) -> Form:
    """Consecutive columns of a gate."""
    del name
    x, index = op.inputs["x"][0], cast("Sequence[Any]", op.attrs["index"])
    gate, type_ = forms.of(x), forms.type(x)
    last = index[-1] if len(index) == type_.rank else None
    if not isinstance(gate, Gate) or not isinstance(last, Sequence) or last in (":", "new"):
        raise Unrecognized
    bounds = cast("Sequence[int | None]", last)
    start, stop, step = slice(*bounds or (None,)).indices(_static(type_.shape[-1]))
    if step != 1 or any(entry != ":" for entry in index[:-1]):
        raise Unrecognized
    return gate.part(start, stop)


def _axis(op: Op, rank: int) -> int:
    """Return the axis of an operator."""
    return cast("int", op.attrs["axis"]) % rank


def _static(size: Any) -> int:
    if not isinstance(size, int):
        raise Unrecognized
    return size


def _elementwise(forms: Forms, op: Op, name: str) -> Form:
    """An elementwise operator without broadcasting, except of numbers."""
    operands = [forms.of(operand) for operand in op.reads()]
    arrays = [
        operand
        for operand, form in zip(op.reads(), operands, strict=True)
        if not isinstance(form, Number)
    ]
    if any(forms.type(each) != forms.memory for each in (name, *arrays)):
        raise Unrecognized
    if any(isinstance(form, Weight) for form in operands):
        raise Unrecognized
    return Apply(op.type, tuple(operands))


_RULES: Mapping[str, Callable[[Forms, Op, str], Form]] = {
    "add": _sum,
    "concat": _join_forms,
    "constant": _numbers,
    "getitem": _slice,
    "matmul": _product,
    "multiply": _elementwise,
    "relu": _elementwise,
    "sigmoid": _elementwise,
    "split": _part,
    "subtract": _elementwise,
    "tanh": _elementwise,
}
