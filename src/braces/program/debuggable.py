"""Methods of programs that run them under the debugger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_methods
from braces.debugger.debugger import Debugger
from braces.debugger.recorded.recording import MEMORY_BYTES
from braces.scope import Scope


@checked_methods
class Debuggable(Builder):
    """A program that runs under the debugger."""

    def debug(
        self,
        scope: Scope | None = None,
        feed: Mapping[Any, Any] | None = None,
        fetch: Any = None,
        *,
        seed: int | None = None,
        breakpoints: Iterable[str] = (),
        commit: bool = False,
        memory_bytes: int = MEMORY_BYTES,
        paused: bool = True,
        serve: bool = True,
        port: int = 0,
    ) -> Debugger:
        """Run the program in the debugger, which shows each value per iteration and branch.

        The program runs in the interpreter, in a thread of its own. Its page, at the address
        `url` of the session, steps through the run and shows histograms, the first NaN, and
        the origins of values. The page is for this machine and one browser only.

        Args:
            scope: The persistable variables. The run has a copy, unless `commit` is set.
            feed: As for `exe.run`.
            fetch: As for `exe.run`. By default the results; in a program without results and
                updates, every variable that no operator reads.
            seed: As for `exe.run`.
            breakpoints: Breakpoints, each `PATH`, `PATH if CONDITION` or `if CONDITION`, as
                `loop_0/body/act if max > 10` or `if nan`. Conditions compare `min`, `max`,
                `mean`, `std`, `norm`, `nan`, `inf`, `size`, `value` and `iteration` with
                numbers; `and`, `or`, `not` and parentheses combine them.
            commit: Whether a run that succeeds commits its updates to `scope`.
            memory_bytes: The bound of the memory of recorded values. The oldest are dropped;
                their measures and histograms stay.
            paused: Whether the run stops before the first operator.
            serve: Whether to serve the page. Without it, the session is used from Python.
            port: The port of the page; 0 selects a free one.

        Returns:
            The session: `go("step")` and `restart()` move it, `recording` has its measures,
            `to_html(path)` writes it as one file, and `close()` ends it.

        Raises:
            MissingPackageError: If the page is served, and Starlette or uvicorn is missing.
            UnknownNameError: If a breakpoint or fetch names no operator or variable.
            ProgramError: If a condition or the port is invalid, or the port is in use.
            FeedError: If a feed is missing, unknown, or of a different type.
            UninitializedError: If a persistable variable has no value.

        Example:
            >>> import numpy as np
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["steps", 8])
            ...     h = br.scan(lambda h, row: (br.tanh(h + row, name="h"), row), 0.0 * x[0], x)
            >>> feed = {"x": np.ones((3, 8), "float32")}
            >>> stops = ["loop_0/body/h if min > 0.9"]
            >>> with prog.debug(feed=feed, breakpoints=stops, serve=False) as run:
            ...     status = run.go("continue")
            ...     print(run.position, run.recording.value("loop_0/body/h")[0].round(3))
            loop_0/body[1]/h 0.943
        """
        return Debugger(
            self,
            scope,
            feed,
            fetch,
            seed=seed,
            breakpoints=breakpoints,
            commit=commit,
            memory_bytes=memory_bytes,
            paused=paused,
            serve=serve,
            port=port,
        )
