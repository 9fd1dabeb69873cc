"""Callbacks of `br.fit`: called at the start, after steps and epochs, and at the end."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from braces.errors import BracesError, ProgramError, did_you_mean
from braces.fitting.fit_run import Fit
from braces.fitting.steps.position import Row
from braces.fitting.steps.step import TrainingStep
from braces.keywords import hint_methods
from braces.notebook import TextView
from braces.runtime.devices.process_agreement import process_index
from braces.storage.parameters import load_parameters, save_parameters

METHODS = ("on_start", "on_step", "on_epoch", "on_end")


class Callback(TextView):
    """A callback of `br.fit`: a class with any of these four methods.

    A callback that keeps no state of its own, and reads `run.history` instead, continues
    correctly after a resume. An error of a callback ends the training; the last whole step is
    saved, and the error names the callback.

    Example:
        >>> import braces as br
        >>> class Printer(br.Callback):
        ...     def on_epoch(self, run, row):
        ...         print(f"epoch {row['epoch']} of {run.epochs}: loss {row['loss']:.3f}")
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def on_start(self, run: Fit) -> None:
        """Called before the first step; `run.history` has the epochs before a resume."""

    def on_step(self, run: Fit, step: TrainingStep) -> None:
        """Called after each step; `step.values` has its measurements."""

    def on_epoch(self, run: Fit, row: Row) -> None:
        """Called after each epoch with its row of the history, which includes validation."""

    def on_end(self, run: Fit, error: BaseException | None) -> None:
        """Called at the end, also after an error or Ctrl-C, which is then `error`."""


@hint_methods
class EarlyStopping(Callback):
    """End of a training whose measurement does not improve any more.

    Args:
        monitor: The name of a measurement in the history, as `val_loss` or `accuracy`.
        patience: The number of epochs without improvement after which training ends.
        mode: `"min"` if smaller values are better, `"max"` if larger ones are. `"auto"` is the
            direction of the measurement: `"min"` for the loss of `minimize`, and for a metric
            of `br.metrics` its attribute `better`. Training does not start if it is unknown.
        min_delta: The smallest change that is an improvement.

    Raises:
        ProgramError: If the mode is unknown, or `patience` is not a positive integer.

    Example:
        >>> import braces as br
        >>> br.EarlyStopping("val_accuracy", patience=3)
        <EarlyStopping on val_accuracy (auto), patience 3>
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        patience: int = 3,
        mode: str = "auto",
        min_delta: float = 0.0,
    ) -> None:
        if type(patience) is not int or patience < 1:
            raise ProgramError(
                f"invalid patience={patience!r:.40}.", fix="Use an integer of at least 1."
            )
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.mode = _known_mode(mode)

    def on_start(self, run: Fit) -> None:  # noqa: D102 - inherited
        _check_monitor(run, self)
        self._check(run)

    def on_epoch(self, run: Fit, row: Row) -> None:  # noqa: D102 - inherited
        self._check(run)

    def _check(self, run: Fit) -> None:
        sign = _sign_of(run, self)
        values = [sign * float(row[self.monitor]) for row in run.history.rows]
        if self._waited(values) >= self.patience:
            better = "smaller" if sign > 0 else "larger"
            run.stop(
                f"{self.monitor} did not improve for {self.patience} epochs "
                f"({better} is better)"
            )

    def _waited(self, values: Sequence[float]) -> int:
        best, waited = math.inf, 0
        for value in values:
            better = value < best - self.min_delta
            best, waited = (value, 0) if better else (best, waited + 1)
        return waited

    def __repr__(self) -> str:
        return f"<EarlyStopping on {self.monitor} ({self.mode}), patience {self.patience}>"


@hint_methods
class Best(Callback):
    """A file with the variables of the best epoch.

    `br.load_parameters(scope, path)` restores them.

    Args:
        path: The safetensors file; replaced atomically by each better epoch.
        monitor: The name of a measurement in the history.
        mode: As for `EarlyStopping`.

    Raises:
        ProgramError: If the mode is unknown.

    Example:
        >>> import braces as br
        >>> br.Best("best.safetensors", "val_accuracy")
        <Best epoch by val_accuracy (auto) in best.safetensors>
    """

    def __init__(
        self, path: str | os.PathLike[str], monitor: str = "val_loss", *, mode: str = "auto"
    ) -> None:
        self.path, self.monitor = Path(path), monitor
        self.mode = _known_mode(mode)

    def on_start(self, run: Fit) -> None:  # noqa: D102 - inherited
        _check_monitor(run, self)

    def on_epoch(self, run: Fit, row: Row) -> None:  # noqa: D102 - inherited
        sign = _sign_of(run, self)
        *earlier, last = (sign * float(r[self.monitor]) for r in run.history.rows)
        if last < min(filter(_is_number, earlier), default=math.inf) and process_index() == 0:
            save_parameters(run.scope, self.path)

    def restore(self, run: Fit) -> None:
        """Load the variables of the best epoch into the scope of a run."""
        load_parameters(run.scope, self.path)

    def __repr__(self) -> str:
        return f"<Best epoch by {self.monitor} ({self.mode}) in {self.path}>"


def _is_number(value: float) -> bool:
    return not math.isnan(value)


def _known_mode(mode: str) -> str:
    if mode not in ("auto", "min", "max"):
        raise ProgramError(f"unknown mode {mode!r:.40}.", fix="Use 'auto', 'min' or 'max'.")
    return mode


def _sign_of(run: Fit, callback: EarlyStopping | Best) -> int:
    """Return 1 if smaller values are better, -1 if larger ones are.

    Raises:
        ProgramError: If the direction of the measurement is unknown.
    """
    monitor, mode = callback.monitor, callback.mode
    better = run.better(monitor) if mode == "auto" else mode
    if better is None:
        name = type(callback).__name__
        raise ProgramError(
            f"{name} monitors `{monitor}`, for which it is unknown if smaller or larger values "
            "are better.",
            fix=f'Pass mode="min" or mode="max" to br.{name}.',
        )
    return 1 if better == "min" else -1


def _check_monitor(run: Fit, callback: EarlyStopping | Best) -> None:
    """Refuse a monitor that the history will not have, or whose direction is unknown.

    Raises:
        ProgramError: If the measurement does not exist, or its direction is unknown.
    """
    monitor, name = callback.monitor, type(callback).__name__
    if monitor not in run.names:
        hint = did_you_mean(monitor, run.names)
        unvalidated = monitor.startswith("val_") and run.validation is None
        validation = "Pass validation=, or monitor a measurement of the training."
        raise ProgramError(
            f"{name} monitors `{monitor}`, which is not measured.",
            given=f"measured: {', '.join(run.names) or 'nothing'}",
            fix=validation if unvalidated else hint or "Add it to metrics=.",
        )
    _sign_of(run, callback)


# ---- calls -----------------------------------------------------------------------------------


class Callbacks:
    """The callbacks of a run, called in their order; at the end in reverse order.

    Raises:
        ProgramError: If a callback has none of the four methods.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self._all = callbacks
        for callback in self._all:
            if isinstance(callback, type) or not any(hasattr(callback, m) for m in METHODS):
                raise ProgramError(
                    f"expected a callback, got {callback!r:.80}.",
                    fix="Pass instances of classes with on_start, on_step, on_epoch or on_end.",
                )
        self._steps = [c for c in self._all if _overrides(c, "on_step")]

    def on_start(self, run: Fit) -> None:
        """Call `on_start` of all."""
        self._call(self._all, "on_start", run)

    def on_step(self, run: Fit, step: TrainingStep) -> None:
        """Call `on_step` of those that have it."""
        if self._steps:
            self._call(self._steps, "on_step", run, step)

    def on_epoch(self, run: Fit, row: Row) -> None:
        """Call `on_epoch` of all."""
        self._call(self._all, "on_epoch", run, row)

    def on_end(self, run: Fit, error: BaseException | None) -> None:
        """Call `on_end` of all, also after one has raised; the first error is raised."""
        failed: Exception | None = None
        for callback in reversed(self._all):
            try:
                self._call([callback], "on_end", run, error)
            except Exception as raised:
                failed = failed or raised
        if failed is not None and error is None:
            raise failed

    def _call(self, callbacks: Sequence[Any], method: str, *arguments: Any) -> None:
        for callback in callbacks:
            function = getattr(callback, method, None)
            if function is None:
                continue
            try:
                function(*arguments)
            except Exception as error:
                _name_callback(error, callback, method, arguments[0])
                raise


def _overrides(callback: Any, method: str) -> bool:
    own = getattr(callback, method, None)
    is_own = getattr(own, "__func__", own) is not getattr(Callback, method)
    return own is not None and is_own and getattr(callback, "takes_steps", True)


def _name_callback(error: Exception, callback: Any, method: str, run: Fit) -> None:
    place = f"callback {type(callback).__name__}.{method}, step {run.step}"
    if isinstance(error, BracesError):
        error.at = f"{place}: {error.at}" if error.at else place
    else:
        error.add_note(f"Raised by the {place}.")
