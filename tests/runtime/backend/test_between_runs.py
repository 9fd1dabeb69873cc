"""Changes between two runs: a used executor acts like a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

FED = np.array([[1.0, 2.0, -1.0], [0.5, 3.0, 2.0]], np.float32)


def initialized(seed: int) -> br.Scope:
    """A scope as `init` leaves it, without a run."""
    scope = br.Scope()
    scope.var("random_state").set(np.array([seed, 0], np.uint32))
    scope.var("w").set([1.0, 1.0, 1.0])
    scope.var("runs").set(0.0)
    scope.var("table").set(np.full((4, 3), 0.5, np.float32))
    return scope


class World:
    """A program that moves a weight, draws, looks up rows and counts; what a run is given."""

    def __init__(self) -> None:
        with br.Program() as self.prog:
            x = br.data("x", ["b", 3])
            br.data("y", ["b"])
            at = br.data("at", ["b"], "i64")
            w = br.parameter("w", [3], init=1.0)
            runs = br.state("runs", [], init=0.0)
            table = br.parameter("table", [4, 3], init=0.5)
            noisy = x * w + 0.01 * br.random.normal([3]) + br.take(table, at, axis=0)
            self.loss = br.mean(br.square(noisy))
            self.prog.update(w, w - 0.1 * self.loss)
            self.prog.update(runs, runs + 1.0)
        self.root = initialized(seed=3)
        self.scope = self.root.new_scope()
        self.scopes = {"root": self.root, "child": self.scope}
        self.feed: Any = {"x": FED, "at": np.array([0, 3])}
        self.fetch: Any = [self.loss, "w"]
        self.options: dict[str, Any] = {}

    def run(self, exe: br.Executor) -> Any:
        """Return the results or the error of a run."""
        try:
            given = exe.run(self.prog, self.scope, self.feed, self.fetch, **self.options)
        except br.BracesError as error:
            return type(error).__name__, str(error)
        return jax.tree.map(lambda array: (str(array.dtype), array.tolist()), given)

    def values(self) -> dict[str, Any]:
        """All values of all scopes that are open."""
        return {
            f"{path}:{name}": (scope.var(name).initialized and scope.var(name).value.tolist())
            for path, scope in self.scopes.items()
            if not scope.closed
            for name in scope.names()
        }


def change_program(world: World) -> None:
    with world.prog:
        state = br.state("more", [], init=0.0)
        world.prog.update(state, state + world.loss)
    world.root.var("more").set(1.0)


def change_program_without_value(world: World) -> None:
    change_program(world)
    world.root.erase("more")


def fetch_more(world: World) -> None:
    with world.prog:
        world.fetch = {"loss": world.loss, "twice": world.loss * 2.0}


def fetch_nothing(world: World) -> None:
    world.fetch = None


def erase(world: World) -> None:
    world.root.erase("w")


def erase_randomness(world: World) -> None:
    world.root.erase("random_state")


def remake_without_value(world: World) -> None:
    world.root.erase("w")
    world.root.var("w")


def remake(world: World) -> None:
    world.root.erase("w")
    world.root.var("w").set([3.0, 2.0, 1.0])


def shadow(world: World) -> None:
    world.scope.var("w").set([3.0, 2.0, 1.0])


def shadow_without_value(world: World) -> None:
    world.scope.var("w")


def reveal(world: World) -> None:
    shadow(world)
    world.run(br.Executor())
    world.scope.erase("w")


def other_scope(world: World) -> None:
    world.scope = world.scopes["other"] = initialized(seed=4)


def root_scope(world: World) -> None:
    world.scope = world.root


def setting(name: str, value: Any) -> Callable[[World], None]:
    """A variable of the root is given another value."""
    return lambda world: world.root.var(name).set(value)


def putting(name: str, value: Callable[[], Any]) -> Callable[[World], None]:
    """A variable of the root is handed an array as it is."""
    return lambda world: world.root.var(name).put(value())


def feeding(**given: Any) -> Callable[[World], None]:
    """Other feeds; `None` leaves one out."""

    def change(world: World) -> None:
        fed = {**world.feed, **given}
        world.feed = {name: value for name, value in fed.items() if value is not None}

    return change


def asking(**options: Any) -> Callable[[World], None]:
    """Other options of the run."""
    return lambda world: world.options.update(options)


CHANGES: dict[str, Callable[[World], None]] = {
    "nothing": lambda world: None,
    "the program": change_program,
    "the program, by a state without a value": change_program_without_value,
    "fetches": fetch_more,
    "no fetches": fetch_nothing,
    "a variable is erased": erase,
    "a variable is made anew": remake,
    "a variable has no value": remake_without_value,
    "a variable is shadowed": shadow,
    "a variable is shadowed by none": shadow_without_value,
    "a shadow goes": reveal,
    "another scope": other_scope,
    "the scope's parent": root_scope,
    "a closed scope": lambda world: world.scope.close(),
    "a closed parent": lambda world: world.root.close(),
    "a value": setting("w", [5.0, 6.0, 7.0]),
    "a value of another shape": setting("w", np.ones(4, np.float32)),
    "a value of another dtype": setting("w", np.ones(3)),
    "an array of JAX": putting("w", lambda: jnp.ones(3)),
    "an array of JAX, weakly typed": putting("w", lambda: jnp.broadcast_to(2.0, (3,))),
    "the random state": setting("random_state", np.array([9, 9], np.uint32)),
    "no random state": erase_randomness,
    "a seed": asking(seed=11),
    "NaNs are looked for": asking(check_nan=True),
    "a time": asking(timeout_s=60.0),
    "a feed of f64": feeding(x=FED.astype(np.float64)),
    "a feed of ints": feeding(x=np.ones((2, 3), np.int32)),
    "a feed of numbers": feeding(x=[[1, 2, 3], [4, 5, 6]]),
    "a feed of the other byte order": feeding(x=FED.astype(">f4")),
    "a feed of JAX": feeding(x=jnp.asarray(FED)),
    "a feed of JAX, weakly typed": feeding(x=jnp.broadcast_to(2.0, (2, 3))),
    "a feed in the order of Fortran": feeding(x=np.asfortranarray(FED)),
    "a feed that is masked": feeding(x=np.ma.masked_array(FED)),
    "a larger batch": feeding(x=np.ones((3, 3), np.float32), at=np.array([0, 1, 2])),
    "a wrong shape": feeding(x=np.ones((2, 4), np.float32)),
    "batches that differ": feeding(at=np.array([0, 1, 2])),
    "a missing feed": feeding(x=None),
    "an unknown feed": feeding(z=FED),
    "a feed that only tells a size": feeding(y=np.ones(2, np.float32)),
    "one that tells another": feeding(y=np.ones(3, np.float32)),
    "an index out of range": feeding(at=np.array([0, 4])),
    "a NaN": feeding(x=FED * np.float32("nan")),
}


REFUSED = [
    "a feed of ints",
    "a feed that is masked",
    "a wrong shape",
    "batches that differ",
    "a missing feed",
    "an unknown feed",
    "one that tells another",
    "an index out of range",
]


def outcome(mode: str, change: Callable[[World], None], again: bool) -> Any:
    """Return the results of two runs after the change, and all values after each."""
    world, exe = World(), br.Executor(mode)
    for _ in range(2):
        world.run(exe)
    change(world)
    if not again:
        exe = br.Executor(mode)
    return [(world.run(exe), world.values()) for _ in range(2)]


@pytest.mark.parametrize("what", CHANGES)
def test_a_run_sees_what_changed_since_the_run_before(mode: str, what: str) -> None:
    assert str(outcome(mode, CHANGES[what], True)) == str(outcome(mode, CHANGES[what], False))


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_run_changes_nothing_for_the_runs_after_it(mode: str, what: str) -> None:
    world, twin = World(), World()
    exe, other, fed = br.Executor(mode), br.Executor(mode), world.feed
    assert world.run(exe) == twin.run(other)
    CHANGES[what](world)
    error, _ = world.run(exe)
    assert error.endswith("Error")
    assert world.values() == twin.values()
    world.feed = fed
    assert world.run(exe) == twin.run(other)
    assert world.values() == twin.values()
