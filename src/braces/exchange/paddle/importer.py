"""Import an inference program of Paddle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from braces.errors import (
    BracesError,
    FileFormatError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.exchange.common.model.names import clean_name
from braces.exchange.common.model.unsupported import (
    MissingValue,
    UnsupportedNode,
    unsupported_error,
)
from braces.exchange.common.values.constants import Array, Constant
from braces.exchange.paddle.graph.dtypes import dtype_named
from braces.exchange.paddle.graph.environment import BlockScope, Held, RaggedSequences
from braces.exchange.paddle.graph.files import Files, find_files
from braces.exchange.paddle.graph.program_desc import (
    ARRAY,
    Operator,
    PaddleBlock,
    VarDeclaration,
)
from braces.exchange.paddle.reader import PaddleReader
from braces.extend.building import data, with_user_line
from braces.extend.programs import Program
from braces.extend.types import Size

STATISTICS = ("Mean", "Variance")
"""Slots of running statistics, which have no gradients."""
Shapes = Mapping[str, Sequence[Any]]


@with_user_line
def from_paddle(
    folder: str | PathLike[str], shapes: Shapes | None = None
) -> tuple[Program, dict[str, Array]]:
    """Convert a Paddle inference program, and return the values of its parameters.

    Every operator becomes a few of ours, with names derived from its outputs. `while` and
    `recurrent` become loops, `conditional_block` with `select_input` becomes a branch. Arrays
    of float dtypes become trainable parameters; the statistics of batch norm become states. An
    unknown size, -1, becomes a symbolic one.

    An input of ragged sequences (LoD) becomes two: `x`, padded to `[batch, time, ...]`, and
    `x.lengths`. So does an output. The values of the padding never matter.

    Args:
        folder: The folder of the program: `__model__`, with a file for each array or
            `__params__` of fluid 1.x, or `NAME.pdmodel` with `NAME.pdiparams` of 2.x; or the
            path of one of them, which may end with `NAME`. No file outside that folder is read.
        shapes: The shapes of inputs by name, for inputs with unknown sizes: `{"x": ["batch", 3,
            224, 224]}`.

    Returns:
        The program, whose `feeds` and `fetches` are in the order of Paddle's inputs and
        outputs, and the values of its parameters and states by name, for `scope.update`.

    Raises:
        FileFormatError: If the files are not a Paddle program, or have an unsupported format.
        ProgramError: If the program has unsupported operators; the message lists all of them.
        OSError: If the file or folder does not exist.

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
        problems = list[UnsupportedNode]()
        inputs = _inputs(blocks[0], dict(shapes or {}), problems)
        reader = PaddleReader(
            program, files.program.name, blocks, inputs, _statistics(blocks),
            _frozen(blocks), problems=problems,
        )  # fmt: skip
        names = BlockScope(reader, values=dict(weights))
        reader.run(names, 0)
        if not problems:
            _fetch_outputs(reader, problems)
    if problems:
        raise unsupported_error(problems, files.program.name, of="operators")
    return program, reader.parameters


def _fetch_outputs(reader: PaddleReader, problems: list[UnsupportedNode]) -> None:
    if not reader.fetched:
        raise ProgramError(
            f"{reader.file} has no fetches.",
            fix="Save it for inference: paddle.static.save_inference_model, paddle.jit.save.",
        )
    try:
        with suppress(MissingValue):  # unsupported operators are reported elsewhere
            reader.give()
    except BracesError as error:
        problems.append(UnsupportedNode("fetch", "", error))


# ---- arrays ----------------------------------------------------------------------------------


def _weights(files: Files, blocks: Sequence[PaddleBlock]) -> Mapping[str, Constant]:
    """Return the arrays in the files, by name."""
    declared = {
        var.name: var
        for block in blocks
        for var in block.variables.values()
        if var.persistable and var.kind == ARRAY
    }
    if files.arrays is None:
        read_names = {
            name
            for block in blocks
            for op in block.operators
            for names in op.inputs.values()
            for name in names
        }
        declared = {name: var for name, var in declared.items() if name in read_names}
    arrays_ = dict[str, Constant]()
    for name, array in files.read_arrays(sorted(declared)):
        _check_shape(declared[name], array)
        arrays_[name] = Constant(array, array.dtype, name)
    return arrays_


def _check_shape(var: VarDeclaration, array: Array) -> None:
    fits = len(var.dims) == array.ndim and all(
        declared_size in (-1, n) for declared_size, n in zip(var.dims, array.shape, strict=True)
    )
    if not fits or dtype_named(var.code) != array.dtype:
        raise FileFormatError(
            f"mismatch of array `{var.name:.80}`: expected shape {list(var.dims)!s:.80}, "
            f"got {list(array.shape)!s:.80} of {array.dtype}.",
            fix="Pass the arrays that were saved with this program.",
        )


def _statistics(blocks: Sequence[PaddleBlock]) -> set[str]:
    """Return the running statistics of normalizations."""
    return {
        name
        for block in blocks
        for op in block.operators
        if op.type.endswith("batch_norm")
        for slot in STATISTICS
        for name in op.inputs.get(slot, ())
    }


def _frozen(blocks: Sequence[PaddleBlock]) -> set[str]:
    """Return the arrays for which Paddle computes no gradient."""
    return {var.name for block in blocks for var in block.variables.values() if var.frozen}


# ---- inputs ----------------------------------------------------------------------------------


def _inputs(
    block: PaddleBlock, shapes: dict[str, Sequence[Any]], problems: list[UnsupportedNode]
) -> dict[str, Held]:
    """Declare the feeds of a program in order, and return their values."""
    feeds = [op for op in block.operators if op.type == "feed" and op.output_names()]
    feeds.sort(key=_column)
    names = [op.output_names()[0] for op in feeds]
    for name in shapes:
        if name not in names:
            raise UnknownNameError(f"unknown input `{name}`.", fix=suggest(name, names))
    values_ = dict[str, Held]()
    for name in names:
        var = block.variables.get(name)
        if var is None:
            continue
        shape = _shape(var, shapes.get(name))
        try:
            values_[name] = _input(var, shape)
        except BracesError as error:
            problems.append(UnsupportedNode("feed", f"`{name:.80}`", error))
            values_[name] = MissingValue
    return values_


def _column(op: Operator) -> int:
    """Return the index of a feed among the inputs."""
    column = op.attrs.get("col", 0)
    return column if isinstance(column, int) else 0


def _input(var: VarDeclaration, shape: Sequence[Any]) -> Held:
    if var.kind != ARRAY or var.level > 1:
        raise ProgramError(
            "unsupported input: expected an array with at most one level of LoD."
        )
    input_name = clean_name(var.name, "input")
    variable = data(input_name, shape, dtype=dtype_named(var.code))
    if not var.level:
        return variable
    return RaggedSequences.of(variable, data(f"{input_name}.lengths", shape[:1], dtype="int64"))


def _shape(var: VarDeclaration, sizes: Sequence[Any] | None) -> list[Any]:
    """Return the shape of an input; unknown sizes are declared or symbolic."""
    own: list[Size | str | None] = [None if n < 0 else n for n in var.dims]
    if var.level:
        own = ["batch", "time", *own[1:]]
    if sizes is None:
        return own
    if len(sizes) != len(own):
        raise ShapeError(
            f"rank mismatch of `{var.name:.80}`: expected {len(own)}, got {len(sizes)}.",
            given=f"{own} and {list(sizes)}",
        )
    return list(sizes)
