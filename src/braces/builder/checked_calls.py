"""Public calls whose arguments are checked against their annotations, and that errors name.

Annotations of one kind are checked, with or without `| None`: a scalar, as `str`, is converted
by `with_user_line`; a function, a mapping, an iterable and a class are checked here. A function
checks parameters of several kinds, and those annotated with `Any`, itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from braces.builder.source_line import add_user_line, user_line, with_user_line
from braces.errors import BracesError, IndexRangeError, ProgramError, short_text
from braces.report import count_text

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_SCALARS = (bool, int, float, str)
"""Classes that `with_user_line` checks and converts."""
EXAMPLES = {
    "breakpoints": '["loop_0/body/act if max > 10"]',
    "feed": '{"x": array}',
    "function": "lambda v: br.relu(v)",
    "inputs": '{"x": "encoder/h"}',
    "names": '{"encoder/q": "encoder/query"}',
    "outputs": '{"y": "loop_0/body/act"}',
    "patches": '{"loop_0/body/act": 0.0}',
    "types": '{"x": "f32[n,8]"}',
}
"""Values of parameters, for messages."""
_WORDS = {
    "Builder": "a program",
    "Callable": "a function",
    "Iterable": "an iterable",
    "Mapping": "a mapping",
    "Sequence": "a sequence",
}


def checked_call(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: check its arguments, and add the call to errors."""
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        kinds = _kinds(function)
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in kinds:
                _check(name, kinds[name], value)
        return function(*args, **kwargs)

    return with_user_line(checking)


def checked_methods(cls: type[T]) -> type[T]:
    """Decorate a public class: the calls of its own public methods are checked."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, checked_call(member))
    return cls


@contextmanager
def located_call(call: str = "") -> Generator[None]:
    """Add the user's line, and a call such as `prog[path]`, to errors without a location."""
    try:
        yield
    except BracesError as error:
        add_user_line(error, call)
        raise


# ---- kinds -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """The kind of an argument.

    Attributes:
        cls: Its class.
        keys: The class of the elements of an iterable, or of the keys of a mapping.
        optional: Whether it may be `None`.
    """

    cls: type
    keys: type = object
    optional: bool = False

    @staticmethod
    def of(hint: Any) -> Kind | None:
        """Return the kind of an annotation; `None` if it has several kinds, or is a scalar."""
        if isinstance(hint, TypeVar):
            return Kind.of(hint.__bound__)
        cls, parts = get_origin(hint) or hint, get_args(hint)
        if cls in (UnionType, Union):
            kinds = [Kind.of(part) for part in parts if part is not NoneType]
            alone = kinds[0] if len(kinds) == 1 < len(parts) else None
            return alone and replace(alone, optional=True)
        if not isinstance(cls, type) or cls in (Any, object, *_SCALARS):
            return None
        return Kind(cls, str if parts[:1] == (str,) else object)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is of this kind; elements of iterators are not looked at."""
        if value is None:
            return self.optional
        if not isinstance(value, self.cls):
            return False
        if self.keys is object or isinstance(value, Iterator):
            return True
        elements = elements_of(value)
        return elements is not None and all(isinstance(each, self.keys) for each in elements)

    @property
    def words(self) -> str:
        """The kind in words, as "a mapping of strings"."""
        words = _WORDS.get(self.cls.__name__, f"a br.{self.cls.__name__}")
        return words + (" of strings" if self.keys is str else "")


@functools.cache
def _kinds(function: Callable[..., Any]) -> Mapping[str, Kind]:
    """Return the kinds of the parameters that have one."""
    hints = {**get_type_hints(function), "return": None}
    kinds = {name: Kind.of(hint) for name, hint in hints.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _check(name: str, kind: Kind, value: Any) -> None:
    """Raise an error for an argument of another kind.

    Raises:
        ProgramError: If the argument is of another kind; the message names both.
    """
    if not kind.accepts(value):
        raise ProgramError(
            f"expected {kind.words} for `{name}`, got {short_text(value)}.",
            fix=f"Pass {name}={EXAMPLES[name]}." if name in EXAMPLES else None,
        )


# ---- parts -----------------------------------------------------------------------------------


def checked_item(items: Sequence[T], index: int, noun: str) -> T:
    """Return an item of a sequence.

    Raises:
        IndexRangeError: If the index is out of range.
        ProgramError: If the index is not an integer.
    """
    try:
        return items[index]
    except IndexError:
        count = count_text(len(items), noun)
        at = user_line()
        raise IndexRangeError(f"index {index} is out of range for {count}.", at=at) from None
    except TypeError:
        problem = f"expected an integer or a slice, got {short_text(index)}."
        raise ProgramError(problem, at=user_line()) from None


def checked_elements(value: Any, cls: type[T], purpose: str, fix: str) -> list[T]:
    """Return the elements of an iterable, all of one class; also of a single element.

    Raises:
        ProgramError: If the value is of another kind.
    """
    elements = [value] if isinstance(value, cls) else elements_of(value)
    if elements is None or not all(isinstance(element, cls) for element in elements):
        problem = f"expected {purpose}, got {short_text(value)}."
        raise ProgramError(problem, at=user_line(), fix=fix)
    return elements


def elements_of(value: Any) -> list[Any] | None:
    """Return the elements of an iterable; `None` for others, as an array without axes."""
    if not isinstance(value, Iterable) or getattr(cast("Any", value), "ndim", None) == 0:
        return None
    return list(cast("Iterable[Any]", value))


def checked_name(value: Any, purpose: str, fix: str | None = None) -> str:
    """Return the name of a variable, a declaration or a handle, or the name itself.

    Args:
        value: The name, or an object with a name.
        purpose: Its purpose, for messages.
        fix: The fix, for messages.

    Raises:
        ProgramError: If the value has no name.
    """
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str) or isinstance(value, type):
        raise ProgramError(
            f"expected a variable or its name for {purpose}, got {short_text(value)}.", fix=fix
        )
    return name


def checked_path(value: Any, fix: str | None = None) -> str:
    """Return the path of a handle, or the path itself.

    Raises:
        ProgramError: If the value is neither.
    """
    path = getattr(value, "path", value)
    if not isinstance(path, str):
        raise ProgramError(f"expected a path or a handle, got {short_text(value)}.", fix=fix)
    return path
