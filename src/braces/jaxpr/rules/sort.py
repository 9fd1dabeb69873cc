"""Rules of primitives that bring in order what lies along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype


def sort(e: Equation, *values: Value) -> list[Var]:
    """Several arrays in the order of the first of them; of equal ones the next decides."""
    xs, axis = list(map(e.lift, values)), e.params["dimension"]
    if len(xs) == 1:
        return [one("sort", xs[0], axis=axis)]
    places: Var | None = None
    for key in reversed(xs[: e.params["num_keys"]]):
        moved = key if places is None else one("take_along_axis", key, places, axis=axis)
        order = one("argsort", moved, axis=axis)
        places = order if places is None else one("take_along_axis", places, order, axis=axis)
    assert places is not None, "there is a key"
    return [one("take_along_axis", x, places, axis=axis) for x in xs]


def top_k(e: Equation, x: Value) -> tuple[Var, Var]:
    """The largest along an axis, and where they are."""
    attrs = {"k": e.params["k"], "axis": e.params["axis"]}
    made = apply("topk", {"x": (e.lift(x),)}, attrs)
    return made["values"][0], in_dtype(made["indices"][0], e.types[1].dtype)


def so_far(op_type: str, e: Equation, x: Value) -> Var:
    """The largest, smallest or summed so far, along an axis."""
    return one(op_type, e.lift(x), axis=e.params["axis"], reverse=e.params["reverse"])


ORDER: Mapping[str, Rule] = {
    "cumlogsumexp": partial(so_far, "cumlogsumexp"),
    "cummax": partial(so_far, "cummax"),
    "cummin": partial(so_far, "cummin"),
    "sort": sort,
    "top_k": top_k,
}
