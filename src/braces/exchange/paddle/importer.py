"""An inference program of Paddle as one of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from braces.builder.source_line import says_where
from braces.dims import Size
from braces.errors import (
    BracesError,
    FileFormatError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.exchange.common.model.names import cleaned
from braces.exchange.common.model.unsupported import Missing, Problem, unreadable
from braces.exchange.common.values.constants import Array, Known
from braces.exchange.paddle.graph.dtypes import dtype_named
from braces.exchange.paddle.graph.environment import Held, Names, Rows
from braces.exchange.paddle.graph.files import Files, find_files
from braces.exchange.paddle.graph.program_desc import ARRAY, Block, Operator, Variable
from braces.exchange.paddle.reader import Reader
from braces.frontend.core.variables import data
from braces.program import Program

STATISTICS = ("Mean", "Variance")
"""Slots whose arrays run along with training: no gradient moves them."""
Shapes = Mapping[str, Sequence[Any]]


@says_where
def from_paddle(
    folder: str | PathLike[str], shapes: Shapes | None = None
) -> tuple[Program, dict[str, Array]]:
    """An inference program of Paddle as one of ours, and the values of its parameters.

    Every operator becomes a few of ours, called after what Paddle calls its outputs; `while`
    and `recurrent` become loops, `conditional_block` with `select_input` branches. Arrays of
    float dtypes become parameters, which train; the statistics of batch norm become states. A
    size that the program leaves open, -1, is a symbolic one.

    An input that is sequences one behind the other (LoD) becomes two: `x`, padded to
    `[batch, time, ...]`, and `x.lengths`; and so does an output. What lies in the padding never
    counts.

    Args:
        folder: Where the program lies: `__model__`, with a file for each array or `__params__`
            of fluid 1.x, or `NAME.pdmodel` with `NAME.pdiparams` of 2.x; or the path of one of
            them, which may end with `NAME`. No file outside of that folder is read.
        shapes: The shapes of inputs by name, where the program leaves sizes open:
            `{"x": ["batch", 3, 224, 224]}`.

    Returns:
        The program, whose `feeds` and `fetches` are in the order of Paddle's inputs and
        outputs, and the values of its parameters and states by name, for `scope.update`.

    Raises:
        FileFormatError: The files are no program of Paddle, or of a format that is not read.
        ProgramError: The program has what none of ours has; the message lists all of that.
        OSError: There is no such file or folder.

    Example:
        >>> import braces as br
        >>> prog, values = br.from_paddle("inference")               # doctest: +SKIP
        >>> prog.feeds, prog.fetches                                 # doctest: +SKIP
        (('x',), ('softmax_0.tmp_0',))
    """
    files = find_files(Path(folder))
    blocks = files.read_program()
    weights = _weights(files, blocks)
    program = Program()
    with program:
        problems = list[Problem]()
        inputs = _inputs(blocks[0], dict(shapes or {}), problems)
        reader = Reader(
            program, files.program.name, blocks, inputs, _statistics(blocks),
            _frozen(blocks), problems=problems,
        )  # fmt: skip
        names = Names(reader, values=dict(weights))
        reader.run(names, 0)
        if not problems:
            _give(reader, problems)
    if problems:
        raise unreadable(problems, files.program.name, of="operators")
    return program, reader.parameters


def _give(reader: Reader, problems: list[Problem]) -> None:
    if not reader.fetched:
        raise ProgramError(
            f"{reader.file} fetches nothing, and so computes nothing.",
            fix="Save it for inference: paddle.static.save_inference_model, paddle.jit.save.",
        )
    try:
        with suppress(Missing):  # what could not be read is said elsewhere
            reader.give()
    except BracesError as error:
        problems.append(Problem("fetch", "", error))


# ---- arrays ----------------------------------------------------------------------------------


def _weights(files: Files, blocks: Sequence[Block]) -> Mapping[str, Known]:
    """The arrays that files hold, by name."""
    declared = {
        var.name: var
        for block in blocks
        for var in block.variables.values()
        if var.persistable and var.kind == ARRAY
    }
    if files.arrays is None:
        read = {
            name
            for block in blocks
            for op in block.operators
            for names in op.inputs.values()
            for name in names
        }
        declared = {name: var for name, var in declared.items() if name in read}
    found = dict[str, Known]()
    for name, array in files.read_arrays(sorted(declared)):
        _check_shape(declared[name], array)
        found[name] = Known(array, array.dtype, name)
    return found


def _check_shape(var: Variable, array: Array) -> None:
    fits = len(var.dims) == array.ndim and all(
        said in (-1, n) for said, n in zip(var.dims, array.shape, strict=True)
    )
    if not fits or dtype_named(var.code) != array.dtype:
        raise FileFormatError(
            f"The program has an array `{var.name:.80}` of the shape {list(var.dims)!s:.80}, "
            f"and the files one of {list(array.shape)!s:.80} of {array.dtype}.",
            fix="Give the arrays that were saved with this program.",
        )


def _statistics(blocks: Sequence[Block]) -> set[str]:
    """The arrays that normalisations keep."""
    return {
        name
        for block in blocks
        for op in block.operators
        if op.type.endswith("batch_norm")
        for slot in STATISTICS
        for name in op.inputs.get(slot, ())
    }


def _frozen(blocks: Sequence[Block]) -> set[str]:
    """The arrays to which Paddle gives no gradient."""
    return {var.name for block in blocks for var in block.variables.values() if var.frozen}


# ---- inputs ----------------------------------------------------------------------------------


def _inputs(
    block: Block, shapes: dict[str, Sequence[Any]], problems: list[Problem]
) -> dict[str, Held]:
    """What the feeds of a program stand for, declared in their order."""
    feeds = [op for op in block.operators if op.type == "feed" and op.made()]
    feeds.sort(key=_column)
    names = [op.made()[0] for op in feeds]
    for name in shapes:
        if name not in names:
            raise UnknownNameError(
                f"The program has no input `{name}`.", fix=suggest(name, names)
            )
    found = dict[str, Held]()
    for name in names:
        var = block.variables.get(name)
        if var is None:
            continue
        shape = _shape(var, shapes.get(name))
        try:
            found[name] = _input(var, shape)
        except BracesError as error:
            problems.append(Problem("feed", f"`{name:.80}`", error))
            found[name] = Missing
    return found


def _column(op: Operator) -> int:
    """Which of the inputs a feed is."""
    found = op.attrs.get("col", 0)
    return found if isinstance(found, int) else 0


def _input(var: Variable, shape: Sequence[Any]) -> Held:
    if var.kind != ARRAY or var.level > 1:
        raise ProgramError(
            "An input that is no array, or is divided into sequences of sequences, is not read."
        )
    called = cleaned(var.name, "input")
    found = data(called, shape, dtype=dtype_named(var.code))
    if not var.level:
        return found
    return Rows.of(found, data(f"{called}.lengths", shape[:1], dtype="int64"))


def _shape(var: Variable, said: Sequence[Any] | None) -> list[Any]:
    """The shape of an input: what the program leaves open is said, or symbolic."""
    own: list[Size | str | None] = [None if n < 0 else n for n in var.dims]
    if var.level:
        own = ["batch", "time", *own[1:]]
    if said is None:
        return own
    if len(said) != len(own):
        raise ShapeError(
            f"`{var.name:.80}` has {len(own)} axes, and the shape that is said {len(said)}.",
            given=f"{own} and {list(said)}",
        )
    return list(said)
