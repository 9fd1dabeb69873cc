"""Messages between client and worker: arrays and a record, in the format of files.

    frame   := length (u64, little endian), message
    message := safetensors, with the record {"format": "braces.remote", "message": kind, …}

    request  record            arrays                      answer
    load     mode, device      the program, its values     done
    run      fetch, timeout_s  feeds, the random state     done: the fetches, by number
    values                                                 done: persistable values
                                                           error, in place of done

A fetch is a name or path, or a list of two: the loss and the path of a gradient.
Requests and answers alternate. A message contains no code, and nothing is unpickled.
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
"""The size limit of a message: 16 GiB."""
LENGTH_BYTES = 8


@dataclass(frozen=True)
class Message:
    """A request, or the answer to one.

    Attributes:
        kind: The kind of message.
        record: Plain JSON fields.
        arrays: The arrays.
    """

    kind: str
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])


def pack_message(message: Message) -> list[bytes | memoryview]:
    """Serialize a message to the pieces of a frame; arrays are not copied.

    Raises:
        ProgramError: If the message exceeds the size limit.
    """
    record = {**message.record, "message": message.kind}
    pieces = list(tensor_pieces(message.arrays, FORMAT, **record))
    length = sum(map(len, pieces))
    if length > LARGEST_MESSAGE:
        raise ProgramError(
            f"the message has {length} bytes; the maximum is {LARGEST_MESSAGE}.",
            fix="Send smaller batches, or a part of the program.",
        )
    return [length.to_bytes(LENGTH_BYTES, "little") + pieces[0], *pieces[1:]]


def frame_length(data: bytes) -> int:
    """Return the length of the message that follows.

    Raises:
        FileFormatError: If the message exceeds the size limit.
    """
    length = int.from_bytes(data, "little")
    if length > LARGEST_MESSAGE:
        raise FileFormatError(
            f"the message has {length} bytes; the maximum is {LARGEST_MESSAGE}."
        )
    return length


def unpack_message(data: bytes) -> Message:
    """Parse a message without its length prefix.

    Raises:
        FileFormatError: If the data is not a message, or is a message of a newer Braces.
    """
    file = read_tensors(data, "a message")
    file.expect(FORMAT, "Use the same version of Braces on both sides.")
    record = dict(file.record)
    kind = record.pop("message", None)
    if not isinstance(kind, str):
        raise FileFormatError("the message has no kind.")
    return Message(kind, record, {name: file.read(name) for name in file.types})
