"""Folders, docstrings and names: figures that keep the code readable for newcomers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from braces import errors
from size import ROOT, sources

SOURCES = ROOT / "src" / "braces"
TESTS = ROOT / "tests"
WORD = re.compile(r"[A-Za-z']+")
VAGUE_STARTS = {"what", "whether", "how", "which", "where"}
GENERAL = {
    "apart", "asked", "brought", "built", "computed", "cut", "done", "drawn", "found",
    "given", "handed", "held", "joined", "kept", "known", "left", "made", "moved", "one",
    "put", "read", "said", "seen", "shown", "spread", "taken", "told", "whole",
}  # fmt: skip
LONG_LISTS = {"cli/commands"}
"""Folders that are a list of one file per item, and may have more than twelve."""
FILES = 12
GENERAL_FUNCTIONS, SHARED_CLASSES = 16, 0
VAGUE_MESSAGE = re.compile(
    r"^(What|Whether|How|Which|Where|Who|Nothing|Nobody)\b"
    r"|\b([Ww]hat|whatever|whoever|nobody|anybody|somebody|anew|just one)\b"
    r"|\b([Ss]ay|says?|said|tells?|told|asks?|lies|goes on|went on)\b"
    r"|\b(is|are|was|were) no (?!longer)|\bhas no \{"
    r"|\bexpects\b"
    r"|\b(makes?|takes?|gives?|keeps?|knows?|reads?) no\b"
)
"""Clauses and verbs of speech in place of the terms of compilers and array libraries.

The form of a wrong argument is `OP: expected X, got Y`.
"""
VAGUE_MESSAGES = 0  # must not rise
SPEECH = re.compile(
    r"\b([Tt]ells?|told|[Ss]ays?|said|[Aa]sks?|asked|lies|anew|[Ww]hatever|[Nn]obody)\b(?!:)"
)
"""Verbs of speech, and pronouns in place of a noun, in docstrings."""
QUOTED = re.compile(r"`[^`]*`|\".*\"|(>>>|\.\.\. ).*")
CAPITALIZED = re.compile(r"[A-Z][a-z]*[,:;]?")
PROPER_NAMES = {"Braces", "Python", "Ray"}
CONDITION = re.compile(
    r"(If|When|As for|Always)\b(?! (it|they|one|some|none|there is no such)\b)"
)
"""The beginning of an entry of `Raises:`."""
RAISED = re.compile(r"    ((?:`?[A-Z]\w+`?, )*[A-Z]\w+): (.*)")
LOCALS = {"found": 0, "given": 11, "made": 0, "one": 1}
"""Numbers of today. They may fall, and must not rise."""


@cache
def trees() -> dict[Path, ast.Module]:
    own = (path for path in sources() if path.is_relative_to(SOURCES))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in own}


@cache
def nodes() -> Sequence[ast.AST]:
    return [node for tree in trees().values() for node in ast.walk(tree)]


@cache
def functions() -> Sequence[ast.FunctionDef]:
    return [node for node in nodes() if isinstance(node, ast.FunctionDef)]


def message_text(node: ast.expr) -> str:
    """The text of a message, with `{}` in place of each value."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(message_text, parts))
        case ast.BinOp(left=left, right=right):
            return message_text(left) + message_text(right)
        case ast.IfExp(body=body, orelse=orelse):
            return f"{message_text(body)} | {message_text(orelse)}"
        case _:
            return "{}"


@cache
def calls() -> Sequence[tuple[str, ast.Call]]:
    """The calls, with the last part of the name that is called."""
    found = (node for node in nodes() if isinstance(node, ast.Call))
    return [(ast.unparse(call.func).rpartition(".")[2], call) for call in found]


def messages() -> Iterator[str]:
    """The literal texts of errors, and of the notes of passes."""
    for name, call in calls():
        texts = [each.value for each in call.keywords if each.arg in ("what", "given", "fix")]
        if name in errors.__all__:
            yield from map(message_text, [*call.args[:1], *texts])
        elif name == "note":
            yield from map(message_text, call.args[1:])


def problems() -> Iterator[str]:
    """The literal texts with which errors begin."""
    for name, call in calls():
        if name in errors.__all__:
            yield from map(message_text, call.args[:1])


def docstrings() -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        text
        for node in nodes()
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def long_folders(root: Path) -> dict[str, int]:
    """The folders with too many modules, with their numbers."""
    modules = (path for path in sources() if path.is_relative_to(root))
    named = (path for path in modules if path.name not in ("__init__.py", "conftest.py"))
    counts = Counter(path.parent.relative_to(root).as_posix() for path in named)
    return {n: c for n, c in counts.items() if c > FILES and n not in LONG_LISTS}


def test_folders_have_few_files() -> None:
    assert not long_folders(SOURCES)
    assert not long_folders(TESTS)


def test_folders_do_not_import_in_circles() -> None:
    graph = grimp.build_graph("braces", cache_dir=None)
    packages = {name for name in graph.modules if graph.find_children(name)}

    def folder(module: str) -> str:
        parent = module.rpartition(".")[0]
        return module if module in packages or parent == "braces" else parent

    below: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules - {"braces"}:
        for imported in graph.find_modules_directly_imported_by(module) - {"braces"}:
            if folder(imported) != folder(module):
                below[folder(module)].add(folder(imported))
    TopologicalSorter(below).prepare()  # raises CycleError, which shows the circle


def test_no_module_hides_a_package() -> None:
    """`import braces.ops.linalg as linalg` is the package, whatever its parent imports."""
    program = (
        "import importlib, pkgutil, sys, braces\n"
        "for found in pkgutil.walk_packages(braces.__path__, 'braces.'):\n"
        "    importlib.import_module(found.name)\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    if name.startswith('braces.') and hasattr(module, '__path__'):\n"
        "        parent, _, leaf = name.rpartition('.')\n"
        "        if getattr(sys.modules[parent], leaf) is not module: print(name)\n"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_docstrings_use_nouns() -> None:
    texts = docstrings()
    words = [word.lower() for text in texts for word in WORD.findall(text)]
    assert words.count("what") <= len(words) / 9000
    vague = [text for text in texts if WORD.findall(text)[:1][0].lower() in VAGUE_STARTS]
    assert not vague
    prose = (QUOTED.sub("", line) for text in texts for line in text.splitlines())
    assert [line for line in prose if SPEECH.search(line)] == []


def raised() -> Iterator[str]:
    """The entries of the sections `Raises:`, without the names of the classes."""
    for text in docstrings():
        section = text.partition("Raises:\n")[2].partition("\n\n")[0]
        for line in section.splitlines():
            if match := RAISED.fullmatch(line):
                yield match[2]


def test_raises_sections_state_conditions() -> None:
    """The form is `ShapeError: If the operands do not broadcast.`"""
    entries = list(raised())
    assert len(entries) > 1200
    assert [entry for entry in entries if not CONDITION.match(entry)] == []


def test_messages_use_terms() -> None:
    """A message states the problem with nouns and standard terms, as a compiler does."""
    texts = list(messages())
    assert len(texts) > 1500
    vague = [text for text in texts if VAGUE_MESSAGE.search(text)]
    assert len(vague) <= VAGUE_MESSAGES, vague


def test_problems_begin_in_lower_case() -> None:
    """Only a name, as that of a class or of another project, begins with a capital letter."""
    first = [text.partition(" ")[0] for text in problems() if " " in text]
    assert {word for word in first if CAPITALIZED.fullmatch(word)} <= PROPER_NAMES


def test_few_functions_have_general_names() -> None:
    general = [node.name for node in functions() if node.name.strip("_") in GENERAL]
    assert len(general) <= GENERAL_FUNCTIONS, Counter(general)


@pytest.mark.parametrize("name", LOCALS)
def test_few_functions_have_general_variables(name: str) -> None:
    def binds(function: ast.FunctionDef) -> bool:
        arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        stored = (
            n.id
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        return name in {*stored, *(argument.arg for argument in arguments)}

    assert sum(map(binds, functions())) <= LOCALS[name]


def test_few_classes_share_a_name() -> None:
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(path)
    shared = sorted(name for name, paths in homes.items() if len(paths) > 1)
    assert len(shared) <= SHARED_CLASSES, shared
