"""The kinds of sources of rows: arrays, data frames, and files by their suffix."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from braces.errors import FeedError
from braces.loaders.core.columns import check_columns, named_columns
from braces.loaders.data_frames import frame_columns, is_data_frame, plain_values
from braces.loaders.files.array_files import file_kind, open_array, open_arrays
from braces.loaders.files.arrow_files import arrow_table, parquet_table
from braces.loaders.rows.tables import ArrayTable, RowTable


def open_table(source: Any, names: Sequence[str] | None) -> tuple[RowTable | None, bool]:
    """Return the table of a source, and whether its columns have names.

    The table is `None` for sources without numbered rows.

    Raises:
        FeedError: If the data set is empty, or the suffix of a file is unknown.
        UnknownNameError: If a column is missing.
    """
    if _is_path(source) or _are_paths(source):
        return _file_table(source, names), True
    if is_data_frame(source):
        return ArrayTable(named_columns(frame_columns(source, names), None)[0]), True
    if isinstance(source, Mapping):
        columns = _selected(cast("Mapping[Any, Any]", source), names)
        opened = {name: _opened(value, name) for name, value in columns.items()}
        return ArrayTable(named_columns(opened, None)[0]), True
    if isinstance(source, tuple):
        parts = enumerate(cast("tuple[Any, ...]", source))
        values = tuple(_opened(value, i) for i, value in parts)
        columns, named = named_columns(values, names)
        return ArrayTable(columns), named
    if hasattr(source, "dtype") and hasattr(source, "shape"):  # one array
        columns, named = named_columns((_opened(source, 0),), names)
        return ArrayTable(columns), named
    return None, False


def _file_table(source: Any, names: Sequence[str] | None) -> RowTable:
    paths = [source] if _is_path(source) else [*cast("Sequence[Any]", source)]
    texts: list[str] = [os.fspath(path) for path in paths]
    kinds = {file_kind(path) for path in texts}
    if kinds == {"parquet"}:
        return parquet_table(texts, names)
    if len(paths) > 1:
        raise FeedError(
            "a list of files must have Parquet files only.",
            given=", ".join(texts),
            fix="Pass one file.",
        )
    if kinds == {"arrow"}:
        return arrow_table(texts[0], names)
    arrays = open_arrays(texts[0])
    if len(arrays) == 1 and names is not None and len(names) == 1:
        arrays = dict(zip(names, arrays.values(), strict=True))
    return ArrayTable(named_columns(_selected(arrays, names), None)[0])


def _selected(columns: Mapping[Any, Any], names: Sequence[str] | None) -> Mapping[Any, Any]:
    """Return the columns of some names, in their order."""
    if names is None:
        return columns
    check_columns(names, columns)
    return {name: columns[name] for name in names}


def _opened(value: Any, name: Any) -> Any:
    """Return the memory map of a path of a `.npy` file, and the array of a series."""
    text = str(getattr(name, "name", name))
    return open_array(str(value)) if _is_path(value) else plain_values(text, value)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _are_paths(value: Any) -> bool:
    values = cast("list[Any]", value)
    return isinstance(value, list) and bool(values) and all(map(_is_path, values))
