from __future__ import annotations

import gc
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from braces import errors
from braces.errors import ScopeClosedError, UninitializedError
from braces.scope import Scope, Variable


@pytest.fixture
def scope() -> Scope:
    return Scope()


def public(cls: type) -> list[str]:
    return sorted(name for name in dir(cls) if not name.startswith("_"))


BY_NAME = ["var", "new_var", "find_var", "find_local_var", "get_var", "get", "erase"]
BY_NAME += ["__contains__", "__getitem__", "__delitem__"]
ARGUMENTS = {name: ("w",) for name in BY_NAME} | {"set": (2.0,), "put": (np.zeros(1),)}
ARGUMENTS |= {"raws": (["w"],), "put_all": (["w"], [np.zeros(1)]), "update": ({"w": 1.0},)}
ARGUMENTS |= {"load_state_dict": ({},), "__setitem__": ("w", 1.0)}

MAPPING = ["__setitem__", "__iter__", "__len__"]


def use(thing: object, name: str) -> object:
    """Return the result of a property or method."""
    found = getattr(thing, name)
    return found(*ARGUMENTS.get(name, ())) if callable(found) else found


def raised(kind: type[Exception], call: Callable[..., object], *arguments: object) -> str:
    """The text of the error that a call raises."""
    with pytest.raises(kind) as caught:
        call(*arguments)
    return str(caught.value)


# ---- the life of scopes and handles ----

CLOSINGS: dict[str, Callable[[Any], object]] = {
    "close": lambda s: s.close(),
    "close of the parent": lambda s: s.parent.close(),
    "close of the root": lambda s: s.parent.parent.close(),
    "end of with": lambda s: s.__exit__(None, None, None),
}
CLOSED = (
    "variable `w` no longer exists: its scope was closed.\n"
    "  at: scope root/1/1\n"
    "  Read `value` before the scope closes, or fetch the variable."
)
ERASED = (
    "variable `w` no longer exists: it was erased.\n"
    "  at: scope root/1/1\n"
    "  Look up the name again: `scope.find_var(name)`."
)
ENDINGS = CLOSINGS | {"erase": lambda s: s.erase("w")}


@pytest.fixture
def leaf(scope: Scope) -> Scope:
    return scope.new_scope().new_scope()


@pytest.mark.parametrize("has_value", [True, False])
@pytest.mark.parametrize("name", public(Variable))
@pytest.mark.parametrize("how", ENDINGS)
def test_a_handle_that_outlives_its_scope_raises(
    leaf: Scope, how: str, name: str, has_value: bool
) -> None:
    w = leaf.var("w")
    if has_value:
        w.set(1.0)
        use(w, name)
    ENDINGS[how](leaf)
    for _ in range(2):
        message = raised(ScopeClosedError, use, w, name)
        assert message == (ERASED if how == "erase" else CLOSED)


@pytest.mark.parametrize("name", public(Variable))
def test_a_handle_whose_scope_nobody_holds_raises(name: str) -> None:
    scope = Scope()
    w = scope.var("w")
    w.set(1.0)
    use(w, name)
    del scope
    assert "its scope was garbage-collected" in raised(ScopeClosedError, use, w, name)


@pytest.mark.parametrize("name", [*public(Scope), *BY_NAME[-3:], "__enter__", *MAPPING])
@pytest.mark.parametrize("how", CLOSINGS)
def test_a_closed_scope_raises(leaf: Scope, how: str, name: str) -> None:
    leaf.var("w")
    CLOSINGS[how](leaf)
    if name in ("close", "closed"):
        assert use(leaf, name) in (None, True)
    else:
        assert raised(ScopeClosedError, use, leaf, name) == (
            "scope root/1/1 is closed.\n"
            "  Use the scope inside its `with` block, or create another: `br.Scope()`."
        )


def test_an_error_inside_with_closes_the_scope_and_escapes(scope: Scope) -> None:
    assert not scope.closed
    with pytest.raises(ZeroDivisionError), scope:
        raise ZeroDivisionError
    assert scope.closed


@pytest.mark.usefixtures("frozen_heap")
def test_an_ended_variable_holds_no_value_even_where_its_handle_is_kept(scope: Scope) -> None:
    handles, array = [scope.var("closed"), scope.var("erased")], np.zeros(3)
    gone = weakref.ref(array)
    for handle in handles:
        handle.put(array)
    del array
    scope.erase("erased")
    assert gone() is not None
    scope.close()
    assert gone() is None
    array = np.zeros(3)
    gone = weakref.ref(array)
    for handle in handles:
        raised(ScopeClosedError, handle.put, array)
    del array
    gc.collect()  # the tracebacks held it too
    assert gone() is None


def test_closing_a_child_leaves_its_parent_and_siblings_alone(scope: Scope) -> None:
    first, second, w = scope.new_scope(), scope.new_scope(), scope.var("w")
    h = second.var("h")
    assert scope.children == (first, second)
    first.close()
    assert scope.children == (second,)
    assert (w.name, h.name) == ("w", "h")


def test_a_child_keeps_its_parent_alive_until_it_is_closed() -> None:
    parent = Scope()
    child, gone = parent.new_scope(), weakref.ref(parent)
    del parent
    assert child.parent is gone()
    assert child.parent is not None
    assert child.parent.parent is None
    child.close()
    assert gone() is None


def test_neither_a_parent_nor_a_handle_keeps_a_scope_alive(scope: Scope) -> None:
    child = scope.new_scope()
    h, gone = child.var("h"), weakref.ref(child)
    assert scope.children == (child,)
    del child
    assert gone() is None
    assert scope.children == ()
    assert repr(h) == "<Variable `h` of scope root/1: deleted, its scope was garbage-collected>"


@pytest.mark.usefixtures("frozen_heap")
def test_a_scope_in_a_cycle_is_destroyed_by_the_collector() -> None:
    scope = Scope()
    w, cycle = scope.var("w"), [scope, scope.new_scope()]
    cycle.append(cycle)  # pyright: ignore[reportArgumentType]
    del scope, cycle
    gc.collect()
    raised(ScopeClosedError, use, w, "name")


@pytest.mark.parametrize("finish", ["close the root", "drop the leaf"])
def test_a_chain_of_scopes_may_be_longer_than_the_stack(scope: Scope, finish: str) -> None:
    outer, handles, leaf = scope.var("w"), list[Variable](), scope
    for _ in range(3 * sys.getrecursionlimit()):
        leaf = leaf.new_scope()
        handles.append(leaf.var("h"))
    assert leaf.find_var("w") is outer
    assert len(repr(leaf)) < 100
    if finish == "close the root":
        scope.close()
        assert leaf.closed
    else:
        del leaf
        assert scope.children == ()
    for handle in handles:
        raised(ScopeClosedError, use, handle, "name")


def step_and_drop(scope: Scope) -> None:
    child = scope.new_scope()
    child.var("h").put(np.zeros(256))
    grandchild = child.new_scope()
    grandchild.var("k").set(1.0)


def step_and_close(scope: Scope) -> None:
    with scope.new_scope() as child:
        step_and_drop(child)


def step_and_erase(scope: Scope) -> None:
    scope.var("h").put(np.zeros(256))
    scope.erase("h")


@pytest.mark.parametrize("step", [step_and_close, step_and_drop, step_and_erase])
def test_ten_thousand_steps_leave_memory_flat(
    scope: Scope, step: Callable[[Scope], None]
) -> None:
    def grown(steps: int) -> tuple[int, int]:
        size_bytes, count = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        for _ in range(steps):
            step(scope)
        size_bytes = tracemalloc.get_traced_memory()[0] - size_bytes
        return size_bytes, len(gc.get_objects()) - count

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


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return the results of `work` in `count` threads that start together."""
    gate = threading.Barrier(count)

    def start(number: int) -> Any:
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
def test_new_var_and_erase_succeed_in_exactly_one_thread(scope: Scope) -> None:
    def made(name: str) -> bool:
        try:
            return scope.new_var(name).name == name
        except errors.DuplicateNameError:
            return False

    assert sum(in_threads(8, lambda _: sum(made(f"w{n}") for n in range(200)))) == 200
    assert sum(in_threads(8, lambda _: sum(scope.erase(f"w{n}") for n in range(200)))) == 200


@pytest.mark.usefixtures("eager_switches")
def test_threads_insert_look_up_erase_and_print_at_once(scope: Scope) -> None:
    names = {f"w{number}" for number in range(7)}

    def work(number: int) -> None:
        for turn in range(150):
            name, child = f"w{turn % 7}", scope.new_scope()
            try:
                scope.var(name).set(number)
                found = child.find_var(name)
                assert found is None or 0 <= found.value < 8
            except (ScopeClosedError, UninitializedError):
                pass  # another thread has erased it, or made it and not yet set it
            scope.erase(name)
            assert set(scope.names()) <= names
            assert str(scope).startswith("scope root: ")
            assert child in scope.children

    in_threads(8, work)
    assert scope.names() == []
    assert scope.children == ()


@pytest.mark.usefixtures("eager_switches")
def test_a_close_in_one_thread_leaves_nothing_alive_in_the_others() -> None:
    for _ in range(30):
        scope, kept, children = Scope(), list[Variable](), list[Scope]()

        def work(n: int, scope: Any = scope, kept: Any = kept, made: Any = children) -> None:
            if n == 0:
                time.sleep(0.001)
                scope.close()
            for turn in range(10_000 * n):
                kept.append(scope.var(f"w{n}.{turn}"))
                kept[-1].put(np.float32(turn))
                made.append(scope.new_scope())
                kept.append(made[-1].var("h"))

        raised(ScopeClosedError, in_threads, 4, work)
        assert all(child.closed for child in children)
        for handle in kept:
            raised(ScopeClosedError, use, handle, "raw")


def test_a_finalizer_of_a_value_may_use_the_scope(scope: Scope) -> None:
    array, seen = np.zeros(3), list[list[str]]()
    weakref.finalize(array, lambda: seen.append(scope.names()))
    scope.var("w").put(array)
    scope.var("b")
    del array
    scope.erase("w")
    assert seen == [["b"]]


@pytest.mark.timeout(20)
def test_code_that_runs_inside_an_insert_may_use_the_scope(scope: Scope) -> None:
    class Name(str):  # stands for a finalizer that the collector runs just then
        __slots__ = ()

        def __hash__(self) -> int:
            assert scope.names() == []
            return str.__hash__(self)

    scope.new_var(Name("w"))
    assert scope.names() == ["w"]
