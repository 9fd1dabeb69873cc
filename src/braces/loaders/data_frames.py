"""Data frames as tables of rows: of pandas, polars and Arrow, recognized without an import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import getitem
from typing import Any, NoReturn

import numpy as np

from braces.errors import DTypeError, FeedError, short_text
from braces.loaders.core.columns import Column, as_column, check_columns
from braces.loaders.files.arrow_files import arrow_column

_PANDAS_FIX = "Fill or drop them: frame.fillna(0) or frame.dropna()."
_POLARS_FIX = "Fill or drop them: frame.fill_null(0) or frame.drop_nulls()."


def is_data_frame(value: Any) -> bool:
    """Return whether a value is a table of one of these libraries; does not import them."""
    return _kind(value) in _FRAMES


def frame_columns(frame: Any, names: Sequence[str] | None) -> dict[str, Column]:
    """Return the columns of a data frame by name.

    Args:
        frame: A data frame or table.
        names: The columns to read, in their order; by default all.

    Raises:
        DTypeError: If a column does not have numbers.
        FeedError: If values are missing, or names are repeated or not strings.
        UnknownNameError: If a column is missing.
    """
    stored_names, get_column, read_column = _FRAMES[_kind(frame)]
    stored = _checked_names(stored_names(frame))
    check_columns(names or (), stored)
    return {name: read_column(name, get_column(frame, name)) for name in names or stored}


def plain_values(name: str, value: Any) -> Any:
    """Return the array of a series, or of the columns of a data frame; others as they are.

    Raises:
        DTypeError: If a column does not have numbers.
        FeedError: If values are missing.
    """
    kind = _kind(value)
    if kind in _SERIES:
        return _SERIES[kind](name, value)
    if kind not in _FRAMES:
        return value
    columns = frame_columns(value, None)
    arrays = {n: c for n, c in columns.items() if isinstance(c, np.ndarray) and c.ndim == 1}
    if len(arrays) < len(columns) or not arrays:
        raise FeedError(
            f"expected columns of numbers in the data frame `{name}`.",
            fix="Pass columns of sequences by their own names: {'x': frame['x']}.",
        )
    return np.stack(list(arrays.values()), axis=1)


def _kind(value: Any) -> str:
    """Return library and class of a value, as `pandas.DataFrame`."""
    for cls in type(value).__mro__[:-1]:
        name = f"{cls.__module__.partition('.')[0]}.{cls.__name__}"
        if name in _FRAMES or name in _SERIES:
            return name
    return ""


def _checked_names(names: Sequence[Any]) -> list[str]:
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise FeedError(
            f"expected strings as names of columns, got {short_text(wrong[0])}.",
            fix="Rename the columns to strings, or pass frame.to_numpy().",
        )
    if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
        raise FeedError(
            f"the data frame has two columns `{repeated[0]}`.", fix="Rename one of them."
        )
    return list(names)


# ---- pandas ----------------------------------------------------------------------------------


def _pandas_column(name: str, series: Any) -> Column:
    missing = int(series.isna().sum())
    dtype = series.dtype
    of_objects = str(dtype) == "object"
    if _is_text(dtype) or (of_objects and _has_text(series)):
        _refuse_text(name, f"{dtype}", "frame['{}'].astype('category').cat.codes")
    if missing:
        _refuse_missing(name, missing, _PANDAS_FIX)
    if of_objects:
        return as_column(name, list(series))
    plain = getattr(dtype, "numpy_dtype", None)
    return as_column(name, series.to_numpy() if plain is None else series.to_numpy(plain))


def _is_text(dtype: Any) -> bool:
    return getattr(dtype, "name", "") in ("category", "str", "string") or (
        str(dtype).startswith("string")
    )


# ---- polars ----------------------------------------------------------------------------------


def _polars_column(name: str, series: Any) -> Column:
    dtype = str(series.dtype)
    if dtype.startswith(("String", "Utf8", "Categorical", "Enum")):
        _refuse_text(name, dtype, "frame['{}'].cast(pl.Categorical).to_physical()")
    if missing := int(series.null_count()):
        _refuse_missing(name, missing, _POLARS_FIX)
    if dtype.startswith("List"):
        return as_column(name, [np.asarray(part) for part in series])
    return as_column(name, series.to_numpy())


# ---- Arrow -----------------------------------------------------------------------------------


def _arrow_names(table: Any) -> Sequence[Any]:
    return table.schema.names


def _arrow_part(table: Any, name: str) -> Any:
    return table.column(name)


def _frame_names(frame: Any) -> Sequence[Any]:
    return list(frame.columns)


def _lazy_names(frame: Any) -> NoReturn:
    raise FeedError(
        "a LazyFrame has no rows yet.",
        given=f"{type(frame).__name__}",
        fix="Pass frame.collect().",
    )


_ColumnReader = Callable[[str, Any], Column]
_Frame = tuple[Callable[[Any], Sequence[Any]], Callable[[Any, str], Any], _ColumnReader]
"""Functions: the names of the columns, a column by its name, a column as an array."""
_FRAMES: Mapping[str, _Frame] = {
    "pandas.DataFrame": (_frame_names, getitem, _pandas_column),
    "polars.DataFrame": (_frame_names, getitem, _polars_column),
    "polars.LazyFrame": (_lazy_names, getitem, _polars_column),
    "pyarrow.Table": (_arrow_names, _arrow_part, arrow_column),
    "pyarrow.RecordBatch": (_arrow_names, _arrow_part, arrow_column),
}
_SERIES: Mapping[str, _ColumnReader] = {
    "pandas.Series": _pandas_column,
    "polars.Series": _polars_column,
    "pyarrow.ChunkedArray": arrow_column,
    "pyarrow.Array": arrow_column,
}


# ---- errors ----------------------------------------------------------------------------------


def _has_text(values: Any) -> bool:
    return any(isinstance(value, str | bytes) for value in values)


def _refuse_text(name: str, dtype: str, codes: str) -> NoReturn:
    raise DTypeError(
        f"expected numbers for `{name}`, got a column of {dtype}.",
        fix=f"Encode the values as integers: {codes.format(name)}; or leave the column out "
        "with names=.",
    )


def _refuse_missing(name: str, count: int, fix: str) -> NoReturn:
    values = "value" if count == 1 else "values"
    raise FeedError(f"column `{name}` has {count} missing {values}.", fix=fix)
