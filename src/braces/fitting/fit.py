"""`br.fit`: a training with a history, validation, callbacks, progress and logs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from braces.builder.builder import Builder
from braces.fitting.callbacks import Callbacks
from braces.fitting.evaluation import Measures, check_validation
from braces.fitting.fit_run import Fit
from braces.fitting.logs import log_file
from braces.fitting.progress import Progress
from braces.fitting.steps.step import TrainingOptions
from braces.fitting.steps.training_steps import TrainingSteps
from braces.fitting.training import check_trainable
from braces.keywords import hint_keywords
from braces.runtime.executor import Executor
from braces.scope import Scope


@hint_keywords
def fit(
    program: Builder,
    data: Any,
    *,
    epochs: int = 1,
    validation: Any = None,
    metrics: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
    folder: str | os.PathLike[str] | None = None,
    save_every: int | None = None,
    keep: int | None = 3,
    log: Mapping[str, Any] | None = None,
    log_files: Sequence[str | os.PathLike[str]] = (),
    log_every: int | None = None,
    scope: Scope | None = None,
    exe: Executor | None = None,
    seed: int = 0,
    fresh: bool = False,
    steps: int | None = None,
    ahead: int = 2,
    pad_to: Mapping[str, int] | None = None,
    check_nan: bool = False,
    check_inf: bool = False,
    quiet: bool = False,
) -> Fit:
    """Train a program: a loop over epochs with a history, validation and callbacks.

    The loss of `minimize` is in the history as `loss`. With `validation`, each measurement is
    also taken on the validation data in inference mode, as `val_loss`. With a folder, training
    resumes at any step with the same bits and the same history; see `br.training`, which is the
    loop itself.

    On a terminal a bar shows the progress, in a notebook the curves; elsewhere each epoch
    prints one line on standard error, and so does a first step that takes more than 2 s because
    it compiles.

    Args:
        program: The program with an optimizer.
        data: A data set of `br.batches`, or an iterable of batches; see `br.training`.
        epochs: The number of epochs, including those before a resume.
        validation: A data set that is evaluated after each epoch. One batch is evaluated before
            the first step, so that an error in it is found at once.
        metrics: Metrics by name, as of `br.metrics`; or scalar variables, whose mean over the
            rows is measured.
        callbacks: Objects with some of the methods of `br.Callback`, as `br.EarlyStopping`.
        folder: The folder of the checkpoints.
        save_every: The number of steps between checkpoints within an epoch.
        keep: The number of newest checkpoints to keep; `None` keeps all.
        log: Further variables by name, whose value in the last step of an epoch is in the
            history, as a gradient norm. `log={"rate": "learning_rate"}` is the current learning
            rate.
        log_files: Files of the history: `.jsonl` (JSON lines), `.csv`, or a folder, for
            TensorBoard. After a resume, rows beyond the checkpoint are removed.
        log_every: The number of steps between rows of single steps in the log files; by default
            they have epochs alone, as a CSV file always does.
        scope: The scope of the variables; those without a value are initialized. The variables
            of an earlier run continue; epochs and the order of the data begin again.
        exe: The executor; it has the layout and the mode.
        seed: The seed of the initialization.
        fresh: Remove the checkpoints of the folder, and begin at the first step.
        steps: The maximum number of steps in each epoch and validation, for a short trial.
        ahead: The number of batches that a thread prepares; 0 does without a thread. Rows of
            `br.batches` that are read within 0.2 ms need none on a CPU.
        pad_to: Multiples of the sizes of named dimensions, for training and validation, so that
            few sizes are compiled; see `br.training`.
        check_nan: Fail at the first operator that produces a NaN, in training or validation, as
            for `exe.run`: a `NaNError` that also names the epoch and the batch. Steps are
            slower.
        check_inf: Fail at the first operator that produces an infinity, as for `exe.run`.
        quiet: Show no progress.

    Returns:
        The run, with `history`, `scope` and `exe`.

    Raises:
        FeedError: If the data is not iterable or has no batches, or a batch does not fit the
            program. The error names the epoch and the batch.
        ProgramError: If an option is invalid, a callback monitors an unknown measurement, or
            the checkpoints of the folder belong to another run.
        UnknownNameError: If no data has a dimension named in `pad_to`.
        CheckpointWriteError: If a checkpoint cannot be written.
        NaNError, InfinityError: If an operator fails `check_nan` or `check_inf`. With a folder,
            the steps before are saved.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["n", 2]), br.data("y", ["n"], dtype="int32")
        ...     logits = br.fc(x, 2, name="fc")
        ...     metrics = {"accuracy": br.metrics.accuracy(logits, y)}
        ...     pairs = br.optimizer.adam(0.1).minimize(br.softmax_cross_entropy(logits, y))
        >>> xs = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
        >>> data = br.batches((xs, (xs.sum(axis=1) > 0).astype("int32")), 16)
        >>> run = br.fit(prog, data, epochs=5, metrics=metrics, validation=data, quiet=True)
        >>> run.history.names
        ['loss', 'accuracy', 'val_loss', 'val_accuracy']
        >>> len(run.history), run.history["loss"][-1] < run.history["loss"][0]
        (5, True)
    """
    check_trainable(program)
    measures = Measures.of(program, metrics, log)
    if validation is not None:
        check_validation(validation)
    options = TrainingOptions(
        epochs=epochs,
        folder=folder,
        save_every=save_every,
        keep=keep,
        seed=seed,
        fresh=fresh,
        steps=steps,
        ahead=ahead,
        check_nan=check_nan,
        check_inf=check_inf,
        pad_to=pad_to,
    )
    files = [log_files] if isinstance(log_files, str | os.PathLike) else log_files
    shown = () if quiet else (Progress(),)
    calls = Callbacks(
        [*shown, *(log_file(path, log_every) for path in files), *_as_list(callbacks)]
    )
    training = TrainingSteps(program, data, measures.fetch, options, scope, exe)
    run = Fit(training, measures, validation)
    run.run(calls)
    return run


def _as_list(callbacks: Any) -> list[Any]:
    return list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
