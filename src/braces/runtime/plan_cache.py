"""The plans of the programs that an executor runs: made once, kept while they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from numpy import ndarray

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.errors import FeedError
from braces.lower.sharding.sharding import Placement
from braces.lower.xla.concrete_attributes import Sizes
from braces.lower.xla.narrow_dtypes import taken_in
from braces.passes.core.pipeline import Pass
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.backend.interface import Backend, Runnable
from braces.runtime.backend.interpreted import InterpretedPlan
from braces.runtime.backend.plan_by_shape import Fitting
from braces.runtime.compile.executable_cache import Notice, Recent
from braces.runtime.devices.device import Devices
from braces.runtime.devices.device_placement import check_layout
from braces.runtime.inputs.feeds import check_names, convert
from braces.runtime.plan.evaluation_form import Evaluations
from braces.runtime.plan.plan import NO_SIZES, Plan
from braces.scope import Scope

BACKENDS: dict[str, Backend] = {"compile": CompiledPlan, "interpret": InterpretedPlan}
"""How plans are run, by the mode of an executor."""


class _Latest(NamedTuple):
    """What ran last, which a training loop runs again."""

    program: Callable[[], Builder | None]
    key: tuple[tuple[int, int], tuple[str, ...], bool, tuple[Pass, ...]]
    plan: Callable[[], Runnable | None]


NOTHING_RUN = _Latest(lambda: None, ((0, 0), (), False, ()), lambda: None)


class Plans:
    """Plans, by program and by what is fetched.

    Args:
        mode: How they are run.
        devices: Where.
        passes: What is made of a program first.
        limit: How much compiled code is kept, and how many plans.

    Attributes:
        passes: The same; others may be set.
        limit: The same.
        counters: What is counted of runs and compilations.
        by_program: The version of each program that was run, and its plans by what is fetched.
    """

    def __init__(
        self, mode: str, devices: Devices, passes: tuple[Pass, ...], limit: int
    ) -> None:
        self.limit = limit
        self._backend = BACKENDS[mode]
        self._devices = devices
        self.passes = passes
        self._recent = Recent(limit)
        self.counters = self._recent.counters
        self._latest = NOTHING_RUN
        self.by_program: WeakKeyDictionary[Builder, Any] = WeakKeyDictionary()
        self._notices: WeakKeyDictionary[Builder, Notice] = WeakKeyDictionary()
        self.evaluations = Evaluations()
        self._fitting = Fitting()

    def clear(self) -> None:
        """Let go of all plans."""
        self.by_program.clear()
        self._latest = NOTHING_RUN

    def ready(
        self, program: Builder, scope: Scope, feed: Any, names: tuple[str, ...], check_nan: bool
    ) -> tuple[Runnable, dict[str, Any]]:
        """The plan for what a run is given, and its feeds.

        Raises:
            BracesError: There is no plan, or the feeds do not fit it.
        """
        if program.origin is not None:
            program = self.evaluations.fitted(program, feed)
        key = program.version, names, check_nan, self.passes
        known, latest, plan = self._latest
        first = plan() if known() is program and latest == key else None
        if first is None:  # while the same plan runs again and again, no other is used later
            if (placement := self._devices.placement) is not None:
                check_layout(placement.layout, program.definition.main, scope)
            first = self._planned(program, key)
        feed = {} if feed is None else feed
        feeds = converted(first.plan, feed, self._devices.placement)
        if not first.plan.answers:
            return first, feeds
        return self._fitted(first, program, scope, feed, feeds, key)

    def _fitted(
        self,
        first: Runnable,
        program: Builder,
        scope: Scope,
        feed: Any,
        feeds: dict[str, Any],
        key: Any,
    ) -> tuple[Runnable, dict[str, Any]]:
        """The plan for the sizes of a run, of a program whose passes asked of sizes."""
        original = program.original
        plans, key = self.by_program[original][1], (original.version, *key[1:])
        found = self._fitting.find(
            first,
            feeds,
            scope,
            lambda: [plan for of, plan in plans.items() if of[0] == key],
            lambda sizes: self._make(program, plans, key, sizes),
        )
        if found is first:
            return first, feeds
        found.used = self._recent.now()
        return found, converted(found.plan, feed, self._devices.placement)

    def _planned(self, program: Builder, key: Any) -> Runnable:
        """The plan of a program as it is, made where there is none yet."""
        original = program.original  # whose plans are those of all its copies
        key, whole = (original.version, *key[1:]), key
        known, plans = self.by_program.get(original, (None, {}))
        if known != original.version:
            plans = dict[Any, Runnable]()
            self.by_program[original] = (original.version, plans)
        found = plans.get(key) or self._make(program, plans, key)
        found.used = self._recent.now()
        self._latest = _Latest(ref(program), whole, ref(found))
        return found

    def _make(
        self, program: Builder, plans: Any, key: Any, sizes: Sizes | None = None
    ) -> Runnable:
        """A plan of a program that there is not yet, for some sizes where they are known."""
        _, names, check_nan, passes = key
        backend = self._backend
        backend.prepare_process()
        target = self._devices.target
        plan = Plan.of(
            program.definition, names, passes, target=target, sizes=sizes or NO_SIZES
        )
        self._bound()
        notice = self._notices.get(program.original) or self._recent.notice()
        self._notices[program.original] = notice
        made = backend(plan, self._devices, check_nan, self._recent, notice)
        plans[key if sizes is None else (key, tuple(plan.answers.items()))] = made
        return made

    def _bound(self) -> None:
        """Let the plan go that was used longest ago, where one more would be too many."""
        kept = [
            (plan.used, key, plans)
            for _, plans in list(self.by_program.values())
            for key, plan in list(plans.items())
        ]
        if len(kept) >= self._recent.limit:
            _, key, plans = min(kept, key=lambda one: one[0])
            plans.pop(key, None)


def converted(plan: Plan, feed: Any, placement: Placement | None = None) -> dict[str, Any]:
    """What a run is fed, as arrays of the declared dtypes, on the devices of a mesh.

    Raises:
        FeedError: It is no dict, or has data that is unknown or of another type.
    """
    if type(feed) is not dict and not isinstance(feed, Mapping):
        raise FeedError(f"{feed!r:.80} is no dict.", fix="Pass feed={'x': array, …}.")
    feeds: dict[str, Any] = {}  # `dict[str, Any]()` takes ten times as long
    dtypes, more = plan.dtypes, None
    if feed.keys() != dtypes.keys():
        feed = {k.name if isinstance(k, Var) else k: v for k, v in feed.items()}
        check_names(feed, plan.feeds, plan.data, lambda: plan.fetched_feeds)
        # not needed, but they tell the sizes of named dimensions
        more = {n: convert(plan.data[n], v) for n, v in feed.items() if n not in plan.feeds}
    for name, dtype in dtypes.items():
        value = feed[name]
        if type(value) is not ndarray or value.dtype is not dtype:
            value = convert(plan.data[name], value)
        feeds[name] = value
    if plan.narrow:
        feeds = {n: taken_in(x, dtypes[n]) if n in plan.narrow else x for n, x in feeds.items()}
    feeds = {**feeds, **more} if more else feeds
    if placement is None:
        return feeds
    return {name: placement.fed(plan.data[name], value) for name, value in feeds.items()}
