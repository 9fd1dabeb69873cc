"""Runs, compiled: one executable for each plan, set of types, and what runs have told."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braces.errors import BracesError, RunError
from braces.executor import interpreted
from braces.executor.attributes import Sizes
from braces.executor.compile import FIRST_CAPACITY, NAN, Lowerer, Site, find_sites, start_state
from braces.executor.device import compute_in_calling_thread
from braces.executor.feeds import check_shape
from braces.executor.interpret import place
from braces.executor.plan import Plan
from braces.executor.signals import Uninterrupted
from braces.executor.states import check_states, commit, keep_on_device, read_states
from braces.lazy import jax, jnp
from braces.scope import Scope

MOST_REPEATS = 64


@dataclass(frozen=True)
class Executable:
    """Compiled code and how to call it.

    Attributes:
        call: From donated values, kept values and feeds to fetches, next values and status.
        donated: The persistable variables that the run replaces.
        kept: Those that it only reads.
        sites: What may fail, in the order of the status vector.
    """

    call: Any
    donated: tuple[str, ...]
    kept: tuple[str, ...]
    sites: tuple[Site, ...]


@dataclass
class Known:
    """What only runs tell: the room that histories need, and sizes that values decide."""

    capacities: dict[str, int] = field(default_factory=dict[str, int])
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def key(self) -> tuple[Any, ...]:
        """Something that differs where code must be compiled anew."""
        return tuple(self.capacities.items()), tuple(self.sizes.items())

    def learn(self, sites: tuple[Site, ...], status: list[int]) -> bool:
        """Take over what a run tells; whether there was anything."""
        told = False
        for site, found in zip(sites, status, strict=False):
            if found and site.history:
                had = self.capacities.get(site.history, FIRST_CAPACITY)
                self.capacities[site.history] = max(had, 1 << (found - 1).bit_length())
                told = True
            elif found and site.length:
                self.sizes[site.length], told = found - 1, True
        return told


class CompiledPlan:
    """A plan on a device, compiled once for each set of types.

    Attributes:
        plan: What is run.
        device: A device of JAX, or `None` for its default.
        check_nan: Whether a NaN fails the run; the interpreter then finds where it came from.
    """

    def __init__(self, plan: Plan, device: Any, check_nan: bool = False) -> None:
        compute_in_calling_thread()
        self.plan = plan
        self.device = device
        self.check_nan = check_nan
        self.executables: dict[Any, Executable] = {}
        self.known = Known()
        names = (*plan.states, *plan.updates, *plan.updates.values())
        self.shared = [name in names for name in plan.fetches]

    def run(self, scope: Scope, feeds: Mapping[str, Any]) -> list[Any]:
        """Run and commit; repeated where a history overflowed or a size was not as assumed."""
        for _ in range(MOST_REPEATS):
            states = read_states(self.plan.states, scope)
            executable = self._executable(states, feeds)
            keep_on_device(executable.kept, states, scope)
            fetches, found = self._transact(executable, scope, states, feeds)
            if not any(found):
                return [
                    np.array(value) if shared else np.asarray(value)
                    for value, shared in zip(fetches, self.shared, strict=True)
                ]
            if self.known.learn(executable.sites, found):
                continue
            if self.check_nan and found[-1]:
                interpreted.find_nan(self.plan, scope, feeds, self.device)
            raise _failure(executable.sites, found)
        raise RunError("The histories of the run's loops kept outgrowing their buffers.")

    def _transact(
        self,
        executable: Executable,
        scope: Scope,
        states: Mapping[str, Any],
        feeds: Mapping[str, Any],
    ) -> tuple[list[Any], list[int]]:
        """Call and commit as one, also under Ctrl-C: donated buffers are gone then.

        Where the run failed, it returned the values that they had before it.
        """
        with Uninterrupted() if self.plan.updates else nullcontext():
            fetches, updates, status = self._call(executable, states, feeds)
            found: list[int] = [] if status is None else np.asarray(status).tolist()
            names = executable.donated if any(found) else updates
            commit({name: updates[name] for name in names}, scope)
        return fetches, found

    def _call(
        self, executable: Executable, states: Mapping[str, Any], feeds: Mapping[str, Any]
    ) -> Any:
        arguments = (
            [states[name] for name in executable.donated],
            [states[name] for name in executable.kept],
            [feeds[name] for name in self.plan.feeds],
        )
        with jax.enable_x64(True):
            if self.device is not None:
                arguments = jax.device_put(arguments, self.device)
            try:
                return executable.call(*arguments)
            except ValueError:
                if not any(map(is_deleted, states.values())):
                    raise
                raise RunError(
                    "Another thread ran with this scope meanwhile; this run changed nothing.",
                    fix="Give each thread a scope of its own, or hold a lock around exe.run.",
                ) from None

    def _executable(self, states: Mapping[str, Any], feeds: Mapping[str, Any]) -> Executable:
        arrays = (*states.values(), *feeds.values())
        key = (*feeds, *((a.shape, a.dtype) for a in arrays), *self.known.key())
        found = self.executables.get(key)
        if found is None:
            sizes = Sizes()
            for name, array in feeds.items():
                check_shape(self.plan.data[name], array, sizes)
            check_states(self.plan.states, states, sizes)
            found = self.executables[key] = self._compile(states, feeds, sizes)
        return found

    def _compile(
        self, states: Mapping[str, Any], feeds: Mapping[str, Any], sizes: Sizes
    ) -> Executable:
        plan, sites = self.plan, find_sites(self.plan.body)
        donated = tuple(name for name in plan.updates if name in plan.states)
        kept = tuple(name for name in plan.states if name not in plan.updates)
        names = (*donated, *kept, *plan.feeds)
        lowerer = Lowerer(
            sizes | self.known.sizes, sites, dict(self.known.capacities), self.check_nan
        )
        flags = [*sites, NAN] if self.check_nan else list(sites)

        def function(*groups: Any) -> Any:
            env = dict(zip(names, (v for group in groups for v in group), strict=True))
            before = dict(env)
            state = lowerer.run(plan.body, env, "", start_state(flags))
            after = {name: env[source] for name, source in plan.updates.items()}
            fetches = [env[name] for name in plan.fetches]
            if not flags:
                return fetches, after, None
            status = jnp.stack([state.sites[flag] for flag in flags])
            good = jnp.all(status == 0)
            committed = {n: jnp.where(good, v, before.get(n, v)) for n, v in after.items()}
            return fetches, committed, status

        call = jax.jit(function, donate_argnums=0)
        values = {**states, **feeds}
        arguments = [[values[n] for n in group] for group in (donated, kept, plan.feeds)]
        with ExitStack() as settings:
            settings.enter_context(jax.enable_x64(True))
            settings.enter_context(jax.threefry_partitionable(True))
            if self.device is not None:
                arguments = jax.device_put(arguments, self.device)
            return Executable(
                call.lower(*arguments).compile(), donated, kept, tuple(sites.values())
            )


def is_deleted(value: Any) -> bool:
    """Whether a run took the buffer of this value over."""
    return not isinstance(value, np.ndarray) and value.is_deleted()


def _failure(sites: tuple[Site, ...], status: list[int]) -> BracesError:
    site, told = next(pair for pair in zip(sites, status, strict=False) if pair[1])
    path = site.path.rpartition("/")[0]
    return site.definition.failure(site.op.attrs, told).located(place(path, site.op))
