"""Plan cache of an executor: plans are built once and evicted by last use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from numpy import ndarray

from braces.builder.builder import Builder
from braces.builder.checked_calls import located_call
from braces.builder.var import Var
from braces.errors import FeedError, short_text
from braces.lower.checks.value_checks import ValueChecks
from braces.lower.sharding.sharding import Placement
from braces.lower.xla.concrete_attributes import Sizes
from braces.lower.xla.narrow_dtypes import to_carrier
from braces.passes.core.pipeline import Pass
from braces.runtime.backend.interface import Backend, Runnable
from braces.runtime.backend.plan_by_shape import PlanByShape
from braces.runtime.compile.executable import Executable
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.devices.device import Devices
from braces.runtime.devices.device_placement import check_layout
from braces.runtime.inputs.feeds import check_names, convert_feed, describe_array
from braces.runtime.patched_programs import PatchedPrograms
from braces.runtime.plan.evaluation_form import Evaluations
from braces.runtime.plan.plan import NO_SIZES, Plan
from braces.scope import Scope


class _Latest(NamedTuple):
    """The last run, which a training loop repeats."""

    program: Callable[[], Builder | None]
    key: tuple[tuple[int, int], tuple[str, ...], bool, tuple[Pass, ...]]
    plan: Callable[[], Runnable | None]


NOTHING_RUN = _Latest(lambda: None, ((0, 0), (), False, ()), lambda: None)


class PlanCache:
    """Cache of plans, by program and fetches.

    Args:
        backend: The backend of the executor.
        devices: The devices.
        passes: The passes for each program; as attribute, may be replaced.
        limit: The maximum number of executables, and of plans.

    Attributes:
        passes: The same; others may be set.
        limit: The same.
        counters: The counters of runs and compilations.
        by_program: The version of each program that was run, and its plans by fetches.
    """

    def __init__(
        self, backend: Backend, devices: Devices, passes: tuple[Pass, ...], limit: int
    ) -> None:
        self.limit = limit
        self._backend = backend
        self._devices = devices
        self.passes = passes
        self._recent = ExecutableCache(limit)
        self.counters = self._recent.counters
        self._latest = NOTHING_RUN
        self.by_program: WeakKeyDictionary[Builder, Any] = WeakKeyDictionary()
        self._notices: WeakKeyDictionary[Builder, CompileReporter] = WeakKeyDictionary()
        self.evaluations = Evaluations()
        self._fitting = PlanByShape()
        self._patched = PatchedPrograms()

    def clear(self) -> None:
        """Release all plans."""
        self.by_program.clear()
        self._latest = NOTHING_RUN
        self._patched = PatchedPrograms()

    def ready(
        self,
        program: Builder,
        scope: Scope,
        feed: Any,
        names: tuple[str, ...],
        checks: ValueChecks,
        patch: Any = None,
    ) -> tuple[Runnable, dict[str, Any]]:
        """Return the plan for the inputs of a run, and its converted feeds.

        Raises:
            BracesError: If there is no plan, or the feeds do not match it.
        """
        if program.origin is not None:
            program = self.evaluations.fitted(program, feed)
        if patch is not None:
            program, feed = self.patched(program, feed, patch, names, "run")
        key = program.version, names, checks, self.passes
        known, latest, plan = self._latest
        first = plan() if known() is program and latest == key else None
        if first is None:  # a plan that runs repeatedly stays the latest used
            if (placement := self._devices.placement) is not None:
                check_layout(placement.layout, program.definition.main, scope)
            with located_call():
                first = self._planned(program, key)
        feed = {} if feed is None else feed
        feeds = convert_feeds(first.plan, feed, self._devices.placement)
        if not first.plan.answers:
            return first, feeds
        return self._fitted(first, program, scope, feed, feeds, key)

    def count_run(self, code: Executable) -> None:
        """Count a run that calls code without `ready`."""
        code.used = self._recent.now()
        self.counters.runs += 1

    def patched(
        self, program: Builder, feed: Any, patch: Any, names: tuple[str, ...], call: str
    ) -> tuple[Builder, Any]:
        """Return the patched program, and the feed with the data of patches, if there are any.

        Raises:
            BracesError: If a patch is invalid, or its place was differentiated.
        """
        if patch is None:
            return program, feed
        with located_call(call):
            return self._patched.find(program, feed, patch, names)

    def _fitted(
        self,
        first: Runnable,
        program: Builder,
        scope: Scope,
        feed: Any,
        feeds: dict[str, Any],
        key: Any,
    ) -> tuple[Runnable, dict[str, Any]]:
        """Return the plan for the sizes of a run, if passes query sizes."""
        original = program.original
        plans, key = self.by_program[original][1], (original.version, *key[1:])
        runnable = self._fitting.find(
            first,
            feeds,
            scope,
            lambda: [plan for of, plan in plans.items() if of[0] == key],
            lambda sizes: self._make(program, plans, key, sizes),
        )
        if runnable is first:
            return first, feeds
        runnable.used = self._recent.now()
        return runnable, convert_feeds(runnable.plan, feed, self._devices.placement)

    def _planned(self, program: Builder, key: Any) -> Runnable:
        """Return the plan of a program; build it on a cache miss."""
        original = program.original  # copies share the plans of the original
        key, latest_key = (original.version, *key[1:]), key
        known, plans = self.by_program.get(original, (None, {}))
        if known != original.version:
            plans = dict[Any, Runnable]()
            self.by_program[original] = (original.version, plans)
        runnable = plans.get(key) or self._make(program, plans, key)
        runnable.used = self._recent.now()
        self._latest = _Latest(ref(program), latest_key, ref(runnable))
        return runnable

    def _make(
        self, program: Builder, plans: Any, key: Any, sizes: Sizes | None = None
    ) -> Runnable:
        """Build a plan of a program, optionally for known sizes."""
        _, names, checks, passes = key
        backend = self._backend
        backend.prepare_process()
        target = self._devices.target
        plan = Plan.of(
            program.definition, names, passes, target=target, sizes=sizes or NO_SIZES
        )
        self._bound()
        notice = self._notices.get(program.original) or self._recent.notice()
        self._notices[program.original] = notice
        runnable = backend(plan, self._devices, checks, self._recent, notice)
        plans[key if sizes is None else (key, tuple(plan.answers.items()))] = runnable
        return runnable

    def _bound(self) -> None:
        """Evict the least recently used plan if the cache is full."""
        entries = [
            (plan.used, key, plans)
            for _, plans in list(self.by_program.values())
            for key, plan in list(plans.items())
        ]
        if len(entries) >= self._recent.limit:
            _, key, plans = min(entries, key=lambda entry: entry[0])
            plans.pop(key, None)


def _not_a_dict(plan: Plan, feed: Any) -> FeedError:
    fix, got = "Pass feed={'x': array, …}.", short_text(feed)
    if hasattr(feed, "dtype") and hasattr(feed, "shape"):
        got = f"array {describe_array(feed)}"
        fix = f"Pass feed={{{', '.join(f'{name!r}: array' for name in plan.feeds) or '…'}}}."
    if isinstance(feed, tuple | list) and plan.feeds:
        names = ", ".join(map(repr, plan.feeds))
        got = f"{type(feed).__name__} of length {len(feed)}"  # pyright: ignore[reportUnknownArgumentType]
        fix = f"Pass feed=dict(zip([{names}], batch)), or use br.batches({{'x': array}})."
    return FeedError(f"expected a dict for feed, got {got}.", fix=fix)


def convert_feeds(plan: Plan, feed: Any, placement: Placement | None = None) -> dict[str, Any]:
    """Return the feeds as arrays of the declared dtypes, on the devices of a mesh.

    Raises:
        FeedError: If the feed is not a dict, or contains unknown data or data of a different
            type.
    """
    if type(feed) is not dict and not isinstance(feed, Mapping):
        raise _not_a_dict(plan, feed)
    feeds: dict[str, Any] = {}  # `dict[str, Any]()` takes ten times as long
    dtypes, more = plan.dtypes, None
    if feed.keys() != dtypes.keys():
        feed = {k.name if isinstance(k, Var) else k: v for k, v in feed.items()}
        check_names(feed, plan.feeds, plan.data, lambda: plan.fetched_feeds)
        # not needed, but they determine sizes of named dimensions
        more = {
            n: convert_feed(plan.data[n], v) for n, v in feed.items() if n not in plan.feeds
        }
    for name, dtype in dtypes.items():
        value = feed[name]
        if type(value) is not ndarray or value.dtype is not dtype:
            value = convert_feed(plan.data[name], value)
        feeds[name] = value
    if plan.narrow:
        feeds = {
            n: to_carrier(x, dtypes[n]) if n in plan.narrow else x for n, x in feeds.items()
        }
    feeds = {**feeds, **more} if more else feeds
    if placement is None:
        return feeds
    return {name: placement.fed(plan.data[name], value) for name, value in feeds.items()}
