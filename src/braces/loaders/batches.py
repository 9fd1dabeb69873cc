"""`br.batches`: a data set as batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braces.builder.checked_calls import checked_call
from braces.errors import FeedError, ProgramError
from braces.loaders.core.columns import check_names
from braces.loaders.core.data_set import Batches
from braces.loaders.core.transforms import BatchTransform
from braces.loaders.grain_data import grain_batches
from braces.loaders.options import Options, checked_integer, checked_pads
from braces.loaders.rows.buckets import Buckets, with_buckets, with_equal_sequences
from braces.loaders.rows.order import Order
from braces.loaders.rows.parts import BatchPart, check_divisible, find_part
from braces.loaders.rows.row_batches import Recipe, RowBatches
from braces.loaders.rows.tables import RowTable, ragged_names
from braces.loaders.sources import open_table
from braces.loaders.streams import Stacking, Stream, is_grain_data, stream_batches
from braces.loaders.workers import WorkerPool


@checked_call
def batches(
    source: Any,
    batch_size: int | None = None,
    *,
    seed: int = 0,
    shuffle: bool | None = None,
    drop_last: bool = False,
    pad_last: bool = False,
    names: Sequence[str] | None = None,
    bucket_by: Any = None,
    sizes: Sequence[int] | None = None,
    pad: Any = None,
    transform: Callable[..., Any] | None = None,
    varying: bool = False,
    workers: int = 0,
    process: int | None = None,
    count: int | None = None,
) -> Batches:
    """Return a data set as batches, epoch by epoch.

    Rows of arrays and files are shuffled in each epoch. The order of epoch `e` is
    `np.random.default_rng((seed, e)).permutation(rows)`. So the position in the data is two
    integers, the numbers of an epoch and of a batch, and resuming at any batch gives the same
    batches. docs/guides/data.md has a section for each kind of source.

    Args:
        source: A dict of arrays with one row for each element; a tuple `(x, y)` of arrays; a
            data frame of pandas or polars, or a table of Arrow; the path of a `.npy`, `.npz`,
            `.safetensors`, `.arrow` or `.parquet` file; a loader of PyTorch; an iterable of
            batches; or a function that returns one for each epoch.
        batch_size: The number of rows of a batch, in all processes of a job together; by
            default 32. Iterables yield batches, or with `batch_size` rows.
        seed: The seed of the order, and of the generator of `transform`.
        shuffle: Whether each epoch permutes the rows, which is the default; otherwise they are
            in stored order. Iterables have their own order.
        drop_last: Whether a smaller last batch is left out. A batch of another size compiles
            the program once more.
        pad_last: Whether a smaller last batch is padded by repetitions of its last row. Each
            batch then has the key `weight`, which is 0 for padded rows and 1 for others.
        names: Names for the arrays of a tuple, or the columns of a file or data frame. Tuples
            without names remain tuples; `br.fit` takes the names from the data of the program,
            in order of declaration.
        bucket_by: The length of a row: a function of a row as a dict, or the name of a column
            of lengths or sequences. Batches then have rows of similar length, and all columns
            of sequences are padded to one size.
        sizes: The sizes that sequences are padded to, increasing; by default powers of two.
        pad: The fill value of padded sequences, or a dict of them by name; by default 0.
        transform: A function of a batch, or of a batch and a NumPy generator, that returns the
            batch to be used. The generator follows from seed and position.
        varying: Whether batches of user code may differ in the sizes of further axes; those of
            padded sequences always may.
        workers: The number of processes that read and transform batches of rows, for a
            `transform` that takes longer than a step; by default none. Needs the extra `data`.
        process: The number of this process; by default that of the running job. Each process
            reads its own part of each batch.
        count: The number of processes.

    Returns:
        The data set. `data.epoch(e)` iterates over an epoch, `len(data)` is its number of
        batches; iterables may have none. `for batch in data` is epoch 0.

    Raises:
        ShapeError: If the arrays differ in their number of rows.
        FeedError: If the data set is empty, or smaller than a batch with `drop_last`.
        DTypeError: If an array has a dtype other than numbers.
        ProgramError: If an option is invalid, or does not apply to the source.

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
        >>> words = {"word": [[1], [2, 3], [4, 5, 6], [7]], "size": [1, 2, 3, 1]}
        >>> data = br.batches(words, 2, shuffle=False, bucket_by="word", sizes=(1, 3), pad=-1)
        >>> [batch["word"].tolist() for batch in data]
        [[[2, 3, -1], [4, 5, 6]], [[1], [7]]]
    """
    if drop_last and pad_last:
        raise ProgramError(
            "drop_last and pad_last exclude each other.", fix="Pass one of them."
        )
    names = [names] if isinstance(names, str) else names
    options = Options(
        None if batch_size is None else checked_integer("batch_size", batch_size, 1),
        checked_integer("seed", seed, 0),
        shuffle,
        drop_last,
        pad_last,
        bucket_by,
        sizes,
        pad,
        None if transform is None else BatchTransform(transform),
        varying,
        checked_integer("workers", workers, 0),
        process,
        count,
    )
    table, named = open_table(source, names)
    if table is None:
        return _stream(source, names, options)
    return _rows(table, named, options)


def _rows(table: RowTable, named: bool, options: Options) -> RowBatches:
    """Return a data set of numbered rows."""
    table = with_equal_sequences(table, options.bucket_by)
    size, shuffle = options.batch_size or 32, options.shuffle is not False
    order = Order(table.rows, size, options.seed, shuffle, options.drop_last, table.groups)
    if not len(order):
        raise FeedError(
            f"the data set has fewer rows than a batch: {table.rows} < {size}.",
            fix="Use a smaller batch_size, or drop_last=False.",
        )
    process, count = find_part(options.process, options.count)
    check_divisible(table.rows, size, count, not (options.drop_last or options.pad_last))
    pads = checked_pads(options.pad, table)
    plan = _plan(table, order, options)
    part = BatchPart(process, count, size if options.pad_last else 0)
    varying = options.varying or bool(ragged_names(table))  # padded to several sizes
    recipe = Recipe(table, order, plan, part, pads, named, options.transform, varying)
    workers = options.workers
    if not workers:
        return RowBatches(recipe)
    return RowBatches(recipe, lambda recipe: WorkerPool(recipe, workers))


def _plan(table: RowTable, order: Order, options: Options) -> Order | Buckets:
    if options.bucket_by is not None:
        return with_buckets(table, order, options.bucket_by, options.sizes)
    options.refuse(["sizes", "pad"], "rows without buckets", "Pass bucket_by= as well.")
    if ragged := ragged_names(table):
        raise FeedError(
            f"the rows of `{ragged[0]}` have different lengths.",
            fix=f"Pass bucket_by={ragged[0]!r} and sizes=, or rows of one shape.",
        )
    return order


def _stream(source: Any, names: Sequence[str] | None, options: Options) -> Batches:
    """Return a data set without numbered rows."""
    of_grain = is_grain_data(source)
    options.refuse(
        ["bucket_by", "sizes", "pad", "process", "count", *(["workers"] * (not of_grain))],
        "batches of an iterable",
        "Pass arrays, or apply them in the function that yields the batches.",
    )
    if options.shuffle:
        options.refuse(
            ["shuffle"], "an iterable", "Shuffle in the function that yields batches."
        )
    if options.batch_size is None:
        fix = "Pass batch_size= for an iterable of rows."
        options.refuse(["drop_last", "pad_last"], "an iterable of batches", fix)
    words = None if names is None else check_names(names, len(names))
    stacking = Stacking(options.batch_size or 0, options.drop_last, options.pad_last)
    stream = Stream(source, words, options.seed, stacking, options.transform, options.varying)
    return grain_batches(stream, options.workers) if of_grain else stream_batches(stream)
