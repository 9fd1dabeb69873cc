"""Running programs in scopes, compiled or interpreted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from braces.builder.builder import Builder
from braces.errors import ProgramError
from braces.hints import Hinted
from braces.layout import Layout
from braces.lower.interpret.interpreter import Listener
from braces.lower.interpret.kernels import forget_kernels
from braces.lower.interrupt.deadline import CALLING, Watch
from braces.passes.core.pipeline import Pass, Passes, as_passes
from braces.passes.registry import DCE, DEFAULT
from braces.runtime.compile.executable_cache import MOST_EXECUTABLES, check_limit
from braces.runtime.devices.device import Devices, forked, refuse_forked
from braces.runtime.devices.device_placement import checked_layout
from braces.runtime.inputs.feeds import check_order, check_program
from braces.runtime.inputs.fetches import given_by, read_fetch
from braces.runtime.inputs.padding import Padding
from braces.runtime.inputs.persistables import NONE_GIVEN, Run, check_seed, seeded
from braces.runtime.monitoring.stats import Stats
from braces.runtime.plan.plan import declared_data
from braces.runtime.plan_cache import BACKENDS, Plans, converted
from braces.runtime.prefetch import Feeds, check_ahead, on_devices
from braces.runtime.profiling.measure import Task, check_count, profiled
from braces.runtime.profiling.profile import Profile
from braces.scope import Scope

PASSES = {"compile": DEFAULT, "interpret": Passes((DCE,))}
"""What each mode does to programs where nothing else is asked for."""


class Executor(Hinted):
    """Runs programs.

    The first compiled run tells JAX to compute on a CPU in the thread that calls
    (`jax_cpu_enable_async_dispatch` off), which holds for all of the process, unless it has
    computed with JAX before. Interpreting leaves that as it is.

    What XLA compiles is kept for later processes, up to 1 GiB, in the user's folder for such
    files: `~/.cache/braces/xla` on Linux. The environment variable `BRACES_CACHE_DIR` names
    another place, or none where it is empty; `braces cache` shows and clears the folder.
    Whoever can write to it can run code in the process, so one that is not the user's, or that
    others can write to, is not used. Where JAX is told of a folder
    (`JAX_COMPILATION_CACHE_DIR`), or to keep nothing (`JAX_ENABLE_COMPILATION_CACHE=0`), that
    holds for Braces too. The settings of JAX that this takes are made while a program compiles,
    or is interpreted for the first time, and taken back then: what the process compiles with
    JAX at other times is kept nowhere.

    Args:
        mode: `compile` lowers a program to one function and lets XLA compile it; `interpret`
            runs operator by operator: small ones that follow each other and ran often are
            dispatched together, with the same bits, where no listener, kept scope or profile
            looks at each. Both give the same results.
        device: `"cpu:0"`, `"gpu:0"`, …; the default device of JAX where it is `None`.
        layout: How values lie on several devices, which then run each program together; see
            `br.Layout`. `init` makes values where they lie, and values that a scope has are
            brought there by the first run. Interpreting, one device computes. In several
            processes, each feeds the rows of its own devices.
        max_executables: How much compiled code is kept, over all programs: a program is
            compiled for each set of shapes that it is fed, and what was used longest ago is
            let go. The logger `"braces"` says (INFO) each time that a program is compiled, how
            long it took, and what changed since the time before, and once (WARNING) that the
            limit is reached. `stats` has the same as values.
        passes: What is made of each program before it runs, one after the other; see
            `br.passes`. By default that is `br.passes.default` where it compiles. Interpreting,
            it is `dce` alone, so that errors, listeners and kept scopes show loops as they were
            written. `br.passes.default.without("fission")` leaves one out. With `()` dead code
            is eliminated all the same. The result of a pass of your own is verified.

    Raises:
        DeviceError: There is no such device, or not as many as the mesh of the layout has.
        LayoutError: `layout` is none, or a device is named beside it.
        ProgramError: There is no such mode, `max_executables` is less than 1, or `passes` are
            no passes.
    """

    def __init__(
        self,
        mode: str = "compile",
        device: str | None = None,
        *,
        layout: Layout | None = None,
        max_executables: int = MOST_EXECUTABLES,
        passes: Sequence[Pass] | None = None,
    ) -> None:
        if mode not in BACKENDS:
            raise ProgramError(
                f"There is no mode {mode!r}.", fix="Use 'compile' or 'interpret'."
            )
        self.mode = mode
        self.device_name = device
        self.layout = checked_layout(layout, device)
        self._devices = BACKENDS[mode].open(device) if layout is None else Devices.of(layout)
        self.step_scopes: dict[str, Scope] = {}
        wanted = as_passes(PASSES[mode] if passes is None else passes)
        self._plans = Plans(mode, self._devices, wanted, check_limit(max_executables))
        self._counters = self._plans.counters

    @property
    def passes(self) -> tuple[Pass, ...]:
        """What is made of each program before it runs; others may be set."""
        return self._plans.passes

    @passes.setter
    def passes(self, wanted: Sequence[Pass]) -> None:
        self._plans.passes = as_passes(wanted)

    @property
    def stats(self) -> Stats:
        """Statistics of runs and compilations up to now; `print(exe.stats)` shows a table."""
        return self._counters.stats()

    def __repr__(self) -> str:
        return f"<Executor ({self.mode}): {self.stats.summary}>"

    # ---- public ------------------------------------------------------------------------------

    def init(
        self,
        program: Builder,
        scope: Scope | None = None,
        seed: int = 0,
        *,
        missing_only: bool = False,
    ) -> Scope:
        """Set every persistable variable of a program: run its startup program.

        Args:
            program: The program whose variables are set.
            scope: Where they live; a new one where none is given.
            seed: Each value is drawn from the seed and the variable's name.
            missing_only: Leave alone what has a value already.

        Returns:
            The scope.

        Raises:
            ProgramError: The seed is not an integer of 32 bits.
        """
        startup, number = program.startup, check_seed(seed)
        scope = Scope() if scope is None else scope
        feed = {"seed": number} if "seed" in startup.infos else {}
        before = {n: v.raw for n in startup.updates if missing_only and (v := _value(scope, n))}
        self.run(startup, scope, feed=feed, fetch=())
        for name, raw in before.items():
            scope.var(name).put(raw)
        return scope

    def run(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        seed: int | None = None,
        listeners: Sequence[Listener] = (),
        keep_scopes: bool = False,
        check_nan: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """Run what the fetches and all updates of a program need.

        One run is one transaction: the updates are committed together at the end, and a run
        that fails leaves the scope as it was. It is done when this returns. To do something
        else meanwhile, hand it to a thread, as `pool.submit(exe.run, prog, scope, feed)` with
        a `concurrent.futures.ThreadPoolExecutor(1)`, which runs in the order of the calls and
        raises where the result is asked for. Ctrl-C ends runs of the main thread alone.

        Args:
            program: What to run.
            scope: Where persistable variables live.
            feed: Name of a data variable, or the variable, to its value.
            fetch: A variable or name, a sequence of them, or a dict with them as values. By
                default `prog.fetches`: the outputs of an imported model, the loss of
                `minimize`. `()` fetches nothing.
            seed: Draw what the first run after `init` with this seed draws; the random state of
                the scope is neither read nor changed. Without it, each run draws anew.
            listeners: Interpreting only: called after each operator with the path of its block,
                the operator, and the values that it bound.
            keep_scopes: Interpreting only: keep the scope of every trip and branch; they are in
                `step_scopes` by path, as `"loop_0/body[2]"`.
            check_nan: Fail at the first operator that produces a NaN, and say which one, its
                source line, its block and its trip; in both modes.
            timeout_s: How long the run may take, in seconds; compiling and waiting for other
                threads count. Interpreting, the time is looked at between operators; compiled,
                on a CPU, before the computation and every few milliseconds of a loop. One
                operator is never interrupted, and a run that is done by then counts. The first
                run with a limit compiles a program with loops anew. `braces run --timeout`
                ends a process instead, whatever it does.

        Returns:
            NumPy arrays: one for a single fetch, a list for a sequence, a dict for a dict.

        Raises:
            FeedError: A feed is missing, unknown, or of another type.
            UnknownNameError: A fetch does not exist.
            UninitializedError: A persistable variable has no value yet.
            NaNError: There is a NaN, and `check_nan` asked for it.
            ProgramError: The seed is not an integer of 32 bits, or `timeout_s` no time.
            RunError: The run failed, or took longer than `timeout_s`.
            DeviceError: `timeout_s` with a compiled run on another device than a CPU.
        """
        if forked:
            refuse_forked()
        watch = CALLING.watch() if timeout_s is None else Watch.lasting(timeout_s)
        check_order(program, scope)
        names, shape_up = read_fetch(given_by(program) if fetch is None else fetch)
        runnable, feeds = self._plans.ready(program, scope, feed, names, check_nan)
        given = NONE_GIVEN if seed is None else seeded(runnable.plan.random_states, seed)
        kept = dict[str, Scope]() if keep_scopes else None
        results = runnable.run(Run(scope, feeds, watch, given, listeners, kept))
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
        seed: int | None = None,
        listeners: Sequence[Listener] = (),
        keep_scopes: bool = False,
        check_nan: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """Run the test behaviour of a program: nothing is trained.

        Dropout passes its input through and normalization uses running statistics, as in
        `prog.for_test()`. Of the updates, only those of metrics and of the random state are
        committed. A metric counts where all of its data are fed, so labels are needed only for
        fetches and metrics that depend on them. The test form of a program is made and
        compiled once, not anew for each call.

        Args:
            program: The program, as it is trained.
            scope: Where persistable variables live.
            feed: As for `run`.
            fetch: As for `run`.
            seed: As for `run`.
            listeners: As for `run`.
            keep_scopes: As for `run`.
            check_nan: As for `run`.
            timeout_s: As for `run`.

        Returns:
            As `run`.

        Raises:
            FeedError: A feed is missing, unknown, or of another type.
            UnknownNameError: A fetch does not exist.
            UninitializedError: A persistable variable has no value yet.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x, y = br.data("x", ["n", 2]), br.data("y", ["n", 1])
            ...     out = br.fc(br.dropout(x, 0.5), 1, name="fc")
            ...     pairs = br.optimizer.sgd(0.1).minimize(br.mean((out - y) ** 2))
            >>> exe = br.Executor()
            >>> scope = exe.init(prog, br.Scope())
            >>> exe.evaluate(prog, scope, {"x": [[1.0, 2.0]]}, fetch=out).shape
            (1, 1)
        """
        check_order(program, scope)
        test = self._plans.evaluations.find(program, feed)
        fetch = given_by(program) if fetch is None else fetch
        return self.run(
            test,
            scope,
            feed,
            fetch,
            seed=seed,
            listeners=listeners,
            keep_scopes=keep_scopes,
            check_nan=check_nan,
            timeout_s=timeout_s,
        )

    def compile(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        check_nan: bool = False,
    ) -> None:
        """Make the code of a run ahead of time, so that the run itself only computes.

        Nothing is computed, and no value changes. The code is for the shapes of the feeds and
        of what the scope has, and for these fetches, as a run makes it. A run whose values
        decide sizes, or how far a history grows, may still compile once more, and so does the
        first one with `timeout_s` of a program with loops. Interpreting, single operators are
        compiled as they run; what a run would refuse before it computes is refused in both
        modes.

        Args:
            program: What will run; `program.startup` for what `init` runs.
            scope: Where persistable variables live, which have values.
            feed: An example, as for `run`: its dtypes and shapes count.
            fetch: As for `run`.
            check_nan: Whether the run will be told to check.

        Raises:
            FeedError: A feed is missing, unknown, or of another type.
            UnknownNameError: A fetch does not exist.
            UninitializedError: A persistable variable has no value yet.

        Example:
            >>> import numpy as np
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["batch", 3])
            ...     y = br.softmax(x)
            >>> exe, scope = br.Executor(), br.Scope()
            >>> exe.compile(prog, scope, feed={"x": np.zeros((8, 3), "float32")}, fetch=y)
        """
        if forked:
            refuse_forked()
        check_order(program, scope)
        names, _ = read_fetch(given_by(program) if fetch is None else fetch)
        runnable, feeds = self._plans.ready(program, scope, feed, names, check_nan)
        runnable.compile(Run(scope, feeds, Watch(), NONE_GIVEN))

    def feeds(
        self,
        program: Builder,
        batches: Iterable[Mapping[str, Any]],
        *,
        ahead: int = 2,
        pad: Mapping[str, int] | None = None,
    ) -> Feeds:
        """Make feeds ready while the runs before them compute.

        A thread reads the batches, brings each to the declared dtypes as a run would, and moves
        it to the device; where there is a core for it, that takes no time of the runs. Each
        feed is a copy: an iterator may give the same array again, with other numbers in it.

        Args:
            program: The program that is fed.
            batches: What `run` takes as `feed`, again and again: a list, a generator, a loader
                of another library. It is read in a thread of its own.
            ahead: How many feeds are ready at most; one more is being made.
            pad: Named dimensions to multiples: `pad={"t": 16}` adds zeros at the end of axes of
                size `t`, up to a multiple of 16, so that few sizes are compiled. Results are
                those without padding where the program leaves it out, by `lengths=` or by a
                mask that is fed (padded with false). A sum over all of `t` counts padding.

        Returns:
            An iterator of feeds, whose `close`, or the end of a `with` block, stops the
            thread. What `batches` raises is raised in place of the feed that it was to give.

        Raises:
            FeedError: `batches` cannot be read one by one; from the iterator: a batch is no
                dict, has data that is unknown or of another type, or has no data with a
                dimension that is padded.
            ProgramError: `ahead`, or a multiple of `pad`, is no number from 1.
            UnknownNameError: No data have a dimension that is called as `pad` says.

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
        if forked:
            refuse_forked()
        check_program(program)
        BACKENDS[self.mode].prepare_process()
        data = declared_data(program.definition.main)
        padding = Padding.of(data, pad)
        ready = partial(on_devices, data, self._devices, padding)
        return Feeds(batches, ready, check_ahead(ahead))

    def profile(
        self,
        program: Builder,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = None,
        *,
        runs: int = 10,
        warmup: int = 1,
        seed: int | None = None,
        check_nan: bool = False,
        timeout_s: float | None = None,
    ) -> Profile:
        """Run some times, and tell where the time went, by the names of the program.

        Each run is one as `run` makes it, warm-up runs too: a transaction, whose updates are
        committed. So a step of training that is profiled trains; `prof.fetches` is what the
        last run gave. What fails raises what `run` raises; what the runs before it updated
        stays.

        Compiled, the code is made anew, for the profile alone, and told by JAX's profiler, of
        which a process has one. XLA computes several operators as one where it can: such a row
        is called `add_3 + tanh_1 (+4)` and has the time of all of them, since no part of it is
        anybody's alone. Interpreted, each operator has its own time, exactly. Either way the
        rows are for the program as this executor's passes made it; `source` says which of the
        user's lines each one comes from.

        Args:
            program: What to run.
            scope: Where persistable variables live.
            feed: As for `run`; converted in each run, which is measured, too.
            fetch: As for `run`.
            runs: How many runs are measured; from 1.
            warmup: How many runs come before these. Interpreting, operators are compiled in the
                first run.
            seed: As for `run`.
            check_nan: As for `run`.
            timeout_s: As for `run`, for each run.

        Returns:
            A value that prints as a table, has `rows(by)`, and is saved for Perfetto.

        Raises:
            ProgramError: `runs` or `warmup` is no such number.
            RunError: A run failed, or JAX's profiler is in use.
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
        if forked:
            refuse_forked()
        check_order(program, scope)
        check_count("runs", runs, 1)
        check_count("warmup", warmup, 0)
        names, shape_up = read_fetch(given_by(program) if fetch is None else fetch)
        task = Task(
            mode=self.mode,
            backend=BACKENDS[self.mode],
            devices=self._devices,
            definition=program.definition,
            names=names,
            passes=self.passes,
            scope=scope,
            convert=lambda plan: converted(
                plan, {} if feed is None else feed, self._devices.placement
            ),
            seed=seed,
            check_nan=check_nan,
            timeout_s=timeout_s,
        )
        return profiled(task, runs, warmup, shape_up)

    def clear(self) -> None:
        """Let go of all compiled code, and of what runs told about the length of loops.

        Values are in scopes and stay. The next run of each program compiles it again.
        """
        self._plans.clear()
        forget_kernels()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the same settings, and compiles anew; so has one from another process."""
        settings = self.mode, self.device_name, self.layout, self._plans.limit, self.passes
        return _again, settings


def _again(
    mode: str,
    device: str | None,
    layout: Layout | None,
    max_executables: int,
    passes: tuple[Pass, ...],
) -> Executor:
    """An executor with these settings."""
    return Executor(mode, device, layout=layout, max_executables=max_executables, passes=passes)


def _value(scope: Scope, name: str) -> Any:
    variable = scope.find_var(name)
    return variable if variable is not None and variable.initialized else None
