"""Failure codes of the checks of one block, recorded together.

Only the first failure of a block is recorded: later ones may follow from it. A chain of
selections says that, one for each check:

    site_k = where(running, code_k, 0);  running = running & (code_k == 0)

XLA then repeats the chain in front of `k` for each site: compiling takes quadratic time. Above
a few checks the codes become one vector instead, and the position of the first failure selects:

    codes = stack([code_1, ..., code_n]);  first = argmax(codes != 0)
    sites = where(running & (iota == first), codes, 0)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from braces.define.core.check_code import max_code
from braces.lazy import jnp, lax

MOST_CHAINED = 8
"""The number of checks up to which a chain compiles and runs faster than a vector."""


class State(NamedTuple):
    """The status of a run while it is computed: loops and branches carry it.

    Attributes:
        running: False as soon as something failed that loops must not go on after.
        sites: For each operator that may fail, 0 or its failure code; for one where a history
            begins, how many values it had at most; for one that tells a size, see `Site.count`.
    """

    running: Any
    sites: dict[str, Any]


class CheckCodes:
    """The failure codes of a block that are not in its state yet, in program order."""

    def __init__(self) -> None:
        self._codes: dict[str, Any] = {}

    def add(self, site: str, wrong: Any) -> None:
        """Add the result of the check of an operator."""
        self._codes[site] = jnp.asarray(max_code(wrong), "int32")

    def record(self, state: State) -> State:
        """Return the state with the first failure among the codes, and forget them."""
        codes, self._codes = self._codes, {}
        if len(codes) <= MOST_CHAINED:
            for site, code in codes.items():
                state = fail(state, site, code)
            return state
        stacked = jnp.stack(list(codes.values()))
        failed = stacked != 0
        first = jnp.arange(len(codes), dtype="int32") == lax.argmax(failed, 0, np.int32)
        recorded = jnp.where(first & state.running, stacked, 0)
        sites = {
            site: jnp.maximum(state.sites[site], recorded[at]) for at, site in enumerate(codes)
        }
        return State(state.running & ~jnp.any(failed), state.sites | sites)


def note(state: State, site: str, wrong: Any) -> State:
    """The state with the failure code of a site; loops stop where it is not 0."""
    code = max_code(wrong)
    sites = state.sites | {site: jnp.maximum(state.sites[site], code)}
    return State(state.running & (code == 0), sites)


def fail(state: State, site: str, wrong: Any) -> State:
    """The state with a failure, unless something failed before."""
    return note(state, site, jnp.where(state.running, wrong, jnp.zeros_like(wrong)))
