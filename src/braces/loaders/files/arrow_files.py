"""Data sets in files of Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braces.errors import DTypeError, FeedError, FileFormatError
from braces.ir.files.bounded_read import check_regular
from braces.lazy import pyarrow, pyarrow_ipc, pyarrow_parquet
from braces.loaders.core.columns import Column, Ragged, check_columns
from braces.loaders.rows.tables import ArrayTable, GroupedTable


def arrow_table(path: str, names: Sequence[str] | None) -> ArrayTable | GroupedTable:
    """Return the rows of an Arrow file, which stay on the disk as memory maps.

    Raises:
        FileFormatError: If the file is damaged, or no Arrow file.
    """
    open_file = pyarrow_ipc.open_file
    file = _opened(path, lambda: open_file(pyarrow.memory_map(path)))
    batches = [file.get_batch(i) for i in range(file.num_record_batches)]
    batches = [batch for batch in batches if batch.num_rows]
    groups, load = [batch.num_rows for batch in batches], batches.__getitem__
    return _table((arrow_table, (path, names)), path, groups, load, names, slow=False)


def parquet_table(
    paths: Sequence[str], names: Sequence[str] | None
) -> ArrayTable | GroupedTable:
    """Return the rows of Parquet files, read by row groups.

    Raises:
        FileFormatError: If a file is damaged, or no Parquet file.
    """
    open_file = pyarrow_parquet.ParquetFile
    files = [_opened(path, lambda path=path: open_file(path)) for path in paths]
    places = [(file, g) for file in files for g in range(file.num_row_groups)]
    groups = [file.metadata.row_group(g).num_rows for file, g in places]
    filled = [place for place, rows in zip(places, groups, strict=True) if rows]

    def load(number: int) -> Any:
        file, group = filled[number]
        return file.read_row_group(group, columns=None if names is None else [*names])

    groups, reopen = [rows for rows in groups if rows], (parquet_table, (paths, names))
    return _table(reopen, ", ".join(paths), groups, load, names, slow=True)


def _opened(path: str, open_path: Callable[[], Any]) -> Any:
    check_regular(path)
    try:
        return open_path()
    except pyarrow.ArrowException as error:
        raise FileFormatError(f"cannot read {path}: {error}.", at=path) from None


def _table(
    reopen: Any,
    path: str,
    groups: Sequence[int],
    load: Callable[[int], Any],
    names: Sequence[str] | None,
    slow: bool,
) -> ArrayTable | GroupedTable:
    """Return a table of groups of rows, which pyarrow loads."""
    if not groups:
        raise FeedError("the data set is empty.", at=path)

    def load_columns(number: int) -> ArrayTable:
        table = load(number)
        stored = table.schema.names
        check_columns(names or (), stored)
        columns = {name: table.column(name) for name in names or stored}
        return ArrayTable({name: arrow_column(name, c) for name, c in columns.items()})

    if len(groups) == 1 and not slow:
        return load_columns(0)
    return GroupedTable(reopen, groups, load_columns, slow)


def arrow_column(name: str, values: Any) -> Column:
    """Return a column of Arrow as an array, without a copy where its layout allows it.

    Raises:
        DTypeError: If the values are not numbers, or lists of numbers.
        FeedError: If the column has nulls.
    """
    array = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    if array.null_count:
        raise FeedError(
            f"column `{name}` has {array.null_count} nulls.", fix="Fill or drop the nulls."
        )
    kind = array.type
    if pyarrow.types.is_fixed_size_list(kind):
        flat = arrow_column(name, array.flatten())
        if not isinstance(flat, Ragged):
            return flat.reshape(len(array), kind.list_size, *flat.shape[1:])
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        values, ends = arrow_column(name, array.flatten()), array.offsets.to_numpy()
        if not isinstance(values, Ragged):
            return Ragged(values, ends - ends[0])
    if not _is_number(kind):
        raise DTypeError(
            f"expected numbers for `{name}`, got a column of {kind}.",
            fix="Convert the values to integers or floats, or leave the column out with "
            "names=.",
        )
    return array.to_numpy(zero_copy_only=False)


def _is_number(kind: Any) -> bool:
    types = pyarrow.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
