"""Executor: runs programs in scopes, compiled or interpreted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from braces.builder.builder import Builder
from braces.hints.objects import Hinted
from braces.keywords import hint_methods
from braces.layout import Layout
from braces.lower.checks.value_checks import value_checks
from braces.lower.interpret.interpreter import Listener
from braces.lower.interpret.kernels import forget_kernels
from braces.lower.interrupt.deadline import TOKEN_FACTORY, CancellationToken
from braces.passes.core.pipeline import Pass, as_passes
from braces.runtime.backends import PASSES, find_backend, refuse_profile
from braces.runtime.compile.executable_cache import MAX_EXECUTABLES, check_limit
from braces.runtime.devices.device import Devices, forked, refuse_forked
from braces.runtime.devices.device_placement import validate_layout
from braces.runtime.inputs.feeds import check_order, checked_program
from braces.runtime.inputs.fetches import default_fetches, read_fetch
from braces.runtime.inputs.initialization import add_seed, startup_scope, store_values
from braces.runtime.inputs.padding import Padding
from braces.runtime.inputs.persistables import (
    NO_REPLACEMENTS,
    Run,
    check_seed,
    seed_random_states,
)
from braces.runtime.monitoring.stats import WithStats
from braces.runtime.plan.plan import declared_data
from braces.runtime.plan_cache import PlanCache, convert_feeds
from braces.runtime.prefetch import Feeds, check_prefetch_count, prepare_batch
from braces.runtime.profiling.measure import ProfileTask, profile_runs
from braces.runtime.profiling.profile import Profile
from braces.scope import Scope

_SETTINGS = ("backend", "threads", "frozen")


@hint_methods
class Executor(WithStats, Hinted):
    """Runs programs.

    The first compiled run configures JAX to compute on a CPU in the calling thread
    (`jax_cpu_enable_async_dispatch` off), for the whole process, unless it has computed with
    JAX before. Interpretation does not change the setting.

    Compiled code is stored for later processes in a persistent cache of up to 1 GiB, in the
    user's cache folder: `~/.cache/braces/xla` on Linux. The environment variable
    `BRACES_CACHE_DIR` names another folder, or disables the cache if it is empty; `braces
    cache` shows and clears it. Anyone who can write to the folder can run code in the process,
    so a folder that is not the user's, or that others can write to, is not used. If JAX has a
    cache folder (`JAX_COMPILATION_CACHE_DIR`), or its cache is disabled
    (`JAX_ENABLE_COMPILATION_CACHE=0`), that holds for Braces too. The settings of JAX are
    changed only while a program compiles, or is first interpreted, and then restored.

    Args:
        mode: `compile` lowers a program to one function, compiled by XLA. `interpret` runs
            operator by operator. Its tracing JIT dispatches hot sequences of small operators
            together, with the same bits, unless a listener, kept scope or profile observes
            each. Both modes give the same results.
        device: `"cpu:0"`, `"gpu:0"`, …; `None` is the default device of JAX.
        layout: The sharding of values on several devices, which then run each program together;
            see `br.Layout`. `init` creates values in their place, and the first run moves the
            values of a scope there. Interpretation uses one device. In several processes, each
            feeds the rows of its own devices.
        max_executables: The capacity of the LRU cache of compiled code, over all programs: a
            program is compiled for each set of shapes that it is fed. The logger `"braces"`
            reports (INFO) each compilation, with its time and the change since the last one,
            and once (WARNING) that the limit is reached. `stats` has the same as values.
        passes: The passes that transform each program before it runs, in order; see
            `br.passes`. The default is `br.passes.default` for compilation. For interpretation
            it is `dce` alone, so that errors, listeners and kept scopes show loops as they were
            written. `br.passes.default.without("fission")` leaves one out. With `()`, too, dead
            code is eliminated. The results of user-defined passes are verified.
        backend: `"onnxruntime"` runs the ONNX form of programs in ONNX Runtime on a CPU, for
            predictions of convolutional networks; by default XLA computes. `init` computes by
            XLA. Checks of values inside a program are left out, as by `br.to_onnx`.
        threads: The number of threads of `backend="onnxruntime"`; one per core by default.
        frozen: Whether variables that a program only reads are constants of compiled code, for
            faster predictions. If their values change, the code compiles again; from the third
            change on, they are arguments.

    Raises:
        DeviceError: If the device does not exist, or the mesh of the layout has more devices.
        LayoutError: If `layout` is not a layout, or a device is given too.
        ProgramError: If the mode or the backend is unknown, a limit is below 1, or `passes` are
            not passes.
    """

    def __init__(
        self,
        mode: str = "compile",
        device: str | None = None,
        *,
        layout: Layout | None = None,
        max_executables: int = MAX_EXECUTABLES,
        passes: Sequence[Pass] | None = None,
        backend: str | None = None,
        threads: int | None = None,
        frozen: bool = False,
    ) -> None:
        self._backend = find_backend(mode, backend, threads, layout, frozen)
        self.mode, self.backend, self.threads, self.frozen = mode, backend, threads, frozen
        self.device_name = device
        self.layout = validate_layout(layout, device)
        self._devices = self._backend.open(device) if layout is None else Devices.of(layout)
        self.step_scopes: dict[str, Scope] = {}
        wanted = as_passes(PASSES[backend or mode] if passes is None else passes)
        limit = check_limit(max_executables)
        self._plans = PlanCache(self._backend, self._devices, wanted, limit)
        self._counters = self._plans.counters

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes that transform each program before it runs; may be replaced."""
        return self._plans.passes

    @passes.setter
    def passes(self, wanted: Sequence[Pass]) -> None:
        self._plans.passes = as_passes(wanted)

    def __repr__(self) -> str:
        return f"<Executor ({self.backend or self.mode}): {self.stats.summary}>"

    def init(
        self,
        program: Builder,
        scope: Scope | None = None,
        seed: int = 0,
        *,
        missing_only: bool = False,
    ) -> Scope:
        """Initialize every persistable variable of a program: run its startup program.

        Args:
            program: The program whose variables are initialized.
            scope: The scope of the variables; a new one by default. Its parents do not change:
                a new variable hides theirs.
            seed: Each value is drawn from the seed and the variable's name.
            missing_only: Initialize only variables without a value, in the scope and in its
                parents.

        Returns:
            The scope.

        Raises:
            ProgramError: If the seed is not a 32-bit integer.

        Warns:
            BracesWarning: With `missing_only`, if a hyperparameter, such as a learning rate,
                keeps the value of another program in this scope.
        """
        checked_program(program, "exe.init(prog, scope)")
        startup, number = program.startup, check_seed(seed)
        scope = Scope() if scope is None else scope
        check_order(program, scope, "exe.init(prog, scope, seed=0)")
        drawn = startup_scope(startup, scope)
        runner = self if self.backend is None else Executor(device=self.device_name)
        runner.run(startup, drawn, feed=add_seed(startup, None, number), fetch=())
        store_values(program, drawn, scope, missing_only=missing_only)
        return scope

    def run(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        patch: Mapping[Any, Any] | None = None,
        seed: int | None = None,
        listeners: Sequence[Listener] = (),
        keep_scopes: bool = False,
        check_nan: bool = False,
        check_inf: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """Run a program: compute its fetches and all of its updates.

        One run is one transaction: the updates are committed together at the end, and a run
        that fails leaves the scope unchanged. `run` is synchronous. For concurrency, submit it
        to a thread, as `pool.submit(exe.run, prog, scope, feed)` with a
        `concurrent.futures.ThreadPoolExecutor(1)`, which runs in the order of the calls and
        raises errors where the result is requested. Ctrl-C ends runs of the main thread alone.

        Args:
            program: The program to run.
            scope: The scope of persistable variables.
            feed: Name of a data variable, or the variable, to its value.
            fetch: A variable or name, a sequence of them, or a dict with them as values. By
                default `prog.fetches`: the outputs of an imported model, the loss of
                `minimize`. `()` fetches nothing. The path of a variable of an inner block, as
                `"loop_0/body/h"`, fetches its values in all iterations; see `prog.probe`.
            patch: Paths of inner values to their replacements in this run: arrays, functions of
                the value, or `br.patch(value, trips=3)` for some iterations.
            seed: The seed of random operators: the run draws the numbers of the first run after
                `init` with this seed; the random state of the scope is neither read nor
                changed. By default the random state advances in each run. A startup program
                draws initial values from it, as `init` does; the default is 0 there.
            listeners: Interpretation only: called after each operator with the path of its
                block, the operator, and the values that it bound.
            keep_scopes: Interpretation only: keep the scope of every iteration and branch; they
                are in `step_scopes` by path, as `"loop_0/body[2]"`.
            check_nan: Fail at the first operator that produces a NaN; the error has the
                operator, its source line, block and iteration, and the value that a gradient
                belongs to.
            check_inf: Fail at the first operator that produces an infinity from finite inputs;
                a constant, as the `-inf` of a mask, is none.
            timeout_s: The time limit of the run, in seconds; compilation and waiting for other
                threads count. Interpretation checks it between operators; compiled code on a
                CPU checks it before the computation and every few milliseconds of a loop. A
                single operator is never interrupted, and a run that is finished by then
                succeeds. The first run with a limit recompiles a program with loops. `braces
                run --timeout` ends a process instead, in any state.

        Returns:
            NumPy arrays: one for a single fetch, a list for a sequence, a dict for a dict.

        Raises:
            FeedError: If a feed is missing, unknown, or of a different type.
            UnknownNameError: If a fetch does not exist.
            UninitializedError: If a persistable variable has no value yet.
            NaNError, InfinityError: If an operator fails `check_nan` or `check_inf`.
            ProgramError: If the seed is not a 32-bit integer, `timeout_s` is not a time, or the
                run computes the derivative of a patched value.
            RunError: If the run failed, or exceeds `timeout_s`.
            DeviceError: If `timeout_s` is set for a compiled run on a device other than a CPU.
        """
        if forked:
            refuse_forked()
        watch = (
            TOKEN_FACTORY.watch() if timeout_s is None else CancellationToken.lasting(timeout_s)
        )
        if not isinstance(program, Builder) or not isinstance(scope, Scope):  # pyright: ignore[reportUnnecessaryIsInstance]
            check_order(program, scope)  # raises; inline, the check takes no call
        if program.is_startup:
            feed = add_seed(program, feed, seed)
        names, shape_up = read_fetch(fetch, program)
        checks = value_checks(check_nan, check_inf) if check_nan or check_inf else ()
        runnable, feeds = self._plans.ready(program, scope, feed, names, checks, patch)
        states = runnable.plan.random_states
        seeds = NO_REPLACEMENTS if seed is None else seed_random_states(states, seed)
        kept = dict[str, Scope]() if keep_scopes else None
        results = runnable.run(Run(scope, feeds, watch, seeds, listeners, kept))
        self.step_scopes = kept or {}
        self._counters.runs += 1
        return shape_up(results)

    def evaluate(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        patch: Mapping[Any, Any] | None = None,
        seed: int | None = None,
        listeners: Sequence[Listener] = (),
        keep_scopes: bool = False,
        check_nan: bool = False,
        check_inf: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """Run a program in inference mode, without training.

        Dropout passes its input through and normalization uses running statistics, as in
        `prog.for_test()`. Only the updates of metrics and of the random state are committed. A
        metric is updated if all of its data are fed, so labels are needed only for fetches and
        metrics that depend on them. The inference form of a program is built and compiled once
        and then cached.

        Args:
            program: The program, as it is trained.
            scope: The scope of persistable variables.
            feed: As for `run`.
            fetch: As for `run`.
            patch: As for `run`.
            seed: As for `run`.
            listeners: As for `run`.
            keep_scopes: As for `run`.
            check_nan: As for `run`.
            check_inf: As for `run`.
            timeout_s: As for `run`.

        Returns:
            As `run`.

        Raises:
            BracesError: As for `run`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.dropout(br.data("x", ["n"]), 0.5)
            >>> exe = br.Executor()
            >>> exe.evaluate(prog, exe.init(prog, br.Scope()), {"x": [1.0, 2.0]}, fetch=y)
            array([1., 2.], dtype=float32)
        """
        check_order(program, scope)
        test = self._plans.evaluations.find(program, feed)
        fetch = default_fetches(program) if fetch is None else fetch
        return self.run(
            test, scope, feed, fetch, patch=patch, seed=seed, listeners=listeners,
            keep_scopes=keep_scopes, check_nan=check_nan, check_inf=check_inf,
            timeout_s=timeout_s,
        )  # fmt: skip

    def compile(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        patch: Mapping[Any, Any] | None = None,
        check_nan: bool = False,
        check_inf: bool = False,
    ) -> None:
        """Compile a run ahead of time, so that the run itself only computes.

        Nothing is computed, and no value changes. The code is specialized for the shapes of the
        feeds and of the scope values, and for these fetches, as in a run. A run with
        data-dependent sizes or list lengths may still compile once more, and so does the first
        one with `timeout_s` of a program with loops. Interpretation compiles single operators
        as they run; errors that a run raises before it computes are raised in both modes.

        Args:
            program: The program that will run; `program.startup` for the one of `init`.
            scope: The scope of persistable variables, which have values.
            feed: An example, as for `run`: only its dtypes and shapes matter.
            fetch: As for `run`.
            patch: Examples, as for `run`: runs with other values and iterations use this code.
            check_nan: Whether the run will check for NaNs.
            check_inf: Whether the run will check for infinities.

        Raises:
            BracesError: As for `run`.

        Example:
            >>> import numpy as np
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["batch", 3])
            ...     y = br.softmax(x)
            >>> exe, scope = br.Executor(), br.Scope()
            >>> exe.compile(prog, scope, feed={"x": np.zeros((8, 3), "float32")}, fetch=y)
        """
        refuse_forked()
        check_order(program, scope)
        names, _ = read_fetch(fetch, program)
        checks = value_checks(check_nan, check_inf)
        runnable, feeds = self._plans.ready(program, scope, feed, names, checks, patch)
        runnable.compile(Run(scope, feeds, CancellationToken(), NO_REPLACEMENTS))

    def feeds(
        self,
        program: Builder,
        batches: Iterable[Mapping[str, Any]],
        *,
        ahead: int = 2,
        pad: Mapping[str, int] | None = None,
    ) -> Feeds:
        """Prefetch feeds: convert and transfer batches during the runs before them.

        A thread reads the batches, converts each to the declared dtypes, and moves it to the
        device; with a spare core this takes no time of the runs. Each feed is a copy, so an
        iterator may reuse its arrays.

        Args:
            program: The program that takes the feeds.
            batches: An iterable of `feed` arguments of `run`: a list, a generator, a loader of
                another library. It is read in a separate thread.
            ahead: The maximum number of ready feeds; one more is in progress.
            pad: Named dimensions to multiples: `pad={"t": 16}` adds zeros at the end of axes of
                size `t`, up to a multiple of 16, so that few sizes are compiled. Results do not
                depend on padding if the program excludes it, by `lengths=` or by a mask that is
                fed (padded with false). A sum over all of `t` counts padding.

        Returns:
            An iterator of feeds, whose `close`, or the end of a `with` block, stops the thread.
            An exception of `batches` is raised in place of its feed.

        Raises:
            FeedError: If `batches` is not iterable. From the iterator: if a batch is not a
                dict, contains unknown data or data of a different type, or has no data with a
                padded dimension.
            ProgramError: If `ahead`, or a multiple of `pad`, is not a positive integer.
            UnknownNameError: If no data has a dimension named in `pad`.

        Example:
            >>> import numpy as np
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.sum(br.data("x", ["batch"]))
            >>> exe, scope = br.Executor(), br.Scope()
            >>> batches = ({"x": np.ones(n)} for n in (2, 3))  # float64 becomes float32
            >>> [float(exe.run(prog, scope, feed=x, fetch=y)) for x in exe.feeds(prog, batches)]
            [2.0, 3.0]
        """
        refuse_forked()
        self._backend.prepare_process()
        data = declared_data(checked_program(program, "exe.feeds(prog, batches)").main)
        padding = Padding.of(data, pad)
        ready = partial(prepare_batch, data, self._devices, padding)
        return Feeds(batches, ready, check_prefetch_count(ahead))

    def profile(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        patch: Mapping[Any, Any] | None = None,
        runs: int = 10,
        warmup: int = 1,
        seed: int | None = None,
        check_nan: bool = False,
        check_inf: bool = False,
        timeout_s: float | None = None,
    ) -> Profile:
        """Profile some runs: measure the time of each operator of the program.

        Each run is one as by `run`, warm-up runs too: a transaction, whose updates are
        committed. So a profiled training step trains; `prof.fetches` has the results of the
        last run. Errors are those of `run`; updates of earlier runs stay.

        In compile mode, code is compiled for the profile alone, and measured by JAX's profiler,
        of which a process has one. XLA fuses operators: such a row is called `add_3 + tanh_1
        (+4)` and has the time of the whole fusion, which cannot be divided among its operators.
        In interpret mode each operator has its own exact time. In both modes the rows are for
        the program after the passes of this executor; `source` is the user's line of each.

        Args:
            program: The program to run.
            scope: The scope of persistable variables.
            feed: As for `run`; its conversion in each run is measured, too.
            fetch: As for `run`.
            patch: As for `run`.
            runs: The number of measured runs; from 1.
            warmup: The number of runs before these; the first may compile operators.
            seed: As for `run`.
            check_nan: As for `run`.
            check_inf: As for `run`.
            timeout_s: As for `run`, for each run.

        Returns:
            A value that prints as a table, has `rows(by)`, and is saved for Perfetto.

        Raises:
            ProgramError: If `runs` or `warmup` is invalid, or the executor has a backend.
            RunError: If a run failed, or JAX's profiler is in use.
            BracesError: As for `run`.

        Example:
            >>> import numpy as np
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["batch", 3])
            ...     y = br.tanh(x, name="squash")
            >>> exe, feed = br.Executor(mode="interpret"), {"x": np.zeros((8, 3), "float32")}
            >>> prof = exe.profile(prog, br.Scope(), feed, fetch=y, runs=2)
            >>> [(row.name, row.type, row.calls) for row in prof.rows()]
            [('squash', 'tanh', 2)]
        """
        refuse_forked()
        check_order(program, scope)
        refuse_profile(self.backend)
        names, shape_up = read_fetch(fetch, program)
        program, feed = self._plans.patched(program, feed, patch, names, "profile")
        task = ProfileTask(
            mode=self.mode,
            backend=self._backend,
            devices=self._devices,
            definition=program.definition,
            names=names,
            passes=self.passes,
            scope=scope,
            convert=lambda plan: convert_feeds(plan, feed or {}, self._devices.placement),
            seed=seed,
            checks=value_checks(check_nan, check_inf),
            timeout_s=timeout_s,
        )
        return profile_runs(task, runs, warmup, shape_up)

    def clear(self) -> None:
        """Release compiled code, and list capacities learned from runs; no value changes."""
        self._plans.clear()
        forget_kernels()

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the settings: a copy, or an unpickled executor, recompiles."""
        kept = {name: getattr(self, name) for name in ("layout", "passes", *_SETTINGS)}
        make = partial(Executor, max_executables=self._plans.limit, **kept)
        return make, (self.mode, self.device_name)
