"""Algebraic simplification (canonicalization): remove operators that return their input.

    data x: f32[2,3]                          data x: f32[2,3]
    one: f32[] = full() {value=1.0, …}        one: f32[] = full() {value=1.0, …}
    a: f32[2,3] = multiply(x=x, y=one)        b: f32[3,2] = matrix_transpose(x=x)
    b: f32[3,2] = matrix_transpose(x=a)       d: f32[6] = reshape(x=x) {shape=[6]}
    c: f32[2,3] = matrix_transpose(x=b)   ->  e: f32[3,1,2] = reshape(x=x) {shape=[…]}
    d: f32[6] = reshape(x=c) {shape=[6]}      return x, e
    e: f32[3,1,2] = reshape(x=d) {shape=[…]}
    return c, e

Unread operators are left to dead code elimination. An operator is removed if its result equals
its input bit by bit, according to its definition:

- Its other operand is the neutral element (`neutral=`), from an operator with a uniform value
  (`uniform=`). So x * 1 is removed, and x + 0 for integers. For floats, x + 0 stays: it turns
  -0.0 into 0.0.
- It only changes the type, to the same type (`changes_only="type"`).
- It only changes the shape, back to that before other reshapes (`"shape"`). If the shape
  follows from its attributes, two reshapes become one.
- It only permutes axes, back to their original order (`"axes"`).

There is no constant folding. Passes run no kernels, and NumPy rounds differently. There is also
little to fold: two or three operators for a loss.

No executor runs this pass by default: docs/decisions, 0034, has its cost and benefit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

from braces.define.decorator import OPS
from braces.define.definition import AXES, SHAPE
from braces.define.type_inference import infer_op
from braces.dims import Unifier
from braces.dtypes import ListType, Type, is_float
from braces.errors import BracesError
from braces.ir.records import Attr, Op, ProgramDef
from braces.ir.walk import rebound_names
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite


def simplify_program(program: ProgramDef) -> ProgramDef:
    """Return a program without operators that return their input."""
    return rewrite(program, _Simplification(program))


class _Simplification:
    """Rewriting rule: reuse values that equal the result of an operator, and merge reshapes.

    Attributes:
        program: The original program.
    """

    def __init__(self, program: ProgramDef) -> None:
        self.program = program

    def __call__(self, op: Op, place: InsertionPoint) -> Replacement:
        definition = OPS.get(op.type)
        if definition.neutral:
            return self.replaced(op, _operand_beside_neutral(op, place), place)
        if not definition.changes_only or isinstance(_result_type(op, place), ListType):
            return op
        if definition.changes_only == AXES:
            return self.replaced(op, _source_of_transpose(op, place), place)
        (x,) = op.reads()
        if _result_type(op, place) == place.info(x).type:
            return self.replaced(op, x, place)
        return self.reshaped(op, place) if definition.changes_only == SHAPE else op

    def replaced(self, op: Op, by: str | None, place: InsertionPoint) -> Replacement:
        """Return an operator, or the name of its result if that exists already."""
        if by is None or by in self.ambiguous:
            return op
        note(place.where(op), f"removed: equal to `{by}`")
        return {_result(op): by}

    def reshaped(self, op: Op, place: InsertionPoint) -> Replacement:
        """Return a reshape that reads the value before earlier reshapes."""
        result_type, first = _result_type(op, place), op
        for name in _reshape_sources(op, place):
            if name in self.ambiguous:
                break
            if place.info(name).type == result_type:
                return self.replaced(op, name, place)
            direct = op.with_(inputs=dict.fromkeys(op.inputs, (name,)))
            if _infers_type(direct, place.info(name).type, result_type):
                first = direct
        if first is not op:
            note(
                place.where(op),
                f"combined with earlier reshapes of `{next(iter(first.reads()))}`",
            )
        return first

    @cached_property
    def ambiguous(self) -> set[str]:
        """Names that several variables have."""
        return rebound_names(self.program.main)


def _result(op: Op) -> str:
    (name,) = op.binds()
    return name


def _result_type(op: Op, place: InsertionPoint) -> Type:
    return place.info(_result(op)).type


def _operand_beside_neutral(op: Op, place: InsertionPoint) -> str | None:
    """Return the operand that an operator returns, since the other one is neutral."""
    for slot, neutral in OPS.get(op.type).neutral.items():
        maker = place.maker(op.inputs[slot][0])
        if maker is None or OPS.get(maker.type).uniform is None:
            continue
        number, result_type = OPS.get(maker.type).number(maker.attrs), _result_type(op, place)
        (other,) = (name for other_slot, (name,) in op.inputs.items() if other_slot != slot)
        if place.info(other).type == result_type and _is_same_number(
            number, neutral, result_type
        ):
            return other
    return None


def _is_same_number(value: Attr, number: float, type_: Type) -> bool:
    """Return whether numbers are equal in arrays of a type; for floats, -0.0 is not 0.0."""
    if isinstance(type_, ListType) or type_.dtype.kind == "c":
        return False
    if not isinstance(value, int | float) or value != number:
        return False
    return not is_float(type_.dtype) or math.copysign(1.0, value) == math.copysign(1.0, number)


def _reshape_sources(op: Op, place: InsertionPoint) -> Iterator[str]:
    """Yield the inputs of the chain of reshapes before this one, nearest first."""
    (name,) = op.reads()
    maker = place.maker(name)
    while maker is not None and OPS.get(maker.type).changes_only == SHAPE:
        (name,) = maker.reads()
        yield name
        maker = place.maker(name)


def _infers_type(op: Op, x: Type, wanted: Type) -> bool:
    """Return whether an operator would return a type for an operand of another type."""
    try:
        result_types = infer_op(op, dict.fromkeys(op.reads(), x), Unifier())
    except BracesError:
        return False
    return result_types[_result(op)] == wanted


def _source_of_transpose(op: Op, place: InsertionPoint) -> str | None:
    """Return the variable whose axis order an operator restores."""
    (name,) = op.reads()
    order = _axis_order(op, place)
    if order == tuple(range(len(order))):
        return name
    maker = place.maker(name)
    if maker is None or OPS.get(maker.type).changes_only != AXES:
        return None
    before = _axis_order(maker, place)
    composed = tuple(before[axis] for axis in order)
    return next(iter(maker.reads())) if composed == tuple(range(len(order))) else None


def _axis_order(op: Op, place: InsertionPoint) -> tuple[int, ...]:
    """Return the input axis of each axis of the result."""
    rule = OPS.get(op.type).axes_rule
    assert rule is not None
    ((slot, (name,)),), ((result, _),) = op.inputs.items(), op.outputs.items()
    axes = rule({slot: (place.info(name).type,)}, op.attrs)
    return tuple(map(axes.of(slot).index, axes.of_output(result)))


CANONICALIZE = Pass(
    "canonicalize", simplify_program, "Remove operators that return their input.", trusted=True
)
