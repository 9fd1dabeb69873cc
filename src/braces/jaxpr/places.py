"""Rules of primitives that take and put what lies at places that are values."""

from __future__ import annotations

from collections.abc import Mapping

from braces.builder.append import apply
from braces.builder.var import Var
from braces.jaxpr.equation import Equation, Rule, Value


def cut_out(e: Equation, x: Value, *starts: Value) -> Var:
    """A part of an array; a key of random numbers is taken whole."""
    var, places = e.lift(x), list(map(e.lift, starts))
    places += [e.lift_number(0)] * (var.ndim - len(places))
    made = apply("dynamic_slice", {"x": (var,), "starts": places}, {"sizes": e.shape})
    return made["out"][0]


def put_in(e: Equation, x: Value, update: Value, *starts: Value) -> Var:
    """An array with a part replaced; a key of random numbers is put whole."""
    var, places = e.lift(x), list(map(e.lift, starts))
    places += [e.lift_number(0)] * (var.ndim - len(places))
    operands = {"x": (var,), "update": (e.lift(update),), "starts": places}
    return apply("dynamic_update_slice", operands)["out"][0]


PLACES: Mapping[str, Rule] = {
    "dynamic_slice": cut_out,
    "dynamic_update_slice": put_in,
}
