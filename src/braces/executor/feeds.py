"""What a run is given: feeds as arrays of the declared types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from braces.dtypes import TensorType, short_name
from braces.errors import FeedError, suggest
from braces.executor.attributes import Sizes, learn_sizes
from braces.ir.records import VarInfo

PYTHON = (bool, int, float, complex, list, tuple, np.generic)


def check_names(
    given: Iterable[str], needed: Mapping[str, VarInfo], declared: Mapping[str, VarInfo]
) -> None:
    """Refuse feeds that are missing or unknown.

    Args:
        given: The names that are fed.
        needed: What the run reads.
        declared: All data variables of the program.

    Raises:
        FeedError: It names the feed and what was declared.
    """
    given = list(given)
    for name in given:
        if name not in declared:
            raise FeedError(f"The program has no data `{name}`.", fix=suggest(name, declared))
    missing = [info for name, info in needed.items() if name not in given]
    if missing:
        shown = ", ".join(f"`{info.name}`: {info.type}" for info in missing)
        raise FeedError(
            f"The run needs data that was not fed: {shown}.",
            given=f"fed: {', '.join(given) or 'nothing'}",
            fix=f"Pass feed={{{missing[0].name!r}: array, …}}.",
        )


def convert(info: VarInfo, value: Any) -> Any:
    """A fed value as an array; numbers and lists take the declared dtype, arrays must have it.

    Raises:
        FeedError: The dtype differs, or the value is no array.
    """
    declared = info.type
    assert isinstance(declared, TensorType)
    if isinstance(value, PYTHON):
        return _convert_python(info, declared, value)
    if type(value) is not np.ndarray:
        value = _as_array(info, value)
    if value.dtype != declared.dtype:
        raise FeedError(
            f"Feed `{info.name}` has the wrong dtype.",
            given=f"{info.name}: declared {declared}, fed {describe(value)}",
            fix=f"Convert it: array.astype({declared.dtype.name!r}).",
        )
    return value


def _convert_python(info: VarInfo, declared: TensorType, value: Any) -> Any:
    try:
        found = np.asarray(value)
        if found.dtype.kind not in "biufcV" or not _fits(found.dtype, declared.dtype):
            raise ValueError(f"{found.dtype} does not become {declared.dtype}")
        return _narrowed(found, declared.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise FeedError(
            f"Feed `{info.name}` cannot become {declared}.",
            given=f"{value!r:.80} ({error})",
            fix="Feed a NumPy array of the declared dtype.",
        ) from None


def _fits(given: np.dtype[Any], declared: np.dtype[Any]) -> bool:
    """Whether converting keeps the meaning: no fractions to integers, no numbers to bools."""
    if declared.kind == "b":
        return given.kind == "b"
    if declared.kind in "iu":
        return given.kind in "biu"
    return given.kind != "c" or declared.kind == "c"


def _narrowed(found: Any, dtype: np.dtype[Any]) -> Any:
    """The same numbers in the declared dtype; no integer wraps, nothing becomes infinite."""
    if found.dtype == dtype:
        return found
    with np.errstate(over="ignore"):
        made = found.astype(dtype)
    fits = made == found if dtype.kind in "iu" else np.isinf(made) <= np.isinf(found)
    if not np.all(fits):
        raise ValueError(f"it does not fit into {dtype}")
    return made


def _as_array(info: VarInfo, value: Any) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        raise FeedError(
            f"Feed `{info.name}` is a masked array.",
            given=f"{info.name}: declared {info.type}, fed {describe(value)}",
            fix="Feed array.filled(value), and the mask as data of its own.",
        )
    if hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "__array__"):
        return value if type(value).__module__.startswith("jax") else np.asarray(value)
    raise FeedError(
        f"Feed `{info.name}` is no array.",
        given=f"{type(value).__name__}: {value!r:.60}",
        fix=f"Feed a NumPy array of type {info.type}.",
    )


def check_shape(info: VarInfo, value: Any, sizes: Sizes) -> None:
    """Learn the named dimensions of a feed.

    Raises:
        FeedError: The shape is not the declared one, or contradicts another feed.
    """
    problem = learn_sizes(info.type, value.shape, sizes)
    if problem:
        raise FeedError(
            f"Feed `{info.name}` has the wrong shape: {problem}.",
            given=f"{info.name}: declared {info.type}, fed {describe(value)}",
            fix="Reshape it, or declare another shape with br.data.",
        )


def describe(value: Any) -> str:
    """The type of an array in short."""
    try:
        dtype = short_name(np.dtype(value.dtype))
    except KeyError:
        dtype = str(value.dtype)
    return f"{dtype}[{','.join(map(str, value.shape))}]"
