"""Sizes of axes, static or symbolic.

A size is an `int` or a `Dim`: a polynomial with integer coefficients over atoms, where an atom
is a name or one of four functions of sizes. Equal polynomials are equal `Dim`s.

    size  := int | dim
    dim   := term (("+" | "-") term)*
    term  := factor ("*" factor)*
    factor:= int | name ("^" int)? | function "(" dim "," dim ")" | "(" dim ")"
    name  := letter (letter | digit | "_" | "." | "$")* | "?" digits

`?0`, `?1`, … are *unnamed* dimensions, written `None` by users. They unify with any size that
an operator requires (`Unifier`). Two different names never unify. Every symbolic dimension may
be zero, and none is negative.

Text length, nesting depth and powers are limited as in files, and checked when a size is
computed. So every size that can be built can be read back.
"""

from braces.dims.human_units import amount
from braces.dims.named_size import NamedSize, axis_name
from braces.dims.parser import parse_size
from braces.dims.printer import LARGEST_NUMBER, LONGEST_TEXT
from braces.dims.size import (
    SIZE_FUNCTIONS,
    Call,
    Dim,
    Shape,
    Size,
    call,
    calls_in,
    divide_exactly,
    never_negative,
    of_atom,
    product,
    sum_of,
)
from braces.dims.solver import solved, solved_call
from braces.dims.substitution import substitute
from braces.dims.unifier import Unifier

__all__ = [
    "LARGEST_NUMBER",
    "LONGEST_TEXT",
    "SIZE_FUNCTIONS",
    "Call",
    "Dim",
    "NamedSize",
    "Shape",
    "Size",
    "Unifier",
    "amount",
    "axis_name",
    "call",
    "calls_in",
    "divide_exactly",
    "never_negative",
    "of_atom",
    "parse_size",
    "product",
    "solved",
    "solved_call",
    "substitute",
    "sum_of",
]
