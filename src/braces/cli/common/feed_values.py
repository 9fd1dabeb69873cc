"""Feeds of `braces run`: arrays from files, literals, random numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from braces.dims import Dim, substitute
from braces.dtypes import DType, TensorType, parse_type
from braces.errors import FeedError, suggest
from braces.ir.files.bounded_read import check_regular
from braces.ir.records import VarInfo

RANDOM = "random"
_DEFAULT_SIZE = 4

Array = np.ndarray[Any, np.dtype[Any]]


def read_feeds(texts: Iterable[str], data: Mapping[str, VarInfo], seed: int) -> dict[str, Any]:
    """Read the feeds given as `NAME=VALUE`.

    A value is `@FILE.npy`, `@FILE.npz:KEY`, a literal of JSON, `random`, or `random:TYPE`.
    Random arrays have the declared type; their named dimensions have the sizes of other feeds.

    Raises:
        FeedError: If a value cannot be read, or a name is not declared.
        FileFormatError: If a file is a folder, or not a regular file.
        OSError: If a file does not exist.
    """
    values = dict(_split_feed(text, data) for text in texts)
    feeds = {
        name: _read_value(name, value)
        for name, value in values.items()
        if not _is_random(value)
    }
    sizes = _sizes(feeds, data)
    rng = np.random.default_rng(seed)
    for name, value in values.items():
        if _is_random(value):
            feeds[name] = _draw_array(_random_type(value, data[name]), sizes, rng)
    return feeds


def _split_feed(text: str, data: Mapping[str, VarInfo]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise FeedError(f"invalid feed {text!r:.80}.", fix="Use --feed NAME=VALUE.")
    if name not in data:
        raise FeedError(f"unknown data variable `{name}`.", fix=suggest(name, data))
    return name, value


def _is_random(value: str) -> bool:
    return value == RANDOM or value.startswith(f"{RANDOM}:")


def _read_value(name: str, value: str) -> Any:
    if value.startswith("@"):
        return _from_file(name, value[1:])
    try:
        return json.loads(value)
    except ValueError:
        raise FeedError(
            f"the value of feed `{name}` cannot be read: {value:.60}.",
            fix="Use @FILE.npy, a number, [numbers], true, random, or random:f32[4,8].",
        ) from None


def _from_file(name: str, path: str) -> Array:
    path, _, key = path.partition(":") if ".npz:" in path else (path, "", "")
    check_regular(path)
    try:
        contents: Any = np.load(path, allow_pickle=False)
        return np.asarray(contents[key]) if key else np.asarray(contents)
    except (ValueError, KeyError, EOFError) as error:
        raise FeedError(
            f"feed `{name}` cannot be read from {path}.",
            given=str(error)[:200],
            fix="Use a file written by numpy.save, or FILE.npz:KEY.",
        ) from None


# ---- random numbers --------------------------------------------------------------------------


def _random_type(value: str, info: VarInfo) -> TensorType:
    type_ = parse_type(value.partition(":")[2]) if ":" in value else info.type
    if not isinstance(type_, TensorType):
        raise FeedError(
            f"cannot draw a random value of type `{type_}`; expected an array type."
        )
    return type_


def _sizes(feeds: Mapping[str, Any], data: Mapping[str, VarInfo]) -> dict[str, int]:
    """Return the sizes of named dimensions, from the shapes of feeds."""
    sizes: dict[str, int] = {}
    for name, value in feeds.items():
        declared, shape = data[name].type, np.shape(value)
        if isinstance(declared, TensorType) and len(shape) == declared.rank:
            pairs = zip(declared.shape, shape, strict=True)
            sizes |= {d.name: n for d, n in pairs if isinstance(d, Dim) and d.name}
    return sizes


def _draw_array(type_: TensorType, sizes: dict[str, int], rng: np.random.Generator) -> Array:
    """Draw normal numbers, random booleans, or integers that are 0 or 1."""
    shape = tuple(_resolve_size(size, sizes) for size in type_.shape)
    return _draw_numbers(type_.dtype, shape, rng)


def _resolve_size(size: Any, sizes: dict[str, int]) -> int:
    if isinstance(size, Dim):
        sizes.update({n: _DEFAULT_SIZE for n in size.names() if n not in sizes})
        size = substitute(size, sizes)
    return int(size)


def _draw_numbers(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if dtype.kind == "b" or dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)
