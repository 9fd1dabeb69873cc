"""The position of a training in its checkpoints, and the run that it belongs to.

    {"step": 130, "epoch": 3, "batch": 4, "ended": false,
     "rows": [{"epoch": 1, "step": 42, "loss": 0.7}, …],  the history
     "sums": {"loss": [81.5, 128.0]},                     of the current epoch
     "row": null,                                         of an epoch without validation yet
     "state": null,                                       of the source of the data
     "run": {"data": {"rows": 1347, "seed": 0}, "seed": 0},
     "program": "…"}                                      a fingerprint, to warn of another one

`epoch` and `batch` count from 0, and are those of the next step; at the end of an epoch `ended`
is true until its row is complete.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from braces.builder.builder import Builder
from braces.builder.source_line import warn_user
from braces.dtypes import TensorType, Type
from braces.errors import FileFormatError, ProgramError
from braces.ir.fingerprint import fingerprint

Row = dict[str, Any]
"""The measurements of an epoch: numbers, and lists for arrays."""
_MOST_NAMED = 4


@dataclass
class Position:
    """The position of a training; see the description of this module.

    Attributes:
        step: The number of completed steps.
        epoch: The current epoch, from 0.
        batch: The next batch of the epoch, from 0.
        ended: Whether the last batch of the epoch is done.
        rows: The rows of the history.
        sums: Weighted sums of the current epoch, with the sum of their weights.
        row: The row of an ended epoch, without validation yet.
        state: Where the source of the data stands before the batch; see `Batches.state`.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    ended: bool = False
    rows: list[Row] = field(default_factory=list[Row])
    sums: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    row: Row | None = None
    state: Any = None

    def advance(self, last: bool) -> None:
        """Count a step, of the last batch of its epoch or not."""
        self.step += 1
        self.batch += 1
        self.ended = last

    def begin_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch, self.batch, self.ended = self.epoch + 1, 0, False
        self.sums, self.row, self.state = {}, None, None

    def as_json(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Return the position as strict JSON."""
        return _encoded({**vars(self), "run": run})

    @staticmethod
    def of_json(record: Mapping[str, Any]) -> Position:
        """Return a position from its JSON.

        Raises:
            FileFormatError: If the record is damaged.
        """
        try:
            names = [name for name in Position.__dataclass_fields__ if name != "state"]
            known = {name: record[name] for name in names}
            rows, sums, row = known.pop("rows"), known.pop("sums"), known.pop("row")
            decoded = {name: _numbers(values) for name, values in sums.items()}
            return Position(
                **known,
                rows=list(map(_decoded, rows)),
                sums=decoded,
                row=None if row is None else _decoded(row),
                state=record.get("state"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(
                "the checkpoint has an invalid position of a training.", given=repr(error)
            ) from error


def _encoded(value: Any) -> Any:
    """Return a value with texts for infinities and NaN, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _encoded(part) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return list(map(_encoded, value)) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType]


def _decoded(row: Mapping[str, Any]) -> Row:
    return {name: _numbers(value) for name, value in row.items()}


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_numbers, value))  # pyright: ignore[reportUnknownArgumentType]
    return float(value) if isinstance(value, str) else value


# ---- runs that differ ------------------------------------------------------------------------


def check_same_run(folder: Path, step: int, stored: Any, run: Mapping[str, Any]) -> None:
    """Refuse to resume from the checkpoint of a run with other data or seeds.

    Raises:
        ProgramError: If the runs differ; the error lists the differences.
    """
    if not isinstance(stored, Mapping) or not isinstance(stored.get("run"), Mapping):  # pyright: ignore[reportUnknownMemberType]
        raise _refused(folder, step, "it was not written by br.training or br.fit")
    differences = list(_differences("", stored["run"], _encoded(run)))
    if differences:
        raise _refused(folder, step, _difference_text(differences))


def program_hash(program: Builder) -> str:
    """Return the fingerprints of a program and of its initial values."""
    return fingerprint(program) + fingerprint(program.startup)


def warn_of_other_program(step: int, stored: Mapping[str, Any], program: str) -> None:
    """Warn if the program of a checkpoint, whose position has its fingerprint, is another."""
    before = stored.get("program")
    if isinstance(before, str) and before != program:
        warn_user(
            f"the program, or an initial value such as the learning rate, differs from that of "
            f"the checkpoint of step {step}. Training resumes with this program and with the "
            "values of the checkpoint."
        )


def check_same_variables(
    folder: Path,
    step: int,
    stored: Mapping[str, TensorType],
    declared: Mapping[str, Type],
) -> None:
    """Refuse to resume from a checkpoint without the variables of the program.

    Raises:
        ProgramError: If a variable is missing or has another type.
    """
    differences = [
        f"`{name}` is {stored.get(name, 'missing')} in the checkpoint, {type_} in the program"
        for name, type_ in declared.items()
        if name not in stored or not _same_type(stored[name], type_)
    ]
    if differences:
        raise _refused(folder, step, _difference_text(differences))


def _same_type(stored: TensorType, declared: Type) -> bool:
    if not isinstance(declared, TensorType):
        return False
    sizes = zip(stored.shape, declared.shape, strict=False)
    return (
        stored.dtype == declared.dtype
        and len(stored.shape) == len(declared.shape)
        and all(left == right for left, right in sizes if isinstance(right, int))
    )


def _differences(prefix: str, stored: Any, wanted: Any) -> Iterator[str]:
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        names: list[str] = sorted({*stored, *wanted})  # pyright: ignore[reportUnknownArgumentType]
        for name in names:
            before, now = stored.get(name), wanted.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            yield from _differences(f"{prefix}{name}.", before, now)
    elif stored != wanted:
        yield f"{prefix[:-1]} was {stored!r:.60}, is {wanted!r:.60}"


def _difference_text(differences: list[str]) -> str:
    more = len(differences) - _MOST_NAMED
    text = "; ".join(differences[:_MOST_NAMED])
    return f"{text}; and {more} more" if more > 0 else text


def _refused(folder: Path, step: int, differences: str) -> ProgramError:
    return ProgramError(
        f"the checkpoint of step {step} belongs to another run.",
        given=f"folder {folder}: {differences}",
        fix="Resume with the same program, data and seed, use another folder, or pass "
        "fresh=True, which removes the checkpoints.",
    )


# ---- trainings by turns ----------------------------------------------------------------------
# Trainings that take turns over one scope, as the two networks of a GAN. The first of them has
# the folder. Its checkpoints have the positions of the others, and are written before its turn,
# when each of the others has ended its own. So one file has a state that all continue from.

ZIP = "for one_step, two_step in zip(one, two)"


class Partner(Protocol):
    """A training beside another one."""

    position: Position

    @property
    def is_counted(self) -> bool:
        """True if the last step was counted."""
        ...

    def record(self) -> Mapping[str, Any]:
        """Return the position as JSON."""
        ...


def _entries_of(stored: Any) -> Mapping[str, Any]:
    """Return a stored position as a dict; empty for other JSON."""
    return cast("Mapping[str, Any]", stored) if isinstance(stored, Mapping) else {}


class Turns:
    """The trainings beside a training.

    Args:
        stored: The position of the training in its checkpoint, with those of the others.
    """

    def __init__(self, stored: Any) -> None:
        entries: Any = _entries_of(stored).get("beside", [])
        if not isinstance(entries, list):
            raise FileFormatError("the checkpoint has invalid positions of trainings.")
        self._stored = cast("list[Any]", entries)
        self._partners = list[Partner]()
        self._counts = 0, list[int]()

    def stored(self) -> Any:
        """Return the stored position of the training that joins next; `None` without one.

        Raises:
            ProgramError: If the checkpoint has fewer trainings.
        """
        if not self._stored:
            return None
        if len(self._partners) == len(self._stored):
            raise self._other_number(len(self._partners) + 1)
        return self._stored[len(self._partners)]

    def join(self, partner: Partner) -> None:
        """Add a training."""
        self._partners.append(partner)
        self._counts = 0, [*self._counts[1], partner.position.step]

    def begin(self, step: int) -> None:
        """Begin the loop of the training with the folder.

        Raises:
            ProgramError: If the checkpoint has other trainings, or another one began first.
        """
        if self._stored and len(self._stored) != len(self._partners):
            raise self._other_number(len(self._partners))
        if self._steps() != self._counts[1]:
            raise ProgramError(
                "a training with `beside` began before the one that it is beside.",
                fix=f"Write the training with the folder first: {ZIP}.",
            )
        self._counts = step, self._steps()

    def _other_number(self, joined: int) -> ProgramError:
        return ProgramError(
            f"the checkpoint has {len(self._stored)} trainings beside this one; expected "
            f"{joined}.",
            fix="Make the same trainings with beside=, in the same order, or pass fresh=True.",
        )

    def mark(self, step: int) -> None:
        """Accept that the turns of all have ended."""
        self._counts = step, self._steps()

    def are_complete(self, step: int) -> bool:
        """Return whether all have had their turn since the last mark, after an early end.

        Each takes as many steps for a step of the first as before.
        """
        before, counts = self._counts
        if not all(partner.is_counted for partner in self._partners):
            return False
        if not before:
            return all(number == step for number in self._steps())
        pairs = zip(counts, self._steps(), strict=True)
        return all(number * before == count * step for count, number in pairs)

    def records(self) -> dict[str, Any]:
        """Return the positions as an entry of a checkpoint."""
        records = [partner.record() for partner in self._partners]
        return {"beside": records} if records else {}

    def _steps(self) -> list[int]:
        return [partner.position.step for partner in self._partners]

    def state(self) -> tuple[int, ...]:
        """Return the numbers of steps."""
        return tuple(self._steps())


_LOOPING = set[int]()
"""The identities of the scopes that a loop with a folder trains."""


@contextmanager
def only_loop(scope: object, has_folder: bool) -> Generator[None]:
    """Refuse a second loop with a folder over one scope.

    Raises:
        ProgramError: If a loop with a folder trains the scope.
    """
    key = id(scope)
    if not has_folder:
        yield
        return
    if key in _LOOPING:
        raise ProgramError(
            "two trainings with folders take turns over one scope, so that a checkpoint of the "
            "one would have half a turn of the other.",
            fix="Pass beside=one in place of scope= and folder=: the checkpoints of `one` then "
            "have both.",
        )
    _LOOPING.add(key)
    try:
        yield
    finally:
        _LOOPING.discard(key)


def check_beside(options: Mapping[str, Any]) -> None:
    """Refuse options of a training beside another one that are those of the other.

    Raises:
        ProgramError: If an option is set.
    """
    if names := [
        name for name, value in options.items() if value is not None and value is not False
    ]:
        listed = ", ".join(f"`{name}`" for name in names)
        raise ProgramError(
            f"{listed} cannot be combined with `beside`.",
            fix="Pass them to the training that this one is beside.",
        )
