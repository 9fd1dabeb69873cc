"""Names of `br` and options in the advice of errors exist."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import pytest

import braces as br
from braces import keywords
from braces.define import decorator
from braces.extend.operators import OPS
from braces.frontend.control import if_else, rnn, while_loop
from braces.hints import classes, table_files
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
    found += [(f"hint {name}", text) for name, text in table_files.habits().items()]
    found += [(f"namespace {name}", text) for name, text in table_files.namespaces().items()]
    for kind, table in table_files.objects().items():
        found += [(f"{kind}.{name}", text) for name, text in table.items()]
    for row in (row for _, rows in classes.sections() for row in rows):
        found.append((row.theirs[0], " ".join([*(f"br.{our}" for our in row.ours), row.why])))
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


@functools.cache
def holders() -> dict[str, Any]:
    """Objects and classes by the names that advice gives them."""
    classes = {"prog": br.Program, "scope": br.Scope, "x": br.Var, "block": br.Block}
    loop = {"rnn": br.Rnn, "net": br.StepNet, "memory": br.Memory, "body": br.WhileBlock}
    return {"br": br, "exe": br.Executor(), **classes, **loop}


def calls(text: str) -> Iterator[tuple[str, str, ast.Call]]:
    """The calls in a text, as `exe.run(prog)`: holder, path and call."""
    for found in re.finditer(rf"(?<![\w.])({'|'.join(holders())})\.([\w.]*\w)\(", text):
        if end := _closing(text, found.end() - 1):
            written = text[found.start() : end].replace("…", "...")
            yield found[1], found[2], cast("ast.Call", ast.parse(written, mode="eval").body)


def _closing(text: str, start: int) -> int:
    """The position after the bracket that closes one; 0 if it stays open."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if not depth:
            return at + 1
    return 0


def unbound(text: str) -> Iterator[str]:
    """The calls in a text that do not fit the signature."""
    for holder, path, call in calls(text):
        called = attrgetter(path)(holders()[holder])
        own = () if holder in ("br", "exe") else (None,)
        named = {word.arg: None for word in call.keywords if word.arg}
        try:
            inspect.signature(called).bind(*own, *call.args, **named)
        except TypeError as error:
            yield f"{ast.unparse(call)}: {error}"


def hints() -> list[tuple[str, str]]:
    """The advice of tables, which has whole calls."""
    return [(at, text) for at, text in advice() if ".py:" not in at]


def test_calls_that_hints_tell_fit_the_signature() -> None:
    assert [(at, wrong) for at, text in hints() for wrong in unbound(text)] == []
    assert sum(1 for _, text in hints() for _ in calls(text)) > 500


@pytest.mark.parametrize("wrong", ["br.fc(x, sise=3)", "exe.run()", "prog.freeze(a=1)"])
def test_calls_that_do_not_fit_are_found(wrong: str) -> None:
    assert list(unbound(wrong))


def test_there_is_advice_to_look_at() -> None:
    assert len(advice()) > 400
    assert sum(len(list(named(text))) for _, text in advice()) > 150
    assert sum("=" in text for _, text in advice()) > 50


@pytest.mark.parametrize("wrong", ["br.sugar(x)", "br.layers.sugar", "br.random.sugar()"])
def test_names_that_do_not_exist_are_found(wrong: str) -> None:
    assert not any(resolves(name) for name in named(wrong))
