"""Models of the tests of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.serving.http.application import InferenceApp


def saved(path: Path, build: Callable[[], tuple[list[str], dict[str, Any]]]) -> Path:
    """Write a model: `build` returns its feeds and fetches."""
    with br.Program() as prog:
        feeds, fetches = build()
    scope = br.Scope()
    br.Executor().init(prog, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    br.save_model(path, prog, scope, feeds, fetches)
    return path


def scaled(factor: float) -> Callable[[], tuple[list[str], dict[str, Any]]]:
    """A model of which each batch element is `factor` times its input."""

    def build() -> tuple[list[str], dict[str, Any]]:
        return ["x"], {"y": br.data("x", ["n", 3]) * factor}

    return build


def centered() -> tuple[list[str], dict[str, Any]]:
    """A model whose batch elements depend on each other."""
    x = br.data("x", ["n", 3])
    return ["x"], {"y": x - br.mean(x, axis=0)}


def picked() -> tuple[list[str], dict[str, Any]]:
    """A model that fails for an index out of range, with an input without batch axis."""
    index, table = br.data("index", ["n"], dtype="int32"), br.data("table", [4])
    return ["index", "table"], {"y": br.take(table, index), "sum": br.sum(table)}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model files: `double`, `centered`, `picked`, and `versions` with 1, 2 and 10."""
    path = tmp_path_factory.mktemp("models")
    saved(path / "double.model", scaled(2.0))
    saved(path / "centered.model", centered)
    saved(path / "picked.model", picked)
    for version in (1, 2, 10):
        saved(path / f"versions/{version}/m.model", scaled(float(version)))
    return path


@pytest.fixture
def make(folder: Path) -> Iterator[Callable[..., InferenceApp]]:
    """Make an application of models of the folder, which is closed after the test."""
    made: list[InferenceApp] = []

    def create(*names: str, **options: Any) -> InferenceApp:
        models = {
            name: folder / name if (folder / name).is_dir() else folder / f"{name}.model"
            for name in names
        }
        made.append(br.create_inference_app(models, **{"max_batch": 4, **options}))
        return made[-1]

    yield create
    for app in made:
        app.close()


@pytest.fixture(scope="session")
def shared(folder: Path) -> Iterator[InferenceApp]:
    """An application with all models of the folder."""
    names = ("double", "centered", "picked")
    models = {name: folder / f"{name}.model" for name in names}
    app = br.create_inference_app({**models, "versions": folder / "versions"}, max_batch=4)
    yield app
    app.close()
