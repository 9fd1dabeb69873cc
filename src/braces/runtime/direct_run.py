"""Direct runs: a program that runs again and again with the same fetches, as in a server.

A run checks its arguments, finds the plan and the code, calls the code, checks its status and
commits updates. A program without updates, checks and loops needs only the call once its types
are known. A direct run makes this call alone, and leaves all other cases to `Executor.run`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from braces.builder.builder import Builder
from braces.lower.checks.out_of_memory import LARGE_BYTES
from braces.passes.core.pipeline import Pass
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.compile.executable import Executable
from braces.runtime.devices.device import forked
from braces.runtime.executor import Executor
from braces.scope import Scope

MOST_TYPES, MOST_ATTEMPTS = 64, 256
_type, _description = attrgetter("shape", "dtype"), attrgetter("aval")


class _Direct(NamedTuple):
    """Code whose call is a whole run.

    Attributes:
        version: The version of the program, and the passes.
        states: The persistable variables that it reads.
        descriptions: Their types, and the identities of those that are constants.
        code: The code; a weak reference, because the executor evicts it.
    """

    version: tuple[tuple[int, int], tuple[Pass, ...]]
    states: Collection[str]
    descriptions: list[Any]
    code: ref[Executable]


class DirectRun:
    """Runs of one program with the same fetches, with less overhead than `Executor.run`.

    Args:
        executor: The executor.
        program: The program.
        scope: The scope of persistable variables.
        fetches: The variables to fetch, by the names of the results.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["n"]) * 2.0
        >>> run = DirectRun(br.Executor(), prog, br.Scope(), {"y": y.name})
        >>> for number in (1.0, 2.0):
        ...     print(run({"x": np.array([number], "float32")}))
        {'y': array([2.], dtype=float32)}
        {'y': array([4.], dtype=float32)}
    """

    def __init__(
        self, executor: Executor, program: Builder, scope: Scope, fetches: Mapping[str, str]
    ) -> None:
        self._executor, self._program, self._scope = executor, program, scope
        self._plans = executor._plans  # pyright: ignore[reportPrivateUsage]
        self._fetches = dict(fetches)
        self._feeds: tuple[str, ...] = ()
        self._direct: dict[Any, _Direct] = {}
        self._attempts = MOST_ATTEMPTS

    def __call__(
        self, feed: Mapping[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Run the program as `Executor.run` does; the time limit ends loops only."""
        results = self._call_directly(feed)
        if results is not None:
            return results
        results = self._executor.run(
            self._program, self._scope, feed, self._fetches, timeout_s=timeout_s
        )
        if self._attempts > 0:
            self._attempts -= 1
            self._learn(feed)
        return results

    def _call_directly(self, feed: Mapping[str, Any]) -> dict[str, Any] | None:
        """Run by calling the code alone; return `None` if that is not possible."""
        try:
            arrays = [feed[name] for name in self._feeds]
            direct = self._direct[(*map(_type, arrays),)]
            code = direct.code()
            with self._scope.turn:  # a consistent snapshot, between two commits
                states = self._scope.raws(direct.states)
            if (
                code is None
                or len(feed) != len(arrays)
                or direct.descriptions != _describe(states, code.taken)
                or direct.version != self._version()
                or forked
            ):
                return None
            outputs = code.call(*states[: code.taken], *arrays, *code.more)
        except Exception:  # the run raises the error of Braces
            return None
        self._plans.count_run(code)
        return dict(zip(self._fetches, map(np.asarray, outputs), strict=True))

    def _version(self) -> tuple[tuple[int, int], tuple[Pass, ...]]:
        return self._program.version, self._executor.passes

    def _learn(self, feed: Mapping[str, Any]) -> None:
        """Remember the code of a run, if its call is a whole run."""
        names = tuple(self._fetches.values())
        plan, feeds = self._plans.ready(self._program, self._scope, feed, names, ())
        if not isinstance(plan, CompiledPlan) or (code := _whole_run(plan)) is None:
            return
        if len(feed) != plan.fed or any(feed.get(n) is not x for n, x in feeds.items()):
            return  # more data, or converted data
        if tuple(feeds) != self._feeds or len(self._direct) >= MOST_TYPES:
            self._feeds, self._direct = tuple(feeds), {}
        states = self._scope.raws(plan.states)
        same = all(map(is_, states[code.taken :], code.constants))  # not written meanwhile
        if same and all(hasattr(state, "aval") for state in states):
            types = (*map(_type, feeds.values()),)
            descriptions = _describe(states, code.taken)
            self._direct[types] = _Direct(self._version(), plan.states, descriptions, ref(code))


def _describe(states: Sequence[Any], taken: int) -> list[Any]:
    """Return the types of states that are arguments, and the identities of constants."""
    return [*map(_description, states[:taken]), *map(id, states[taken:])]


def _whole_run(plan: CompiledPlan) -> Executable | None:
    """Return the code of the last run, if its call is a whole run."""
    if plan.takes_turns or plan.asks or plan.narrow or plan.checks or plan.placed:
        return None
    if not plan.steady or plan.latest is None:
        return None
    code = plan.latest[2]
    is_small = code.needed_bytes < LARGE_BYTES
    return code if is_small and not (code.sites or code.loops) else None
