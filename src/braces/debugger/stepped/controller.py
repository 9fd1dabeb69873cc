"""Runs in a thread that stop at breakpoints and after steps."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, final

from braces.debugger.recorded.measures import as_array, measure_any
from braces.debugger.recorded.recording import BlockRun, Recording
from braces.debugger.recorded.sites import Site, Sites, VariableKey
from braces.debugger.stepped.breakpoints import Breakpoints
from braces.debugger.stepped.conditions import ObservedValue
from braces.errors import BracesError, RunError
from braces.ir.records import Op
from braces.lower.interpret.interpreter import BlockEntry, BlockListener
from braces.lower.interrupt.deadline import cancelled_by, join_threads

PAUSED, RUNNING, FINISHED, FAILED, ENDED = "paused", "running", "finished", "failed", "ended"
STEP, OVER, OUT, CONTINUE, RUN_TO = "step", "over", "out", "continue", "run_to"
COMMANDS = (STEP, OVER, OUT, CONTINUE, RUN_TO)
JOIN_S = 2.0
"""The longest wait for the end of a run that is cancelled."""
PROGRESS_S = 0.3
"""The time between two reports of the progress of a run."""

Work = Callable[[BlockListener], object]
"""A run with a listener."""


@dataclass
class Goal:
    """The end of the current step.

    Attributes:
        command: `step`, `over`, `out`, `continue` or `run_to`.
        depth: The nesting depth of the block where it began.
        site: The operator of `run_to`.
    """

    command: str
    depth: int = 0
    site: Site | None = None

    def reached(self, site: Site, depth: int) -> bool:
        """Return whether the run stops after an operator in a block of this depth."""
        match self.command:
            case "step":
                return True
            case "over":
                return depth <= self.depth
            case "out":
                return depth < self.depth
            case "run_to":
                return site == self.site
            case _:
                return False


@dataclass(frozen=True)
class Status:
    """The state of a session.

    Attributes:
        version: A number that rises with each change.
        state: `paused`, `running`, `finished`, `failed` or `ended`.
        reason: The reason of the last stop.
        site: The operator after which the run stopped; `None` before the first one.
        run: The run of its block.
    """

    version: int
    state: str
    reason: str
    site: Site | None
    run: int


@final
class Controller:
    """One run of a program in a thread, which stops after operators.

    Args:
        sites: The blocks and operators of the program.
        recording: The recording of the run.
        breakpoints: The breakpoints; they may change during the run.
        work: Runs the program with a listener.
        paused: Whether the run stops before the first operator.

    Attributes:
        results: The result of `work`, once the run is finished.
    """

    def __init__(
        self,
        sites: Sites,
        recording: Recording,
        breakpoints: Breakpoints,
        work: Work,
        paused: bool = True,
    ) -> None:
        self.recording = recording
        self.breakpoints = breakpoints
        self._sites, self._work = sites, work
        self._changed = Condition()
        self._version, self._state, self._reason = 0, RUNNING, ""
        self._goal = Goal(STEP if paused else CONTINUE)
        self._at: tuple[Site | None, int] = None, -1
        self.results: object = None
        self._cancelled = Event()
        self._thread = Thread(target=self._run, name="braces-debugger", daemon=True)

    # ---- from other threads ------------------------------------------------------------------

    def start(self) -> None:
        """Start the run."""
        self._thread.start()

    @property
    def status(self) -> Status:
        """The current state."""
        with self._changed:
            return Status(self._version, self._state, self._reason, *self._at)

    def go(self, command: str, site: Site | None = None) -> None:
        """Continue a paused run up to the end of a step; otherwise nothing happens."""
        with self._changed:
            if self._state == PAUSED:
                depth = 0 if self._at[0] is None else self._sites.depths[self._at[0].block]
                self._goal = Goal(command, depth, site)
                self._set(RUNNING, "")

    def pause(self) -> None:
        """Stop a running run after the operator that runs now."""
        with self._changed:
            if self._state == RUNNING:
                self._goal = Goal(STEP)

    def touch(self) -> None:
        """Report a change of the breakpoints."""
        with self._changed:
            self._set(self._state, self._reason)

    def wait_for_change(self, version: int, timeout_s: float) -> Status:
        """Wait until the version differs, or until a running run has made progress."""
        end = monotonic() + timeout_s
        with self._changed:
            while self._version == version and (left := end - monotonic()) > 0:
                is_running = self._state == RUNNING
                changed = self._changed.wait(min(left, PROGRESS_S) if is_running else left)
                if is_running and not changed:
                    break
        return self.status

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait until the run is paused or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._state != RUNNING, timeout_s)
        return self.status

    def close(self) -> None:
        """Cancel the run, and wait a short time for its end."""
        with self._changed:
            self._cancelled.set()
            if self._state in (PAUSED, RUNNING):
                self._goal = Goal(CONTINUE)
                self._set(ENDED, "cancelled")
        if self._thread.ident is not None:
            join_threads([self._thread], JOIN_S)

    def _set(self, state: str, reason: str) -> None:
        self._version += 1
        self._state, self._reason = state, reason
        self._changed.notify_all()

    # ---- in the thread of the run ------------------------------------------------------------

    def _run(self) -> None:
        state, error = FINISHED, ""
        try:
            with cancelled_by(self._cancelled):
                self.results = self._work(_Observer(self, self._sites, self.recording))
        except BracesError as failure:
            state, error = FAILED, f"{type(failure).__name__}: {failure}"
        except Exception:
            state, error = FAILED, traceback.format_exc(limit=-3)
        with self._changed:
            if self._cancelled.is_set():
                self._set(ENDED, "cancelled")
                return
            self.recording.error = error
            failed = self.recording.failed, self.recording.failed_run
            self._at = failed if state == FAILED else (None, -1)
            self._set(state, "")

    def before_first(self) -> None:
        """Stop before the first operator, if the run begins paused."""
        if self._goal.command == STEP:
            self._stop("before the first operator", None, -1)

    def after(
        self, site: Site, run: int, moments: Callable[[], Iterator[ObservedValue]]
    ) -> None:
        """Stop after an operator, at a breakpoint or at the end of a step."""
        if len(self.breakpoints):
            hit = self.breakpoints.match(site, moments())
            if hit is not None:
                self._stop(f"breakpoint {hit.number}: {hit}", site, run)
                return
        if self._goal.reached(site, self._sites.depths[site.block]):
            self._stop(self._goal.command.replace("_", " "), site, run)

    def _stop(self, reason: str, site: Site | None, run: int) -> None:
        with self._changed:
            if self._cancelled.is_set():
                return
            self._at = site, run
            self._set(PAUSED, reason)
            self._changed.wait_for(lambda: self._state != PAUSED)


@dataclass
class _Observer(BlockListener):
    """The listener of a run: it records values, and stops the run.

    Attributes:
        stack: The path and the number of each active run of a block, the outermost first.
    """

    controller: Controller
    sites: Sites
    recording: Recording
    stack: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def enter(self, entry: BlockEntry) -> None:
        run = self._entered(entry)
        if run is not None:
            number = self.recording.enter(run, entry.arguments)
            self.stack.append((entry.path, number))
        if entry.op is None:
            self.controller.before_first()

    def _entered(self, entry: BlockEntry) -> BlockRun | None:
        if entry.op is None:
            return BlockRun(0, -1, -1, 0)
        outer = self._active(entry.outer)
        if outer is None:
            return None
        around = self.recording.runs[outer].block
        block = self.sites.inner(around, entry.op.name, entry.label)
        index = self.sites.index_of(around, entry.op)
        if block is None or index is None:
            return None
        return BlockRun(block, outer, index, entry.iteration)

    def _active(self, path: str) -> int | None:
        """Return the active run of a block; `None` for a block that the program lacks."""
        kept = len(self.stack)
        while kept and self.stack[kept - 1][0] != path:
            kept -= 1
        if not kept:
            return None
        del self.stack[kept:]
        return self.stack[-1][1]

    def __call__(self, path: str, op: Op, values: Mapping[str, Any]) -> None:
        run = self._active(path)
        if run is None:
            return
        block = self.recording.runs[run].block
        index = self.sites.index_of(block, op)
        if index is None:
            return
        self.recording.add(run, index, values)
        self.controller.after(Site(block, index), run, lambda: self._moments(run, values))

    def _moments(self, run: int, values: Mapping[str, Any]) -> Iterator[ObservedValue]:
        iterations = self._iterations(run)
        block = self.recording.runs[run].block
        for name, value in values.items():
            content = as_array(value)
            series = self.recording.series(VariableKey(block, name))
            at = series.index(run)
            yield ObservedValue(
                measure_any(value, content) if at is None else series.measure(at),
                content,
                iterations,
            )

    def _iterations(self, run: int) -> list[tuple[str, int]]:
        pairs = list[tuple[str, int]]()
        while (entered := self.recording.runs[run]).outer >= 0:
            around = self.recording.runs[entered.outer].block
            if entered.block in self.sites.loops:
                owner = self.sites.op_at(Site(around, entered.op))
                pairs.append((owner.name, entered.iteration))
            run = entered.outer
        return pairs[::-1]

    def fail(self, path: str, op: Op) -> None:
        run = self._active(path)
        if run is not None:
            block = self.recording.runs[run].block
            self.recording.fail(run, self.sites.index_of(block, op))


def refuse_command(command: object) -> RunError:
    """Return the error of an unknown command."""
    return RunError(
        f"unknown command {command!r:.40}.", fix=f"Use one of: {', '.join(COMMANDS)}."
    )
