"""What an export computes of sizes: no operators, but sizes again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.builder.var import Var
from braces.dims import Size, product
from braces.exchange import sizes
from braces.exchange.sizes import Unknown
from braces.exchange.torch_in.rules import arithmetic


def of_size(x: Var, axis: int | None = None) -> Size | list[Size]:
    """The size of an axis, or all of them."""
    return list(x.shape) if axis is None else x.shape[axis]


def checked(*given: Any, **options: Any) -> None:
    """What a run would check of sizes that the export was made for."""


def computed(of_sizes: Callable[..., Any], rule: str) -> Callable[..., Any]:
    """Arithmetic of sizes; of an element that is read it is an operator."""

    def made(*given: Any) -> Any:
        if any(isinstance(value, Var) for value in given):
            return arithmetic.ARITHMETIC[rule](*given)
        return of_sizes(*given)

    return made


def asked(of_sizes: Callable[..., bool]) -> Callable[..., Any]:
    """A comparison of sizes; `None` where it depends on a run, since only checks read it."""

    def made(x: Any, y: Any) -> bool | None:
        try:
            return of_sizes(x, y)
        except Unknown:
            return None

    return made


def quotient(x: Any, y: Any) -> Any:
    """A quotient of sizes, rounded down."""
    return sizes.over(x, y) if sizes.symbolic(x, y) else x // y


def item(values: Sequence[Any], at: int) -> Any:
    """One of several values."""
    return values[at]


def differ(x: Size, y: Size) -> bool:
    """Whether two sizes differ, for all values of what they are computed from."""
    return not sizes.same(x, y)


def opposite(x: Any) -> bool | None:
    """Whether it is false, where that is known."""
    return None if x is None else not x


def numel(x: Var) -> Size:
    """How many numbers there are."""
    return product(x.shape)


SIZING: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "python._assert",
         "python.sym_constrain_range_for_size", "sym_constrain_range",
         "sym_constrain_range_for_size"), checked,
    ),
    "python.add": computed(sizes.plus, "add"),
    "python.eq": asked(sizes.same),
    "python.floordiv": quotient,
    "python.ge": asked(sizes.at_least),
    "python.getitem": item,
    "python.gt": asked(sizes.above),
    "python.le": asked(sizes.at_most),
    "python.lt": asked(sizes.below),
    "python.mod": sizes.rest,
    "python.mul": computed(sizes.times, "mul"),
    "python.ne": asked(differ),
    "python.neg": sizes.negative,
    "python.sub": computed(sizes.minus, "sub"),
    "python.sym_max": sizes.largest,
    "python.sym_min": sizes.smallest,
    "python.sym_not": opposite,
    "python.truediv": sizes.over,
    "sym_numel": numel,
    "sym_size": of_size,
}  # fmt: skip
