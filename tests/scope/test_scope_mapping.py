"""Scopes as mappings, and their values as dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ShapeError, UninitializedError, UnknownNameError
from braces.scope import InvalidNameError, Loaded, Scope


@pytest.fixture
def scope() -> Scope:
    made = Scope()
    made.update({"fc.w": np.arange(6.0).reshape(2, 3), "fc.b": [1.0, 2.0]})
    return made


def held(scope: Scope) -> dict[str, Any]:
    return {name: (value.dtype, value.tolist()) for name, value in scope.state_dict().items()}


# ---- a mapping ----


def test_a_scope_reads_as_a_mapping_of_names_to_values(scope: Scope) -> None:
    assert (list(scope), len(scope), list(scope.keys())) == (["fc.b", "fc.w"], 2, [*scope])
    assert "fc.w" in scope
    assert "fc.v" not in scope
    for name, value in [*scope.items(), *zip(scope, scope.values(), strict=True)]:
        np.testing.assert_array_equal(value, scope.var(name).value, strict=True)
    assert {**scope}.keys() == dict(scope).keys() == scope.keys()


def test_a_value_that_is_read_is_a_copy_and_setting_puts_it_back(scope: Scope) -> None:
    read = scope["fc.b"]
    read[0] = 9.0
    assert scope["fc.b"].tolist() == [1.0, 2.0]
    scope["fc.b"] = read
    scope["fc.b"] *= 2.0
    assert scope["fc.b"].tolist() == [18.0, 4.0]


def test_setting_by_name_is_setting_the_variable(scope: Scope) -> None:
    handle = scope.var("fc.w")
    scope["fc.w"] = 3
    assert (handle.value, handle.dtype) == (3, "int64")
    scope["new"] = jnp.ones(2, jnp.bfloat16)
    assert scope.var("new").dtype == ml_dtypes.bfloat16
    with pytest.raises(DTypeError, match=r"variable `fc\.w`"):
        scope["fc.w"] = "text"
    assert handle.value == 3


def test_a_mapping_reaches_up_as_look_ups_do(scope: Scope) -> None:
    child = scope.new_scope()
    child.var("fc.b").set(7)
    child["h"] = 1
    child["fc.w"] = 5
    assert (list(child), len(child)) == (["fc.b", "fc.w", "h"], 3)
    assert [int(value) for value in child.values()] == [7, 5, 1]
    assert (scope["fc.w"], len(scope), child.names()) == (5, 2, ["fc.b", "h"])
    del child["fc.b"]
    assert child["fc.b"].tolist() == [1.0, 2.0]
    with pytest.raises(UnknownNameError, match=r"unknown variable `fc\.b`"):
        del child["fc.b"]


def test_an_unknown_name_is_answered_with_the_nearest(scope: Scope) -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean `fc\.w`"):
        scope.new_scope()["fc.W"]
    with pytest.raises(KeyError):
        del scope["fc.v"]
    assert (scope.get("fc.v"), scope.get("fc.v", 3), scope.get("fc.b").size) == (None, 3, 2)
    for use in (
        scope.__getitem__,
        scope.__delitem__,
        scope.get,
        lambda n: scope.update({n: 1}),
    ):
        with pytest.raises(InvalidNameError):
            use(3)
    with pytest.raises(InvalidNameError):
        scope[""] = 1
    assert scope.names() == ["fc.b", "fc.w"]


def test_a_variable_without_a_value_exists_and_raises_an_error(scope: Scope) -> None:
    scope.var("later")
    assert ("later" in scope, len(scope)) == (True, 3)
    for read in (lambda: scope["later"], scope.items, scope.values, lambda: scope.get("later")):
        with pytest.raises(UninitializedError, match="`later`"):
            read()
    assert "later" not in scope.state_dict()


def test_a_scope_is_true_though_empty_and_equal_only_to_itself(scope: Scope) -> None:
    empty = Scope()
    assert (len(empty), list(empty), bool(empty)) == (0, [], True)
    assert empty != Scope()
    assert len({empty, scope}) == 2


# ---- dictionaries of values ----


def test_a_state_dict_is_a_copy_and_comes_back(scope: Scope) -> None:
    scope.update({"half": np.ones(2, ml_dtypes.bfloat16), "seed": np.uint32(7), "none": []})
    kept, before = scope.state_dict(), held(scope)
    assert {type(value) for value in kept.values()} == {np.ndarray}
    kept["fc.w"][:] = 9.0
    assert held(scope) == before
    kept = scope.state_dict()
    for name in scope:
        scope[name] = np.zeros_like(scope[name])
    loaded = scope.load_state_dict(kept)
    assert loaded == Loaded(tuple(sorted(kept)), (), ())
    assert held(scope) == before
    kept["fc.w"][:] = 9.0
    assert held(scope) == before


def test_a_prefix_takes_a_part_out_and_puts_it_elsewhere(scope: Scope) -> None:
    kept = scope.state_dict(prefix="fc.")
    assert sorted(kept) == ["b", "w"]
    other = Scope()
    other.update({"net/fc.w": np.zeros((2, 3)), "net/fc.b": [0.0, 0.0], "step": 1})
    assert other.load_state_dict(kept, prefix="net/fc.").names == ("net/fc.b", "net/fc.w")
    assert other["net/fc.b"].tolist() == [1.0, 2.0]
    assert other["step"] == 1


WRONG: dict[str, tuple[type[Exception], str, Callable[[dict[str, Any]], object]]] = {
    "missing": (UnknownNameError, "none in the given values", lambda d: d.pop("fc.w")),
    "unexpected": (UnknownNameError, "v: none in the scope", lambda d: d.update(v=1.0)),
    "near": (UnknownNameError, "Did you mean `fc.w`", lambda d: d.update(fcw=d.pop("fc.w"))),
    "shape": (
        ShapeError,
        r"f64\[2,3\] in the scope",
        lambda d: d.update({"fc.w": d["fc.w"].T}),
    ),
    "dtype": (DTypeError, "astype", lambda d: d.update({"fc.w": d["fc.w"].astype("f4")})),
    "text": (
        DTypeError,
        "cannot convert the value to an array|unsupported dtype",
        lambda d: d.update({"fc.w": "text"}),
    ),
    "name": (
        InvalidNameError,
        "expected a string as name, got int",
        lambda d: d.update({3: 1.0}),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_load_that_fails_changes_nothing(scope: Scope, wrong: str) -> None:
    kind, words, spoil = WRONG[wrong]
    given = {name: np.zeros_like(value) for name, value in scope.items()}
    spoil(given)
    before = held(scope)
    with pytest.raises(kind, match=words):
        scope.load_state_dict(given)
    assert held(scope) == before
    assert scope.names() == ["fc.b", "fc.w"]


def test_not_strict_sets_what_is_on_both_sides_but_never_another_type(scope: Scope) -> None:
    given = {"fc.b": np.float32([5.0, 6.0]), "other": 1.0}
    assert scope.load_state_dict(given, strict=False) == Loaded(
        ("fc.b",), ("fc.w",), ("other",)
    )
    assert scope["fc.b"].tolist() == [5.0, 6.0]
    assert "other" not in scope
    with pytest.raises(ShapeError):
        scope.load_state_dict({"fc.b": np.float32([1.0])}, strict=False)
    assert scope["fc.b"].tolist() == [5.0, 6.0]


def test_a_list_is_no_state_and_is_neither_given_nor_taken(scope: Scope) -> None:
    scope.var("rows").put([np.ones(2)])
    with pytest.raises(DTypeError, match="expected an array in variable `rows`, got a list"):
        scope.state_dict()
    with pytest.raises(DTypeError, match="rows"):
        scope.load_state_dict({"rows": np.ones((1, 2))}, strict=False)


def test_a_state_dict_is_of_this_very_scope_as_a_file_is(scope: Scope, tmp_path: Any) -> None:
    child = scope.new_scope()
    child["h"] = np.float32([1.0])
    assert list(child.state_dict()) == ["h"]
    with pytest.raises(UnknownNameError):
        child.load_state_dict(scope.state_dict())
    other = Scope()
    br.save_parameters(scope, tmp_path / "w.safetensors")
    br.load_parameters(other, tmp_path / "w.safetensors")
    assert held(other) == held(scope)
    assert other.load_state_dict(scope.state_dict()).names == ("fc.b", "fc.w")


def test_training_goes_on_from_a_state_dict_as_if_nothing_happened(mode: str) -> None:
    with br.Program() as prog:
        loss = br.mean(br.fc(br.data("x", ["n", 2]), 1) ** 2)
        br.optimizer.adam(0.1).minimize(loss)
    exe, scope, feed = br.Executor(mode=mode), Scope(), {"x": [[1.0, 2.0]]}
    exe.init(prog, scope)
    exe.run(prog, scope, feed)
    kept = scope.state_dict()
    losses = [exe.run(prog, scope, feed, loss) for _ in range(2)]
    after = held(scope)
    scope.load_state_dict(kept)
    assert [exe.run(prog, scope, feed, loss) for _ in range(2)] == losses
    assert held(scope) == after


@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16, "bool"])
@pytest.mark.parametrize(
    "spec", [(), ("rows",), (None, "columns"), (("rows", "columns"),), ("columns", "rows")]
)
def test_values_that_lie_on_several_devices_are_copied_whole(spec: Any, dtype: Any) -> None:
    values = np.arange(64).reshape(8, 8).astype(dtype)
    mesh = jax.make_mesh((4, 2), ("rows", "columns"))
    lies = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    scope = Scope()
    for name, shape in (("some", (8, 8)), ("none", (0, 8))):
        scope.var(name).put(jax.device_put(values[: shape[0]], lies))
        copy = scope.state_dict()[name]
        assert isinstance(copy, np.ndarray)
        assert copy.flags.writeable
        np.testing.assert_array_equal(copy, values[: shape[0]], strict=True)
