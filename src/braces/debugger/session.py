"""Sessions: a program that is run again and again under the debugger."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from threading import Event, RLock
from typing import Any, Self

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_path
from braces.debugger.html.saved_run import saved_page
from braces.debugger.recorded.recording import MEMORY_BYTES, Recording
from braces.debugger.recorded.sites import Sites
from braces.debugger.recorded.slices import Flow
from braces.debugger.stepped.breakpoints import Breakpoint, Breakpoints
from braces.debugger.stepped.controller import (
    COMMANDS,
    FINISHED,
    PAUSED,
    Controller,
    Status,
    refuse_command,
)
from braces.define.core.attribute_kinds import coerce_argument
from braces.dtypes import TensorType
from braces.errors import RunError
from braces.ir.files.atomic_write import write_atomically
from braces.ir.places import Place
from braces.lower.interpret.interpreter import BlockListener
from braces.runtime.executor import Executor
from braces.runtime.inputs.feeds import check_order
from braces.runtime.inputs.fetches import read_fetch
from braces.scope import Scope
from braces.surgery.comparison.value_trace import copy_states

_WAIT_S = 1.0
"""The time between two looks for Ctrl-C, which a wait without end would defer on Windows."""


class DebugSession:
    """A program under the debugger: its run, recording and breakpoints.

    The program runs in the interpreter, in a thread of its own, in a copy of the scope. It is
    the program at the time of the call: later edits do not affect the session.

    Args:
        program: The program.
        scope: Its persistable variables; not changed unless `commit` is set.
        feed: As for `exe.run`.
        fetch: As for `exe.run`; without results and updates, everything that no operator reads.
        seed: As for `exe.run`.
        breakpoints: Breakpoints, as `loop_0/body/act if max > 10`, or `if nan`.
        memory_bytes: The bound of the memory of recorded values; the oldest are dropped.
        commit: Whether a run that succeeds commits its updates to `scope`.
        paused: Whether a run stops before the first operator.

    Attributes:
        program: The program that runs.
        sites: Its blocks and operators by number.
        flow: Its data flow.
        breakpoints: The breakpoints.
        current: The number of runs that were started, and the controller of the latest.

    Raises:
        BracesError: If feeds, fetches or breakpoints do not match the program.
    """

    def __init__(
        self,
        program: Builder,
        scope: Scope | None = None,
        feed: Mapping[Any, Any] | None = None,
        fetch: Any = None,
        *,
        seed: int | None = None,
        breakpoints: Iterable[str] = (),
        memory_bytes: int = MEMORY_BYTES,
        commit: bool = False,
        paused: bool = True,
    ) -> None:
        self._scope = Scope() if scope is None else scope
        check_order(program, self._scope)
        self.program = type(program)(program.definition)
        self._feed = {getattr(key, "name", key): value for key, value in (feed or {}).items()}
        self._names = list(
            default_fetch(program) if fetch is None else read_fetch(fetch, program)[0]
        )
        self._seed, self._commit, self._memory_bytes = seed, commit, memory_bytes
        self.sites = Sites(Place.main(self.program.definition))
        self.flow = Flow(self.sites)
        self.breakpoints = Breakpoints(self.sites)
        for text in (breakpoints,) if isinstance(breakpoints, str) else breakpoints:
            self.breakpoints.parse(text)
        self._executor = Executor(mode="interpret", passes=())
        self._executor.compile(self.program, self._scope, self._feed, self._names)
        self._lock, self._closed = RLock(), Event()
        self.current = 1, self._start(paused)

    def _start(self, paused: bool) -> Controller:
        recording = Recording(self.sites, self._memory_bytes)
        controller = Controller(self.sites, recording, self.breakpoints, self._run, paused)
        controller.start()
        return controller

    def _run(self, listener: BlockListener) -> list[Any]:
        copied = copy_states(self.program, self._scope)
        results = self._executor.run(
            self.program, copied, self._feed, self._names, seed=self._seed, listeners=[listener]
        )
        if self._commit:
            updated = {name: copied.find_var(name) for name in self.program.updates}
            for name, variable in updated.items():
                if variable is not None:
                    self._scope.var(name).put(variable.raw)
        return results

    # ---- the run -----------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The number of runs that were started."""
        return self.current[0]

    @property
    def controller(self) -> Controller:
        """The controller of the current run."""
        return self.current[1]

    @property
    def recording(self) -> Recording:
        """The recording of the current run."""
        return self.controller.recording

    @property
    def status(self) -> Status:
        """The state of the current run."""
        return self.controller.status

    @property
    def position(self) -> str:
        """The path of the operator after which the run stopped, as `loop_0/body[2]/act`."""
        status = self.status
        if status.site is None:
            return ""
        return self.recording.path(status.run, self.sites.op_at(status.site).name)

    def go(self, command: str = "continue", path: str = "") -> Status:
        """Continue up to the end of a step, a breakpoint or the end; return the state there.

        Args:
            command: `step` stops after the next operator, `over` after the next one that is not
                in a block of it, `out` after the owner of the block, `run_to` after the next
                run of an operator, and `continue` at breakpoints only.
            path: The path of the operator of `run_to`.

        Raises:
            RunError: If the command is unknown.
            UnknownNameError: If the operator does not exist.
        """
        command = coerce_argument("go", "command", "str", command)
        if command not in COMMANDS:
            raise refuse_command(command)
        site = self.sites.operator(checked_path(path)) if command == "run_to" else None
        self.controller.wait()
        self.controller.go(command, site)
        return self.controller.wait()

    def stop_at(self, text: str) -> Breakpoint:
        """Add a breakpoint, written as `PATH`, `PATH if CONDITION` or `if CONDITION`.

        Raises:
            UnknownNameError: If the operator does not exist; the message has similar paths.
            ProgramError: If the condition is invalid.
        """
        added = self.breakpoints.parse(coerce_argument("stop_at", "text", "str", text))
        self.controller.touch()
        return added

    def restart(self, paused: bool = True) -> None:
        """Cancel the current run, and start another with the same inputs and breakpoints.

        Raises:
            RunError: If the session is closed.
        """
        paused = coerce_argument("restart", "paused", "bool", paused)
        with self._lock:
            if self._closed.is_set():
                raise RunError("the session is closed.", fix="Call prog.debug(...) again.")
            self.controller.close()
            self.current = self.generation + 1, self._start(paused)

    def finish(self) -> Self:
        """Run to the end, past all breakpoints; an error of the program is in `error`."""
        while self.controller.wait().state == PAUSED:
            self.controller.go("continue")
        return self

    def wait_closed(self) -> None:
        """Wait until the session is closed, or Ctrl-C."""
        while not self._closed.wait(_WAIT_S):
            pass

    @property
    def error(self) -> str:
        """The error that ended the run; empty if there is none."""
        return self.recording.error

    @property
    def results(self) -> dict[str, Any]:
        """The fetched values by name.

        Raises:
            RunError: If the run has not finished.
        """
        if self.status.state != FINISHED:
            raise RunError("the run has not finished.", given=self.error or self.status.state)
        values: Any = self.controller.results
        return dict(zip(self._names, values, strict=True))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the recording up to now as a self-contained HTML page."""
        text = saved_page(self.program, self.recording, self.flow, self.status)
        write_atomically(path, text.encode())

    def close(self) -> None:
        """Cancel the run, and wait a short time for its end."""
        with self._lock:
            self._closed.set()
            self.controller.close()


def default_fetch(program: Builder) -> tuple[str, ...]:
    """Return the results of a program; without updates, else all unread variables."""
    main = program.definition.main
    if main.results or program.definition.updates:
        return main.results
    read = {name for op in main.ops for name in op.reads()}
    bound = (name for op in main.ops for name in op.binds() if name not in read)
    return tuple(name for name in bound if isinstance(main.vars[name].type, TensorType))
