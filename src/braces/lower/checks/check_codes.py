"""Failure codes of the checks of one block, recorded together.

Only the first failure of a block is recorded, because later ones may follow from it. A chain of
selections does that, one for each check:

    site_k = where(running, code_k, 0);  running = running & (code_k == 0)

XLA then duplicates the chain in front of `k` for each check point, so compile time is
quadratic. Above a few checks the codes become one vector instead, and the position of the first
failure selects:

    codes = stack([code_1, ..., code_n]);  first = argmax(codes != 0)
    sites = where(running & (iota == first), codes, 0)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from braces.define.core.check_code import worst_code
from braces.lazy import jnp, lax

MAX_CHAINED_CHECKS = 8
"""The number of checks up to which a chain compiles and runs faster than a vector."""

VALUE_CHECK = "@value"
"""The check point that records whether an operator produced a value that fails a check."""
STOP_CHECK = "@stop"
"""The check point that records whether a loop was interrupted."""


class RunStatus(NamedTuple):
    """Status of a run during computation: loops and branches carry it.

    Attributes:
        running: False after a failure at which loops must stop.
        sites: By check point: 0 or the failure code of an operator; the largest length of a
            list history that begins there; the code of a data-dependent size, see
            `CheckPoint.count`.
    """

    running: Any
    sites: dict[str, Any]


def start_state(sites: Iterable[str]) -> RunStatus:
    """Return the initial status: nothing has failed."""
    zero = jnp.asarray(0, "int32")
    return RunStatus(jnp.asarray(True), dict.fromkeys(sites, zero))


class CheckCodes:
    """Failure codes of a block that are not in its state yet, in program order."""

    def __init__(self) -> None:
        self._codes: dict[str, Any] = {}

    def add(self, site: str, wrong: Any) -> None:
        """Add the result of the check of an operator."""
        self._codes[site] = jnp.asarray(worst_code(wrong), "int32")

    def record(self, state: RunStatus) -> RunStatus:
        """Return the state with the first failure among the codes, and clear them."""
        codes, self._codes = self._codes, {}
        if len(codes) <= MAX_CHAINED_CHECKS:
            for site, code in codes.items():
                state = record_failure(state, site, code)
            return state
        stacked = jnp.stack(list(codes.values()))
        failed = stacked != 0
        first = jnp.arange(len(codes), dtype="int32") == lax.argmax(failed, 0, np.int32)
        recorded = jnp.where(first & state.running, stacked, 0)
        sites = {
            site: jnp.maximum(state.sites[site], recorded[at]) for at, site in enumerate(codes)
        }
        return RunStatus(state.running & ~jnp.any(failed), state.sites | sites)


def record_code(state: RunStatus, site: str, wrong: Any) -> RunStatus:
    """Return the state with the failure code of a check point; loops stop if it is not 0."""
    code = worst_code(wrong)
    sites = state.sites | {site: jnp.maximum(state.sites[site], code)}
    return RunStatus(state.running & (code == 0), sites)


def record_failure(state: RunStatus, site: str, wrong: Any) -> RunStatus:
    """Return the state with a failure, unless an earlier check failed."""
    return record_code(state, site, jnp.where(state.running, wrong, jnp.zeros_like(wrong)))
