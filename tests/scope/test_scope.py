from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from braces import errors
from braces.errors import DTypeError, ScopeClosedError, ShapeError, UninitializedError
from braces.scope import InvalidNameError, OwnershipError, Scope, Variable


@pytest.fixture
def scope() -> Scope:
    return Scope()


def public(cls: type) -> list[str]:
    return sorted(name for name in dir(cls) if not name.startswith("_"))


BY_NAME = ["var", "new_var", "find_var", "find_local_var", "get_var", "get", "erase"]
BY_NAME += ["__contains__", "__getitem__", "__delitem__"]
ARGUMENTS = {name: ("w",) for name in BY_NAME} | {"set": (2.0,), "put": (np.zeros(1),)}


def use(thing: object, name: str) -> object:
    """Return the result of a property or method."""
    found = getattr(thing, name)
    return found(*ARGUMENTS.get(name, ())) if callable(found) else found


def raised(kind: type[Exception], call: Callable[..., object], *arguments: object) -> str:
    """The text of the error that a call raises."""
    with pytest.raises(kind) as caught:
        call(*arguments)
    return str(caught.value)


# ---- names ----


def test_var_and_every_look_up_give_the_same_variable(scope: Scope) -> None:
    w, b = scope.var("w"), scope.new_var("b")
    assert (w.name, b.name, scope.names()) == ("w", "b", ["b", "w"])
    for name, one in (("w", w), ("b", b)):
        assert scope.var(name) is scope.find_var(name) is scope.find_local_var(name) is one
        assert scope.get_var(name) is one
        assert name in scope


def test_new_var_refuses_a_name_that_exists_locally(scope: Scope) -> None:
    scope.var("w").set([1.0, 2.0])
    assert raised(errors.DuplicateNameError, scope.new_var, "w") == (
        "duplicate variable `w`.\n"
        "  at: scope root\n"
        "  given: f32[2]  8 B\n"
        "  Use another name, or `scope.var(name)` to get or create."
    )
    assert scope.var("w").initialized


@pytest.mark.parametrize("make", [Scope.var, Scope.new_var])
def test_a_child_shadows_a_parents_variable_and_leaves_it_alone(
    scope: Scope, make: Callable[[Scope, str], Variable]
) -> None:
    outer, child = scope.var("w"), scope.new_scope()
    outer.set(1)
    assert child.find_var("w") is outer
    inner = make(child, "w")
    inner.set(2)
    assert (outer.value, inner.value) == (1, 2)
    assert (child.find_var("w"), scope.find_var("w")) == (inner, outer)


def test_find_var_looks_in_the_nearest_ancestor_first(scope: Scope) -> None:
    far, middle = scope.var("w"), scope.new_scope()
    near, leaf = middle.var("w"), middle.new_scope().new_scope()
    assert leaf.find_var("w") is near
    middle.erase("w")
    assert leaf.find_var("w") is far


def test_a_look_up_makes_nothing_and_knows_up_from_down(scope: Scope) -> None:
    child = scope.new_scope()
    assert child.find_var("w") is child.find_local_var("w") is None
    assert "w" not in child
    assert scope.names() == child.names() == []
    scope.var("w")
    child.var("h")
    assert child.find_local_var("w") is scope.find_var("h") is None
    assert ("w" in child, child.names()) == (True, ["h"])


def test_get_var_names_the_nearest_of_this_scope_and_its_ancestors(scope: Scope) -> None:
    scope.var("weight")
    child = scope.new_scope()
    child.var("bias")
    assert raised(errors.UnknownNameError, child.get_var, "wieght") == (
        "unknown variable `wieght`.\n"
        "  at: scope root/1 and its ancestors\n"
        "  Did you mean `weight`?"
    )
    assert "Did you mean `bias`?" in raised(errors.UnknownNameError, child.get_var, "bais")


def test_erase_returns_whether_the_name_existed(scope: Scope) -> None:
    scope.var("w")
    assert scope.new_scope().erase("w") is False
    assert scope.erase("w") is True
    assert scope.erase("w") is False
    assert scope.find_var("w") is None


def test_a_name_made_anew_does_not_revive_the_erased_handle(scope: Scope) -> None:
    old = scope.var("w")
    scope.erase("w")
    scope.var("w").set(1)
    raised(ScopeClosedError, use, old, "value")


@pytest.mark.parametrize("name", ["w", "adam/mu/fc1.w", "w b", "größe", "重み", "☃", "a`"])
def test_any_printable_text_is_a_name(scope: Scope, name: str) -> None:
    assert scope.var(name).name == name


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "\x7f", "\x85", "\u2028", "\ud800"])
@pytest.mark.parametrize("make", ["var", "new_var"])
def test_a_name_is_not_empty_and_has_no_control_characters(
    scope: Scope, make: str, name: str
) -> None:
    message = raised(InvalidNameError, getattr(scope, make), name)
    assert message.startswith("a name cannot")
    assert all(line.isprintable() for line in message.split("\n"))
    assert scope.names() == []


@pytest.mark.parametrize("name", [None, 3, b"w", ["w"], np.zeros(3)])
@pytest.mark.parametrize("method", BY_NAME)
def test_a_name_that_is_no_text_is_refused(scope: Scope, method: str, name: object) -> None:
    message = raised(InvalidNameError, getattr(scope, method), name)
    assert message.startswith("expected a string as name, got")


# ---- values ----


def test_the_error_of_a_variable_without_a_value_has_a_fix(scope: Scope) -> None:
    w = scope.var("w")
    assert w.initialized is False
    for name in ("value", "dtype", "shape", "nbytes", "raw"):
        assert raised(UninitializedError, use, w, name) == (
            "uninitialized variable `w`.\n"
            "  at: scope root\n"
            "  Run `Executor.init` on the program first, or `set` a value."
        )
    w.set(0)
    assert w.initialized is True


BFLOAT16 = np.ones(2, ml_dtypes.bfloat16)
GIVEN: dict[Any, list[Any]] = {
    "float32": [1.5, (1, 2.0), [], [[], []], [float("inf")], np.ones(2, ">f4")],
    "int64": [3, 2**63 - 1, [True, 2], [[1, 2]], np.int64(3)],
    "bool": [True, [[True], [False]], np.zeros((2, 0), bool)],
    "complex64": [1j, [True, 2, 3.0, 1j]],
    "float64": [np.float64(1.5), [np.float64(1), np.float64(2)], [np.zeros(2), np.ones(2)]],
    "uint16": [np.zeros((2, 0), np.uint16), np.uint16(3)],
    ml_dtypes.bfloat16: [BFLOAT16, [BFLOAT16, BFLOAT16], jnp.asarray(BFLOAT16)],
}


@pytest.mark.parametrize("dtype", GIVEN)
def test_set_keeps_the_dtype_of_arrays_and_gives_python_numbers_theirs(
    scope: Scope, dtype: Any
) -> None:
    w = scope.var("w")
    for given in GIVEN[dtype]:
        w.set(given)
        assert (w.dtype, w.dtype.isnative, w.shape) == (dtype, True, np.shape(given))
        assert w.nbytes == np.dtype(dtype).itemsize * np.size(given)
        assert (type(w.value), w.value.dtype) == (np.ndarray, dtype)
        np.testing.assert_array_equal(w.value, np.asarray(given))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("door", [Variable.set, Variable.put])
def test_a_jax_array_comes_back_as_a_numpy_array_of_the_same_dtype(
    scope: Scope, door: Callable[[Variable, Any], None], dtype: str
) -> None:
    w, array = scope.var("w"), jnp.arange(6).reshape(2, 3).astype(dtype)
    door(w, array)
    assert (w.dtype, w.shape, w.nbytes) == (array.dtype, (2, 3), array.nbytes)
    assert type(w.value) is np.ndarray
    np.testing.assert_array_equal(w.value, np.asarray(array), strict=True)


def test_a_value_is_a_copy_on_the_way_in_and_on_the_way_out(scope: Scope) -> None:
    w, given = scope.var("w"), np.array([1.0, 2.0])
    w.set(given)
    given[:] = 9
    w.value[:] = 8
    np.testing.assert_array_equal(w.value, [1, 2])


def test_a_value_outlives_the_buffer_that_a_run_gives_away(scope: Scope) -> None:
    give_away = jax.jit(lambda x: x + 1, donate_argnums=0)
    put, set_, mine = scope.var("put"), scope.var("set"), jnp.arange(1000.0)
    put.put(jnp.arange(1000.0))
    set_.set(mine)
    before = put.value
    put.put(give_away(put.raw))
    give_away(mine)
    np.testing.assert_array_equal([before, put.value - 1, set_.value], [np.arange(1000)] * 3)


NOT_NUMBERS = [None, [1, "a"], {"a": 1}, np.zeros(2, "f4,i4"), np.array([["long"] * 3] * 90)]
NOT_OURS = [np.array(["2020"], "datetime64[D]"), np.zeros(2, ml_dtypes.float8_e3m4)]
TOO_LARGE = [2**63, [2**63, -1], [[0.0], [-1e300]], 1e300j]
RAGGED = [[[1, 2], [3]], [np.zeros(2), np.zeros(3)]]


@pytest.mark.parametrize("given", [*NOT_NUMBERS, *NOT_OURS, *TOO_LARGE, *RAGGED])
def test_set_refuses_what_is_no_array_and_keeps_the_old_value(scope: Scope, given: Any) -> None:
    w = scope.var("w")
    w.set(7)
    is_ragged = any(given is one for one in RAGGED)
    message = raised(ShapeError if is_ragged else DTypeError, w.set, given)
    what, at, shown, _ = message.split("\n")
    assert at == "  at: variable `w` of scope root"
    assert shown.startswith("  given: ")
    assert max(len(what), len(shown)) < 96
    assert w.value == 7


def test_set_refuses_a_value_that_is_being_traced(scope: Scope) -> None:
    assert "cannot convert the value to an array" in raised(
        DTypeError, jax.jit(scope.var("w").set), 1.0
    )
    assert not scope.var("w").initialized


def test_a_variable_may_hold_a_list_of_arrays(scope: Scope) -> None:
    h, arrays = scope.var("h"), [np.ones(4, np.float32), jnp.zeros(4, jnp.float32)]
    h.put(arrays)
    assert h.raw is arrays
    assert repr(h) == "<Variable `h` of scope root: list<f32[4]> of 2 items  32 B>"
    assert [h.nbytes, *map(type, h.value)] == [32, np.ndarray, np.ndarray]
    h.value[0][:] = 5
    h.value.clear()
    np.testing.assert_array_equal(h.value, [[1] * 4, [0] * 4])
    for name in ("dtype", "shape"):
        assert f"holds a list, which has no {name}" in raised(DTypeError, use, h, name)
    h.put([np.ones(2), np.ones(3)])
    assert repr(h).endswith("list<?> of 2 items  40 B>")
    h.put([])
    assert repr(h).endswith("list<?> of 0 items  0 B>")
    assert h.value == []


# ---- who makes and owns what ----


@pytest.mark.parametrize("arguments", [(), ("w",), ("w", 1.0)])
def test_only_a_scope_makes_a_variable(arguments: tuple[object, ...]) -> None:
    message = raised(OwnershipError, Variable, *arguments)
    assert message.startswith("variables are created by scopes only.")
    assert "scope.var(name)" in message


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_scopes_and_variables_are_not_copied_or_pickled(scope: Scope, duplicate: Any) -> None:
    scope.var("w").set(1)
    for one in (scope.var("w"), scope):
        assert "cannot be copied or pickled" in raised(OwnershipError, duplicate, one)
    assert scope.var("w").value == 1


@pytest.mark.parametrize("name", [*public(Variable), "valeu"])
def test_nothing_of_a_variable_can_be_assigned(scope: Scope, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(scope.var("w"), name, 3)


def test_the_errors_are_of_the_builtin_kinds_that_a_person_expects() -> None:
    assert issubclass(InvalidNameError, errors.BracesError)
    assert issubclass(InvalidNameError, ValueError)
    assert issubclass(OwnershipError, errors.BracesError)
    assert issubclass(OwnershipError, TypeError)


# ---- texts ----


def test_a_scope_prints_as_a_tree(scope: Scope) -> None:
    scope.var("w").set(np.zeros((8, 32), np.float32))
    scope.var("b").set(np.zeros(32, ml_dtypes.bfloat16))
    scope.var("later")
    first, second, closed, last = [scope.new_scope() for _ in range(4)]
    first.var("h").put([np.zeros(4, np.float32)])
    inner = second.new_scope()
    inner.var("i").set(3)
    closed.close()
    assert str(scope) == (
        "scope root: 3 variables, 1.1 KiB\n"
        "  b: bf16[32]  64 B\n"
        "  later: not set\n"
        "  w: f32[8,32]  1.0 KiB\n"
        "  scope root/1: 1 variable, 16 B\n"
        "    h: list<f32[4]> of 1 item  16 B\n"
        "  scope root/2: 0 variables, 0 B\n"
        "    scope root/2/1: 1 variable, 8 B\n"
        "      i: i64[]  8 B\n"
        "  scope root/4: 0 variables, 0 B"
    )
    assert str(last) == "scope root/4: 0 variables, 0 B"


def test_sizes_are_printed_in_readable_units(scope: Scope) -> None:
    texts = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB"}
    texts |= {2**20 - 1: "1.0 MiB", 2**30: "1.0 GiB", 5000 * 2**40: "5000.0 TiB"}
    for size_bytes, text in texts.items():
        scope.var("w").put(np.broadcast_to(np.uint8(0), (size_bytes,)))
        assert str(scope).endswith(f"  w: u8[{size_bytes}]  {text}")


def test_a_repr_is_one_line_alive_or_not(scope: Scope) -> None:
    w, b = scope.var("w"), scope.var("b")
    w.set(np.zeros(1024, np.float32))
    assert repr(scope) == "<Scope root: 2 variables, 4.0 KiB>"
    assert repr(w) == "<Variable `w` of scope root: f32[1024]  4.0 KiB>"
    assert repr(b) == "<Variable `b` of scope root: not set>"
    scope.close()
    assert repr(w) == "<Variable `w` of scope root: deleted, its scope was closed>"
    assert (repr(scope), str(scope)) == ("<Scope root (closed)>", "scope root (closed)")


# ---- several at once -------------------------------------------------------------------------


def test_update_sets_each_where_a_look_up_finds_it() -> None:
    outer = Scope()
    outer.var("w").set(1.0)
    inner = outer.new_scope()
    inner.update({"w": 2.0, "b": np.ones(3)})
    assert (outer.get_var("w").value, inner.names()) == (2.0, ["b"])


def test_update_sets_all_or_none() -> None:
    scope = Scope()
    scope.var("w").set(1.0)
    with pytest.raises(DTypeError):
        scope.update({"w": 2.0, "b": object()})
    assert (scope.get_var("w").value, scope.names()) == (1.0, ["w"])
