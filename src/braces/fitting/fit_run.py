"""A run of `br.fit`: its results, and the loop over steps and epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from braces.fitting.evaluation import Evaluation, Measures, trial_data
from braces.fitting.history import History
from braces.fitting.steps.data_sets import Feed, Mark, weight_of
from braces.fitting.steps.position import Row
from braces.fitting.steps.step import TrainingStep
from braces.fitting.steps.training_steps import TrainingSteps
from braces.frontend.metrics.base import Better
from braces.hints.objects import Hinted
from braces.keywords import hint_keywords
from braces.loaders.core.data_set import Batches
from braces.lower.interrupt.ctrl_c import DeferredCtrlC


class Calls(Protocol):
    """The calls of callbacks."""

    def on_start(self, run: Fit) -> None:
        """Call before the first step."""
        ...

    def on_step(self, run: Fit, step: TrainingStep) -> None:
        """Call after each step."""
        ...

    def on_epoch(self, run: Fit, row: Row) -> None:
        """Call after each epoch."""
        ...

    def on_end(self, run: Fit, error: BaseException | None) -> None:
        """Call at the end."""
        ...


class Fit(Hinted):
    """A run of `br.fit`: its results, also passed to callbacks.

    Attributes:
        program: The program.
        data: The data set.
        validation: The validation data, or `None`.
        epochs: The number of epochs.
        scope: The scope with the trained variables.
        exe: The executor.
        history: A row of measurements for each epoch.
        resumed: The step of the checkpoint that was restored; `None` without one.

    Example:
        >>> import numpy as np, braces as br
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["n", 2]), br.data("y", ["n", 1])
        ...     out = br.fc(x, 1, name="out")
        ...     _ = br.optimizer.sgd(0.1).minimize(br.squared_error(out, y))
        >>> rows = np.eye(2, dtype="float32")
        >>> run = br.fit(prog, [{"x": rows, "y": rows[:, :1]}], epochs=3, quiet=True)
        >>> run.step, run.history.names, run.scope["out.w"].shape
        (3, ['loss'], (2, 1))
    """

    @hint_keywords
    def __init__(self, steps: TrainingSteps, measures: Measures, validation: Any) -> None:
        self.program, self.data, self.validation = steps.program, steps.data, validation
        self.epochs, self.scope, self.exe = steps.options.epochs, steps.scope, steps.exe
        self.folder, self.resumed = steps.options.folder, steps.resumed
        self.history = History(steps.position.rows)
        self._steps, self._measures = steps, measures
        self._evaluation = Evaluation(
            self.program,
            self.exe,
            measures.without_logged(),
            steps.options.steps,
            steps.options.checks,
            steps.options.pad_to,
        )

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self._steps.position.step

    @property
    def step_names(self) -> list[str]:
        """The names of the values of a step."""
        return list(self._measures.fetch)

    @property
    def names(self) -> list[str]:
        """The names of the measurements of a row."""
        validated = self._evaluation.measures.fetch if self.validation is not None else ()
        return [*self._measures.fetch, *(f"val_{name}" for name in validated)]

    def better(self, name: str) -> Better | None:
        """The direction in which a measurement improves: `"min"` or `"max"`.

        It is `"min"` for a loss of `minimize`, the attribute `better` for a metric of
        `br.metrics`, and `None` for other measurements.
        """
        return self._measures.better(name) or self._measures.better(name.removeprefix("val_"))

    def stop(self, reason: str) -> None:
        """End the training after the current step; the history has the reason."""
        self.history.stopped = reason

    def evaluate(self, data: Any) -> Row:
        """Return the measurements on other data, in inference mode; see `br.evaluate`."""
        return self._evaluation.measure(self.scope, data)

    def save(self) -> None:
        """Save a checkpoint now, if there is a folder."""
        self._steps.save()

    def __repr__(self) -> str:
        return f"<Fit: step {self.step}, {self.history!r}>"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        return self.history._repr_html_()  # pyright: ignore[reportPrivateUsage]

    # ---- the loop ----

    def run(self, calls: Calls) -> None:
        """Run the remaining steps."""
        error: BaseException | None = None
        self._steps.tally = self._tally
        walk = iter(self._steps)
        try:
            self._start(calls)
            for step in walk if not self.history.stopped else ():
                calls.on_step(self, step)
                if step.last:
                    self._end_epoch(calls)
                if self.history.stopped:
                    break
            self._steps.save_at_end()
        except BaseException as raised:
            error = raised
            self._steps.save_at_end(raised)
            raise
        finally:
            walk.close()
            if isinstance(self.validation, Batches):
                self.validation.close()
            calls.on_end(self, error)

    def _start(self, calls: Calls) -> None:
        calls.on_start(self)
        self._try_validation()
        if self._steps.position.row is not None:  # saved before its validation
            self._end_epoch(calls)

    def _try_validation(self) -> None:
        """Evaluate one batch, so that an error of validation comes before the first epoch."""
        data, position = trial_data(self.validation), self._steps.position
        if data is None or self.history.stopped or position.epoch >= self.epochs:
            return
        trial = replace(self._evaluation, limit=1)
        trial.measure(self.scope, data, "validation")

    def _tally(self, step: TrainingStep, mark: Mark, feed: Feed) -> None:
        """Add the values of a step to the position; called together with its run."""
        position, results = self._steps.position, step.results
        if self._measures.means:
            self._measures.add(position, results, weight_of(mark, feed))
        if step.last:
            row = {"epoch": step.epoch, "step": step.number}
            position.row = row | self._measures.row(position, results)

    def _end_epoch(self, calls: Calls) -> None:
        """Reset the metrics, validate, and add the row of the epoch to the history."""
        position = self._steps.position
        assert position.row is not None
        for metric in self._measures.metrics.values():
            metric.reset(self.scope)
        row = position.row
        if self.validation is not None:
            values = self._evaluation.measure(self.scope, self.validation, "validation")
            row = row | {f"val_{name}": value for name, value in values.items()}
        with DeferredCtrlC():
            position.rows.append(row)
            position.begin_epoch()
        calls.on_epoch(self, row)
