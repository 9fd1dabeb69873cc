"""Optimizers and schedules record the call that created them, and are pickled as that call."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from braces.errors import ProgramError

_BY_VALUE = ("cloudpickle", "dill", "ray")
"""Packages that pickle functions by value, including functions that cannot be imported."""

RECORDED: dict[str, Callable[..., Any]] = {}
"""The functions whose results record their call, by name."""

P = ParamSpec("P")
R = TypeVar("R", bound="RecordedCall")


class RecordedCall:
    """An immutable value that is rebuilt from the recorded call that created it."""

    _call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the recorded call, which another process repeats.

        Raises:
            ProgramError: If no call is recorded, or it has a function that cannot be imported.
        """
        if self._call is None:
            raise ProgramError(
                f"{self!r:.200} cannot be pickled.",
                fix="Create it with a function of br.optimizer.",
            )
        function, args, kwargs = self._call
        if not any(name in sys.modules for name in _BY_VALUE):
            for value in _functions_in((args, kwargs)):
                _check_importable(value, self)
        return _repeat_call, (function, args, kwargs)


def record_call(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a module-level function of `br.optimizer`: its results record their call."""

    @functools.wraps(function)
    def recording(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        vars(result).setdefault("_call", (recording, args, kwargs))
        return result

    RECORDED[function.__name__] = recording
    return recording


def _repeat_call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions in a value and in nested containers."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, Mapping):
        yield from _functions_in(tuple(cast("Mapping[Any, Any]", value).values()))
    elif isinstance(value, tuple | list):
        for item in cast("tuple[Any, ...]", value):
            yield from _functions_in(item)


def _check_importable(function: FunctionType, owner: RecordedCall) -> None:
    """Refuse a function that another process cannot import by its name.

    Raises:
        ProgramError: If the function is a lambda, or is defined in another function.
    """
    target: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        target = getattr(target, name, None)
    if target is not function:
        raise ProgramError(
            f"{owner!r:.200} cannot be pickled: it holds a function that cannot be imported.",
            given=f"{function.__module__}.{function.__qualname__}",
            fix="Define the function at the top level of a module, or create the optimizer in "
            "each process.",
        )
