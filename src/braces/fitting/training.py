"""The function `br.training`: a loop over the steps of a training."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from braces.builder.builder import Builder
from braces.builder.source_line import user_line
from braces.errors import ProgramError
from braces.fitting.steps.step import TrainingOptions
from braces.fitting.steps.training_steps import TrainingSteps
from braces.fitting.steps.turns import check_beside
from braces.keywords import hint_keywords
from braces.runtime.executor import Executor
from braces.scope import Scope


@hint_keywords
def training(
    program: Builder,
    data: Any,
    *,
    fetch: Any = None,
    epochs: int = 1,
    folder: str | os.PathLike[str] | None = None,
    save_every: int | None = None,
    keep: int | None = 3,
    scope: Scope | None = None,
    exe: Executor | None = None,
    seed: int = 0,
    fresh: bool = False,
    steps: int | None = None,
    ahead: int = 2,
    pad_to: Mapping[str, int] | None = None,
    check_nan: bool = False,
    check_inf: bool = False,
    beside: TrainingSteps | None = None,
) -> TrainingSteps:
    """Iterate over the steps of a training, which resumes in a folder with the same bits.

    Each step is one run of the program with the next batch, prepared during the runs before.

    With a folder, the scope and the position are saved at the end of each epoch, every
    `save_every` steps, and when the loop ends early: by `break`, Ctrl-C or an error. A step is
    saved after the body of the loop. The same call then continues after the last saved step,
    also in the middle of an epoch, with the same bits as one uninterrupted run. In a job of
    several processes an early end is not saved, because the processes end at different steps.

    Args:
        program: The program with an optimizer.
        data: A data set of `br.batches`, or an iterable of batches that restarts in each epoch,
            as a list or a loader. A batch is a dict by the names of the data variables, or a
            tuple of arrays in the order of their declarations. Any object with a method
            `epoch(number, start=0)`, which returns the batches from `start` on, is a data set.
        fetch: The `values` of each step, as for `exe.run`; by default the loss of `minimize`.
        epochs: The number of epochs, including those before a resume.
        folder: The folder of the checkpoints; created if missing.
        save_every: The number of steps between checkpoints within an epoch.
        keep: The number of newest checkpoints to keep; `None` keeps all.
        scope: The scope of the variables; those without a value are initialized. By default a
            new one.
        exe: The executor; it has the layout and the mode.
        seed: The seed of the initialization.
        fresh: Remove the checkpoints of the folder, and begin at the first step.
        steps: The maximum number of steps in each epoch, for a short trial.
        ahead: The number of batches that a thread prepares; 0 does without a thread. Rows of
            `br.batches` that are read within 0.2 ms need none on a CPU.
        pad_to: Multiples of the sizes of named dimensions: `pad_to={"t": 16}` adds zeros at the
            end of axes of size `t`, up to a multiple of 16, so that few sizes are compiled. Use
            `lengths=` or a fed mask in the program. The history excludes rows of padding.
        check_nan: Fail at the first operator that produces a NaN, as for `exe.run`.
        check_inf: Fail at the first operator that produces an infinity, as for `exe.run`.
        beside: A training that this one takes turns with, over its scope: as the networks of a
            GAN. Its checkpoints have the position of both.

    Returns:
        An iterable of steps, with the attributes `number`, `epoch` and `in_epoch` (all from 1),
        `values`, and `last` for the last step of an epoch. It has the attributes `scope`, `exe`
        and `resumed`, and the method `save`.

    Raises:
        FeedError: If the data is not iterable; and in the loop, if a batch does not fit the
            program. The error names the epoch and the batch.
        ProgramError: If the checkpoints of the folder belong to another run; the error lists
            the differences. If an option is invalid.
        UnknownNameError: If no data has a dimension named in `pad_to`.
        CheckpointWriteError: If a checkpoint cannot be written, in the loop.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["n", 2]), br.data("y", ["n", 1])
        ...     loss = br.squared_error(br.fc(x, 1, name="fc"), y)
        ...     pairs = br.optimizer.sgd(0.1).minimize(loss)
        >>> xs = np.float32([[0, 1], [1, 0], [1, 1]])
        >>> batches = [(xs, xs.sum(axis=1, keepdims=True))] * 20
        >>> for step in br.training(prog, batches, fetch=loss, epochs=2):
        ...     if step.last:
        ...         print(step.number, step.epoch, bool(step.values < 0.1))
        20 1 True
        40 2 True
    """
    check_trainable(program)
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
    if beside is None:
        return TrainingSteps(program, data, fetch, options, scope, exe)
    if not isinstance(beside, TrainingSteps):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ProgramError(
            f"expected a training for `beside`, got {beside!r:.80}.",
            fix="Pass the result of br.training.",
        )
    check_beside({"folder": folder, "save_every": save_every, "fresh": fresh, "scope": scope})
    return TrainingSteps(program, data, fetch, options, beside.scope, exe or beside.exe, beside)


def check_trainable(program: Any) -> None:
    """Refuse an argument that is not a program with updates.

    Raises:
        ProgramError: If the argument is not a program, or has no updates.
    """
    if not isinstance(program, Builder):
        raise ProgramError(
            f"expected a program, got {program!r:.80}.", fix="Write br.training(prog, data)."
        )
    if not program.updates:
        raise ProgramError(
            "the program has no updates, so there is nothing to train.",
            at=user_line(),
            fix="Call br.optimizer.adam(1e-3).minimize(loss) in the program.",
        )
