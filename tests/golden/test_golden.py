"""Files of this and all released versions: they load, verify, print and run as they did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

import braces as br
import golden
from braces.extend.operators import OPS
from braces.extend.programs import Body, all_bodies
from braces.extend.types import SHORT_NAMES, ListType
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import VARIABLE_KINDS, Attr
from braces.storage.tensor_file import open_tensors

pytestmark = pytest.mark.unoptimized

HERE = Path(__file__).parent
VERSIONS = sorted(path for path in HERE.iterdir() if (path / "net.model").is_file())
PROGRAMS = [path.with_suffix("") for folder in VERSIONS for path in folder.glob("*.braces")]
THIS = HERE / br.__version__


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def each(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=map(name_of, paths))


def run_of(path: Path) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """The feeds and results of a run, and the scope after it."""
    found: dict[str, dict[str, np.ndarray[Any, Any]]] = {"feed": {}, "fetch": {}, "state": {}}
    with open_tensors(path.with_suffix(".run")) as file:
        for entry in file.variables:
            part, _, name = entry.partition("/")
            found[part][name] = file.read(entry)
    return found


def check_same(got: Any, expected: np.ndarray[Any, Any], name: str) -> None:
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
    wide = {"f": "f8", "V": "f4", "c": "c16"}.get(expected.dtype.kind)
    if wide is None:
        np.testing.assert_array_equal(got, expected, name)
    else:
        np.testing.assert_allclose(
            got.astype(wide), expected.astype(wide), rtol=2e-5, atol=1e-6, err_msg=name
        )


# ---- programs --------------------------------------------------------------------------------


def test_this_version_has_its_files() -> None:
    assert THIS in VERSIONS
    assert {path.name for path in PROGRAMS if path.parent == THIS} == set(golden.PROGRAMS)


@each(PROGRAMS)
def test_a_program_loads_verifies_and_prints(path: Path) -> None:
    loaded = br.Program.load(path.with_suffix(".braces"))
    assert br.verify(loaded, types=True) == []
    text = path.with_suffix(".prog").read_text(encoding="utf-8")
    assert str(br.parse(text)) == str(loaded)
    assert br.parse(text).definition == loaded.definition
    if path.parent == THIS:
        assert str(loaded) == text


@each([path for path in PROGRAMS if path.parent == THIS])
def test_a_program_is_written_to_the_same_bytes(path: Path) -> None:
    data = path.with_suffix(".braces").read_bytes()
    before = pb.ProgramDesc.FromString(data)
    after = pb.ProgramDesc.FromString(br.Program.from_bytes(data).to_bytes())
    after.producer = before.producer
    assert after.SerializeToString(deterministic=True) == before.SerializeToString(
        deterministic=True
    )


@each(PROGRAMS)
def test_a_program_runs_to_the_same_values(path: Path, mode: str) -> None:
    program, known = br.Program.load(path.with_suffix(".braces")), run_of(path)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(program, scope, seed=0)
    values = exe.run(program, scope, feed=known["feed"], fetch=list(known["fetch"]))
    assert values
    for (name, expected), value in zip(known["fetch"].items(), values, strict=True):
        check_same(value, expected, name)
    assert known["state"].keys() == {info.name for info in program.persistables}
    for name, expected in known["state"].items():
        check_same(scope.get_var(name).value, expected, name)


# ---- files of values -------------------------------------------------------------------------


@each(VERSIONS)
def test_a_model_predicts_the_same_and_trains_on(path: Path, mode: str) -> None:
    known = run_of(path / "net")
    model = br.load_model(path / "net.model", mode=mode)
    ((name, expected),) = known["fetch"].items()
    check_same(model.run(known["feed"])["logits"], expected, name)
    fed = {**known["feed"], "y": [0, 1, 2, 0]}
    losses = [model.run_program("train", fed)["loss"] for _ in range(20)]
    assert losses[-1] < losses[0]


@each(VERSIONS)
def test_a_checkpoint_and_a_file_of_parameters_hold_the_same_values(path: Path) -> None:
    known, restored, loaded = run_of(path / "net")["state"], br.Scope(), br.Scope()
    info = br.load_checkpoint(restored, path / "net.checkpoints")
    assert (info.step, info.data_position) == (3, {"epoch": 1})
    br.load_parameters(loaded, path / "net.safetensors")
    assert known
    for name, expected in known.items():
        for scope in (restored, loaded):
            held = np.asarray(scope.get_var(name).value)
            assert held.dtype == expected.dtype
            np.testing.assert_array_equal(held, expected, name)


# ---- what the files cover --------------------------------------------------------------------


def bodies(folder: Path) -> Iterator[Body]:
    for path in folder.glob("*.braces"):
        program = br.Program.load(path)
        for one in (program, program.startup):
            yield from (body for body, _ in all_bodies(one.definition.main))


def kinds(value: Attr) -> Iterator[str]:
    yield type(value).__name__
    if isinstance(value, tuple):
        for one in value:
            yield from kinds(one)


@each(VERSIONS)
def test_all_of_the_language_is_in_the_files(path: Path) -> None:
    found = list(bodies(path))
    infos = [info for body in found for info in body.vars.values()]
    ops = [op for body in found for op in body.ops]
    assert {info.type.dtype for info in infos if not isinstance(info.type, ListType)} == set(
        SHORT_NAMES.values()
    )
    assert any(isinstance(info.type, ListType) for info in infos)
    assert {info.kind for info in infos} == set(VARIABLE_KINDS)
    attrs = {kind for op in ops for value in op.attrs.values() for kind in kinds(value)}
    plain = {"NoneType", "bool", "int", "float", "str", "tuple", "Dim", "Literal", "Body"}
    assert plain <= attrs
    assert any(kind.endswith("DType") for kind in attrs)
    owners = {type_ for type_, one in OPS.definitions.items() if one.owns_blocks}
    if path == THIS:
        assert owners <= {op.type for op in ops}


def stored_fields(message: Message) -> Iterator[str]:
    """The fields that a message has, and those of all messages in it."""
    for field, value in message.ListFields():
        yield field.full_name
        kind = field.message_type
        if kind is not None and not kind.GetOptions().map_entry:
            for one in [value] if isinstance(value, Message) else value:
                yield from stored_fields(one)


def fields_of(schema: Descriptor, seen: set[str]) -> Iterator[str]:
    """All fields of a message, and of the messages that it can hold."""
    seen.add(schema.full_name)
    for field in schema.fields:
        yield field.full_name
        inner = field.message_type
        plain = inner is not None and not inner.GetOptions().map_entry
        if plain and inner.full_name not in seen:
            yield from fields_of(inner, seen)


OF_USERS = {"braces.v1.ProgramDesc.op_modules"}
"""The modules of users' own operators, which a reader has to have."""


def test_every_field_of_the_schema_is_in_the_files_of_this_version() -> None:
    found = {
        name
        for path in THIS.glob("*.braces")
        for name in stored_fields(pb.ProgramDesc.FromString(path.read_bytes()))
    }
    assert set(fields_of(pb.ProgramDesc.DESCRIPTOR, set())) - found == OF_USERS


# ---- the script ------------------------------------------------------------------------------


def test_the_files_of_a_released_version_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(golden, "ROOT", tmp_path)
    monkeypatch.setattr(golden, "FOLDER", tmp_path / "golden")
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(f"# Changelog\n\n## {br.__version__} (2026-11-21)\n")
    assert golden.main() == 1
    assert f"{br.__version__} is released" in capsys.readouterr().err
    assert not (tmp_path / "golden").exists()
    changes.write_text(f"# Changelog\n\n## Unreleased\n\n## {br.__version__}1\n")
    assert golden.refuse(br.__version__) is None
