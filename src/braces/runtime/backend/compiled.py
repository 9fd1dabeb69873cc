"""Compiled runs: one executable for each plan, set of types and set of assumed sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from operator import attrgetter
from time import perf_counter
from typing import Any

import numpy as np

from braces.define.core.jax_settings import is_jit_disabled, traceable
from braces.define.core.kernel_call import first_line, is_out_of_memory
from braces.errors import BracesError, DeviceError, RunError
from braces.ir.records import ProgramDef
from braces.lazy import jax
from braces.lower.cache.persistent_cache import count_cache_hits
from braces.lower.checks.check_codes import STOP_CHECK, VALUE_CHECK, start_state
from braces.lower.checks.out_of_memory import (
    LARGE_BYTES,
    needed_bytes,
    out_of_memory,
    probe_memory,
)
from braces.lower.checks.value_checks import ValueChecks
from braces.lower.interpret.interpreter import describe_location
from braces.lower.interrupt.ctrl_c import DeferredCtrlC
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.interrupt.run_handle import current_handle
from braces.lower.xla.block_lowering import Lowerer, block_path
from braces.lower.xla.check_points import (
    CheckPoint,
    UnfitError,
    find_check_points,
    list_histories,
)
from braces.lower.xla.commit import Commits, find_early_updates
from braces.lower.xla.concrete_attributes import Sizes
from braces.lower.xla.fused_initializers import BatchedInitializers
from braces.lower.xla.interruptible_loops import may_be_interruptible
from braces.lower.xla.narrow_dtypes import from_carriers
from braces.passes.rows.pad_row_count import EXACT, pad_for_run
from braces.runtime.backend import interpreted
from braces.runtime.backend.call_errors import explain_call_error, locate_error
from braces.runtime.backend.interface import observers_error
from braces.runtime.compile.compile_code import CompileTarget, compile_function
from braces.runtime.compile.compile_variant import CompileVariant, find_padded_axes
from braces.runtime.compile.executable import (
    DonatedError,
    Executable,
    call_first,
    call_on_device,
)
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.compile.frozen_states import FrozenStates
from braces.runtime.compile.list_capacity import CapacityEstimates
from braces.runtime.devices.device import (
    Devices,
    compute_in_calling_thread,
    detect_forks,
    open_device,
)
from braces.runtime.devices.device_placement import (
    ShardedPlan,
    lost_process_error,
    refuse_sharded_values,
)
from braces.runtime.inputs.persistables import Run, keep_on_device
from braces.runtime.monitoring.stats import Compilation
from braces.runtime.plan.plan import Plan

MAX_REPEATS, WIDE_BYTES = 64, 8
_type, _description = attrgetter("shape", "dtype"), attrgetter("aval")


class CompiledPlan:
    """A plan on a device, compiled once for each set of types.

    Attributes:
        plan: The plan.
        devices: The devices that it runs on.
        target: The target of compilation.
        checks: The values that fail the run; the interpreter then finds their source.
        recent: The LRU cache of executables, shared by several plans.
        notice: Reports compilations.
        frozen: The states that are constants.
        used: The time of the last use, by the clock of the executor.
    """

    def __init__(
        self,
        plan: Plan,
        devices: Devices,
        checks: ValueChecks,
        recent: ExecutableCache,
        notice: CompileReporter,
        frozen: bool = False,
    ) -> None:
        self.prepare_process()
        self.plan = plan
        self.devices, self.device = devices, devices.one
        self.placed = ShardedPlan.of(devices.placement, plan)
        self.target = devices.target
        self.checks = checks
        self.executables: dict[Any, Executable] = {}
        self.latest: tuple[Any, Any, Executable] | None = None
        compiled_program = plan.compiled
        same = compiled_program.main is plan.body
        sites = plan.sites if same else find_check_points(compiled_program.main)
        self.exact = CompileVariant(compiled_program.main, compiled_program.updates, sites)
        self.known = CapacityEstimates(list_histories(sites.values()), plan.learned)
        self.recent = recent
        self.recent.own(self)
        self.notice = notice
        self.causes: dict[str, str] = {}
        self.used = 0
        names = (*plan.states, *plan.updates, *plan.updates.values())
        self.shared = [i for i, name in enumerate(plan.fetches) if name in names]
        self.states, self.updates = plan.states, tuple(plan.updates)
        self.narrow = plan.narrow
        self.frozen = FrozenStates(plan, frozen and self.placed is None)
        self.takes_turns = bool(plan.updates or self.shared)
        self.fetched, self.fed = len(plan.fetches), len(plan.feeds)
        self.told = self.fetched + len(self.updates)
        self.asks = self.target.asks and may_be_interruptible(plan.body)
        self.steady = not (self.asks or self.known.rooms or self.known.rows)

    @staticmethod
    def open(name: str | None) -> Devices:
        """Open the device of this name; a CPU computes in the calling thread."""
        if name is not None:
            compute_in_calling_thread()
        return Devices(open_device(name))

    @staticmethod
    def prepare_process() -> None:
        """Detect forks of this process, and let a CPU compute in the calling thread."""
        detect_forks()
        compute_in_calling_thread()

    def run(self, run: Run) -> list[Any]:
        """Run and commit; runs that update or return states are serialized.

        Raises:
            ProgramError: If the run has listeners or kept scopes.
            DeviceError: If the run has a time limit, and the device cannot be interrupted.
        """
        if run.listeners or run.kept is not None:
            raise observers_error()
        if run.watch.deadline is not None and not self.target.asks:
            raise DeviceError(
                "timeout_s is supported for compiled runs on one CPU only.",
                fix='Omit timeout_s, or use br.Executor(mode="interpret").',
            )
        wanted, narrow = self.plan.wanted, self.narrow
        try:
            if not self.takes_turns:
                try:
                    results = self._run(run)
                    return from_carriers(wanted, results, narrow) if narrow else results
                except DonatedError:
                    pass  # an updating run donated an input of this one
            turn = run.scope.turn
            with turn if run.watch.deadline is None else run.watch.turn(turn):
                results = self._run(run)
        except jax.errors.JaxRuntimeError as error:  # raised during the computation
            if self.placed is None or jax.process_count() == 1:
                raise
            raise lost_process_error(error) from error
        return from_carriers(wanted, results, narrow) if narrow else results

    def compile(self, run: Run) -> None:
        """Compile the code that a run with these types needs first, if there is none yet."""
        with run.scope.turn:
            run.read(self.states, self.narrow, self.placed)
            self._executable(self.rounded, run)

    def _run(self, run: Run) -> list[Any]:
        """Run and commit; repeat if a list overflowed or an assumed size was wrong.

        A failed run with padding is also repeated with exact sizes, because padding may be the
        cause.
        """
        form, watch = self.rounded, run.watch
        for _ in range(MAX_REPEATS):
            if self.takes_turns or not self.states:
                run.read(self.states, self.narrow, self.placed)
            else:  # a consistent snapshot, between two commits
                with run.scope.turn:
                    run.read(self.states, self.narrow, self.placed)
            executable = self._executable(form, run)
            if watch.limited:
                watch.check()
            if executable.needed_bytes >= LARGE_BYTES:
                probe_memory(executable.needed_bytes, self.devices.first)
            fetches, status, good = self._transact(executable, run)
            if good:
                results = list(map(np.asarray, fetches))
                for at in self.shared:  # the user keeps it: no buffer that a later run donates
                    results[at] = np.array(fetches[at])
                return self._recorded(form, executable, status, results) if status else results
            if watch.error is not None:
                raise locate_error(watch.error, *executable.loops[watch.loop])
            failures = executable.failures(status)
            if not failures and self._absorb_status(form, executable, status):
                self.recent.counters.repeats += 1
                continue
            if form.rounded:
                self.recent.counters.repeats += 1
                form = self._made_exact(executable.counts(status))
                continue
            raise self._failure(run, status, failures)
        raise RunError("the saved values of loops exceeded their capacities repeatedly.")

    def _failure(
        self, run: Run, status: list[int], failures: list[tuple[CheckPoint, int]]
    ) -> BracesError:
        """Return the error of a failed run."""
        if self.checks and status[-1]:
            interpreted.find_source(self.plan, run, self.devices, self.checks)
        site, code = failures[0]
        failure = site.failure(code, run.sizes(self.plan.data, self.states))
        return failure.located(describe_location(block_path(site.path, site.op), site.op))

    @cached_property
    def rounded(self) -> CompileVariant:
        """The block for rounded sizes, if it has data-dependent sizes.

        Padding is checked, too, so sizes are exact with checks of values.
        """
        if not self.known.rows or self.checks:
            self.causes |= dict.fromkeys(self.known.rows, "the checks of values")
            return self.exact
        exact = ProgramDef(self.exact.body, self.exact.updates)
        padded, dims, notes = pad_for_run(exact, self.causes)
        self.notice.tell_exact(note for note in notes if note.what.startswith(EXACT))
        if not dims:
            return self.exact
        body = padded.main
        cuts = tuple(find_padded_axes(body.vars[name].type, dims) for name in body.results)
        return CompileVariant(body, padded.updates, find_check_points(body), dims, cuts)

    def _recorded(
        self,
        form: CompileVariant,
        executable: Executable,
        status: list[int],
        results: list[Any],
    ) -> list[Any]:
        """Return results without padding; record the sizes that the run reported.

        If the run needed exact sizes, the next runs start with them.
        """
        self.rounded = form
        counts = executable.counts(status) if executable.sizes else {}
        self.known.record(executable.needed(status), counts, form.rounded)
        return form.remove_padding(results, counts) if form.rounded else results

    def _absorb_status(
        self, form: CompileVariant, executable: Executable, status: list[int]
    ) -> bool:
        """Correct the assumptions that a run disproved; return whether there were any."""
        failed = [site for site, _ in executable.failed(status)]
        counts, needed = executable.counts(status), executable.needed(status)
        lengths = {site.length for site in failed if site.length}
        overflowed = {site.history for site in failed if site.history}
        for name in lengths:
            guessed = self.known.rows if name in form.rounded else self.known.guesses
            guessed[name].correct(counts[name])
        for name in overflowed:
            self.known.rooms[name].grow(needed[name])
        return bool(lengths or overflowed)

    def _made_exact(self, counts: Mapping[str, int]) -> CompileVariant:
        """Return the block for exact sizes, which are now known."""
        for name, count in counts.items():
            self.causes.setdefault(name, "an operator that failed in padding")
            self.known.guesses[name].correct(count)
        return self.exact

    def _transact(self, executable: Executable, run: Run) -> tuple[list[Any], list[int], bool]:
        """Call and commit atomically, also under Ctrl-C: donated buffers are lost.

        A failed run returns the old values.
        """
        if not self.updates and not executable.loops:
            return self._compute(executable, run)
        with DeferredCtrlC() as run.watch.held:
            return self._compute(executable, run)

    def _compute(self, executable: Executable, run: Run) -> tuple[list[Any], list[int], bool]:
        try:
            arguments = [*run.states[: executable.taken], *run.feeds.values()]
            if self.asks or len(run.feeds) > self.fed:
                arguments = self._arguments(run, executable.taken)
            outputs = executable.call(*arguments, *executable.more)
        except (ValueError, RuntimeError) as error:
            if is_jit_disabled():  # JAX refuses the call in advance
                with traceable():
                    return self._compute(executable, run)
            explain_call_error(error, run, self.states, self.placed)
            raise
        first, end = self.fetched, self.told
        # With interruptible loops, wait for the status even if empty: then `watch` is set.
        status: list[int] = np.asarray(outputs[end]).tolist() if len(outputs) > end else []
        good = run.watch.error is None and (not status or executable.holds(status))
        if good and not run.given:
            if self.updates:
                values = outputs[first:end]
                if self.narrow:
                    values = from_carriers(self.updates, values, self.narrow)
                run.scope.put_all(self.updates, values)
        else:  # a failed run returns the values that it donated
            names = set(self.updates if good else self.plan.replaced).difference(run.given)
            pairs = zip(self.updates, outputs[first:end], strict=True)
            values_by_name = {name: value for name, value in pairs if name in names}
            values = from_carriers(
                tuple(values_by_name), list(values_by_name.values()), self.narrow
            )
            run.scope.put_all(values_by_name, values)
        return outputs[:first], status, good

    def _arguments(self, run: Run, taken: int) -> list[Any]:
        """Return the arguments: replaced values, other values that are taken, and data."""
        arguments = [*run.states[:taken], *run.feeds.values()]
        if len(run.feeds) > self.fed:  # some only determine sizes
            del arguments[taken + self.fed :]
        if self.asks:
            arguments.append(self._run_number(run.watch))
        return arguments

    def _run_number(self, token: CancellationToken) -> Any:
        """Return the number by which the loops of this run find the cancellation token."""
        handle = current_handle()
        handle.begin(token)
        return handle.array

    def _executable(self, form: CompileVariant, run: Run) -> Executable:
        """Return the code for the inputs of a run, often that of the last run."""
        latest = self.latest
        now = latest and self._likeness(form, run, latest[2].taken)
        if latest is None or now is None or latest[0] != now:
            if self.placed is not None:
                self.placed.compare(run.feeds, self.checks)
            if self.frozen.active:  # constants are found by the arrays that stay in the scope
                keep_on_device(self.states, self.plan.updates, run)
                if self.frozen.find_changes(run.states):
                    for key in list(self.executables):
                        self.forget(key)
            key, executable = self._compiled_code(form, run)
            keep_on_device(self.states, self.plan.updates, run)
            now = self._likeness(form, run, executable.taken)
            latest = self.latest = now, key, executable
        executable = latest[2]
        executable.used = self.recent.now()
        return executable

    def _likeness(self, form: CompileVariant, run: Run, taken: int) -> list[Any] | None:
        """Return a fast cache key, equal if a run needs the same code; or `None`.

        Results of one executable have identical descriptions (avals). NumPy arrays have none,
        nor have missing values; those are transferred to JAX, or refused.
        """
        try:
            key: list[Any] = list(map(_description, run.states[:taken]))
        except AttributeError:
            return None
        key += map(id, run.states[taken:])
        key += map(_type, run.feeds.values())
        if not self.steady or len(run.feeds) > self.fed:
            key.append((*run.feeds, *self._assumed(form, run)))
        return key

    def _assumed(self, form: CompileVariant, run: Run) -> tuple[Any, ...]:
        """Return the assumptions of code besides the types of its inputs."""
        timed = self.asks and run.watch.deadline is not None
        return form.rounded, self.known.key(form.rounded), timed

    def _compiled_code(self, form: CompileVariant, run: Run) -> tuple[Any, Executable]:
        """Return the code for the inputs of a run and its key; compile on a cache miss."""
        states = run.named(self.states)
        values = {**states, **run.feeds}
        run.constants = self.frozen.constants(run.states)
        key = (*run.feeds, *map(_type, values.values()), *self._assumed(form, run))
        key += (*map(id, run.constants),)
        executable = self.executables.get(key)
        if executable is None:
            sizes = run.sizes(self.plan.data, self.states)
            self.recent.make_room()
            executable = self.executables[key] = self._counted(form, run, sizes)
        return key, executable

    def _counted(self, form: CompileVariant, run: Run, sizes: Sizes) -> Executable:
        """Compile, measure the time, and report it."""
        begun, reads = perf_counter(), count_cache_hits()
        try:
            executable = self._compile(form, run, sizes)
        except jax.errors.JaxRuntimeError as error:  # accelerators try kernels as they compile
            if is_out_of_memory(error):
                raise out_of_memory(first_line(error)) from None
            raise
        seconds, read = perf_counter() - begun, count_cache_hits() > reads
        states = dict(zip(self.states, run.states, strict=True))
        timed = self.asks and run.watch.deadline is not None
        facts = form.facts(self.known, self.plan.wanted, timed, self.causes)
        change = self.notice.change(run.feeds, states, facts | self.frozen.facts())
        change = "; ".join(filter(None, (change, executable.about)))
        compilation = Compilation(self.notice.program, change, seconds, read)
        self.recent.counters.add(compilation)
        self.notice.tell(compilation)
        return executable

    def forget(self, key: Any) -> None:
        """Evict an executable."""
        self.executables.pop(key, None)
        if self.latest is not None and self.latest[1] == key:
            self.latest = None

    def _compile(self, form: CompileVariant, run: Run, sizes: Sizes) -> Executable:
        """Compile for these sizes; kernels that reject them become failures."""
        while True:
            try:
                return self._lowered(form, run, sizes)
            except UnfitError as error:
                form = replace(form, sites=form.sites | error.sites)

    def _lowered(self, form: CompileVariant, run: Run, sizes: Sizes) -> Executable:
        plan, sites, making = self.plan, form.sites, run.making
        if self.placed is None:
            refuse_sharded_values(self.states, run.states)
        rooms, assumed_sizes = self.known.capacities(), self.known.sizes(form.rounded)
        lowerer = Lowerer(
            sizes | assumed_sizes,
            sites,
            rooms,
            self.checks,
            self.target,
            infos={**plan.definition.main.vars, **form.body.vars},
            timed=run.watch.deadline is not None,
            rounded=frozenset(form.rounded),
            scope=making.scopes(form.body),
            placement=self.devices.placement,
            unfit={} if assumed_sizes else None,
        )
        returned_names = {*form.body.results, *form.updates.values()}
        body = self.placed.placement.named(form.body) if self.placed else form.body
        if self.placed is None:  # otherwise each value is drawn on its own device
            lowerer.draws = BatchedInitializers.of(form.body, returned_names, self.target.drawn)
        flags = [*sites, VALUE_CHECK] if self.checks else list(sites)
        limits = tuple(form.limit(site, rooms, assumed_sizes) for site in sites.values())
        limits = (*limits, 0)[: len(flags)]
        early = not self.checks and (flags or self.asks)
        places = find_early_updates(form.body, form.updates, flags) if early else {}

        def function(*inputs: Any) -> Any:
            inputs = lowerer.draws.begin(inputs)
            *values, lowerer.run_number = inputs if self.asks else (*inputs, None)
            lowerer.loops = []
            env = dict(zip((*plan.states, *plan.feeds), values, strict=True))
            commits = Commits((*flags, STOP_CHECK), (*limits, 0), dict(env), places)
            lowerer.commits = commits
            state = lowerer.run(body, env, "", start_state([*flags, STOP_CHECK]))
            unfit = lowerer.unfit or {}
            if any(path not in sites or not sites[path].refusal for path in unfit):
                raise UnfitError(unfit)
            after = {name: env[source] for name, source in form.updates.items()}
            fetches = [env[name] for name in form.body.results]
            if not flags and not lowerer.loops:
                return *fetches, *after.values()
            committed = commits.committed(after, state.sites)
            return *fetches, *committed, commits.status(state.sites)[: len(flags)]

        arguments = self._arguments(run, len(run.states))
        target = self._target(run, bool(flags))
        inputs = [*arguments, *lowerer.draws.starts]
        compiled = compile_function(function, inputs, form.body.ops, making, target)
        loops, code = tuple(lowerer.loops), compiled.code
        facts = tuple(sites.values()), limits, assumed_sizes, loops, needed_bytes(code)
        call = partial(call_on_device, code, self.device)
        executable = Executable(
            code, *facts, call, (*lowerer.draws.starts, *compiled.more),
            taken=target.known.start, constants=run.constants, about=compiled.about,
        )  # fmt: skip
        if self.device is None and not any(x.dtype.itemsize >= WIDE_BYTES for x in arguments):
            executable.call = partial(call_first, executable)
        return executable

    def _target(self, run: Run, flagged: bool) -> CompileTarget:
        """Return the devices and the constants of code for a run."""
        placed, count = self.placed, len(run.constants)
        return CompileTarget(
            self.device,
            placed is not None,
            len(self.plan.replaced),
            {} if placed is None else placed.options(flagged),
            range(len(run.states) - count, len(run.states)),
            self.frozen.computed,
        )
