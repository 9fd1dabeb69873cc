"""What client and worker say to each other: arrays and a record, as files have them.

    frame   := length (u64, little endian), message
    message := safetensors, with the record {"format": "braces.remote", "message": kind, …}

    request  record            arrays                      answer
    load     mode, device      the program, its values     done
    run      fetch, timeout_s  feeds, the random state     done: what was fetched, by number
    values                                                 done: persistable values
                                                           error, in place of done

One side speaks, then the other. There is no code in a message, and nothing that is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from braces.errors import FileFormatError, ProgramError
from braces.storage.tensor_file import Array, read_tensors, tensor_pieces

FORMAT = "braces.remote"
LOAD, RUN, VALUES, DONE, ERROR = "load", "run", "values", "done", "error"
LARGEST_MESSAGE = 1 << 34
"""Bytes; 16 GiB."""
LENGTH_BYTES = 8


@dataclass(frozen=True)
class Message:
    """A request, or the answer to one.

    Attributes:
        kind: What it is.
        record: What it says: plain JSON.
        arrays: What it carries.
    """

    kind: str
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])


def packed(message: Message) -> list[bytes | memoryview]:
    """A message as a frame, piece by piece; arrays stay where they are.

    Raises:
        ProgramError: It is larger than a worker accepts.
    """
    record = {**message.record, "message": message.kind}
    pieces = list(tensor_pieces(message.arrays, FORMAT, **record))
    length = sum(map(len, pieces))
    if length > LARGEST_MESSAGE:
        raise ProgramError(
            f"What is sent takes {length} bytes; {LARGEST_MESSAGE} is the most.",
            fix="Send smaller batches, or a part of the program.",
        )
    return [length.to_bytes(LENGTH_BYTES, "little") + pieces[0], *pieces[1:]]


def frame_length(data: bytes) -> int:
    """How long the message is that follows.

    Raises:
        FileFormatError: It would be longer than any.
    """
    length = int.from_bytes(data, "little")
    if length > LARGEST_MESSAGE:
        raise FileFormatError(f"A message has {LARGEST_MESSAGE} bytes at most.")
    return length


def unpacked(data: bytes) -> Message:
    """Read what `packed` wrote, without its length.

    Raises:
        FileFormatError: It is no message, or one of a newer Braces.
    """
    file = read_tensors(data, "a message")
    file.expect(FORMAT, "Give both sides the same Braces.")
    record = dict(file.record)
    kind = record.pop("message", None)
    if not isinstance(kind, str):
        raise FileFormatError("A message does not say what it is.")
    return Message(kind, record, {name: file.read(name) for name in file.types})
