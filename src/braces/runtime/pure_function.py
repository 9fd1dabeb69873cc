"""A program as a function of JAX, which has no effects: for `jax.jit`, `vmap`, `grad`, export.

    results, after, status = function(values, feeds)

What a run takes from a scope, the function is given; what a run commits, it gives back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.builder.source_line import user_line
from braces.define.core.jax_settings import own_settings
from braces.dtypes import TensorType
from braces.errors import ProgramError, RunError, ShapeError, UnknownNameError, suggest
from braces.ir.records import ProgramDef, VarInfo
from braces.lazy import jax, jnp
from braces.lower.interpret.interpreter import place
from braces.lower.xla.block_lowering import Lowerer, block_path, start_state
from braces.lower.xla.check_points import Site, find_sites
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.lower.xla.x64_call import call_with_x64
from braces.runtime.plan.plan import Plan

_jax: Any = jax
_np: Any = jnp


def _call(function: Callable[[Any], Any], operands: Any) -> Any:
    return _jax.jit(function)(operands)


class PureFunction:
    """A program as a function of JAX; made by `program.to_jax`.

    It is called with the values of persistable variables and with feeds, both by name, and
    gives `(results, after, status)`: what was fetched, in order; the next values of what the
    program updates, by name; and for each operator that may fail 0, or what went wrong, which
    `check` tells. Where something failed, `after` holds the values that were given.

    Attributes:
        fetches: The names of what is fetched.
        states: The persistable variables that it needs.
        feeds: The data that it needs.
        updates: The persistable variables that it gives next values for.
    """

    def __init__(self, definition: ProgramDef, fetches: Sequence[str], room: int) -> None:
        plan = Plan.of(definition, fetches, (), gradients=True)
        self.fetches = tuple(fetches)
        self.states: Mapping[str, VarInfo] = plan.states
        self.feeds: Mapping[str, VarInfo] = plan.feeds
        self.updates = tuple(plan.updates)
        self._body, self._after = plan.compiled.main, plan.compiled.updates
        self._sites = find_sites(self._body)
        self._room = room
        _check_known(plan, list(self._sites.values()), room)

    def __call__(
        self, values: Mapping[str, Any], feeds: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any], Any]:
        """Results, next values and status; see the class."""
        given = {**_named(values, self.states, "value"), **_named(feeds, self.feeds, "feed")}
        sizes = Sizes()
        for name, info in {**self.states, **self.feeds}.items():
            conflict = bind_sizes(info.type, np.shape(given[name]), sizes)
            if conflict is not None:
                raise ShapeError(
                    f"`{name}` has the shape {list(np.shape(given[name]))}: {conflict}.",
                    given=f"{name}: {info.type}",
                )
        return self.computed(given, sizes)

    def computed(
        self, given: Mapping[str, Any], sizes: Sizes
    ) -> tuple[list[Any], dict[str, Any], Any]:
        """The same, of all that it reads by name and of the sizes that this has."""
        call = _call if _jax.config.jax_enable_x64 else call_with_x64
        with own_settings(), jax.threefry_partitionable(True):
            return call(lambda given: self._run(given, sizes), self._typed(given))

    def _typed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays of the dtypes that the program has."""
        infos = {**self.states, **self.feeds}
        return {name: _np.asarray(given[name], infos[name].dtype) for name in infos}

    def _run(
        self, given: Mapping[str, Any], sizes: Sizes
    ) -> tuple[list[Any], dict[str, Any], Any]:
        rooms = {s.history: self._room for s in self._sites.values() if s.history}
        lowerer = Lowerer(sizes, self._sites, rooms, transposable=True)
        env = dict(given)
        state = lowerer.run(self._body, env, "", start_state(self._sites))
        codes = [self._code(site, state.sites[path]) for path, site in self._sites.items()]
        status = _np.stack(codes) if codes else _np.zeros(0, "int32")
        good = _np.all(status == 0)
        after = {
            name: _np.where(good, env[made], given.get(name, env[made])) if codes else env[made]
            for name, made in self._after.items()
        }
        return [env[name] for name in self._body.results], after, status

    def _code(self, site: Site, told: Any) -> Any:
        """What a site says: of a history how much room it needed, where that was not there."""
        told = _np.asarray(told, "int32")
        limit = np.int32(self._room if site.history else 0)
        return _np.where(told > limit, told, np.int32(0))

    def check(self, status: Any) -> None:
        """Raise what went wrong in a call, where something did.

        Args:
            status: What the call gave as its status.

        Raises:
            BracesError: The error of the operator that failed, as runs raise it.
        """
        for site, code in zip(self._sites.values(), np.asarray(status).tolist(), strict=True):
            if code and site.history:
                raise RunError(
                    f"The loop has more trips than there is room for: {code}.",
                    at=place(block_path(site.path, site.op), site.op),
                    fix=f"Make the function with more: to_jax(room={code}).",
                )
            if code:
                failure = site.failure(code)
                raise failure.located(place(block_path(site.path, site.op), site.op))


def _check_known(plan: Plan, sites: Sequence[Site], room: int) -> None:
    """Refuse what only a run can know."""
    if plan.learned:
        raise ProgramError(
            f"The size `{plan.learned[0]}` follows from values, which a function of JAX does "
            "not know when it is compiled.",
            at=user_line(),
            fix="Run the program with an executor, or fetch what does not need it.",
        )
    kept = next((site for site in sites if site.history), None)
    if kept is not None and not room:
        raise ProgramError(
            "The program keeps what a loop computes whose trips only a run knows.",
            at=place(block_path(kept.path, kept.op), kept.op),
            fix="Say for how many trips there shall be room: to_jax(room=1000).",
        )
    assert all(isinstance(info.type, TensorType) for info in plan.reads.values())


def _named(
    given: Mapping[str, Any], wanted: Mapping[str, VarInfo], what: str
) -> dict[str, Any]:
    """What is wanted of what is given; more may be given where it is no feed."""
    for name in wanted:
        if name not in given:
            raise UnknownNameError(
                f"The function needs a {what} for `{name}`.",
                given=", ".join(given) or "nothing",
                fix=suggest(name, given) or f"It has the type {wanted[name].type}.",
            )
    unknown = [name for name in given if name not in wanted]
    if what == "feed" and unknown:
        raise UnknownNameError(
            f"The function reads no feed `{unknown[0]}`.", fix=suggest(unknown[0], wanted)
        )
    return {name: given[name] for name in wanted}
