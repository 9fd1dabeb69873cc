"""The variables of a scope as a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import braces as br
from braces.errors import (
    DTypeError,
    FileFormatError,
    ProgramError,
    ScopeClosedError,
    UninitializedError,
    UnknownNameError,
)
from braces.extend.types import SHORT_NAMES
from braces.storage import tensor_file
from braces.storage.parameters import Loaded, load_parameters, save_parameters

SRC = Path(br.__file__).resolve().parent.parent


@pytest.fixture
def scope() -> br.Scope:
    scope = br.Scope()
    scope.var("fc.w").set(np.arange(6, dtype=np.float32).reshape(2, 3))
    scope.var("adam/mu/fc.w").set(np.ones((2, 3)))
    scope.var("half").set(np.array([1.5, np.nan], ml_dtypes.bfloat16))
    scope.var("random_state").set(np.array([7, 2**32 - 1], np.uint32))
    scope.var("step").set(2**62 + 1)
    scope.var("unset")
    return scope


def values(scope: br.Scope) -> dict[str, tuple[str, bytes]]:
    found = {name: scope.var(name) for name in scope.names()}
    return {n: (str(v), v.value.tobytes()) for n, v in found.items() if v.initialized}


def test_all_variables_with_a_value_come_back(scope: br.Scope, tmp_path: Path) -> None:
    save_parameters(scope, tmp_path / "p.safetensors")
    other = br.Scope()
    report = load_parameters(other, tmp_path / "p.safetensors")
    assert values(other) == values(scope)
    assert sorted(report.names) == other.names()
    assert sorted(report.extra) == other.names()
    assert report.missing == ()


def test_a_scope_of_every_dtype_comes_back(tmp_path: Path) -> None:
    scope, other = br.Scope(), br.Scope()
    for short, dtype in SHORT_NAMES.items():
        scope.var(short).set(np.arange(2).astype(dtype))
    save_parameters(scope, tmp_path / "p")
    load_parameters(other, tmp_path / "p")
    assert values(other) == values(scope)
    assert {name: other.var(name).dtype for name in other.names()} == SHORT_NAMES


def test_only_the_named_variables_are_saved(scope: br.Scope, tmp_path: Path) -> None:
    child = scope.new_scope()
    save_parameters(child, tmp_path / "p", names=["fc.w", "step"])
    other = br.Scope()
    load_parameters(other, tmp_path / "p")
    assert other.names() == ["fc.w", "step"]


def test_a_scope_saves_its_own_variables_and_not_those_of_its_parent(
    scope: br.Scope, tmp_path: Path
) -> None:
    child = scope.new_scope()
    child.var("h").set(1.0)
    save_parameters(child, tmp_path / "p")
    other = br.Scope()
    assert load_parameters(other, tmp_path / "p").names == ("h",)


def test_only_the_named_variables_are_loaded(scope: br.Scope, tmp_path: Path) -> None:
    save_parameters(scope, tmp_path / "p")
    other = br.Scope()
    other.var("bias").set(0.0)
    report = load_parameters(other, tmp_path / "p", names=["step"])
    assert report == Loaded(("step",), missing=("bias",), extra=("step",))
    assert other.names() == ["bias", "step"]


def test_values_go_into_this_very_scope(scope: br.Scope, tmp_path: Path) -> None:
    save_parameters(scope, tmp_path / "p", names=["step"])
    child = scope.new_scope()
    scope.var("step").set(0)
    load_parameters(child, tmp_path / "p")
    assert scope.var("step").value == 0
    assert child.var("step").value == 2**62 + 1


def test_errors_of_loading_list_missing_and_extra_names(
    scope: br.Scope, tmp_path: Path
) -> None:
    save_parameters(scope, tmp_path / "p", names=["fc.w", "step"])
    other = br.Scope()
    for name in ("fc.w", "fc.b"):
        other.var(name).set(0.0)
    report = load_parameters(other, tmp_path / "p")
    assert sorted(report.names) == ["fc.w", "step"]
    assert (report.missing, report.extra) == (("fc.b",), ("step",))


def test_strict_loading_wants_the_same_variables(scope: br.Scope, tmp_path: Path) -> None:
    save_parameters(scope, tmp_path / "p", names=["fc.w", "step"])
    other = br.Scope()
    other.var("fc.w").set(np.zeros((3, 2), np.float32))
    other.var("fc.b").set(0.0)
    before = values(other)
    with pytest.raises(FileFormatError) as caught:
        load_parameters(other, tmp_path / "p", strict=True)
    assert caught.value.given == (
        "fc.b: f32[] in the scope, none in the file; "
        "fc.w: f32[3,2] in the scope, f32[2,3] in the file; "
        "step: none in the scope, i64[] in the file"
    )
    assert values(other) == before
    load_parameters(scope, tmp_path / "p", names=["step"])
    save_parameters(scope, tmp_path / "p")
    load_parameters(scope, tmp_path / "p", strict=True)


def test_an_unknown_name_is_refused(scope: br.Scope, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean `fc.w`"):
        save_parameters(scope, tmp_path / "p", names=["fc.W"])
    save_parameters(scope, tmp_path / "p")
    with pytest.raises(UnknownNameError, match=r"Did you mean `fc.w`"):
        load_parameters(scope, tmp_path / "p", names=["fc.W"])


def test_a_named_variable_without_a_value_is_refused(scope: br.Scope, tmp_path: Path) -> None:
    with pytest.raises(UninitializedError):
        save_parameters(scope, tmp_path / "p", names=["unset"])


@pytest.mark.parametrize("name", ["../up", "two words", "__braces__", "__braces__/train"])
def test_a_name_that_a_file_cannot_have_is_refused(name: str, tmp_path: Path) -> None:
    scope = br.Scope()
    scope.var(name).set(1.0)
    with pytest.raises(ProgramError, match=r"reserved variable name `__braces__|invalid name"):
        save_parameters(scope, tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_a_list_is_refused(scope: br.Scope, tmp_path: Path) -> None:
    scope.var("history").put([np.zeros(2)])
    with pytest.raises(DTypeError, match="cannot store the list `history`"):
        save_parameters(scope, tmp_path / "p")
    save_parameters(scope, tmp_path / "p", names=["step"])
    assert load_parameters(scope, tmp_path / "p").missing == (
        "adam/mu/fc.w", "fc.w", "half", "history", "random_state",
    )  # fmt: skip


def test_an_empty_scope_makes_an_empty_file(tmp_path: Path) -> None:
    save_parameters(br.Scope(), tmp_path / "p")
    assert load_parameters(br.Scope(), tmp_path / "p") == Loaded((), (), ())


def test_files_of_other_libraries_are_read(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"layer.0.weight": np.eye(2)}, tmp_path / "p")
    scope = br.Scope()
    load_parameters(scope, tmp_path / "p")
    np.testing.assert_array_equal(scope.var("layer.0.weight").value, np.eye(2))


def test_what_jax_holds_is_saved(tmp_path: Path) -> None:
    with br.Program() as program:
        w = br.parameter("w", [3], init=[1.0, 2.0, 3.0])
        program.update("w", (w * 2.0).name)
    scope, executor = br.Scope(), br.Executor()
    executor.init(program, scope)
    save_parameters(scope, tmp_path / "before")
    executor.run(program, scope)
    save_parameters(scope, tmp_path / "after")
    load_parameters(scope, tmp_path / "before")
    executor.run(program, scope)  # reuses the memory of what was loaded
    save_parameters(scope, tmp_path / "again")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "again").read_bytes()


# ---- failures --------------------------------------------------------------------------------


def test_a_failed_load_leaves_the_scope_as_it_was(scope: br.Scope, tmp_path: Path) -> None:
    other = br.Scope()
    other.var("a").set(np.array([True, False]))
    other.var("z").set(np.array([True, False]))
    save_parameters(other, tmp_path / "p")
    content = bytearray((tmp_path / "p").read_bytes())
    content[-1] = 7  # the last array is `z`, so that `a` is read before the damage is found
    (tmp_path / "p").write_bytes(content)
    scope.var("a").set(5)
    before = values(scope)
    with pytest.raises(FileFormatError, match="invalid bools in `z`"):
        load_parameters(scope, tmp_path / "p")
    assert values(scope) == before


def test_a_failed_save_leaves_the_old_file(
    scope: br.Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_parameters(scope, tmp_path / "p")
    before = (tmp_path / "p").read_bytes()

    def fills_the_disk(_: object) -> None:  # the header is written by then
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_file, "_in_order", fills_the_disk)
    with pytest.raises(OSError, match="No space left"):
        save_parameters(scope, tmp_path / "p")
    assert (tmp_path / "p").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("save_parameters", lambda path, scope: br.save_parameters(path, scope)),
        ("load_parameters", lambda path, scope: br.load_parameters(path, scope)),
        ("save_checkpoint", lambda path, scope: br.save_checkpoint(path, scope, 1)),
        ("load_checkpoint", lambda path, scope: br.load_checkpoint(path, scope)),
        ("save_model", lambda path, scope: br.save_model(scope, br.Program(), path, [], [])),
    ],
)
def test_arguments_in_another_order_are_refused(
    call: str, wrong: Callable[[Any, Any], object], scope: br.Scope, tmp_path: Path
) -> None:
    message = rf"br.Scope for `scope`, got PosixPath\.[\s\S]*Call br\.{call}\("
    with pytest.raises(br.DTypeError, match=message):
        wrong(tmp_path / "file", scope)
    assert not [*tmp_path.iterdir()]


def test_a_closed_scope_is_refused(scope: br.Scope, tmp_path: Path) -> None:
    save_parameters(scope, tmp_path / "p")
    scope.close()
    with pytest.raises(ScopeClosedError):
        save_parameters(scope, tmp_path / "p")
    with pytest.raises(ScopeClosedError):
        load_parameters(scope, tmp_path / "p")


def test_saving_and_loading_do_not_import_jax(tmp_path: Path) -> None:
    program = """
import sys
from braces.scope import Scope
from braces.storage.parameters import load_parameters, save_parameters
scope = Scope()
scope.var("w").set([1.0])
save_parameters(scope, sys.argv[1])
load_parameters(scope, sys.argv[1])
assert "jax" not in sys.modules
"""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", program, str(tmp_path / "p")]
    subprocess.run(command, env=env, check=True, timeout=60)
