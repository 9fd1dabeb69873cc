"""Imported packages are declared; errors for missing ones name the installation command."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PACKAGES = {"google": "protobuf", "jaxlib": "jax", "sklearn": "scikit-learn"}
"""Packages of modules with other names; each version of jax installs its own jaxlib."""
IDENTITY = (
    "080a3a390a120a017812017922084964656e746974793a001201665a0f0a0178120a0a08080112040a02080162"
    "0f0a0179120a0a08080112040a02080142040a001012"
)
"""A model of ONNX, `y = Identity(x)`, in hexadecimal digits: onnx need not be there."""

CALLS = {
    "onnx": [
        'br.from_onnx("model.onnx")',
        "br.from_onnx(object())",
        'br.to_onnx(prog, "out.onnx", fetches=[y])',
        'cli("convert", "model.onnx", "model.braces")',
        'cli("convert", "identity.braces", "out.onnx")',
        'cli("show", "model.onnx")',
    ],
    "onnxruntime": [
        'cli("run", "model.onnx", "--feed", "x=[1.0]", "--against", "onnxruntime")'
    ],
    "grain": ['next(iter(br.batches({"x": [1.0]}, workers=1)))'],
    "pyarrow": ['br.batches("table.arrow")', 'br.batches("table.parquet")'],
    "ray": [
        'cli("launch", "--ray", "train.py")',
        'br.remote.worker("ray").run(prog, br.Scope(), feed={"x": [1.0]}, fetch=[y])',
    ],
    "starlette": [
        'prog.debug(feed={"x": [1.0]})',
        'cli("debug", "identity.braces", "--feed", "x=[1.0]")',
        '[br.save_model("m.model", prog, br.Scope(), ["x"], [y]), br.serve("m.model", port=0)]',
        'cli("serve", "m.model", "--port", "0")',
    ],
    "uvicorn": [
        'prog.debug(feed={"x": [1.0]})',
        'cli("debug", "identity.braces", "--feed", "x=[1.0]")',
        '[br.save_model("m.model", prog, br.Scope(), ["x"], [y]), br.serve("m.model", port=0)]',
        'cli("serve", "m.model", "--port", "0")',
    ],
    "sklearn": [
        'cli("demo", "--out", "demo")',
        "__import__('braces.demo.digits').demo.digits.load_images()",
    ],
}
"""For each optional package what needs it, as a user would call it."""

PROGRAM = """
import contextlib, io, json, sys
import braces as br
from braces.cli.main import main

class CommandError(Exception):
    pass

class Absent:
    package = ""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def cli(*arguments):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        if main(list(arguments)):
            raise CommandError(said.getvalue())

with br.Program() as prog:
    x = br.data("x", [1])
    y = x + 0.0
br.save_model("identity.braces", prog, br.Scope(), feeds=["x"], fetches=[y])
said = []
absent = Absent()
sys.meta_path.insert(0, absent)
for package, calls in json.loads(sys.argv[1]).items():
    absent.package = package
    for call in calls:
        try:
            eval(call)
            said.append((package, call, "", "it worked"))
        except BaseException as error:
            said.append((package, call, type(error).__name__, str(error)))
print(json.dumps(said))
"""


def required(requirements: list[str]) -> set[str]:
    """The names of what is required."""
    return {re.split(r"[^\w.-]", text)[0].lower().replace("_", "-") for text in requirements}


def package_of(module: str) -> str:
    top = module.partition(".")[0]
    return PACKAGES.get(top, top).replace("_", "-")


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules that a file imports, but for what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (found for other in node.orelse for found in imports(other))
        else:
            yield from imports(node)


def optional_modules() -> dict[str, set[str]]:
    """Modules that are imported when they are used, and the extras that install each."""
    text = (ROOT / "src/braces/lazy.py").read_text(encoding="utf-8")
    extras: dict[str, set[str]] = {}
    for module, extra in re.findall(r'LazyModule\("([\w.]+)", extra="(\w+)"', text):
        extras.setdefault(module, set()).add(extra)
    return extras


def test_what_is_imported_is_declared() -> None:
    always = required(PROJECT["dependencies"])
    known = {*sys.stdlib_module_names, "braces", ""}
    for file in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tops = {name.partition(".")[0] for name in imports(tree)} - known
        undeclared = {top for top in tops if package_of(top) not in always}
        assert not undeclared, f"{file}: pyproject.toml does not declare {undeclared}"


def test_what_is_imported_when_it_is_used_is_declared() -> None:
    text = (ROOT / "src/braces/lazy.py").read_text(encoding="utf-8")
    optional = optional_modules()
    modules = re.findall(r'LazyModule\("([\w.]+)"', text)
    for module in (one for one in modules if one not in sys.stdlib_module_names):
        extras = optional.get(module)
        lists = [EXTRAS[extra] for extra in extras or ()] or [PROJECT["dependencies"]]
        assert all(package_of(module) in required(declared) for declared in lists), module


def test_every_requirement_has_a_lower_bound() -> None:
    every = [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]
    assert not [one for one in every if ">=" not in one]


def test_one_package_has_the_same_bounds_wherever_it_is_required() -> None:
    every = {*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)}
    assert len(every) == len(required([*every]))


def test_every_optional_package_is_tried() -> None:
    assert CALLS.keys() == {name.partition(".")[0] for name in optional_modules()}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the message of each call without its package."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "train.py").write_text("")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    (folder / "model.onnx").write_bytes(bytes.fromhex(IDENTITY))
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CALLS)],
        capture_output=True, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return {(p, c): (kind, text) for p, c, kind, text in json.loads(found.stdout)}


@pytest.mark.parametrize(
    ("package", "call"), [(package, call) for package in CALLS for call in CALLS[package]]
)
def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    said: dict[tuple[str, str], tuple[str, str]], package: str, call: str
) -> None:
    kind, text = said[package, call]
    extras = {
        extra
        for name, installing in optional_modules().items()
        for extra in installing
        if name.startswith(package) and (extra == "serve") == ("serve" in call)
    }
    (extra,) = extras
    assert kind == ("CommandError" if call.startswith("cli") else "MissingPackageError"), text
    missing = [package, *(name for name in CALLS if importlib.util.find_spec(name) is None)]
    named = [
        f"needs the package {package_of(name)}, which is not installed" for name in missing
    ]
    assert any(words in text for words in named), text
    assert f'pip install "braces[{extra}]"' in text
    assert "Traceback" not in text
