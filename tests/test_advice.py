"""Names of `br` and options in the advice of errors exist."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces import hints, keywords
from braces.define import decorator
from braces.extend.operators import OPS
from braces.frontend.control import if_else, rnn, while_loop
from braces.homes import MODULES
from braces.ir import records
from braces.runtime.profiling import profile

SRC = Path(br.__file__).parent
PLACEHOLDERS = {"NAME"}


def texts(node: ast.expr) -> str:
    """The words of a string; what is filled in is left out."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = node.values if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node)
    between = " " if isinstance(node, ast.IfExp) else ""
    return between.join(texts(p) for p in parts if isinstance(p, ast.expr) and _is_text(p))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp)


@functools.cache
def advice() -> list[tuple[str, str]]:
    """All ways out that errors tell, with where they stand."""
    found: list[tuple[str, str]] = []
    for path in sorted(SRC.rglob("*.py")):
        at = path.relative_to(SRC).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "fix":
                found.append((f"{at}:{node.value.lineno}", texts(node.value)))
    found += [(f"hint {name}", text) for name, text in hints.HINTS.items()]
    found += [(f"method {name}", text) for name, text in hints.METHODS.items()]
    found += [(f"keyword {name}", text) for name, text in keywords.ABSENT.items()]
    return found


def named(text: str) -> Iterator[str]:
    """The names of the package in a text, as `br.fc`."""
    yield from re.findall(r"\bbr((?:\.[A-Za-z_]\w*)+)", text)


@functools.cache
def options() -> frozenset[str]:
    """All that is passed by name to anything public."""
    found = {spec.name for d in OPS.definitions.values() for spec in (*d.attrs, *d.inputs)}
    modules = [br, *(getattr(br, name) for name in MODULES)]
    modules += [if_else, decorator, profile, records, rnn, while_loop]
    for thing in (thing for module in modules for thing in vars(module).values()):
        found.update(_parameters(thing))
        if inspect.isclass(thing):
            members = (getattr(thing, name, None) for name in dir(thing))
            found.update(name for member in members for name in _parameters(member))
    return frozenset(found)


def _parameters(thing: Any) -> list[str]:
    try:
        return list(inspect.signature(thing).parameters) if callable(thing) else []
    except (TypeError, ValueError):
        return []


def resolves(path: str) -> bool:
    """Return whether `br` has what a dotted name says."""
    found: Any = br
    for part in path.strip(".").split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_names_that_advice_tells_exist() -> None:
    missing = [
        (at, name)
        for at, text in advice()
        for name in named(text)
        if name.strip(".") not in PLACEHOLDERS and not resolves(name)
    ]
    assert missing == []


def test_options_that_advice_tells_exist() -> None:
    missing = [
        (at, name)
        for at, text in advice()
        for name in re.findall(r"(?<![\w.\"'])([a-z_]+)=(?!=)", text)
        if name not in options()
    ]
    assert missing == []


def test_there_is_advice_to_look_at() -> None:
    assert len(advice()) > 400
    assert sum(len(list(named(text))) for _, text in advice()) > 150
    assert sum("=" in text for _, text in advice()) > 50


@pytest.mark.parametrize("wrong", ["br.sugar(x)", "br.layers.sugar", "br.random.sugar()"])
def test_names_that_do_not_exist_are_found(wrong: str) -> None:
    assert not any(resolves(name) for name in named(wrong))
