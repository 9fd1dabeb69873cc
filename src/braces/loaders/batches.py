"""`br.batches`: a data set as batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.checked_calls import checked_call
from braces.errors import FeedError, ProgramError, short_text
from braces.keywords import hint_keywords
from braces.loaders.columns import named_columns
from braces.loaders.data_set import ArrayBatches
from braces.loaders.order import Order


@hint_keywords
@checked_call
def batches(
    source: Any,
    batch_size: int = 32,
    *,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    names: Sequence[str] | None = None,
) -> ArrayBatches:
    """Batches of rows of arrays, shuffled in each epoch.

    The order of epoch `e` is `np.random.default_rng((seed, e)).permutation(rows)`. So the
    position in the data is two integers, the numbers of an epoch and of a batch, and resuming
    at any batch gives the same batches.

    Args:
        source: A dict of arrays with one row for each element, or a tuple `(x, y)` of arrays.
        batch_size: The number of rows of a batch.
        seed: The seed of the order.
        shuffle: Whether each epoch permutes the rows; otherwise they are in stored order.
        drop_last: Whether a smaller last batch is left out. A batch of another size compiles
            the program once more.
        names: Names for the arrays of a tuple. Without them, batches are tuples, and `br.fit`
            takes the names from the data of the program, in order of declaration.

    Returns:
        The data set: `data.epoch(e)` iterates over an epoch, `len(data)` is its number of
        batches. `for batch in data` is epoch 0.

    Raises:
        ShapeError: If the arrays differ in their number of rows.
        FeedError: If the data set is empty, or smaller than a batch with `drop_last`.
        DTypeError: If an array has a dtype other than numbers.
        ProgramError: If an option is invalid.

    Example:
        >>> import braces as br, numpy as np
        >>> x, y = np.arange(10.0), np.arange(10)
        >>> data = br.batches({"x": x, "y": y}, 4, seed=0)
        >>> len(data), data.rows
        (3, 10)
        >>> [batch["y"].tolist() for batch in data.epoch(0)]
        [[4, 6, 2, 7], [3, 5, 9, 0], [8, 1]]
        >>> [batch["y"].tolist() for batch in data.epoch(1, start=2)]
        [[2, 5]]
    """
    batch_size = checked_integer("batch_size", batch_size, 1)
    seed = checked_integer("seed", seed, 0)
    columns, named = named_columns(source, names)
    order = Order(len(next(iter(columns.values()))), batch_size, seed, shuffle, drop_last)
    if not len(order):
        raise FeedError(
            f"the data set has fewer rows than a batch: {order.rows} < {batch_size}.",
            fix="Use a smaller batch_size, or drop_last=False.",
        )
    return ArrayBatches(columns, order, named)


def checked_integer(name: str, value: Any, least: int) -> int:
    """Return an integer.

    Raises:
        ProgramError: If the value is not an integer of at least `least`.
    """
    number = -1 if isinstance(value, bool) or not hasattr(value, "__index__") else int(value)
    if number < least:
        raise ProgramError(
            f"invalid {name}={short_text(value)}.", fix=f"Use an integer of at least {least}."
        )
    return number
