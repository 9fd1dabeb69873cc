"""Positional encodings: sinusoidal, and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.builder.append import as_var, emit
from braces.builder.var import Var
from braces.errors import ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.parameters import fixed_size


@transactional
def rotary_embedding(
    x: Any, positions: Any = None, *, base: float = 10000.0, interleaved: bool = False
) -> Var:
    """Rotary position embedding: rotate pairs of features by position-dependent angles.

        angle[t, i] = positions[t] / base ** (2 i / size)
        out[..., t, i] = a cos(angle[t, i]) - b sin(angle[t, i])
        out[..., t, i + size / 2] = b cos(angle[t, i]) + a sin(angle[t, i])

    where `a = x[..., t, i]` and `b = x[..., t, i + size / 2]`. The product of a rotated query
    and a rotated key depends on their distance only (Su et al., RoFormer).

    Args:
        x: float[..., steps, size], queries or keys; the size is even.
        positions: integer or float, broadcast to [..., steps]; 0, 1, 2, … by default.
        base: The base of the frequencies; larger bases make the slowest pair slower.
        interleaved: Whether pairs are neighbours, `2 i` and `2 i + 1`, instead of halves.

    Raises:
        ShapeError: If the size is odd or symbolic, or the axis of steps is missing.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.layers.rotary_embedding(br.data("q", ["b", 8, "t", 64])).shape)
        (b, 8, t, 64)
    """
    x = operand(x, "rotary_embedding")
    size = fixed_size(x, -1, "rotary_embedding")
    if size % 2 or x.ndim < 2:
        raise ShapeError(
            "rotary_embedding: expected rank 2 or more and an even number of features.",
            given=f"{x.name}: {x.type}",
        )
    at = emit("arange", stop=x.shape[-2]) if positions is None else as_var(positions)
    angles = _angles(at, size, base)
    cos, sin = (ops.cast(f(angles), x.dtype) for f in (ops.cos, ops.sin))
    if interleaved:
        pairs = ops.reshape(x, (*x.shape[:-1], size // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = x[..., : size // 2], x[..., size // 2 :]
    rotated = [a * cos - b * sin, b * cos + a * sin]
    if interleaved:
        return ops.reshape(ops.stack(rotated, axis=-1), x.shape)
    return ops.concat(rotated, axis=-1)


def _angles(positions: Var, size: int, base: float) -> Var:
    """Return the rotation angles of all pairs, float32[..., size / 2]."""
    slowness = (base ** (-np.arange(0, size, 2) / size)).astype("float32")
    return ops.expand_dims(ops.cast(positions, "float32"), axis=-1) * slowness


@transactional
def positional_encoding(positions: Any, size: int, *, base: float = 10000.0) -> Var:
    """Sinusoidal positional encoding.

        out[..., 2 i] = sin(positions / base ** (2 i / size))
        out[..., 2 i + 1] = cos(positions / base ** (2 i / size))

    The encoding is added to the vectors of steps (Vaswani et al., 2017).

    Args:
        positions: integer or float[...].
        size: The number of features for each position; even.
        base: The longest wavelength, divided by 2 pi.

    Returns:
        float32[..., size].

    Raises:
        ShapeError: If the size is odd.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", "t", 64])
        ...     print((x + br.layers.positional_encoding(br.arange(x.shape[1]), 64)).shape)
        (b, t, 64)
    """
    if size % 2 or size < 0:
        raise ShapeError(f"positional_encoding: expected an even size, got {size}.")
    angles = _angles(as_var(positions), size, base)
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(pairs, (*angles.shape[:-1], size))
