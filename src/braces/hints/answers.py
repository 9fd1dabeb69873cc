"""Answers to names of other libraries: hints, equivalent operators, other namespaces."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from types import FrameType
from typing import Any

from braces.equivalents import SYSTEMS, names_in
from braces.hints import classes, table_files as tables
from braces.hints.trail import attributes_after
from braces.homes import FUNCTIONS, MODULES, find_homes, public_path, say_home

# ---- names on `br` and its modules -----------------------------------------------------------


def answer_name(module: str, name: str, frame: FrameType | None = None) -> str:
    """Return a sentence about a missing `module.name`; empty without an answer.

    Args:
        module: The module as users write it: `br`, `br.layers`.
        name: The missing attribute.
        frame: The frame of the `__getattr__` that is called, to answer `br.nn.Linear` for
            `Linear`.
    """
    if name.lower() not in tables.namespaces():
        return _answer((*module.split("."), name))
    after = attributes_after(frame, name)
    for count in range(len(after), 0, -1):
        path = (*module.split("."), name, *after[:count])
        if answer := _answer(path):
            return answer.replace("Use ", f"For {'.'.join(path)} use ", 1)
    return _exact_class(name, ()) or _use(tables.namespaces()[name.lower()])


def _answer(path: Sequence[str]) -> str:
    """Return a sentence about a path from `br` on."""
    _, *inside, name = path
    return (
        _use(_dotted(path[1:]))
        or _exact_class(name, inside)
        or (say_home(".".join(path)) if _is_home_likely(name, inside) else "")
        or _use(habit_of(name))
        or say_home(".".join(path))
        or answer_class(name, inside)
        or say_home(".".join((*path[:-1], name.lower())))
    )


def _is_home_likely(name: str, inside: Sequence[str]) -> bool:
    """Return whether `br` has the name itself, or it was looked for in a module of Braces."""
    return f"br.{name}" in find_homes(name) or bool(inside and inside[0] in MODULES)


def _use(hint: str) -> str:
    return f"Use {hint}." if hint else ""


def _dotted(path: Sequence[str]) -> str:
    """Return the hint for the longest end of a path that has one, of two names or more."""
    written = (".".join(path[start:]).lower() for start in range(len(path) - 1))
    return next((tables.habits()[each] for each in written if each in tables.habits()), "")


def habit_of(name: str) -> str:
    """Return the hint for a function of another library, in any case; empty without one."""
    return tables.habits().get(name.lower()) or answer_operator(name)


def method_hint(name: str) -> str:
    """Return the hint for an attribute of a variable; empty without one."""
    return tables.objects()["Var"].get(name, "")


def answer_operator(name: str) -> str:
    """Return a call of the operator with a name in another system: `elementwise_add`."""
    path = _operators().get(name.lower(), "")
    return call_of(path) if path else ""


@cache
def _operators() -> Mapping[str, str]:
    """Return public paths by names of operators in other systems, in lower case."""
    types = dict.fromkeys(FUNCTIONS, "") | {kind: kind for kind in FUNCTIONS}
    for system in reversed(SYSTEMS[1:]):
        types |= {name.lower(): op for name, op in names_in(system).items()}
    paths = ((name, public_path(op)) for name, op in types.items())
    return {name: path for name, path in paths if path.rpartition(".")[2] != name}


# ---- classes ---------------------------------------------------------------------------------


def _exact_class(name: str, inside: Sequence[str]) -> str:
    """Return the answer for a class, spelled as it is there: `Normal`, and not `normal`."""
    spelled = any(their == name for _, their in classes.rows_of(name, inside))
    return answer_class(name, inside) if spelled else ""


def answer_class(name: str, inside: Sequence[str] = ()) -> str:
    """Return a sentence about a class of PyTorch or Keras, in any case; empty without one."""
    if hint := class_hint(name, inside):
        return f"Use {hint}."
    row = next((row for row, _ in classes.rows_of(name, inside)), None)
    return f"There is no such function: {row.why}." if row else ""


def class_hint(name: str, inside: Sequence[str] = ()) -> str:
    """Return the calls that replace a class of PyTorch or Keras; empty without one."""
    rows = classes.rows_of(name, inside)
    return " or ".join(dict.fromkeys(c for row, their in rows for c in _calls(row, their)))


def _calls(row: classes.Equivalent, their: str) -> list[str]:
    """Return the replacements of a class: the expression of its row, or calls."""
    if row.why:
        written = row.why.startswith("`") or row.ours
        return [row.why] if written else []
    return [call_of(f"br.{our}") for our in row.ours_of(their)]


# ---- calls -----------------------------------------------------------------------------------

PASSED = ("axis", "filters", "key", "learning_rate", "size", "value", "window", "xs")
"""Optional parameters that most calls pass."""


def call_of(path: str) -> str:
    """Return a call with its first positional parameters.

    Example:
        >>> call_of("br.fc"), call_of("br.optimizer.adam")
        ('br.fc(x, size)', 'br.optimizer.adam(learning_rate=0.001)')
    """
    thing = attrgetter(path.removeprefix("br."))(sys.modules["braces"])
    return f"{path}({', '.join(_positional(thing))})" if callable(thing) else path


def _positional(thing: Callable[..., Any]) -> list[str]:
    """Return the first two parameters of a class; of a function, those that calls pass."""
    parameters = [
        p
        for p in inspect.signature(thing).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if not inspect.isclass(thing):
        return [_written(p) for p in parameters if p.default is p.empty or p.name in PASSED]
    if parameters and parameters[0].default is None:  # one of two, as probs and logits
        return [parameters[0].name]
    return [_written(p) + "=..." * _follows_default(p, parameters) for p in parameters[:2]]


def _follows_default(p: inspect.Parameter, parameters: list[inspect.Parameter]) -> bool:
    return p.default is None and p is not parameters[0]


def _written(p: inspect.Parameter) -> str:
    if p.default is p.empty or p.default is None:
        return "*" * (p.kind is p.VAR_POSITIONAL) + p.name
    return f"{p.name}={p.default!r}"
