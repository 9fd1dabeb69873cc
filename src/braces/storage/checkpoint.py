"""Checkpoints of a training job: a folder with one safetensors file per saved step.

    file   := safetensors (see `tensor_file`), "step-000000000120.safetensors": the variables
    record := {"format": "braces.checkpoint", "version": 1, "step": 120, "data_position": JSON}

A file appears when it is complete and on the disk, so a job that is killed at any moment finds
the last complete one. The folder is one history: steps only grow, and one job writes at a time.
In a job of several processes, each writes its own file next to it; see `sharded_checkpoint`.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from braces.dtypes import TensorType
from braces.errors import BracesError, FileFormatError, ProgramError
from braces.ir.limits import LARGEST_INT
from braces.keywords import hint_keywords
from braces.layout import Layout
from braces.notebook import TextView
from braces.runtime.devices.device_placement import read_sharded_variables
from braces.runtime.devices.process_agreement import agree, process_count
from braces.scope import Scope
from braces.storage.background_write import BackgroundWrite
from braces.storage.checkpoint_arguments import (
    LARGEST_HISTORY,
    LARGEST_POSITION,
    checked_position,
    checked_step,
    optional_count,
)
from braces.storage.parameters import (
    check_scope,
    host_arrays,
    names_with_value,
    put_arrays,
)
from braces.storage.shard_plan import ShardPlan
from braces.storage.sharded_checkpoint import (
    StoredVariables,
    open_variables,
    remove_abandoned,
)
from braces.storage.stored_position import read_position, stored_position
from braces.storage.tensor_file import Array, TensorFile, open_tensors, write_tensors

FORMAT = "braces.checkpoint"
_MOST_NAMED = 4

_PREFIX = "step-"
_NAME = re.compile(_PREFIX + r"(\d{12,19})\.safetensors")


class CheckpointError(BracesError, FileNotFoundError):
    """A checkpoint that does not exist."""


@dataclass(frozen=True)
class CheckpointInfo:
    """The metadata of a restored checkpoint.

    Attributes:
        step: The step after which it was written.
        data_position: The position in the data, as saved.
        missing: Initialized variables of the scope that the checkpoint does not have.

    Example:
        >>> import braces as br, numpy as np, tempfile
        >>> scope = br.Scope()
        >>> scope.update({"w": np.ones(2)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with br.Checkpoint(folder) as checkpoint:
        ...         checkpoint.save(scope, step=7, data_position=[3, 1])
        ...     info = br.Checkpoint(folder).restore(br.Scope())
        >>> info.step, info.data_position
        (7, [3, 1])
    """

    step: int
    data_position: Any = None
    missing: tuple[str, ...] = ()


@final
class Checkpoint(TextView):
    """The checkpoints of a job in a folder, written while training goes on.

    `save` copies the variables and returns; a thread writes them. Only one write is active:
    `save` waits for the previous one. After a failed write, the next call raises its error;
    without a next call, the process reports it at exit with status 120.

    A checkpoint is independent of devices: it can be restored under any layout and number of
    processes. In a job of several processes, all save and all restore, in one shared folder.
    Each writes the shards of its own devices, so nothing is gathered. Replicated values and the
    data position are those of process 0. A process that is missing or cannot write makes the
    save fail in all.

    Args:
        folder: The folder; created if missing.
        keep: The number of newest checkpoints to keep; `None` keeps all.
        keep_every: Checkpoints of steps divisible by this number are kept as well.

    Example:
        >>> import tempfile
        >>> import braces as br
        >>> scope = br.Scope()
        >>> scope.var("w").set(1.0)
        >>> with tempfile.TemporaryDirectory() as folder, Checkpoint(folder, keep=2) as job:
        ...     for step in range(1, 5):
        ...         job.save(scope, step, data_position={"epoch": 0, "row": 32 * step})
        ...     job.restore(scope)
        ...     job.steps
        CheckpointInfo(step=4, data_position={'epoch': 0, 'row': 128}, missing=())
        [3, 4]
    """

    @hint_keywords
    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int | None = 3,
        keep_every: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.keep = optional_count(keep, "keep")
        self.keep_every = optional_count(keep_every, "keep_every")
        self._writing: BackgroundWrite | None = None
        self._largest_position = LARGEST_POSITION
        os.makedirs(self.folder, exist_ok=True)

    def __repr__(self) -> str:
        steps = ", ".join(map(str, _find_checkpoints(self.folder))) or "none"
        return f"<Checkpoint {os.fspath(self.folder)}: steps {steps}>"

    @property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        self.wait()
        return list(_find_checkpoints(self.folder))

    def save(self, scope: Scope, step: int, data_position: Any = None) -> None:
        """Copy all initialized variables of a scope, and write them in the background.

        Args:
            scope: The scope, whose own variables are saved: parameters, optimizer state, random
                state.
            step: The number of completed steps; the folder has no checkpoint of a later step.
            data_position: The position in the data, as plain JSON.

        Raises:
            ProgramError: If a checkpoint of a later step exists, or `step` is invalid.
            DTypeError: If the position is not plain JSON.
            OSError: If the previous write failed.
        """
        check_scope("Checkpoint(folder).save(scope, step)", scope)
        self.wait()
        self._writing = BackgroundWrite(self._prepare(scope, step, data_position, copy=True))
        self._writing.start()

    def save_now(self, scope: Scope, step: int, data_position: Any = None) -> None:
        """Save, and return when the checkpoint is written."""
        check_scope("Checkpoint(folder).save_now(scope, step)", scope)
        self.wait()
        self._prepare(scope, step, data_position, copy=False)()

    def restore(
        self, scope: Scope, step: int | None = None, *, layout: Layout | None = None
    ) -> CheckpointInfo | None:
        """Restore the variables of a scope; on failure the scope is unchanged.

        Args:
            scope: The scope.
            step: The step of the checkpoint; by default the newest.
            layout: The sharding of values, by their names and sizes; values that are already
                placed on these devices, as after `init`, keep their placement. Each process
                then reads only the bytes of its devices. Without a layout each process reads
                everything, and the first run places it.

        Returns:
            The metadata; `None` if there is no checkpoint yet.

        Raises:
            CheckpointError: If there is no checkpoint of this step.
            FileFormatError: If the file is damaged or of a newer format; the error names the
                intact checkpoints.
            LayoutError: If the layout does not fit the variables.
            ClusterError: If the processes do not see the same checkpoints.
        """
        check_scope("Checkpoint(folder).restore(scope)", scope)
        if not self.steps and step is None:
            _agree_on_step("none", layout)
            return None
        return load_checkpoint(scope, self.folder, step, layout=layout)

    def wait(self) -> None:
        """Wait until nothing is being written; raise the error of a failed write."""
        if self._writing is not None:
            error = self._writing.finish()
            self._writing = None
            if error is not None:
                raise error

    def close(self) -> None:
        """Wait, like `wait`: all data is written afterwards."""
        self.wait()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.wait()
        except Exception as failed:
            if error is None:
                raise
            error.add_note(f"The last checkpoint was not written: {failed}")

    def _prepare(
        self, scope: Scope, step: int, data_position: Any, *, copy: bool
    ) -> Callable[[], None]:
        step = checked_step(step)
        later = [saved for saved in _find_checkpoints(self.folder) if saved > step]
        if later:
            raise ProgramError(
                f"the folder has a checkpoint of a later step: {later[-1]}.",
                given=f"step {step}, folder {self.folder}",
                fix="Continue from the newest, remove the later ones, or use another folder.",
            )
        position = checked_position(data_position, self._largest_position)
        record = {"step": step, "data_position": position}
        if process_count() > 1:
            return functools.partial(
                self._write_share, ShardPlan.of(scope, step, copy=copy), record
            )
        return functools.partial(self._write, host_arrays(scope, copy=copy), record)

    def _write_share(self, share: ShardPlan, record: Mapping[str, Any]) -> None:
        """Write the shards of this process; process 0 then writes the checkpoint itself."""
        parts = share.write(self._path(share.step))
        with share.all_hear("checkpoint"):
            if share.process == 0:
                self._write({}, {**record, "parts": parts})

    def _write(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        stored, position = stored_position(record)
        write_tensors(self._path(record["step"]), {**arrays, **position}, FORMAT, **stored)
        for old in self._superseded():
            old.unlink(missing_ok=True)
        remove_abandoned(self.folder, _find_checkpoints(self.folder))

    def _path(self, step: int) -> Path:
        return self.folder / f"{_PREFIX}{step:012}.safetensors"

    def _superseded(self) -> list[Path]:
        checkpoints = _find_checkpoints(self.folder)
        newest = list(checkpoints)[-self.keep :] if self.keep else list(checkpoints)
        keep_interval = self.keep_every or math.inf
        return [
            path
            for step, path in checkpoints.items()
            if step not in newest and step % keep_interval
        ]


def checkpoints_of_training(folder: str | os.PathLike[str], keep: int | None) -> Checkpoint:
    """Return the checkpoints of a training, whose positions have a history."""
    checkpoints = Checkpoint(folder, keep=keep)
    checkpoints._largest_position = LARGEST_HISTORY  # pyright: ignore[reportPrivateUsage]
    return checkpoints


@hint_keywords
def save_checkpoint(
    scope: Scope,
    folder: str | os.PathLike[str],
    step: int,
    data_position: Any = None,
    *,
    keep: int | None = 3,
    keep_every: int | None = None,
) -> None:
    """Write a checkpoint, and return when it is on the disk; see `Checkpoint`."""
    check_scope("save_checkpoint(scope, folder, step)", scope)
    Checkpoint(folder, keep=keep, keep_every=keep_every).save_now(scope, step, data_position)


@hint_keywords
def load_checkpoint(
    scope: Scope,
    folder: str | os.PathLike[str],
    step: int | None = None,
    *,
    layout: Layout | None = None,
) -> CheckpointInfo:
    """Restore the variables of a scope from a checkpoint; on failure the scope is unchanged.

    Args:
        scope: The scope whose own variables are set.
        folder: The folder of the checkpoints.
        step: The step of the checkpoint; by default the newest.
        layout: The sharding of values; see `Checkpoint.restore`.

    Raises:
        CheckpointError: If there is no checkpoint, or none of this step.
        FileFormatError: If the file is damaged or of a newer format; the error names the intact
            checkpoints.
        LayoutError: If the layout does not fit the variables.
        ClusterError: If the processes do not see the same checkpoints.
    """
    check_scope("load_checkpoint(scope, folder)", scope)
    checkpoints = _find_checkpoints(Path(folder))
    if not checkpoints or (step is not None and step not in checkpoints):
        raise CheckpointError(
            f"no checkpoint{'' if step is None else f' of step {step}'} "
            f"in {os.fspath(folder)}.",
            given=f"steps: {', '.join(map(str, checkpoints)) or 'none'}",
            fix="Use Checkpoint(folder).restore(scope), which returns None without one.",
        )
    step = max(checkpoints) if step is None else step
    _agree_on_step(str(step), layout)
    initialized_names = names_with_value(scope)
    with _advised(checkpoints, step, "Restore one with `step={}`, or remove {}"):
        info, arrays = _read_checkpoint(checkpoints[step], scope, layout)
    put_arrays(scope, arrays)
    return replace(
        info, missing=tuple(name for name in initialized_names if name not in arrays)
    )


def read_checkpoint_info(
    folder: Path,
) -> tuple[CheckpointInfo, Mapping[str, TensorType]] | None:
    """Return the metadata and the types of the newest checkpoint, without its values.

    Raises:
        FileFormatError: If the file is damaged or of a newer format; the error names the intact
            checkpoints.
    """
    checkpoints = _find_checkpoints(folder)
    if not checkpoints:
        return None
    newest = max(checkpoints)
    with _advised(checkpoints, newest, "Remove {1}"), _opened(checkpoints[newest]) as opened:
        file, stored = opened
        return _read_info(file), dict(stored.types)


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints of a folder; other files stay."""
    for path in _find_checkpoints(folder).values():
        path.unlink(missing_ok=True)
    remove_abandoned(folder, {})


def _agree_on_step(step: str, layout: Layout | None) -> None:
    """Check that processes that restore shards of a checkpoint restore the same one."""
    if layout is not None:
        agree(
            "checkpoint", step, fix="Use a folder that all processes share, and the same step."
        )


def _read_checkpoint(
    path: Path, scope: Scope, layout: Layout | None
) -> tuple[CheckpointInfo, dict[str, Any]]:
    with _opened(path) as (file, stored):
        info = _read_info(file)
        if layout is not None:
            return info, read_sharded_variables(layout, stored.types, stored.read, scope)
        return info, {name: stored.read(name) for name in stored.types}


def _read_info(file: TensorFile) -> CheckpointInfo:
    file.expect(FORMAT, "Write checkpoints with br.Checkpoint.")
    stored = file.record.get("step")
    if type(stored) is not int or not 0 <= stored <= LARGEST_INT:
        raise FileFormatError("the checkpoint has no valid step.")
    return CheckpointInfo(stored, read_position(file))


@contextmanager
def _opened(path: Path) -> Generator[tuple[TensorFile, StoredVariables]]:
    """Open a checkpoint and its variables."""
    with open_tensors(path, advice="") as file, open_variables(path, file) as stored:
        yield file, stored


@contextmanager
def _advised(checkpoints: dict[int, Path], step: int, advice: str) -> Generator[None]:
    """Add advice to the error of a damaged checkpoint.

    Args:
        checkpoints: All checkpoints of the folder.
        step: The step of the one that is read.
        advice: The use of an intact checkpoint; `{}` are its step and the damaged file.
    """
    try:
        yield
    except FileFormatError as error:
        error.advise(_intact(checkpoints, step, advice))
        raise


def _intact(checkpoints: dict[int, Path], damaged: int, advice: str) -> str:
    """Return advice about intact checkpoints in place of a damaged one."""
    others = (
        step
        for step in reversed(checkpoints)
        if step != damaged and _is_readable(checkpoints[step])
    )
    readable, file = list(itertools.islice(others, _MOST_NAMED)), checkpoints[damaged].name
    if not readable:
        return (
            "No other checkpoint of this folder is intact. Remove "
            f"{file} from the folder to start anew."
        )
    return (
        f"Intact checkpoints have the steps {', '.join(map(str, readable))}. "
        f"{advice.format(readable[0], file)} from the folder to continue from step "
        f"{readable[0]}."
    )


def _is_readable(path: Path) -> bool:
    try:
        with _opened(path) as (file, _):
            _read_info(file)
    except (FileFormatError, OSError):
        return False
    return True


def _find_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the complete checkpoints of a folder by step, in order."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file()]
    except FileNotFoundError:
        return {}
    matches = filter(None, map(_NAME.fullmatch, names))
    return dict(sorted((int(match[1]), folder / match[0]) for match in matches))
