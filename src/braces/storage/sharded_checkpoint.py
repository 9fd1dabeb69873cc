"""A sharded checkpoint: each of several processes writes a file with the shards of its devices.

    file   := safetensors, "step-000000000120.0123456789abcdef.0-of-4.safetensors": the parts,
              called "w@0", "w@1", …
    record := {"format": "braces.part", "version": 1,
               "shapes": {"w": [8, 4]}, "starts": {"w@0": [0, 0], "w@1": [4, 0]}}

Each shard is in one file, however many devices replicate it. The checkpoint itself is written
last, when all of these files are on the disk. It holds no variables, and its record has

    "parts": {"save": "0123456789abcdef", "sizes": [1072, 1072, …]}

the id of this save, and the size of each process's file in bytes. A save that was killed leaves
files that belong to no checkpoint, which the next save removes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from braces.dtypes import TensorType
from braces.errors import FileFormatError
from braces.ir.limits import LARGEST_INT, readable_name
from braces.storage.tensor_file import (
    Array,
    Region,
    TensorFile,
    is_list,
    is_object,
    open_tensors,
    write_tensors,
)

FORMAT = "braces.part"
_SAVE = re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(r"step-(\d{12,19})\.([0-9a-f]{16})\.\d+-of-\d+\.safetensors")
_DAMAGED = "The checkpoint may be damaged or incomplete, or has files of another one."


# ---- writing ---------------------------------------------------------------------------------


class Shard(NamedTuple):
    """A shard of a variable that this process writes, and its start indices."""

    starts: tuple[int, ...]
    values: Array


def local_shards(raw: Any, *, first: bool, copy: bool) -> list[Shard]:
    """Return the shards of a value that this process writes.

    Args:
        raw: The value: a JAX array over the devices of several processes; or a replicated one,
            which the first process writes.
        first: Whether this is the first process.
        copy: Whether they must survive the next run.
    """
    host = np.array if copy else np.asarray
    if getattr(raw, "is_fully_addressable", True):
        return [Shard((0,) * raw.ndim, host(raw))] if first else []
    return [
        Shard(tuple(part.start or 0 for part in shard.index), host(shard.data))
        for shard in raw.addressable_shards
        if shard.replica_id == 0
    ]


def write_shards(
    path: Path, shapes: Mapping[str, Sequence[int]], parts: Mapping[str, Sequence[Shard]]
) -> int:
    """Write the shards of this process to a file; return its size in bytes.

    Raises:
        OSError: If the folder is missing, full, or not writable.
    """
    named = {f"{name}@{i}": p for name, shards in parts.items() for i, p in enumerate(shards)}
    arrays = {name: part.values for name, part in named.items()}
    starts = {name: part.starts for name, part in named.items()}
    write_tensors(path, arrays, FORMAT, shapes=shapes, starts=starts)
    return path.stat().st_size


def shard_path(checkpoint: Path, save: str, process: int, count: int) -> Path:
    """Return the file of a process."""
    return checkpoint.with_name(
        f"{checkpoint.stem}.{save}.{process}-of-{count}{checkpoint.suffix}"
    )


def remove_abandoned(directory: Path, checkpoints: Mapping[int, Path]) -> None:
    """Remove shard files that belong to no checkpoint."""
    shard_files = [
        (match, match[0]) for match in map(_FILE.fullmatch, os.listdir(directory)) if match
    ]
    saves: dict[int, str | None] = {int(match[1]): "" for match, _ in shard_files}
    for step in saves.keys() & checkpoints.keys():
        saves[step] = _save_of(checkpoints[step])
    for match, name in shard_files:
        if saves[int(match[1])] not in (match[2], None):
            (directory / name).unlink(missing_ok=True)


def _save_of(checkpoint: Path) -> str | None:
    """Return the id of the save that wrote a checkpoint; `None` if it cannot be read."""
    try:
        with open_tensors(checkpoint) as file:
            parts = file.record.get("parts")
            return parts["save"] if is_object(parts) and "save" in parts else ""
    except (FileFormatError, OSError):
        return None


# ---- reading ---------------------------------------------------------------------------------


class StoredShard(NamedTuple):
    """A shard in a file, with its start and end indices."""

    file: TensorFile
    name: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True)
class StoredVariables:
    """The variables of a checkpoint, in one file or several.

    Attributes:
        types: Their types.
        pieces: Their shards, which are disjoint.
    """

    types: Mapping[str, TensorType]
    pieces: Mapping[str, Sequence[StoredShard]]

    def read(self, name: str, region: Region | None = None) -> Array:
        """Read a variable, or a region of it and nothing else.

        Raises:
            FileFormatError: If a bool is neither 0 nor 1.
        """
        shape: Any = self.types[name].shape
        ranges = (
            [range(*part.indices(n)) for part, n in zip(region, shape, strict=True)]
            if region is not None
            else [range(n) for n in shape]
        )
        if len(self.pieces[name]) == 1:
            piece = self.pieces[name][0]
            return piece.file.read(piece.name, tuple(slice(r.start, r.stop) for r in ranges))
        result = np.empty([len(r) for r in ranges], self.types[name].dtype)
        for piece in self.pieces[name]:
            _copy(piece, ranges, result)
        return result


def _copy(piece: StoredShard, ranges: Sequence[range], target: Array) -> None:
    """Copy the part of a shard that a region needs."""
    sides = zip(ranges, piece.begins, piece.ends, strict=True)
    common = [(max(r.start, b), min(r.stop, e)) for r, b, e in sides]
    if any(begin >= end for begin, end in common):
        return
    piece_ranges = zip(common, piece.begins, strict=True)
    inner = tuple(slice(begin - b, end - b) for (begin, end), b in piece_ranges)
    target_ranges = zip(common, ranges, strict=True)
    outer = tuple(slice(begin - r.start, end - r.start) for (begin, end), r in target_ranges)
    target[outer] = piece.file.read(piece.name, inner)


@contextmanager
def open_variables(checkpoint: Path, file: TensorFile) -> Generator[StoredVariables]:
    """Open the variables of a checkpoint.

    Raises:
        FileFormatError: If a file is missing, damaged or of another save, or shards overlap or
            leave gaps.
    """
    record = file.record.get("parts")
    if record is None:
        types = file.variables
        pieces = {n: [_piece(file, n, (0,) * len(t.shape))] for n, t in types.items()}
        yield StoredVariables(types, pieces)
        return
    with ExitStack() as stack:
        files = [
            stack.enter_context(_open_shard_file(*path_and_size))
            for path_and_size in _files(checkpoint, record)
        ]
        yield _collect_shards(files)


def _files(checkpoint: Path, record: Any) -> list[tuple[Path, int]]:
    """Return the files of a checkpoint, with their sizes."""
    save, sizes = (record.get(key) for key in ("save", "sizes")) if is_object(record) else "  "
    if (
        not isinstance(save, str)
        or not _SAVE.fullmatch(save)
        or not is_list(sizes)
        or not sizes
    ):
        raise FileFormatError(
            "missing or invalid list of files in the checkpoint.", fix=_DAMAGED
        )
    count = len(sizes)
    return [(shard_path(checkpoint, save, i, count), size) for i, size in enumerate(sizes)]


@contextmanager
def _open_shard_file(path: Path, size: int) -> Generator[TensorFile]:
    try:
        actual_size = path.stat().st_size
    except FileNotFoundError:
        actual_size = None
    if actual_size != size:
        raise FileFormatError(
            "missing file of the checkpoint."
            if actual_size is None
            else f"a file of the checkpoint has {actual_size} bytes; expected {size!r:.20}.",
            at=os.fspath(path),
            fix=_DAMAGED,
        )
    with open_tensors(path, advice=_DAMAGED) as file:
        file.expect(FORMAT, _DAMAGED)
        yield file


def _collect_shards(files: Sequence[TensorFile]) -> StoredVariables:
    shapes: Any = files[0].record.get("shapes")
    if any(file.record.get("shapes") != shapes for file in files) or not is_object(shapes):
        raise _mismatch_error("the files of the checkpoint have different shapes", files[0])
    pieces: dict[str, list[StoredShard]] = {readable_name(name): [] for name in shapes}
    for file in files:
        for piece in _pieces(file):
            name = piece.name.rpartition("@")[0]
            if name not in pieces:
                raise _mismatch_error(
                    f"{piece.name!r:.80} is a shard of an unknown variable", file
                )
            pieces[name].append(piece)
    return StoredVariables(
        {n: _type(n, shapes[n], shards) for n, shards in pieces.items()}, pieces
    )


def _pieces(file: TensorFile) -> Iterable[StoredShard]:
    starts = file.record.get("starts")
    for name, type_ in file.variables.items():
        begins: Any = starts.get(name) if is_object(starts) else None
        if not _are_sizes(begins) or len(begins) != len(type_.shape):
            raise _mismatch_error(f"missing or invalid offsets of `{name}`", file)
        yield _piece(file, name, tuple(begins))


def _piece(file: TensorFile, name: str, begins: tuple[int, ...]) -> StoredShard:
    sizes: Any = file.types[name].shape
    ends = tuple(begin + size for begin, size in zip(begins, sizes, strict=True))
    return StoredShard(file, name, begins, ends)


def _type(name: str, shape: Any, pieces: Sequence[StoredShard]) -> TensorType:
    """Return the type of a variable, whose shards must form a grid without gaps."""
    dtypes = {piece.file.types[piece.name].dtype for piece in pieces}
    ranks = {len(piece.begins) for piece in pieces}
    if not _are_sizes(shape) or len(dtypes) != 1 or ranks != {len(shape)}:
        raise FileFormatError(
            f"the shards of `{name}` are missing or inconsistent.", fix=_DAMAGED
        )
    axes = [{(p.begins[i], p.ends[i]) for p in pieces} for i in range(len(shape))]
    is_covered = all(_cover_axis(axis, size) for axis, size in zip(axes, shape, strict=True))
    start_indices = {piece.begins for piece in pieces}
    if (
        not is_covered
        or len(start_indices) != len(pieces)
        or len(pieces) != prod(map(len, axes))
    ):
        raise FileFormatError(
            f"the shards of `{name}` overlap or are incomplete.",
            given=f"{len(pieces)} shards of {shape!r:.80}",
            fix=_DAMAGED,
        )
    return TensorType(dtypes.pop(), tuple(shape))


def _cover_axis(sides: set[tuple[int, int]], size: int) -> bool:
    """Return whether intervals are adjacent and cover the axis."""
    at = 0
    for begin, end in sorted(sides):
        if begin != at:
            return False
        at = end
    return at == size


def _are_sizes(value: Any) -> bool:
    return is_list(value) and all(type(n) is int and 0 <= n <= LARGEST_INT for n in value)


def _mismatch_error(what: str, file: TensorFile) -> FileFormatError:
    return FileFormatError(f"{what}.", at=file.path, fix=_DAMAGED)
