"""Models of the server by name and version, from files, folders and loaded models.

    model := name=path | path
    path  := a file of br.save_model | an ONNX file | a folder of versions: 1/, 2/, …

A folder of a version has one file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from braces.errors import DuplicateNameError, FileFormatError, ProgramError, visible
from braces.exchange.onnx.reader.importer import from_onnx
from braces.exchange.onnx.reader.metadata import onnx_metadata
from braces.passes.cleanup.prune import prune
from braces.program import Program
from braces.runtime.executor import Executor
from braces.scope import Scope
from braces.serving.models.served_model import ServedModel, serve_model
from braces.storage.model import PREDICT, Model, NamedProgram
from braces.storage.model_files import load_model

GivenModel: TypeAlias = "Model | str | os.PathLike[str]"
GivenModels: TypeAlias = (
    "GivenModel | Sequence[str | os.PathLike[str]] | Mapping[str, GivenModel]"
)
Repository: TypeAlias = "dict[str, dict[str, ServedModel]]"
"""Models by name and version; the last version is the newest."""
FIRST_VERSION, DEFAULT_NAME = "1", "model"
BRACES_PLATFORM, ONNX_PLATFORM = "braces_model", "onnx_braces"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]{0,17}")


def load_models(
    models: GivenModels, device: str | None = None, timeout_s: float | None = None
) -> Repository:
    """Load models, with all their versions.

    Args:
        models: A model, a path, several of `name=path`, or models by name.
        device: The device of the executors.
        timeout_s: The time limit of a run.

    Raises:
        ProgramError: If there is no model, or a name is invalid.
        DuplicateNameError: If a name occurs twice.
        FileFormatError: If a file is not a model.
        OSError: If a file cannot be read.
    """
    repository: Repository = {}
    for name, model in _named(models):
        if not _NAME.fullmatch(name):
            raise ProgramError(
                f"invalid model name {name!r:.140}.",
                fix="Use letters, digits, `.`, `_` and `-`: NAME=PATH.",
            )
        if name in repository:
            raise DuplicateNameError(
                f"duplicate model name `{name}`.", fix="Name each model: NAME=PATH."
            )
        repository[name] = dict(_load_versions(name, model, device, timeout_s))
    if not repository:
        raise ProgramError("no model to serve.", fix="Pass a model file.")
    return repository


def _named(models: GivenModels) -> Iterator[tuple[str, GivenModel]]:
    if isinstance(models, Model):
        yield DEFAULT_NAME, models
    elif isinstance(models, Mapping):
        yield from models.items()
    elif isinstance(models, (str, os.PathLike)):
        yield _split(models)
    else:
        yield from map(_split, _texts(models))


def _texts(models: Any) -> list[str | os.PathLike[str]]:
    is_several = isinstance(models, Iterable)
    paths = list(cast("Iterable[Any]", models)) if is_several else [models]
    for each in paths:
        if not isinstance(each, (str, os.PathLike)):
            raise ProgramError(
                f"expected a path of a model, got {type(each).__name__}.",
                fix='Pass models by name: {"digits": model}.',
            )
    return cast("list[str | os.PathLike[str]]", paths)


def _split(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Split `name=path`; the name of a path is that of its file or folder."""
    text = os.fspath(path)
    name, equals, file = text.partition("=")
    if equals and _NAME.fullmatch(name):
        return name, file
    return re.sub(r"[^A-Za-z0-9._-]", "_", Path(text).resolve().stem)[:128], text


def _load_versions(
    name: str, model: GivenModel, device: str | None, timeout_s: float | None
) -> Iterator[tuple[str, ServedModel]]:
    if isinstance(model, Model):
        origin = (name, FIRST_VERSION, BRACES_PLATFORM)
        yield FIRST_VERSION, serve_model(model, *origin, timeout_s)
    elif not os.path.isdir(model):
        yield FIRST_VERSION, _load_file(Path(model), name, FIRST_VERSION, device, timeout_s)
    else:
        for folder in version_folders(Path(model)):
            file, version = _only_file(folder), folder.name
            yield version, _load_file(file, name, version, device, timeout_s)


def version_folders(path: Path) -> list[Path]:
    """Return the folders of versions, the newest last.

    Raises:
        FileFormatError: If there are none.
    """
    folders = [
        each for each in path.iterdir() if _VERSION.fullmatch(each.name) and each.is_dir()
    ]
    if not folders:
        raise FileFormatError(
            "the folder of a model has no versions.",
            at=str(path),
            fix="Put each version into a folder with its number: 1/, 2/, …",
        )
    return sorted(folders, key=lambda folder: int(folder.name))


def _only_file(folder: Path) -> Path:
    files = [each for each in folder.iterdir() if each.is_file() and each.name[0] != "."]
    models = [each for each in files if each.suffix == ".onnx"] or files
    if len(models) != 1:
        raise FileFormatError(
            f"expected one model file in the folder of a version, got {len(models)}.",
            at=str(folder),
        )
    return models[0]


def _load_file(
    path: Path, name: str, version: str, device: str | None, timeout_s: float | None
) -> ServedModel:
    is_onnx = path.suffix == ".onnx"
    model = _load_onnx(path, device) if is_onnx else load_model(path, device=device)
    platform = ONNX_PLATFORM if is_onnx else BRACES_PLATFORM
    try:
        return serve_model(model, name, version, platform, timeout_s)
    except ProgramError as error:
        raise error.located(visible(str(path))) from None


def _load_onnx(path: Path, device: str | None) -> Model:
    program, values = from_onnx(path)
    scope, executor = Scope(), Executor(device=device, frozen=True)
    scope.update(values)
    fetches = {name: name for name in program.fetches}
    pruned = Program(prune(program, list(fetches)).definition)
    feeds = tuple(name for name in program.feeds if name in pruned.infos)
    entry = NamedProgram(pruned, feeds, fetches, as_dict=True)
    return Model({PREDICT: entry}, scope, executor, onnx_metadata(path))
