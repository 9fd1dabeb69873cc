"""Requests as one batch: concatenation, padding by the last element, and the way back.

sizes 1, 2, 4     requests of 1, 1 and 1 element → a batch of 3, padded to 4
outputs of 4 elements → the first three, one for each request
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from braces.errors import ProgramError
from braces.serving.models.served_model import Arrays, Signature
from braces.serving.protocol.tensor_spec import Array

LONGEST_SHARED = 4096
"""The largest number of bytes of an input without batch axis in a request that is joined."""


def batch_sizes(most: int) -> tuple[int, ...]:
    """Return the batch sizes that are compiled: powers of two, and the largest size.

    Example:
        >>> batch_sizes(12)
        (1, 2, 4, 8, 12)
    """
    return (*(2**i for i in range((most - 1).bit_length())), most)


def padded_size(count: int, sizes: Sequence[int]) -> int:
    """Return the smallest of the sizes that holds a number of elements."""
    return next((size for size in sizes if size >= count), count)


def join_key(signature: Signature, feed: Arrays) -> tuple[object, ...] | None:
    """Return the properties that joined requests have in common; `None` to run alone."""
    parts: list[object] = []
    for name in signature.inputs:
        array = feed[name]
        if name in signature.joined_inputs:
            parts.append(array.shape[1:])
        elif array.nbytes > LONGEST_SHARED:
            return None
        else:
            parts.append((array.shape, array.tobytes()))
    return tuple(parts)


def join_feeds(signature: Signature, feeds: Sequence[Arrays], size: int) -> dict[str, Array]:
    """Return one feed of `size` batch elements; the last element is repeated as padding."""
    joined: dict[str, Array] = {}
    for name in signature.inputs:
        parts = [feed[name] for feed in feeds]
        if name not in signature.joined_inputs:
            joined[name] = parts[0]
            continue
        missing = size - sum(map(len, parts))
        if missing:
            parts.append(np.repeat(parts[-1][-1:], missing, axis=0))
        joined[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return joined


def split_outputs(
    signature: Signature, outputs: Arrays, counts: Sequence[int]
) -> Iterator[dict[str, Array]]:
    """Yield the outputs of each request.

    Raises:
        ProgramError: If an output has fewer batch elements than the inputs.
    """
    for name in signature.joined_outputs:
        if len(outputs[name]) < sum(counts):
            raise ProgramError(f"the output `{name}` has {len(outputs[name])} batch elements.")
    for end, count in zip(accumulate(counts), counts, strict=True):
        yield {
            name: array[end - count : end] if name in signature.joined_outputs else array
            for name, array in outputs.items()
        }


def split_feed(signature: Signature, feed: Arrays, most: int) -> list[dict[str, Array]]:
    """Split a request into parts of at most `most` batch elements."""
    count = max((len(feed[name]) for name in signature.joined_inputs), default=0)
    return [
        {
            name: array[start : start + most] if name in signature.joined_inputs else array
            for name, array in feed.items()
        }
        for start in range(0, count, most)
    ]


def join_outputs(signature: Signature, parts: Sequence[Arrays]) -> dict[str, Array]:
    """Return the outputs of a request that was split."""
    return {
        name: np.concatenate([part[name] for part in parts])
        if name in signature.joined_outputs
        else array
        for name, array in parts[0].items()
    }
