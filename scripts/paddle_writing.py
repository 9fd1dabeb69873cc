"""Paddle programs, written without Paddle: descriptions, and files of arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from braces.exchange.paddle.proto import paddle_program_pb2 as pb

CODES = {
    "bool": 0, "int16": 1, "int32": 2, "int64": 3, "float32": 5, "float64": 6, "uint8": 20,
    "complex64": 23, "complex128": 24,
}  # fmt: skip
TYPES: Sequence[tuple[type, int, str]] = (
    (bool, 6, "b"), (int, 0, "i"), (float, 1, "f"), (bytes, 2, "s"),
)  # fmt: skip
LISTS: Mapping[type, tuple[int, str]] = {
    int: (3, "ints"), float: (4, "floats"), bytes: (5, "strings"), bool: (7, "bools"),
}  # fmt: skip


@dataclass
class Written:
    """A program under construction; operators are appended to the open block."""

    desc: Any = field(default_factory=pb.ProgramDesc)
    weights: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    feeds: int = 0
    fetches: int = 0
    at: int = 0

    def __post_init__(self) -> None:
        self.desc.blocks.add(idx=0, parent_idx=-1)

    def var(self, name: str, *dims: int, dtype: str = "float32", level: int = 0) -> str:
        """Declare an array; -1 is an unknown size."""
        var = self.desc.blocks[self.at].vars.add(name=name)
        var.type.type, var.type.lod_tensor.lod_level = 7, level
        var.type.lod_tensor.tensor.data_type = CODES[dtype]
        var.type.lod_tensor.tensor.dims.extend(dims)
        return name

    def weight(self, name: str, array: Any) -> str:
        """An array that is stored in a file."""
        self.weights[name] = np.asarray(array)
        self.var(name, *self.weights[name].shape, dtype=str(self.weights[name].dtype))
        self.desc.blocks[self.at].vars[-1].persistable = True
        return name

    def op(
        self, kind: str, given: Mapping[str, Any], made: Mapping[str, Any], **attrs: Any
    ) -> str:
        """Append an operator; return its first output."""
        op = self.desc.blocks[self.at].ops.add(type=kind)
        for slots, names in ((op.inputs, given), (op.outputs, made)):
            for slot, found in names.items():
                each = [found] if isinstance(found, str) else found
                slots.add(parameter=slot, arguments=each)
        for name, value in attrs.items():
            self.attr(op.attrs.add(name=name), value)
        return next((name for slot in op.outputs for name in slot.arguments), "")

    @staticmethod
    def attr(attr: Any, value: Any) -> None:
        """Fill in an attribute; a text is bytes, a block `Inner`."""
        if isinstance(value, Inner):
            attr.type, attr.block_idx = 8, value.at
        elif isinstance(value, list):
            attr.type, name = LISTS[type(value[0]) if value else int]
            getattr(attr, name).extend(value)
        else:
            kind, name = next(entry[1:] for entry in TYPES if isinstance(value, entry[0]))
            attr.type = kind
            setattr(attr, name, value)

    def feed(self, name: str, *dims: int, dtype: str = "float32", level: int = 0) -> str:
        """An input."""
        self.op("feed", {"X": "feed"}, {"Out": name}, col=self.feeds)
        self.feeds += 1
        return self.var(name, *dims, dtype=dtype, level=level)

    def fetch(self, *names: str) -> None:
        """Outputs."""
        for name in names:
            self.op("fetch", {"X": name}, {"Out": "fetch"}, col=self.fetches)
            self.fetches += 1

    @contextmanager
    def block(self) -> Iterator[Inner]:
        """A nested block."""
        outer, self.at = self.at, len(self.desc.blocks)
        self.desc.blocks.add(idx=self.at, parent_idx=outer)
        yield Inner(self.at)
        self.at = outer

    def save(self, folder: Path, style: str = "2.x") -> Path:
        """Write the program: as 2.x, or as fluid 1.x with arrays `together` or each `alone`."""
        folder.mkdir(parents=True, exist_ok=True)
        data = {name: stored(array) for name, array in sorted(self.weights.items())}
        program = "net.pdmodel" if style == "2.x" else "__model__"
        (folder / program).write_bytes(self.desc.SerializeToString())
        if style == "alone":
            for name, content in data.items():
                (folder / name).write_bytes(content)
        elif data:
            file = "net.pdiparams" if style == "2.x" else "__params__"
            (folder / file).write_bytes(b"".join(data.values()))
        return folder


@dataclass
class Inner:
    """The number of a block, as an attribute."""

    at: int


def stored(array: np.ndarray[Any, Any]) -> bytes:
    """An array in the file format."""
    header = pb.TensorDesc(data_type=CODES[str(array.dtype)], dims=array.shape)
    text = header.SerializeToString()
    return struct.pack("<IQIi", 0, 0, 0, len(text)) + text + array.tobytes()
