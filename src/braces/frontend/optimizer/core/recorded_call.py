"""Optimizers and schedules remember the call that made them, and are pickled as that call."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from braces.errors import ProgramError

_BY_VALUE = ("cloudpickle", "dill", "ray")
"""Packages with picklers that take functions along that nobody can import."""

P = ParamSpec("P")
R = TypeVar("R", bound="Recorded")


class Recorded:
    """A value that cannot be changed, and is made anew by the call that made it."""

    _call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """The call that made it; in another process it is made anew.

        Raises:
            ProgramError: No call is known, or it has a function that cannot be imported.
        """
        if self._call is None:
            raise ProgramError(
                f"{self!r:.200} cannot be pickled.",
                fix="Make it with a function of br.optimizer.",
            )
        function, args, kwargs = self._call
        if not any(name in sys.modules for name in _BY_VALUE):
            for one in _functions_in((args, kwargs)):
                _check_importable(one, self)
        return _called, (function, args, kwargs)


def recorded(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the top level of a module whose results remember its calls."""

    @functools.wraps(function)
    def recording(*args: P.args, **kwargs: P.kwargs) -> R:
        made = function(*args, **kwargs)
        vars(made).setdefault("_call", (recording, args, kwargs))
        return made

    return recording


def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions in a value and in the containers in it."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, Mapping):
        yield from _functions_in(tuple(cast("Mapping[Any, Any]", value).values()))
    elif isinstance(value, tuple | list):
        for one in cast("tuple[Any, ...]", value):
            yield from _functions_in(one)


def _check_importable(function: FunctionType, owner: Recorded) -> None:
    """Refuse a function that another process cannot find by its name.

    Raises:
        ProgramError: It is a lambda, or was defined in another function.
    """
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not function:
        raise ProgramError(
            f"{owner!r:.200} cannot be pickled, for nobody can import a function in it.",
            given=f"{function.__module__}.{function.__qualname__}",
            fix="Define the function at the top level of a module, or make the optimizer in "
            "each process.",
        )
