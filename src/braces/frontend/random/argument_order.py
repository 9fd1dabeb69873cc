"""The order of arguments of draws: the shape comes first, and there is no key."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from braces.builder.source_line import user_line
from braces.builder.var import Var
from braces.errors import ProgramError, short_text
from braces.frontend.core.all_or_nothing import transactional
from braces.keywords import written_call

P = ParamSpec("P")
R = TypeVar("R")


def draw_function(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of `br.random`: a transaction that refuses another argument order.

    `normal(0.0, 1.0, [3])` of NumPy and PyTorch, and `normal(key, [3])` of JAX, are errors with
    the call of Braces.
    """
    drawn = transactional(function)
    first = next(iter(inspect.signature(function).parameters))

    @functools.wraps(drawn)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and _is_key(args[0]) and (first == "shape" or args[1:]):
            raise _order_error(function, args, kwargs, "a draw takes no random key")
        if args and first == "shape" and _is_other_order(function, args):
            problem = f"expected the shape as the first argument, got {_text(args[0])}"
            raise _order_error(function, args, kwargs, problem)
        return drawn(*args, **kwargs)

    return drawing


def _is_key(value: Any) -> bool:
    """Return whether a value is a random key of JAX, typed or raw."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", ())
    if dtype is None or isinstance(value, Var):
        return False
    return str(dtype).startswith("key<") or (dtype == np.uint32 and tuple(shape) == (2,))


def _is_other_order(function: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Return whether the first argument is a parameter, and not the shape.

    A bare integer is a shape of one axis; the parameters after it may be lists of its length.
    """
    first, *others = args
    if isinstance(first, bool | float | np.floating | Var):
        return True
    if not _is_integer(first):
        return False
    if others and first <= 0:
        return True
    if function.__name__ == "randint" and len(args) == 3 and _are_integers(others):
        return others[0] >= others[1]
    lists: list[Sequence[Any]] = [each for each in others if isinstance(each, list | tuple)]
    return any(_are_integers(each) and len(each) != first for each in lists)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer)


def _are_integers(values: Sequence[Any]) -> bool:
    return all(map(_is_integer, values))


def _order_error(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], problem: str
) -> ProgramError:
    fix = f"Call br.random.{written_call(function)}: {_call(function, args, named)}."
    if isinstance(args[0], Var):
        fix += f" For the shape of `{args[0].name}` pass {args[0].name}.shape."
    elif _is_key(args[0]):
        fix += " exe.init(prog, seed=0) sets the seed."
    return ProgramError(
        f"{function.__name__}: {problem}.",
        at=user_line(),
        given=f"arguments: {', '.join(map(_text, args))}",
        fix=fix,
    )


def _call(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return the call with the arguments in the order of Braces."""
    values = [value for value in args if not _is_key(value)]
    shape, *parameters = inspect.signature(function).parameters.values()
    if shape.name != "shape":
        return f"br.random.{function.__name__}({', '.join(map(_text, values))})"
    sizes, others = _split(values, named)
    if function.__name__ == "randint" and len(others) == 1:  # the upper bound alone
        others = [0, *others]
    if not sizes and shape.default is shape.empty:
        sizes = cast("list[Any]", [[]])
    parts = [_text(value) for value in (*sizes, *others)]
    if not sizes:
        parts = [f"{p.name}={part}" for p, part in zip(parameters, parts, strict=False)]
    return f"br.random.{function.__name__}({', '.join(parts)})"


def _split(values: list[Any], named: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the shape, if there is one, and the parameters."""
    keywords = [named[word] for word in ("shape", "size") if word in named]
    if keywords:
        return keywords[:1], values
    lists = [at for at, value in enumerate(values) if isinstance(value, list | tuple)]
    at = lists[-1] if lists else 2  # NumPy's size is the third argument
    return values[at : at + 1], [*values[:at], *values[at + 1 :]]


def _text(value: Any) -> str:
    """Return a value as the user wrote it, as far as that is known."""
    if isinstance(value, Var):
        return value.name
    return "key" if _is_key(value) else short_text(value)
