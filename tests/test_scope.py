from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from braces import errors
from braces.errors import (
    BracesError,
    DTypeError,
    DuplicateNameError,
    ScopeClosedError,
    ShapeError,
    UninitializedError,
    UnknownNameError,
)
from braces.scope import InvalidNameError, OwnershipError, Scope, Variable


@pytest.fixture
def scope() -> Scope:
    return Scope()


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


# ---- names: create, find, erase ----


def test_var_gives_the_same_variable_each_time(scope: Scope) -> None:
    w = scope.var("w")
    assert scope.var("w") is w
    assert w.name == "w"
    assert scope.names() == ["w"]


def test_new_var_makes_a_variable_that_the_scope_then_finds(scope: Scope) -> None:
    w = scope.new_var("w")
    assert scope.find_var("w") is w
    assert scope.find_local_var("w") is w
    assert scope.get_var("w") is w
    assert "w" in scope


def test_new_var_refuses_a_name_that_exists_locally(scope: Scope) -> None:
    w = scope.var("w")
    w.set([1.0, 2.0])
    with pytest.raises(DuplicateNameError) as caught:
        scope.new_var("w")
    assert str(caught.value) == (
        "There is a variable `w` already.\n"
        "  at: scope root\n"
        "  given: f32[2]  8 B\n"
        "  Use another name, or `scope.var(name)` to get or create."
    )
    assert isinstance(caught.value, ValueError)
    assert scope.var("w") is w


def test_new_var_may_shadow_the_name_of_a_parent(scope: Scope) -> None:
    outer, child = scope.var("w"), scope.new_scope()
    inner = child.new_var("w")
    assert inner is not outer
    assert child.find_var("w") is inner


def test_var_shadows_a_parents_variable_and_leaves_it_alone(scope: Scope) -> None:
    outer, child = scope.var("w"), scope.new_scope()
    outer.set(1)
    assert child.find_var("w") is outer
    inner = child.var("w")
    inner.set(2)
    assert (outer.value, inner.value) == (1, 2)
    assert child.find_var("w") is inner
    assert scope.find_var("w") is outer


def test_find_var_looks_in_the_nearest_ancestor_first(scope: Scope) -> None:
    scope.var("w")
    middle = scope.new_scope()
    nearest = middle.var("w")
    leaf = middle.new_scope().new_scope()
    assert leaf.find_var("w") is nearest
    middle.erase("w")
    assert leaf.find_var("w") is scope.var("w")


def test_find_var_gives_none_and_makes_nothing(scope: Scope) -> None:
    assert scope.new_scope().find_var("w") is None
    assert scope.find_var("w") is None
    assert "w" not in scope
    assert scope.names() == []


def test_find_local_var_does_not_look_in_the_parent(scope: Scope) -> None:
    scope.var("w")
    child = scope.new_scope()
    assert child.find_local_var("w") is None
    assert "w" in child
    assert child.names() == []


def test_a_parent_does_not_see_into_its_children(scope: Scope) -> None:
    child = scope.new_scope()
    child.var("h")
    assert scope.find_var("h") is None


def test_get_var_names_the_nearest_of_this_scope_and_its_ancestors(scope: Scope) -> None:
    scope.var("weight")
    child = scope.new_scope()
    child.var("bias")
    with pytest.raises(UnknownNameError) as caught:
        child.get_var("wieght")
    assert str(caught.value) == (
        "There is no variable `wieght`.\n"
        "  at: scope root/1 and its ancestors\n"
        "  Did you mean `weight`?"
    )
    assert isinstance(caught.value, KeyError)
    with pytest.raises(UnknownNameError, match="Did you mean `bias`"):
        child.get_var("bais")


def test_names_are_sorted(scope: Scope) -> None:
    for name in ("w", "b", "a.b", "ä"):
        scope.var(name)
    assert scope.names() == ["a.b", "b", "w", "ä"]


def test_erase_says_whether_there_was_such_a_name(scope: Scope) -> None:
    scope.var("w")
    assert scope.erase("w") is True
    assert scope.erase("w") is False
    assert scope.find_var("w") is None


def test_erase_does_not_reach_the_parent(scope: Scope) -> None:
    outer = scope.var("w")
    assert scope.new_scope().erase("w") is False
    assert scope.find_var("w") is outer


def test_a_name_made_anew_does_not_revive_the_erased_handle(scope: Scope) -> None:
    old = scope.var("w")
    old.set(1)
    scope.erase("w")
    new = scope.var("w")
    assert new is not old
    assert not new.initialized
    with pytest.raises(ScopeClosedError, match="Variable `w` is gone: it was erased"):
        _ = old.value


@pytest.mark.parametrize(
    "name", ["w", "fc1.w", "adam/mu/fc1.w", "w b", "größe", "重み", "☃", "a`"]
)
def test_any_printable_text_is_a_name(scope: Scope, name: str) -> None:
    assert scope.var(name).name == name


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "a\tb", "\x7f", "\x85", "\u2028", "\ud800"])
@pytest.mark.parametrize("make", [Scope.var, Scope.new_var])
def test_a_name_is_not_empty_and_has_no_control_characters(
    scope: Scope, make: Callable[[Scope, str], Variable], name: str
) -> None:
    with pytest.raises(InvalidNameError, match="A name cannot") as caught:
        make(scope, name)
    assert isinstance(caught.value, BracesError)
    assert isinstance(caught.value, ValueError)
    str(caught.value).encode()
    assert str(caught.value).isprintable() or "\n  " in str(caught.value)
    assert scope.names() == []


@pytest.mark.parametrize("name", [None, 3, b"w", ["w"], np.zeros(3)])
@pytest.mark.parametrize(
    "method",
    ["var", "new_var", "find_var", "find_local_var", "get_var", "erase", "__contains__"],
)
def test_a_name_that_is_no_text_is_refused_everywhere(
    scope: Scope, method: str, name: object
) -> None:
    with pytest.raises(InvalidNameError, match="A name is a text, not"):
        getattr(scope, method)(name)


# ---- values ----


def test_a_variable_without_a_value_says_so(scope: Scope) -> None:
    w = scope.var("w")
    assert w.initialized is False
    for property_ in ("value", "dtype", "shape", "nbytes", "raw"):
        with pytest.raises(UninitializedError, match="Variable `w` has no value"):
            getattr(w, property_)
    w.set(0)
    assert w.initialized is True


def test_the_error_for_no_value_says_where_and_what_to_do(scope: Scope) -> None:
    with pytest.raises(UninitializedError) as caught:
        _ = scope.new_scope().new_scope().var("w") and scope.var("w").value
    assert str(caught.value) == (
        "Variable `w` has no value.\n"
        "  at: scope root\n"
        "  Run `Executor.init` on the program first, or `set` a value."
    )


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        (1.5, "float32", ()),
        (3, "int64", ()),
        (True, "bool", ()),
        (1j, "complex64", ()),
        ([1.0, 2.0], "float32", (2,)),
        ([1, 2.0], "float32", (2,)),
        ([1, 2], "int64", (2,)),
        ([True, 2], "int64", (2,)),
        ([[True], [False]], "bool", (2, 1)),
        ((1, (2)), "int64", (2,)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (2**63 - 1, "int64", ()),
        (float("inf"), "float32", ()),
        (np.float64(1.5), "float64", ()),
        ([np.float64(1.5), np.float64(2)], "float64", (2,)),
        (np.int8(3), "int8", ()),
        (np.zeros((2, 0), np.uint16), "uint16", (2, 0)),
        (np.zeros(2, ml_dtypes.bfloat16), ml_dtypes.bfloat16, (2,)),
        (np.zeros(2, ">f4"), "float32", (2,)),
        ([np.zeros(2), np.ones(2)], "float64", (2, 2)),
    ],
)
def test_set_keeps_the_dtype_of_arrays_and_gives_python_numbers_theirs(
    scope: Scope, given: object, dtype: Any, shape: tuple[int, ...]
) -> None:
    w = scope.var("w")
    w.set(given)
    assert w.dtype == np.dtype(dtype)
    assert w.dtype.isnative
    assert w.shape == shape
    assert w.nbytes == np.dtype(dtype).itemsize * int(np.prod(shape))
    assert isinstance(w.value, np.ndarray)
    assert w.value.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(w.value, np.asarray(given))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("door", [Variable.set, Variable.put])
def test_a_jax_array_comes_back_as_a_numpy_array_of_the_same_dtype(
    scope: Scope, door: Callable[[Variable, Any], None], dtype: str
) -> None:
    w, array = scope.var("w"), jnp.arange(6).reshape(2, 3).astype(dtype)
    door(w, array)
    assert w.dtype == array.dtype
    assert w.shape == (2, 3)
    assert w.nbytes == array.nbytes
    assert type(w.value) is np.ndarray
    np.testing.assert_array_equal(w.value, np.asarray(array))


def test_a_value_is_a_copy_on_the_way_in_and_on_the_way_out(scope: Scope) -> None:
    w, given = scope.var("w"), np.array([1.0, 2.0])
    w.set(given)
    given[:] = 9
    w.value[:] = 8
    np.testing.assert_array_equal(w.value, [1, 2])


def test_a_value_outlives_the_buffer_that_a_run_gives_away(scope: Scope) -> None:
    w = scope.var("w")
    w.put(jnp.arange(1000.0))
    before = w.value
    w.put(jax.jit(lambda x: x + 1, donate_argnums=0)(w.raw))
    np.testing.assert_array_equal(before, np.arange(1000))
    np.testing.assert_array_equal(w.value, np.arange(1000) + 1)


def test_set_takes_a_copy_of_a_jax_array_that_is_later_given_away(scope: Scope) -> None:
    w, given = scope.var("w"), jnp.arange(1000.0)
    w.set(given)
    jax.jit(lambda x: x + 1, donate_argnums=0)(given)
    np.testing.assert_array_equal(w.value, np.arange(1000))


def test_set_may_change_dtype_and_shape(scope: Scope) -> None:
    w = scope.var("w")
    w.set([1.0, 2.0])
    w.set(3)
    assert (w.dtype, w.shape) == (np.int64, ())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (None, DTypeError),
        ("text", DTypeError),
        ([1, "a"], DTypeError),
        ({"a": 1}, DTypeError),
        (object(), DTypeError),
        (2**63, DTypeError),
        ([2**63, -1], DTypeError),
        (1e300, DTypeError),
        ([[0.0], [-1e300]], DTypeError),
        (np.array(["2020-01-01"], "datetime64[D]"), DTypeError),
        (np.zeros(2, "f4,i4"), DTypeError),
        (np.zeros(2, ml_dtypes.float8_e5m2), DTypeError),
        ([[1, 2], [3]], ShapeError),
        ([np.zeros(2), np.zeros(3)], ShapeError),
    ],
)
def test_set_refuses_what_is_no_array_and_keeps_the_old_value(
    scope: Scope, given: object, error: type[BracesError]
) -> None:
    w = scope.var("w")
    w.set(7)
    with pytest.raises(error) as caught:
        w.set(given)
    assert "at: variable `w` of scope root" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 4
    assert w.value == 7


def test_set_refuses_a_value_that_is_being_traced(scope: Scope) -> None:
    w = scope.var("w")
    with pytest.raises(DTypeError, match="makes no array"):
        jax.jit(w.set)(1.0)
    assert not w.initialized


def test_the_executors_door_copies_nothing(scope: Scope) -> None:
    w, array = scope.var("w"), np.arange(3)
    w.put(array)
    assert w.raw is array


def test_a_variable_may_hold_a_list_of_arrays(scope: Scope) -> None:
    h, arrays = scope.var("h"), [np.ones(4, np.float32), jnp.zeros(4, jnp.float32)]
    h.put(arrays)
    assert h.raw is arrays
    assert h.nbytes == 32
    assert [type(one) for one in h.value] == [np.ndarray, np.ndarray]
    h.value[0][:] = 5
    h.value.clear()
    np.testing.assert_array_equal(h.value, [[1] * 4, [0] * 4])
    assert repr(h) == "<Variable `h` of scope root: list<f32[4]> of 2 items  32 B>"
    for property_ in ("dtype", "shape"):
        with pytest.raises(DTypeError, match=f"holds a list, which has no {property_}"):
            getattr(h, property_)


def test_an_empty_or_mixed_list_has_a_text_too(scope: Scope) -> None:
    h = scope.var("h")
    h.put([])
    assert h.value == []
    assert repr(h).endswith("list<?> of 0 items  0 B>")
    h.put([np.ones(2, np.float32), np.ones(3, np.float32)])
    assert repr(h).endswith("list<?> of 2 items  20 B>")


# ---- only a scope makes a variable ----


@pytest.mark.parametrize("arguments", [(), ("w",), ("w", 1.0)])
def test_nobody_else_makes_a_variable(arguments: tuple[object, ...]) -> None:
    with pytest.raises(OwnershipError, match="Only a scope makes a variable") as caught:
        Variable(*arguments)
    assert isinstance(caught.value, BracesError)
    assert isinstance(caught.value, TypeError)
    assert "scope.var(name)" in str(caught.value)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_scopes_and_variables_are_not_copied_or_pickled(
    scope: Scope, duplicate: Callable[[object], object]
) -> None:
    w = scope.var("w")
    w.set(1)
    for one in (w, scope):
        with pytest.raises(OwnershipError, match="cannot be copied or pickled"):
            duplicate(one)
    gc.collect()
    assert w.value == 1


def test_a_variables_properties_cannot_be_assigned(scope: Scope) -> None:
    w = scope.var("w")
    for name in public(Variable):
        with pytest.raises(AttributeError):
            setattr(w, name, 3)
    with pytest.raises(AttributeError):
        w.valeu = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_a_scope_runs_nothing_and_knows_no_operators() -> None:
    assert public(Scope) == {
        *("var", "new_var", "find_var", "find_local_var", "get_var", "erase", "names"),
        *("new_scope", "parent", "children", "close", "closed"),
    }


# ---- the life of scopes and handles ----

HANDLE_USES: dict[str, Callable[[Variable], object]] = {
    "name": lambda w: w.name,
    "value": lambda w: w.value,
    "set": lambda w: w.set(2.0),
    "initialized": lambda w: w.initialized,
    "dtype": lambda w: w.dtype,
    "shape": lambda w: w.shape,
    "nbytes": lambda w: w.nbytes,
    "raw": lambda w: w.raw,
    "put": lambda w: w.put(np.zeros(1)),
}
SCOPE_USES: dict[str, Callable[[Scope], object]] = {
    "var": lambda s: s.var("w"),
    "new_var": lambda s: s.new_var("new"),
    "find_var": lambda s: s.find_var("w"),
    "find_local_var": lambda s: s.find_local_var("w"),
    "get_var": lambda s: s.get_var("w"),
    "erase": lambda s: s.erase("w"),
    "names": lambda s: s.names(),
    "new_scope": lambda s: s.new_scope(),
    "parent": lambda s: s.parent,
    "children": lambda s: s.children,
    "__contains__": lambda s: "w" in s,
    "__enter__": lambda s: s.__enter__(),
}


def close(scope: Scope) -> None:
    scope.close()


def close_parent(scope: Scope) -> None:
    parent = scope.parent
    assert parent is not None
    parent.close()


def close_grandparent(scope: Scope) -> None:
    parent = scope.parent
    assert parent is not None
    close_parent(parent)


def leave_with(scope: Scope) -> None:
    with scope:
        pass


def leave_with_an_error(scope: Scope) -> None:
    with pytest.raises(ZeroDivisionError), scope:
        raise ZeroDivisionError


ENDINGS = [close, close_parent, close_grandparent, leave_with, leave_with_an_error]


@pytest.fixture
def family() -> Iterator[Scope]:
    """A grandchild; its ancestors live as long as the test."""
    root = Scope()
    parent = root.new_scope()
    yield parent.new_scope()
    root.close()


def test_the_tables_of_uses_are_complete() -> None:
    assert HANDLE_USES.keys() == public(Variable)
    assert {name for name in SCOPE_USES if name[0] != "_"} == public(Scope) - {
        "close",
        "closed",
    }


@pytest.mark.parametrize("use", HANDLE_USES)
@pytest.mark.parametrize("end", ENDINGS)
def test_a_handle_that_outlives_its_scope_raises(
    family: Scope, end: Callable[[Scope], None], use: str
) -> None:
    w = family.var("w")
    w.set(1.0)
    HANDLE_USES[use](w)
    end(family)
    for _ in range(2):
        with pytest.raises(ScopeClosedError) as caught:
            HANDLE_USES[use](w)
    assert str(caught.value) == (
        "Variable `w` is gone: its scope was closed.\n"
        "  at: scope root/1/1\n"
        "  Read `value` before; fetch what has to outlive a scope."
    )
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("use", HANDLE_USES)
def test_a_handle_without_a_value_raises_for_its_scope_first(scope: Scope, use: str) -> None:
    w = scope.var("w")
    scope.close()
    with pytest.raises(ScopeClosedError):
        HANDLE_USES[use](w)


@pytest.mark.parametrize("use", HANDLE_USES)
def test_a_handle_whose_name_was_erased_raises(scope: Scope, use: str) -> None:
    w = scope.var("w")
    w.set(1.0)
    scope.erase("w")
    with pytest.raises(ScopeClosedError) as caught:
        HANDLE_USES[use](w)
    assert str(caught.value) == (
        "Variable `w` is gone: it was erased.\n"
        "  at: scope root\n"
        "  Look the name up again: `scope.find_var(name)`."
    )


@pytest.mark.parametrize("use", HANDLE_USES)
def test_a_handle_whose_scope_was_dropped_raises(use: str) -> None:
    scope = Scope()
    w = scope.var("w")
    w.set(1.0)
    HANDLE_USES[use](w)
    del scope
    with pytest.raises(ScopeClosedError, match="nobody holds its scope any more"):
        HANDLE_USES[use](w)


@pytest.mark.parametrize("use", SCOPE_USES)
@pytest.mark.parametrize("end", ENDINGS)
def test_a_closed_scope_raises(family: Scope, end: Callable[[Scope], None], use: str) -> None:
    family.var("w").set(1.0)
    end(family)
    assert family.closed
    with pytest.raises(ScopeClosedError) as caught:
        SCOPE_USES[use](family)
    assert str(caught.value) == (
        "Scope root/1/1 is closed.\n"
        "  Work inside its `with` block, or make another scope: `br.Scope()`."
    )


def test_closing_twice_is_fine(scope: Scope) -> None:
    assert not scope.closed
    scope.close()
    scope.close()
    assert scope.closed


def test_a_scope_may_be_closed_inside_its_own_with() -> None:
    with Scope() as scope:
        scope.close()
    assert scope.closed


def test_a_failed_put_leaves_nothing_behind(scope: Scope) -> None:
    w, array = scope.var("w"), np.zeros(3)
    gone = weakref.ref(array)
    scope.close()
    with pytest.raises(ScopeClosedError):
        w.put(array)
    del array
    assert gone() is None


def test_closing_frees_the_values_even_where_a_handle_is_kept(scope: Scope) -> None:
    w, b, array = scope.var("w"), scope.var("b"), np.zeros(3)
    gone = weakref.ref(array)
    w.put(array)
    b.put(array)
    del array
    scope.erase("w")
    assert gone() is not None
    scope.close()
    assert gone() is None


def test_closing_a_child_leaves_its_parent_and_siblings_alone(scope: Scope) -> None:
    first, second = scope.new_scope(), scope.new_scope()
    w, h = scope.var("w"), second.var("h")
    first.close()
    assert scope.children == (second,)
    assert (w.name, h.name) == ("w", "h")


def test_a_child_keeps_its_parent_alive() -> None:
    child = Scope().new_scope().new_scope()
    gc.collect()
    root = child.parent and child.parent.parent
    assert root is not None
    assert not root.closed
    assert root.parent is None


def test_a_parent_does_not_keep_its_children_alive(scope: Scope) -> None:
    child = scope.new_scope()
    gone = weakref.ref(child)
    assert scope.children == (child,)
    del child
    assert gone() is None
    assert scope.children == ()


def test_a_handle_does_not_keep_its_scope_alive() -> None:
    scope = Scope()
    _w, gone = scope.var("w"), weakref.ref(scope)
    del scope
    assert gone() is None


def test_a_closed_child_does_not_keep_its_parent_alive() -> None:
    scope = Scope()
    child, gone = scope.new_scope(), weakref.ref(scope)
    child.close()
    del scope
    assert gone() is None


def test_a_scope_in_a_cycle_is_destroyed_by_the_collector() -> None:
    scope = Scope()
    scope.new_scope().var("h")
    w = scope.var("w")
    w.put([np.zeros(1)])
    w.raw.append(scope)
    del scope
    gc.collect()
    with pytest.raises(ScopeClosedError):
        _ = w.raw


@pytest.mark.parametrize("finish", ["close the root", "drop the leaf"])
def test_a_chain_of_scopes_may_be_longer_than_the_stack(finish: str) -> None:
    root = leaf = Scope()
    middle = root.var("w")
    middle.set(1)
    depth = 3 * sys.getrecursionlimit()
    for _ in range(depth):
        leaf = leaf.new_scope()
        leaf.var("h").set(1)
    assert leaf.find_var("w") is middle
    assert len(repr(leaf)) < 100
    handle = leaf.var("h")
    if finish == "close the root":
        root.close()
        assert leaf.closed
    else:
        del leaf
        assert root.children == ()
        assert not root.closed
    with pytest.raises(ScopeClosedError):
        _ = handle.value


# ---- memory ----


def one_close(scope: Scope) -> None:
    with scope.new_scope() as child:
        child.var("h").put(np.zeros(256))
        child.new_scope().var("k").set(1.0)


def one_drop(scope: Scope) -> None:
    child = scope.new_scope()
    child.var("h").put(np.zeros(256))
    child.new_scope().var("k").set(1.0)


def one_erase(scope: Scope) -> None:
    scope.var("h").put(np.zeros(256))
    scope.erase("h")


@pytest.mark.parametrize("step", [one_close, one_drop, one_erase])
def test_ten_thousand_steps_leave_memory_flat(
    scope: Scope, step: Callable[[Scope], None]
) -> None:
    def grown(steps: int) -> tuple[int, int]:
        size, count = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        for _ in range(steps):
            step(scope)
        return tracemalloc.get_traced_memory()[0] - size, len(gc.get_objects()) - count

    gc.collect()
    gc.disable()  # what is flat only after a collection is not flat
    tracemalloc.start()
    try:
        grown(10)
        size_bytes, objects = grown(10_000)
    finally:
        tracemalloc.stop()
        gc.enable()
    assert size_bytes < 50_000
    assert objects < 50


# ---- threads ----


@pytest.fixture
def eager_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(count: int, work: Callable[[int], object]) -> list[Any]:
    """What `work` gives in each of `count` threads, which start together."""
    gate = threading.Barrier(count)

    def start(number: int) -> object:
        gate.wait(10)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


@pytest.mark.usefixtures("eager_switches")
def test_var_from_sixteen_threads_gives_one_variable(scope: Scope) -> None:
    names = [f"w{number}" for number in range(200)]
    made = in_threads(16, lambda _: [scope.var(name) for name in names])
    assert all(each == made[0] for each in made)
    assert scope.names() == sorted(names)


@pytest.mark.usefixtures("eager_switches")
def test_new_var_succeeds_in_exactly_one_thread(scope: Scope) -> None:
    def try_each(_: int) -> int:
        made = 0
        for number in range(200):
            try:
                scope.new_var(f"w{number}")
                made += 1
            except DuplicateNameError:
                pass
        return made

    assert sum(in_threads(8, try_each)) == 200


@pytest.mark.usefixtures("eager_switches")
def test_threads_insert_look_up_erase_and_print_at_once(scope: Scope) -> None:
    def work(number: int) -> int:
        erased = 0
        for turn in range(150):
            name = f"w{turn % 7}"
            child = scope.new_scope()
            try:
                scope.var(name).set(number)
                found = child.find_var(name)
                assert found is None or 0 <= found.value < 8
            except (ScopeClosedError, UninitializedError):
                pass  # another thread erased it, or made it and has not yet set it
            erased += scope.erase(name)
            assert set(scope.names()) <= {f"w{n}" for n in range(7)}
            assert str(scope).startswith("scope root: ")
            assert all(one.parent is scope for one in scope.children if not one.closed)
        return erased

    assert sum(in_threads(8, work)) >= 150
    assert scope.names() == []
    assert scope.children == ()


@pytest.mark.usefixtures("eager_switches")
def test_erase_succeeds_in_exactly_one_thread(scope: Scope) -> None:
    for number in range(300):
        scope.var(f"w{number}")
    erased = in_threads(8, lambda _: sum(scope.erase(f"w{n}") for n in range(300)))
    assert sum(erased) == 300


@pytest.mark.usefixtures("eager_switches")
def test_a_close_in_one_thread_leaves_nothing_alive_in_the_others() -> None:
    for _ in range(30):
        scope = Scope()
        kept: list[Variable] = []
        children: list[Scope] = []

        def work(
            number: int, scope: Scope = scope, kept: Any = kept, children: Any = children
        ) -> None:
            if number == 0:
                time.sleep(0.001)
                scope.close()
                return
            try:
                for turn in range(10_000):
                    kept.append(scope.var(f"w{number}.{turn}"))
                    kept[-1].put(np.float32(turn))
                    children.append(scope.new_scope())
                    kept.append(children[-1].var("h"))
            except ScopeClosedError:
                pass

        in_threads(4, work)
        assert scope.closed
        assert all(child.closed for child in children)
        for handle in kept:
            with pytest.raises(ScopeClosedError):
                _ = handle.raw


def test_a_finalizer_of_a_value_may_use_the_scope(scope: Scope) -> None:
    seen: list[list[str]] = []
    array = np.zeros(3)
    weakref.finalize(array, lambda: seen.append(scope.names()))
    scope.var("w").put(array)
    scope.var("b")
    del array
    scope.erase("w")
    assert seen == [["b"]]


# ---- texts ----


def test_a_scope_prints_as_a_tree(scope: Scope) -> None:
    scope.var("w").set(np.zeros((8, 32), np.float32))
    scope.var("b").set(np.zeros(32, ml_dtypes.bfloat16))
    scope.var("later")
    scope.var("big").put(np.broadcast_to(np.float64(0), (1024, 1024, 3)))
    first, second = scope.new_scope(), scope.new_scope()
    first.var("h").put([np.zeros(4, np.float32)])
    inner = second.new_scope()
    inner.var("i").set(3)
    closed = scope.new_scope()
    closed.var("gone")
    closed.close()
    third = scope.new_scope()
    assert str(scope) == (
        "scope root: 4 variables, 24.0 MiB\n"
        "  b: bf16[32]  64 B\n"
        "  big: f64[1024,1024,3]  24.0 MiB\n"
        "  later: not set\n"
        "  w: f32[8,32]  1.0 KiB\n"
        "  scope root/1: 1 variable, 16 B\n"
        "    h: list<f32[4]> of 1 item  16 B\n"
        "  scope root/2: 0 variables, 0 B\n"
        "    scope root/2/1: 1 variable, 8 B\n"
        "      i: i64[]  8 B\n"
        "  scope root/4: 0 variables, 0 B"
    )
    assert str(third) == "scope root/4: 0 variables, 0 B"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**3, "1.0 GiB"),
        (1024**4, "1.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_sizes_are_printed_in_readable_units(scope: Scope, size_bytes: int, text: str) -> None:
    scope.var("w").put(np.broadcast_to(np.uint8(0), (size_bytes,)))
    assert str(scope).endswith(f"  w: u8[{size_bytes}]  {text}")


def test_reprs_are_one_line_alive_or_not(scope: Scope) -> None:
    w, b, child = scope.var("w"), scope.var("b"), scope.new_scope()
    w.set(np.zeros(1024, np.float32))
    assert repr(scope) == "<Scope root: 2 variables, 4.0 KiB>"
    assert repr(child) == "<Scope root/1: 0 variables, 0 B>"
    assert repr(w) == "<Variable `w` of scope root: f32[1024]  4.0 KiB>"
    assert repr(b) == "<Variable `b` of scope root: not set>"
    scope.erase("b")
    scope.close()
    assert repr(b) == "<Variable `b` of scope root: gone, it was erased>"
    assert repr(w) == "<Variable `w` of scope root: gone, its scope was closed>"
    assert repr(scope) == "<Scope root (closed)>"
    assert str(scope) == "scope root (closed)"


def test_html_is_the_tree_escaped(scope: Scope) -> None:
    scope.var("<script>&").set(1)
    scope.new_scope()
    assert scope._repr_html_() == (
        "<pre>scope root: 1 variable, 8 B\n  &lt;script&gt;&amp;: i64[]  8 B</pre>"
    )


def test_every_error_of_this_module_is_in_the_tree_of_errors() -> None:
    for error in (InvalidNameError, OwnershipError):
        assert issubclass(error, errors.BracesError)
