"""Options of `br.batches`, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.errors import ProgramError, short_text, suggest
from braces.loaders.core.transforms import BatchTransform
from braces.loaders.rows.tables import RowTable, ragged_names


@dataclass(frozen=True)
class Options:
    """The options of a data set; see `br.batches`."""

    batch_size: int | None = None
    seed: int = 0
    shuffle: bool | None = None
    drop_last: bool = False
    pad_last: bool = False
    bucket_by: Any = None
    sizes: Sequence[int] | None = None
    pad: Any = None
    transform: BatchTransform | None = None
    varying: bool = False
    workers: int = 0
    process: int | None = None
    count: int | None = None

    def refuse(self, names: Sequence[str], noun: str, fix: str) -> None:
        """Refuse options that do not apply to a source.

        Raises:
            ProgramError: If an option has another value than its default.
        """
        default = Options()
        wrong = [name for name in names if getattr(self, name) != getattr(default, name)]
        if wrong:
            listed = ", ".join(f"`{name}`" for name in wrong)
            raise ProgramError(f"{listed} cannot be applied to {noun}.", fix=fix)


def checked_integer(name: str, value: Any, least: int) -> int:
    """Return an integer.

    Raises:
        ProgramError: If the value is not an integer of at least `least`.
    """
    number = -1 if isinstance(value, bool) or not hasattr(value, "__index__") else int(value)
    if number < least:
        raise ProgramError(
            f"invalid {name}={short_text(value)}.", fix=f"Use an integer of at least {least}."
        )
    return number


def checked_pads(pad: Any, table: RowTable) -> dict[str, Any]:
    """Return the fill values of sequences, by column.

    Raises:
        ProgramError: If a column is unknown, or a value does not fit its dtype.
    """
    if pad is None:
        return {}
    if not isinstance(pad, Mapping):
        return {name: _fill(name, pad, table) for name in ragged_names(table)}
    values = cast("Mapping[str, Any]", pad)
    if unknown := values.keys() - set(table.types):
        name = sorted(map(str, unknown))[0]
        raise ProgramError(f"unknown column `{name}` in pad.", fix=suggest(name, table.types))
    return {name: _fill(name, value, table) for name, value in values.items()}


def _fill(name: str, value: Any, table: RowTable) -> Any:
    dtype = np.dtype(table.types[name].split("[")[0])
    try:
        fill = np.array(value, dtype)
    except (TypeError, ValueError, OverflowError):
        fill = None
    if (
        fill is None
        or fill.ndim
        or not np.array_equal(fill, value, equal_nan=dtype.kind == "f")
    ):
        raise ProgramError(f"invalid pad={short_text(value)} for `{name}` of dtype {dtype}.")
    return fill[()]
