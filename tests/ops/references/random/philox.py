"""References of `braces.ops.random.philox`: Philox-4x32 with 10 rounds, number by number."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.reference import Array, Reference

WORD = 2**32


def mix(words: list[int], key: list[int]) -> list[int]:
    """Ten rounds of one counter, low words first."""
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            second // WORD ^ words[1] ^ key[0],
            second % WORD,
            first // WORD ^ words[3] ^ key[1],
            first % WORD,
        ]
        key = [(key[0] + 0x9E3779B9) % WORD, (key[1] + 0xBB67AE85) % WORD]
    return words


def philox_bits(key: Array, *, shape: tuple[int, ...], width: int) -> Array:
    """The counter continues with the words of the key."""
    own = [int(word) for word in key]
    start = sum(word * WORD**at for at, word in enumerate((*own[2:], *own[:2])))
    count = math.prod(shape) * (2 if width == 64 else 1)
    words = list[int]()
    for counter in range(start, start + -(-count // 4)):
        words += mix([counter // WORD**at % WORD for at in range(4)], own[:2])
    bits = np.asarray(words[:count], "u8")
    if width == 64:
        bits = bits[::2] + (bits[1::2] << np.uint64(32))
    return bits.astype(f"u{width // 8}").reshape(shape)


REFERENCES = {"philox_bits": Reference(philox_bits, smooth=False)}
