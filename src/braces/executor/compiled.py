"""A run, compiled: one executable for each plan, set of types, and capacities of histories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braces.errors import BracesError, RunError
from braces.executor.attributes import Sizes
from braces.executor.compile import FIRST_CAPACITY, Lowerer, Site, find_sites, start_state
from braces.executor.interpret import place
from braces.executor.plan import Plan
from braces.executor.states import check_states, commit, read_states
from braces.lazy import jax, jnp
from braces.scope import Scope

MOST_REPEATS = 64


@dataclass
class Executable:
    """Compiled code and how to call it.

    Attributes:
        donated: The persistable variables that the run replaces.
        kept: Those that it only reads.
        updated: The names of the values that it returns for them, in order.
        sites: What may fail, in the order of the status vector.
    """

    call: Any
    donated: list[str]
    kept: list[str]
    updated: list[str]
    sites: list[Site]
    wide: bool


@dataclass
class Known:
    """What only runs tell: the room that histories need, and sizes that values decide."""

    capacities: dict[str, int] = field(default_factory=dict[str, int])
    sizes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Cache:
    """Executables, and what runs have told so far, by plan."""

    executables: dict[Any, Executable] = field(default_factory=dict[Any, Executable])
    known: dict[Any, Known] = field(default_factory=dict[Any, "Known"])


def run(
    cache: Cache,
    plan: Plan,
    scope: Scope,
    feeds: Mapping[str, Any],
    sizes: Sizes,
    device: Any,
) -> list[Any]:
    """Run a plan and commit its updates; repeated with more room where a history overflowed."""
    for _ in range(MOST_REPEATS):
        executable, arguments = _prepare(cache, plan, scope, feeds, sizes, device)
        fetches, updates, status = _call(executable, arguments, device)
        if not executable.sites or not (found := np.asarray(status)).any():
            commit(updates, scope)
            return [_to_numpy(name, value, plan) for name, value in zip(plan.fetches, fetches, strict=True)]
        # Donated buffers are gone; the run returned the values that they had before it.
        commit({name: updates[name] for name in executable.donated}, scope)
        _grow(cache, plan, executable.sites, found)
    raise RunError("The histories of the run's loops kept outgrowing their buffers.")


def _to_numpy(name: str, value: Any, plan: Plan) -> Any:
    """An array of its own where the value may share memory with a persistable variable."""
    shared = name in plan.states or name in plan.updates.values()
    return np.array(value) if shared else np.asarray(value)


def _prepare(
    cache: Cache,
    plan: Plan,
    scope: Scope,
    feeds: Mapping[str, Any],
    sizes: Sizes,
    device: Any,
) -> tuple[Executable, tuple[Any, ...]]:
    states = read_states(plan.states, scope)
    signature = tuple((name, a.shape, a.dtype) for name, a in (*feeds.items(), *states.items()))
    known = cache.known.setdefault(id(plan), Known())
    key = (id(plan), signature, tuple(known.capacities.items()), tuple(known.sizes.items()))
    executable = cache.executables.get(key)
    if executable is None:
        check_states(plan.states, states, sizes)
        executable = cache.executables[key] = _compile(plan, states, feeds, sizes | known.sizes, known.capacities, device)
    donated = tuple(states[name] for name in executable.donated)
    kept = tuple(states[name] for name in executable.kept)
    return executable, (donated, kept, tuple(feeds[name] for name in plan.feeds))


def _compile(
    plan: Plan,
    states: Mapping[str, Any],
    feeds: Mapping[str, Any],
    sizes: Sizes,
    capacities: Mapping[str, int],
    device: Any,
) -> Executable:
    sites = find_sites(plan.body)
    donated = [name for name in plan.updates if name in plan.states]
    kept = [name for name in plan.states if name not in plan.updates]
    updated = [*donated, *(name for name in plan.updates if name not in plan.states)]
    lowerer = Lowerer(dict(sizes), sites, dict(capacities))
    names = (*donated, *kept, *plan.feeds)

    def function(donated_values: Any, kept_values: Any, fed: Any) -> Any:
        env = dict(zip(names, (*donated_values, *kept_values, *fed), strict=True))
        before = dict(env)
        state = lowerer.run(plan.body, env, "", start_state(sites))
        after = {name: env[plan.updates[name]] for name in updated}
        if not sites:
            return [env[n] for n in plan.fetches], after, None
        status = jnp.stack([state.sites[path] for path in sites])
        good = jnp.all(status == 0)
        committed = {
            name: jnp.where(good, value, before[name]) if name in before else value
            for name, value in after.items()
        }
        return [env[n] for n in plan.fetches], committed, status

    arrays = [*states.values(), *feeds.values()]
    wide = any(np.dtype(a.dtype).itemsize == 8 and np.dtype(a.dtype).kind in "iuf" for a in arrays)
    jitted = jax.jit(function, donate_argnums=0, device=device) if device is not None else jax.jit(function, donate_argnums=0)
    return Executable(jitted, donated, kept, updated, list(sites.values()), wide)


def _call(executable: Executable, arguments: tuple[Any, ...], device: Any) -> Any:
    del device
    with jax.enable_x64(True):
        return executable.call(*arguments)


def _grow(cache: Cache, plan: Plan, sites: list[Site], status: np.ndarray[Any, Any]) -> None:
    """Make room for histories that overflowed and take over sizes that were told.

    Raises:
        RunError: Something else failed.
    """
    known = cache.known[id(plan)]
    grown = False
    for site, found in zip(sites, status.tolist(), strict=True):
        if found and site.history:
            room = max(known.capacities.get(site.history, FIRST_CAPACITY), 1 << (found - 1).bit_length())
            known.capacities[site.history], grown = room, True
        elif found and site.length:
            known.sizes[site.length], grown = found - 1, True
    if not grown:
        raise _failure(next(s for s, found in zip(sites, status, strict=True) if found))


def _failure(site: Site) -> BracesError:
    path, _, _ = site.path.rpartition("/")
    error, message, fix = site.definition.failure(site.op.attrs)
    return error(message, at=place(path, site.op), fix=fix)
