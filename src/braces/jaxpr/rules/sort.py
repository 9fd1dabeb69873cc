"""Rules of sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype


def sort(e: Equation, *values: Value) -> list[Var]:
    """A stable sort of several arrays by the first ones as keys."""
    xs, axis = list(map(e.lift, values)), e.params["dimension"]
    if len(xs) == 1 and xs[0].dtype.kind != "c":
        return [emit("sort", xs[0], axis=axis)]
    permutation: Var | None = None
    for key in reversed(_real_keys(xs[: e.params["num_keys"]])):
        permuted_key = (
            key if permutation is None else emit("take_along_axis", key, permutation, axis=axis)
        )
        order = emit("argsort", permuted_key, axis=axis)
        permutation = (
            order
            if permutation is None
            else emit("take_along_axis", permutation, order, axis=axis)
        )
    assert permutation is not None, "sort without keys"
    return [emit("take_along_axis", x, permutation, axis=axis) for x in xs]


def _real_keys(keys: Sequence[Var]) -> list[Var]:
    """Return keys with complex numbers as two keys: real parts, then imaginary parts."""
    parts = [
        [emit("real", key), emit("imag", key)] if key.dtype.kind == "c" else [key]
        for key in keys
    ]
    return [part for pair in parts for part in pair]


def top_k(e: Equation, x: Value) -> tuple[Var, Var]:
    """The largest numbers of an axis, and their indices."""
    attrs = {"k": e.params["k"], "axis": e.params["axis"]}
    top = apply("topk", {"x": (e.lift(x),)}, attrs)
    return top["values"][0], in_dtype(top["indices"][0], e.types[1].dtype)


ORDER: Mapping[str, Rule] = {
    "sort": sort,
    "top_k": top_k,
}
