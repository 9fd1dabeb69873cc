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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from braces.errors import FileFormatError

Row = dict[str, Any]
"""The measurements of an epoch: numbers, and lists for arrays."""


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
        return json_encoded({**vars(self), "run": run})

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


def json_encoded(value: Any) -> Any:
    """Return a value with texts for infinities and NaN, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: json_encoded(part) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return list(map(json_encoded, value)) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType]


def _decoded(row: Mapping[str, Any]) -> Row:
    return {name: _numbers(value) for name, value in row.items()}


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_numbers, value))  # pyright: ignore[reportUnknownArgumentType]
    return float(value) if isinstance(value, str) else value
