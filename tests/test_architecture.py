"""Rules of the whole repository: layers, sizes, light imports, clean text."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement

from lock import normal, wanted
from public_names import SNAPSHOT, names
from size import ROOT, functions, length, sources

SRC = ROOT / "src"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILE_LINES = 500
FUNCTION_LINES = 60
TEXT = {
    ".cff", ".json", ".lock", ".md", ".prog", ".proto", ".py", ".pyi", ".textproto", ".toml",
    ".yaml", ".yml",
}  # fmt: skip
HIDDEN = {".ci", ".github"}
"""Folders of the project whose names begin with a dot."""
GENERATED = {"build", "dist"}
HEAVY = {"jax", "jaxlib", "optax", "scipy", "sklearn"}

# Brackets keep these patterns from finding themselves.
LEFTOVER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|farm|root)/")


def python(
    *arguments: str, source: Path = SRC, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter that finds packages in `source` first."""
    path = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path.strip(os.pathsep)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def files() -> Iterator[Path]:
    """Every file of the repository, less what git and the tools keep for themselves."""
    for top in sorted(ROOT.iterdir()):
        if top.is_file():
            yield top
        elif top.name in HIDDEN or not (top.name.startswith(".") or top.name in GENERATED):
            yield from (path for path in sorted(top.rglob("*")) if path.is_file())


def texts() -> Iterator[tuple[str, str]]:
    """Name and content of every text file of the repository."""
    for path in files():
        if path.suffix in TEXT or path.name == "Makefile" or path.parent.name == ".ci":
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Every line of the repository that a pattern finds, with its place."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


# ---- layers ----


def lint_imports(cwd: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the pyproject.toml in `cwd`."""
    program = "from importlinter.cli import lint_imports_command as main; main()"
    return python("-c", program, "--no-cache", source=source, cwd=cwd)


def plant(root: Path, modules: dict[str, str]) -> None:
    """Write a package `braces` of stubs, under the project's own contracts."""
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rooms = (p for p in (SRC / "braces").iterdir() if p.suffix in ("", ".py"))
    stubs = (f"{p.name}/__init__" if p.is_dir() else p.stem for p in rooms if p.name[0] != "_")
    always = (*stubs, "exchange/common/model/names", "exchange/onnx/types")
    for name, text in {**dict.fromkeys(always, ""), **modules}.items():
        path = root / "src/braces" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in [root / "src/braces", *(root / "src/braces").rglob("*/")]:
        (folder / "__init__.py").touch()


def test_imports_point_down() -> None:
    done = lint_imports(ROOT, SRC)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contracts_accept_the_layers(tmp_path: Path) -> None:
    modules = {
        "cli/main": "from braces.storage import model",
        "storage/model": "from braces.program import program",
        "program/program": "from braces.frontend import layers",
        "frontend/layers": "from braces.builder import var",
        "runtime/executor": "from braces.lazy import jax\n"
        "from braces.passes.cleanup import prune",
        "passes/prune": "from braces.ops.nn import normalization",
        "ops/nn/normalization": "from braces.lazy import jax\nfrom braces.builder import var",
        "builder/var": "from braces.define import decorator",
        "define/decorator": "from braces.ir import serde",
        "ir/serde/unknown": "import google.protobuf\nfrom braces import errors",
    }
    plant(tmp_path, modules)
    done = lint_imports(tmp_path, tmp_path / "src")
    assert done.returncode == 0, done.stdout + done.stderr


NODE = "from braces.exchange.onnx.reader.graph import node"


@pytest.mark.parametrize(
    ("importer", "line", "found"),
    [
        ("frontend/layers", "from braces.runtime import executor", "braces.runtime.executor"),
        ("ir/text/printer", "from braces.runtime import executor", "braces.runtime.executor"),
        ("passes/cleanup/prune", "from braces.lazy import jax", "braces.lazy"),
        ("cli/main", "def main():\n    import jax", "jax"),
        ("storage/model", "import google.protobuf", "google"),
        ("exchange/torch/importer", "from braces import builder", "braces.builder"),
        *(
            (
                f"exchange/{importer}",
                "from braces.exchange.onnx.reader.graph import node",
                "braces.exchange.onnx.reader.graph.node",
            )
            for importer in ("paddle/reader", "onnx/writer/writer", "common/rules/resize")
        ),
    ],
)
def test_the_contracts_report_a_planted_import(
    tmp_path: Path, importer: str, line: str, found: str
) -> None:
    plant(
        tmp_path,
        {"runtime/executor": "", "exchange/onnx/reader/graph/node": "", importer: line},
    )
    done = lint_imports(tmp_path, tmp_path / "src")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"braces.{importer.replace('/', '.')} -> {found}" in done.stdout


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("braces", cache_dir=None)
    left = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    while free := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in free}
    assert not left, "each of these is in a circle, or imports one"


def modules() -> list[str]:
    """The name of every module of the package, the command-line entry aside."""
    paths = [path.relative_to(SRC) for path in sources() if path.is_relative_to(SRC)]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return [name for name in names if not name.endswith("__main__")]


def imported_by(*names: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds once `names` are imported."""
    program = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    done = python(
        "-c", program + "print(*{name.split('.')[0] for name in sys.modules})", *names
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_does_not_import_jax() -> None:
    assert HEAVY.isdisjoint(imported_by("braces"))


def test_no_module_imports_jax_before_it_computes() -> None:
    assert HEAVY.isdisjoint(imported_by(*modules()))


# ---- sizes and text ----


def test_files_are_short_enough_to_read() -> None:
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in sources()}
    long = [f"{path.relative_to(ROOT)}: {n}" for path, n in lengths.items() if n > FILE_LINES]
    assert not long


def test_functions_are_short_enough_to_read() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}: {length(function)} lines"
        for path in sources()
        for function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if length(function) > FUNCTION_LINES
    ]
    assert not long


def test_every_module_has_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.is_relative_to(SRC)
        and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert not silent


def test_nothing_is_left_for_later() -> None:
    assert not lines_with(LEFTOVER)


def test_no_path_of_one_machine_is_named() -> None:
    assert not lines_with(MACHINE_PATH)


# ---- names ----


def test_public_names_change_on_purpose_only() -> None:
    assert names() == SNAPSHOT.read_text(encoding="utf-8"), (
        "`make stubs` lists them anew; git diff shows what is new in the public names"
    )


# ---- documents for people who change Braces ----

DOCUMENTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals/*.md")
OVERVIEW_BYTES = 9000
FILE_NAME = re.compile(r"[\w./-]+\.(md|proto|py|pyi|toml|txt)|[\w.-]+/[\w./-]*")
CLASS_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
WORD = re.compile(r"[a-z]\w*_\w+|[A-Z][A-Z_]+")
OTHERS = {
    "BlockDesc", "DTensor", "Dim", "ExportedProgram", "GraphModule", "If", "IfElse",
    "LoDTensorArray", "Loop", "NamedSharding", "None", "OpDesc", "PartitionSpec",
    "PatternRewriter", "ProgramDesc", "Scan", "Scope", "StaticRNN", "Switch", "SymInt",
    "TensorList", "VarDesc", "While", "_assert_async", "cond_fn", "dce_jaxpr",
    "eliminate_dead_code", "init_process_group", "iter_arg", "op_type", "shard_map",
    "state_dict", "symbolic_shape", "while_loop",
}  # fmt: skip
"""Names of other systems and of users, which documents compare with ours."""


def code_words(document: str) -> set[str]:
    """Return what stands between backticks in a document, outside of code blocks."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text("utf-8"), flags=re.DOTALL)
    return set(re.findall(r"`([^`\s]+)`", text))


def documents() -> list[str]:
    found = (path for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern)))
    return [path.relative_to(ROOT).as_posix() for path in found]


@cache
def names_of_code() -> tuple[set[str], set[str], set[str]]:
    """Return the names of all files, of all classes, and all words of the code."""
    code = "\n".join(text for name, text in texts() if not name.endswith(".md"))
    classes = re.findall(r"^\s*(?:class|message) (\w+)", code, re.MULTILINE)
    return {path.name for path in files()}, {*classes}, {*re.findall(r"\w+", code)}


def exists(name: str) -> bool:
    """Return whether there is such a file, in the repository, in `docs` or in the package."""
    tops = (ROOT, SRC / "braces", ROOT / "docs")
    return any((top / name).exists() for top in tops) or name in names_of_code()[0]


@pytest.mark.parametrize("document", documents())
def test_documents_name_files_classes_and_functions_that_exist(document: str) -> None:
    _, classes, words = names_of_code()
    missing = [
        word
        for word in sorted(code_words(document))
        if (FILE_NAME.fullmatch(word) and not exists(word))
        or (CLASS_NAME.fullmatch(word) and word not in classes | OTHERS)
        or (WORD.fullmatch(word) and word not in words | OTHERS)
    ]
    assert not missing, "rename or remove them in this document"


def test_the_overview_is_short() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= OVERVIEW_BYTES


# ---- packaging ----


def locked() -> dict[str, str]:
    """The exact version of each package in requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.partition("==") for line in lines if not line.startswith("#")]
    assert all(separator for _, separator, _ in pins)
    return {name: version.partition(";")[0] for name, _, version in pins}


def test_the_lock_names_no_place_to_download_from() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    assert "\n-" not in text


def test_the_lock_fits_pyproject() -> None:
    pins = locked()
    for line in wanted(PYPROJECT):
        requirement = Requirement(line)
        assert pins[normal(requirement.name)] in requirement.specifier, line


def test_the_package_is_typed() -> None:
    assert (SRC / "braces/py.typed").is_file()
