"""Leave out what changes nothing.

    data x: f32[2,3]                          data x: f32[2,3]
    one: f32[] = full() {value=1.0, …}        one: f32[] = full() {value=1.0, …}
    a: f32[2,3] = multiply(x=x, y=one)        b: f32[3,2] = matrix_transpose(x=x)
    b: f32[3,2] = matrix_transpose(x=a)       d: f32[6] = reshape(x=x) {shape=[6]}
    c: f32[2,3] = matrix_transpose(x=b)   ->  e: f32[3,1,2] = reshape(x=x) {shape=[…]}
    d: f32[6] = reshape(x=c) {shape=[6]}      return x, e
    e: f32[3,1,2] = reshape(x=d) {shape=[…]}
    return c, e

What nothing reads any more goes with elimination. An operator is left out where it gives its
input to the bit, as its definition tells:

- The number beside it is neutral (`neutral=`), and what made that gives one number
  (`uniform=`). So x * 1 goes, and x + 0 of integers; of floats it stays, which makes 0.0 of
  -0.0.
- It changes the type alone, which stays as it is (`changes_only="type"`).
- It changes the shape alone, back to what it was before others that do so (`"shape"`). Where
  the shape follows from its attributes, it is changed once in place of twice.
- It changes the order of axes alone, back to what it was (`"axes"`).

Constants are not computed. Passes run no kernels, and NumPy rounds otherwise than they do;
there is next to nothing to compute either, two or three operators for a loss.

No executor does all this by itself: see ARCHITECTURE.md for what it costs and where it pays.
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
from braces.ir.walk import names_bound_again
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite


def simplified(program: ProgramDef) -> ProgramDef:
    """A program without operators that change nothing."""
    return rewrite(program, _Simplifying(program))


class _Simplifying:
    """The rule: what an operator gives already goes by its name, and detours are cut short.

    Attributes:
        program: The program as it was.
    """

    def __init__(self, program: ProgramDef) -> None:
        self.program = program

    def __call__(self, op: Op, place: Place) -> Change:
        definition = OPS.get(op.type)
        if definition.neutral:
            return self.replaced(op, _beside_neutral(op, place), place)
        if not definition.changes_only or isinstance(_type(op, place), ListType):
            return op
        if definition.changes_only == AXES:
            return self.replaced(op, _as_ordered(op, place), place)
        (x,) = op.reads()
        if _type(op, place) == place.info(x).type:
            return self.replaced(op, x, place)
        return self.reshaped(op, place) if definition.changes_only == SHAPE else op

    def replaced(self, op: Op, by: str | None, place: Place) -> Change:
        """An operator, or what gives its result already."""
        if by is None or by in self.ambiguous:
            return op
        note(place.where(op), f"gives `{by}` as it is")
        return {_result(op): by}

    def reshaped(self, op: Op, place: Place) -> Change:
        """An operator that changes the shape, read from where that was changed first."""
        wanted, first = _type(op, place), op
        for name in _shapes_before(op, place):
            if name in self.ambiguous:
                break
            if place.info(name).type == wanted:
                return self.replaced(op, name, place)
            direct = op.with_(inputs=dict.fromkeys(op.inputs, (name,)))
            if _gives(direct, place.info(name).type, wanted):
                first = direct
        if first is not op:
            note(place.where(op), f"reads `{next(iter(first.reads()))}`, of another shape")
        return first

    @cached_property
    def ambiguous(self) -> set[str]:
        """The names that mean several variables."""
        return names_bound_again(self.program.main)


def _result(op: Op) -> str:
    (name,) = op.binds()
    return name


def _type(op: Op, place: Place) -> Type:
    return place.info(_result(op)).type


def _beside_neutral(op: Op, place: Place) -> str | None:
    """The input that an operator gives, because the other one is neutral."""
    for slot, neutral in OPS.get(op.type).neutral.items():
        maker = place.maker(op.inputs[slot][0])
        if maker is None or OPS.get(maker.type).uniform is None:
            continue
        number, wanted = OPS.get(maker.type).number(maker.attrs), _type(op, place)
        (other,) = (name for beside, (name,) in op.inputs.items() if beside != slot)
        if place.info(other).type == wanted and _is(number, neutral, wanted):
            return other
    return None


def _is(found: Attr, number: float, type_: Type) -> bool:
    """Whether a number is another in arrays of this type; of floats, -0.0 is not 0.0."""
    if isinstance(type_, ListType) or type_.dtype.kind == "c":
        return False
    if not isinstance(found, int | float) or found != number:
        return False
    return not is_float(type_.dtype) or math.copysign(1.0, found) == math.copysign(1.0, number)


def _shapes_before(op: Op, place: Place) -> Iterator[str]:
    """What operators read that change nothing but the shape, from the one before this back."""
    (name,) = op.reads()
    maker = place.maker(name)
    while maker is not None and OPS.get(maker.type).changes_only == SHAPE:
        (name,) = maker.reads()
        yield name
        maker = place.maker(name)


def _gives(op: Op, x: Type, wanted: Type) -> bool:
    """Whether an operator would give a type if what it reads had this one."""
    try:
        found = infer_op(op, dict.fromkeys(op.reads(), x), Unifier())
    except BracesError:
        return False
    return found[_result(op)] == wanted


def _as_ordered(op: Op, place: Place) -> str | None:
    """The variable whose axes an operator puts back in their order."""
    (name,) = op.reads()
    order = _order(op, place)
    if order == tuple(range(len(order))):
        return name
    maker = place.maker(name)
    if maker is None or OPS.get(maker.type).changes_only != AXES:
        return None
    before = _order(maker, place)
    whole = tuple(before[axis] for axis in order)
    return next(iter(maker.reads())) if whole == tuple(range(len(order))) else None


def _order(op: Op, place: Place) -> tuple[int, ...]:
    """Which axis of the input each axis of the result is."""
    rule = OPS.get(op.type).axes_rule
    assert rule is not None
    ((slot, (name,)),), ((result, _),) = op.inputs.items(), op.outputs.items()
    axes = rule({slot: (place.info(name).type,)}, op.attrs)
    return tuple(map(axes.of(slot).index, axes.of_output(result)))


CANONICALIZE = Pass(
    "canonicalize", simplified, "Remove operators that change nothing.", trusted=True
)
