"""Print the size of each package: files, lines, and lengths of functions.

Generated protobuf modules are excluded. A row counts the files directly in that folder.
"""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/braces", "tests", "benchmarks", "examples", "scripts")
GENERATED = "*_pb2.py"


def sources(root: Path = ROOT) -> Iterator[Path]:
    """Every handwritten Python file, in order."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.match(GENERATED):
                yield path


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from `def` to its end, without docstrings, also inner ones."""
    docstrings = (one.body[0] for one in functions(function) if ast.get_docstring(one))
    return line_count(function) - sum(map(line_count, docstrings))


def line_count(node: ast.stmt) -> int:
    """The lines of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def row(name: str, paths: list[Path]) -> str:
    """One line of the table."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    lengths = [length(one) for text in texts for one in functions(ast.parse(text))]
    lines = sum(text.count("\n") for text in texts)
    largest = max(text.count("\n") for text in texts)
    median = statistics.median(lengths) if lengths else 0
    longest = max(lengths, default=0)
    return f"{name:28}{len(paths):6}{lines:8}{largest:9}{median:9g}{longest:9}"


def main() -> None:
    """Print the table."""
    folders: dict[str, list[Path]] = defaultdict(list)
    for path in sources():
        folders[path.parent.relative_to(ROOT).as_posix()].append(path)
    print(f"{'':28}{'files':>6}{'lines':>8}{'largest':>9}{'median':>9}{'longest':>9}")
    print(f"{'':51}{'functions, lines':>18}")
    for name, paths in folders.items():
        print(row(name, paths))
    for top in FOLDERS:
        inside = [path for path in sources() if path.is_relative_to(ROOT / top)]
        if inside:
            print(row(f"total {top}", inside))


if __name__ == "__main__":
    main()
