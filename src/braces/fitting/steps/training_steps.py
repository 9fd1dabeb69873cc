"""The loop of a training as an iterator of steps that resumes at any step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from braces.builder.builder import Builder
from braces.builder.user_functions import located
from braces.errors import BracesError
from braces.fitting.steps.batch_stream import Range, read_while_fast, stream_batches
from braces.fitting.steps.data_sets import (
    DataNames,
    Feed,
    Mark,
    as_data_set,
    fingerprint_of,
    named_batch,
    padding_of,
)
from braces.fitting.steps.position import Position
from braces.fitting.steps.same_run import (
    check_same_run,
    check_same_variables,
    program_hash,
    warn_of_other_program,
)
from braces.fitting.steps.step import TrainingOptions, TrainingStep
from braces.fitting.steps.turns import Turns, only_loop
from braces.fitting.steps.writes import StepEnd, checkpoint_errors, open_folder
from braces.hints.objects import Hinted
from braces.keywords import hint_keywords
from braces.loaders.core.data_set import Batches
from braces.notebook import TextView
from braces.runtime.devices.device import is_cpu
from braces.runtime.devices.process_agreement import process_count
from braces.runtime.executor import Executor
from braces.runtime.inputs.fetches import read_fetch
from braces.scope import Scope
from braces.storage.checkpoint import read_checkpoint_info


class TrainingSteps(Hinted, TextView):
    """The steps of a training; returned by `br.training`.

    A `for` loop continues after the last completed step. `next(iter(steps))` runs one step.

    Attributes:
        program: The program.
        data: The data set.
        scope: The scope of the variables.
        exe: The executor.
        position: The position of the next step.
        resumed: The step of the checkpoint that was restored; `None` without one.

    Example:
        >>> import numpy as np, braces as br
        >>> with br.Program() as prog:
        ...     _ = br.optimizer.sgd(0.1).minimize(br.mean(br.fc(br.data("x", ["n", 2]), 1)))
        >>> batches = [{"x": np.eye(2, dtype="float32")}]
        >>> [(step.number, step.last) for step in br.training(prog, batches, epochs=2)]
        [(1, True), (2, True)]
    """

    _internal = ("data_names", "feeds", "is_counted", "record", "save_at_end", "tally", "wait")

    @hint_keywords
    def __init__(
        self,
        program: Builder,
        data: Any,
        fetch: Any,
        options: TrainingOptions,
        scope: Scope | None,
        exe: Executor | None,
        beside: TrainingSteps | None = None,
    ) -> None:
        self.program, self.data, self.options = program, as_data_set(data), options
        self.exe = Executor() if exe is None else exe
        self._padding = padding_of(program, options.pad_to)
        self._names, self._shape_up = read_fetch(fetch, program)
        self._checks = options.checks
        self.data_names = DataNames.of(program, self._names)
        self._watched = list(program.updates)[:1]
        self._checkpoints = open_folder(options.folder, options.keep, options.fresh)
        self.position, self.resumed = Position(), None
        self.tally: Callable[[TrainingStep, Mark, Feed], None] | None = None
        own = {"steps": options.steps, "pad_to": dict(self._padding.multiples) or None}
        self._hash = program_hash(program) if options.folder or beside is not None else ""
        self._run = {"data": fingerprint_of(self.data), "seed": options.seed}
        self._run |= {name: value for name, value in own.items() if value is not None}
        self._beside, self._turns, self.is_counted = beside, Turns(None), True
        stored = self._stored_position()
        self.scope = self.exe.init(program, scope, options.seed, missing_only=True)
        if stored is not None:
            self._resume(stored)
        if beside is not None:
            beside._turns.join(self)
        self._saved = self._state() if stored is not None else None

    # ---- resume and save ----

    def _stored_position(self) -> Position | None:
        """Return the position of the newest checkpoint, if it belongs to this run."""
        folder = (self._beside or self).options.folder
        newest = None if folder is None else read_checkpoint_info(Path(folder))
        if folder is None or newest is None:
            return None
        (info, types), declared = newest, self.program.startup.definition.main.vars
        updated = {n: declared[n].type for n in self.program.startup.updates}
        stored = self._record_of(info.data_position)
        check_same_variables(Path(folder), info.step, types, updated)
        check_same_run(Path(folder), info.step, stored, self._run)
        warn_of_other_program(info.step, stored, self._hash)
        return Position.of_json(stored)

    def _record_of(self, stored: Any) -> Any:
        """Return the own position in that of a checkpoint."""
        if self._beside is not None:
            return self._beside._turns.stored()
        self._turns = Turns(stored)
        return stored

    def _resume(self, position: Position) -> None:
        if self._checkpoints is not None:
            self._checkpoints.restore(self.scope, layout=self.exe.layout)
        self.position, self.resumed = position, position.step
        if position.state is not None and isinstance(self.data, Batches):
            self.data.load_state(position.state)

    def _state(self) -> tuple[Any, ...]:
        at = self.position
        own = at.step, at.epoch, at.batch, at.ended, len(at.rows), at.row is None
        return (*own, *self._turns.state())

    def record(self) -> dict[str, Any]:
        """Return the position as JSON, with those of the trainings beside this one."""
        self._note_state()
        position = self.position.as_json(self._run)
        return {**position, "program": self._hash, **self._turns.records()}

    def save(self) -> None:
        """Save the position and the scope in the folder, if there is one.

        Raises:
            BracesError: If the write failed. Earlier checkpoints are intact.
        """
        if self._beside is not None:
            self._beside.save()
        elif self._checkpoints is not None and self._state() != self._saved:
            with checkpoint_errors(self.options.folder):
                self._checkpoints.save(self.scope, self.position.step, self.record())
            self._saved = self._state()

    def _note_state(self) -> None:
        """Add the state of the data to the position; processes of a job have their own."""
        at = self.position
        if isinstance(self.data, Batches) and process_count() == 1:
            within = at.batch and not at.ended
            at.state = self.data.state(at.epoch, at.batch) if within else None

    def wait(self) -> None:
        """Wait until the last checkpoint is written.

        Raises:
            BracesError: If the write failed. Earlier checkpoints are intact.
        """
        if self._checkpoints is not None:
            with checkpoint_errors(self.options.folder):
                self._checkpoints.wait()

    def save_at_end(self, error: BaseException | None = None) -> None:
        """Save the last whole step after the end of the loop, or after an error.

        A run that was committed without its position, and a process of a job that ends alone,
        keep the previous checkpoint.
        """
        if self._beside is not None:
            return
        try:
            alone, at = process_count() == 1, self.position
            complete = self.is_counted and at.step and self._turns.are_complete(at.step)
            if error is None or (complete and alone):
                self.save()
            self.wait()
        except Exception as failed:
            if error is None or isinstance(error, GeneratorExit):
                raise
            error.add_note(f"The last step was not saved: {failed}")

    # ---- steps ----

    def __iter__(self) -> Generator[TrainingStep]:
        """Run the remaining steps; a step is saved once the caller requests the next one."""
        try:
            if self.position.ended:
                self.position.begin_epoch()
            marks, has_folder = deque[Mark](), self.options.folder is not None
            self._turns.begin(self.position.step)
            with only_loop(self.scope, has_folder), _Prefetched(self, marks) as feeds:
                for feed in feeds:
                    mark = marks.popleft()
                    yield self._run_step(mark, feed)
                    self._finish(mark)
        except BaseException as error:
            self.save_at_end(error)
            raise
        finally:
            if isinstance(self.data, Batches):
                self.data.close()
        self.save_at_end()

    def _finish(self, mark: Mark) -> None:
        self._turns.mark(self.position.step)
        if self.position.ended:
            self.position.begin_epoch()
        every = self.options.save_every
        if mark.last or (every and self.position.step % every == 0):
            self.save()

    def _run_step(self, mark: Mark, feed: Feed) -> TrainingStep:
        before = self.scope.raws(self._watched)
        self.is_counted, first = False, self.position.step == (self.resumed or 0)
        try:
            if first:  # compiles: Ctrl-C is not deferred
                return self._counted(mark, feed)
            with StepEnd():
                return self._counted(mark, feed)
        except BracesError:  # the run changed nothing
            self.is_counted = True
            with located(str(mark)):
                raise
        finally:
            after = self.scope.raws(self._watched)
            self.is_counted |= all(old is new for old, new in zip(before, after, strict=True))

    def _counted(self, mark: Mark, feed: Feed) -> TrainingStep:
        """Run a step and count it; Ctrl-C between the two leaves `is_counted` false."""
        results = self.exe.run(self.program, self.scope, feed, self._names, **self._checks)
        step = TrainingStep(self.position.step + 1, mark, results, self._shape_up)
        if self.tally is not None:
            self.tally(step, mark, feed)
        self.position.advance(mark.last)
        self.is_counted = True
        return step

    def feeds(self, marks: deque[Mark]) -> Iterator[Feed]:
        """Return the feeds of the remaining batches; a thread reads those that take long."""
        at, options = self.position, self.options
        remaining = Range(at.epoch, at.batch, options.epochs, options.steps)
        name_batch = partial(named_batch, names=self.data_names)
        batches = stream_batches(self.data, remaining, name_batch, marks, self._padding)
        if not options.ahead:
            return batches
        read_ahead = partial(self.exe.feeds, self.program, ahead=options.ahead)
        movable = isinstance(self.data, Batches) and self.data.is_movable
        if movable and self.exe.layout is None and is_cpu(self.exe.device_name):
            return read_while_fast(batches, read_ahead)
        return read_ahead(batches)

    def __repr__(self) -> str:
        at = self.position
        return f"<training: step {at.step}, epoch {at.epoch + 1}/{self.options.epochs}>"


class _Prefetched:
    """Feeds whose errors name the batch, and whose thread stops at the end of the block."""

    def __init__(self, steps: TrainingSteps, marks: deque[Mark]) -> None:
        self._feeds: Any = steps.feeds(marks)
        self._marks = marks

    def __enter__(self) -> Iterator[Feed]:
        return self

    def __iter__(self) -> Iterator[Feed]:
        return self

    def __next__(self) -> Feed:
        try:
            return next(self._feeds)
        except BracesError as error:
            if self._marks:  # its conversion failed; errors of the data name their batch
                with located(str(self._marks[0])):
                    raise error
            raise

    def __exit__(self, *_: object) -> None:
        self._feeds.close()
