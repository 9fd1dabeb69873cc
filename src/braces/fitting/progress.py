"""Progress of a training: a bar on a terminal, curves in a notebook, lines elsewhere.

The bar is drawn by a clock, 8 times a second, from numbers that the steps store. So a step of
less than a millisecond does not wait for it.
"""

from __future__ import annotations

import sys
from threading import Timer
from time import perf_counter
from typing import Any, TextIO

from braces.fitting.callbacks import Callback
from braces.fitting.fit_run import Fit
from braces.fitting.steps.data_sets import length_of
from braces.fitting.steps.position import Row
from braces.fitting.steps.step import TrainingStep
from braces.lazy import console, rich_live, rich_text

DRAWN_PER_S = 8
ANNOUNCED_AFTER_S = 2.0
"""The time after which a first step that compiles is announced, where there is no bar."""
_BAR_WIDTH = 24
_COUNTS = ("epoch", "step")


class Progress(Callback):
    """Progress of a run.

    Attributes:
        steps: The steps of the epoch that are done.
        total: The steps of an epoch, if known.
        started: The time of the start, and of the end of the first step, which compiles.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.steps, self.total, self.epoch = 0, None, 1
        self.done, self.last_row = 0, ""
        self.started = self.first_done = self.epoch_started = 0.0
        self.compile_s = self.epoch_compile_s = 0.0
        self._live: Any = None
        self._display: Any = None
        self._handle: Any = None
        self._timer: Timer | None = None

    def on_start(self, run: Fit) -> None:  # noqa: D102 - inherited
        self.run = run
        self.total = length_of(run.data)
        self.epoch = len(run.history) + 1
        self.started = self.epoch_started = perf_counter()
        self._compiled_before = run.exe.stats.seconds
        if run.resumed is not None:
            self._write(f"resumed at step {run.resumed} from {run.folder}")
        if self.stream.isatty():
            self._live = _live(self)
            self._live.start()
        else:
            self._display = notebook_display()
            self._announce_compilation()

    def _announce_compilation(self) -> None:
        """Write a line if the first step is not done after some time."""
        if self._display is None:
            self._timer = Timer(ANNOUNCED_AFTER_S, self._write, ["compiling …"])
            self._timer.daemon = True
            self._timer.start()

    def on_step(self, run: Fit, step: TrainingStep) -> None:  # noqa: D102 - inherited
        self.steps = step.in_epoch
        self.done += 1
        if self.done == 1:
            self._first_step(run)
        self.epoch = step.epoch

    def _first_step(self, run: Fit) -> None:
        self.first_done = perf_counter()
        self._cancel()
        self.compile_s = run.exe.stats.seconds - self._compiled_before

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def on_epoch(self, run: Fit, row: Row) -> None:  # noqa: D102 - inherited
        now = perf_counter()
        seconds, self.epoch_started = now - self.epoch_started, now
        self.last_row = row_text(row)
        if self._display is not None:
            self._draw_notebook(run)
        elif self._live is None:
            self._write(self._line(row, seconds))

    def _line(self, row: Row, seconds: float) -> str:
        compile_s = self.run.exe.stats.seconds - self._compiled_before
        ours, self.epoch_compile_s = compile_s - self.epoch_compile_s, compile_s
        computed = max(seconds - ours, 1e-9)
        compiled = f", compiled in {duration_text(ours)}" if ours >= 0.05 else ""
        return (
            f"epoch {row['epoch']}/{self.run.epochs}  {self.last_row}  "
            f"{duration_text(computed)}, {rate_text(self.steps / computed)}{compiled}"
        )

    def _draw_notebook(self, run: Fit) -> None:
        if self._handle is None:
            self._handle = self._display(run.history, display_id=True)
        else:
            self._handle.update(run.history)

    def on_end(self, run: Fit, error: BaseException | None) -> None:  # noqa: D102 - inherited
        self._cancel()
        if self._live is not None:
            self._live.stop()
        if isinstance(error, KeyboardInterrupt):
            saved = f"; saved in {run.folder}" if run.folder else ""
            self._write(f"interrupted at step {run.step}{saved}")
        elif error is None and run.history.stopped:
            self._write(f"stopped at step {run.step}: {run.history.stopped}")

    def _write(self, line: str) -> None:
        print(line, file=self.stream, flush=True)

    # ---- the bar ----

    def text(self) -> str:
        """Return the line of the bar at this moment."""
        now = perf_counter()
        if not self.done:
            return f"compiling … {duration_text(now - self.started)}"
        rate = (self.done - 1) / max(now - self.first_done, 1e-9)
        parts = [f"epoch {self.epoch}/{self.run.epochs}", self._bar(), rate_text(rate)]
        if self.total and rate:
            left = self.total * (self.run.epochs - self.epoch + 1) - self.steps
            parts.append(f"{duration_text(left / rate)} left")
        if self.compile_s:
            parts.append(f"compiled in {duration_text(self.compile_s)}")
        return "  ".join(filter(None, (*parts, self.last_row)))

    def _bar(self) -> str:
        if not self.total:
            return f"step {self.steps}"
        full = round(_BAR_WIDTH * self.steps / self.total)
        bar = "━" * full + "╌" * (_BAR_WIDTH - full)
        return f"{bar} {self.steps}/{self.total}"


def _live(progress: Progress) -> Any:
    """Return a display of rich that draws the bar by a clock."""
    return rich_live.Live(
        get_renderable=lambda: rich_text.Text(
            progress.text(), overflow="ellipsis", no_wrap=True
        ),
        console=console.Console(file=progress.stream),
        refresh_per_second=DRAWN_PER_S,
    )


def row_text(row: Row) -> str:
    """Return the measurements of a row in one line; arrays are left out.

    Example:
        >>> row_text({"epoch": 1, "step": 42, "loss": 0.51234, "counts": [[1.0]]})
        'loss 0.5123'
    """
    numbers = ((n, v) for n, v in row.items() if n not in _COUNTS and not isinstance(v, list))
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers)


def rate_text(rate: float) -> str:
    """Return a rate of steps in words.

    Example:
        >>> rate_text(0.513), rate_text(1234.5)
        ('0.513 steps/s', '1,234 steps/s')
    """
    return f"{rate:,.0f} steps/s" if rate >= 100 else f"{rate:.3g} steps/s"


def duration_text(seconds: float) -> str:
    """Return a time in words.

    Example:
        >>> duration_text(0.0123), duration_text(4.26), duration_text(75), duration_text(8000)
        ('12 ms', '4.3 s', '1:15 min', '2:13 h')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


def notebook_display() -> Any:
    """Return IPython's function `display` in the kernel of a notebook; `None` elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)
    if get_shell is None or type(get_shell()).__name__ != "ZMQInteractiveShell":
        return None
    return ipython.display.display
