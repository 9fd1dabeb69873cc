"""The contents of a Paddle program file as records; the only module that uses its messages.

Protobuf parses almost any bytes. This module guarantees a tree of blocks: the parent of a block
precedes it, and an operator only owns blocks whose parent is its own block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from braces.errors import FileFormatError
from braces.exchange.paddle.proto import paddle_program_pb2 as pb

ARRAY, ARRAYS = 7, 13
"""The kinds of variables that programs compute with: tensors and tensor arrays."""


@dataclass(frozen=True)
class VarDeclaration:
    """The declaration of a variable.

    Attributes:
        name: Its name.
        kind: Its kind code in Paddle, as `ARRAY`.
        code: Its dtype code in Paddle.
        dims: Its shape, with -1 for an unknown size.
        level: The number of its LoD levels.
        persistable: Whether a file holds it.
        frozen: Whether Paddle computes no gradient of it.
    """

    name: str
    kind: int
    code: int
    dims: tuple[int, ...]
    level: int
    persistable: bool
    frozen: bool


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator.

    Attributes:
        type: Its type.
        inputs: The names in each slot of inputs.
        outputs: The names in each slot of outputs.
        attrs: Its attributes as Python values.
        blocks: The indices of the blocks that it owns, by attribute.
    """

    type: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    attrs: Mapping[str, Any]
    blocks: Mapping[str, tuple[int, ...]]

    def output_names(self) -> list[str]:
        """Return the names of all outputs."""
        return [name for names in self.outputs.values() for name in names]


@dataclass(frozen=True, eq=False)
class PaddleBlock:
    """A block: its variables by name, and its operators in order."""

    variables: Mapping[str, VarDeclaration]
    operators: Sequence[Operator]


@dataclass(frozen=True)
class Tensor:
    """The header of an array in a file: its dtype code and shape."""

    code: int
    dims: tuple[int, ...]


def read_description(data: bytes, file: str) -> Sequence[PaddleBlock]:
    """Return the blocks of a program, the main one first.

    Raises:
        FileFormatError: If the bytes are not a Paddle program.
    """
    desc = _parse(pb.ProgramDesc(), data, f"{file} is not a Paddle program")
    if not desc.blocks:
        raise FileFormatError(
            f"{file} is not a Paddle program: missing blocks.",
            fix="Pass the folder of an inference program: __model__, or NAME.pdmodel.",
        )
    blocks = [_block(block) for block in desc.blocks]
    _check_tree(desc, blocks, file)
    return blocks


def read_tensor_header(data: bytes, file: str) -> Tensor:
    """Parse the header of an array.

    Raises:
        FileFormatError: If the bytes are not a header.
    """
    desc = _parse(pb.TensorDesc(), data, f"{file} has no valid Paddle arrays")
    return Tensor(desc.data_type, tuple(desc.dims))


def _parse(message: Any, data: bytes, otherwise: str) -> Any:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise FileFormatError(f"{otherwise}.", given=f"{error!s:.200}") from None
    return message


def _check_tree(desc: Any, blocks: Sequence[PaddleBlock], file: str) -> None:
    for at, (block, read) in enumerate(zip(desc.blocks, blocks, strict=True)):
        if block.idx != at or (at and not 0 <= block.parent_idx < at):
            raise FileFormatError(
                f"{file} is not a Paddle program: its blocks do not form a tree."
            )
        for operator in read.operators:
            for inner in (i for inner_blocks in operator.blocks.values() for i in inner_blocks):
                if not at < inner < len(blocks) or desc.blocks[inner].parent_idx != at:
                    raise FileFormatError(
                        f"{file} is not a Paddle program: `{operator.type:.80}` owns block "
                        f"{inner}, which is not a child of its block."
                    )


def _block(desc: Any) -> PaddleBlock:
    variables = (_variable(var) for var in desc.vars)
    return PaddleBlock({var.name: var for var in variables}, [_operator(op) for op in desc.ops])


def _variable(desc: Any) -> VarDeclaration:
    type_ = desc.type
    tensor_desc = type_.tensor_array if type_.type == ARRAYS else type_.lod_tensor
    return VarDeclaration(
        desc.name, type_.type, tensor_desc.tensor.data_type, tuple(tensor_desc.tensor.dims),
        tensor_desc.lod_level, desc.persistable, desc.stop_gradient,
    )  # fmt: skip


def _operator(desc: Any) -> Operator:
    attrs, blocks = dict[str, Any](), dict[str, tuple[int, ...]]()
    for attr in desc.attrs:
        if attr.type == _BLOCK:
            blocks[attr.name] = (attr.block_idx,)
        elif attr.type == _BLOCKS:
            blocks[attr.name] = tuple(attr.blocks_idx)
        elif attr.type in _VALUES:
            attrs[attr.name] = _VALUES[attr.type](attr)
    return Operator(desc.type, _slots(desc.inputs), _slots(desc.outputs), attrs, blocks)


def _slots(slots: Any) -> Mapping[str, tuple[str, ...]]:
    return {slot.parameter: tuple(slot.arguments) for slot in slots}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _number(scalar: Any) -> Any:
    return {1: scalar.b, 2: scalar.i}.get(scalar.type, scalar.r)


_BLOCK, _BLOCKS = 8, 10
_VALUES: Mapping[int, Callable[[Any], Any]] = {
    0: lambda attr: attr.i,
    1: lambda attr: attr.f,
    2: lambda attr: _text(attr.s),
    3: lambda attr: list(attr.ints),
    4: lambda attr: list(attr.floats),
    5: lambda attr: [_text(part) for part in attr.strings],
    6: lambda attr: attr.b,
    7: lambda attr: list(attr.bools),
    9: lambda attr: attr.l,
    11: lambda attr: list(attr.longs),
    12: lambda attr: list(attr.float64s),
    13: lambda attr: attr.var_name,
    14: lambda attr: list(attr.vars_name),
    15: lambda attr: attr.float64,
    16: lambda attr: _number(attr.scalar),
    17: lambda attr: [_number(scalar) for scalar in attr.scalars],
}
"""The readers of attribute values, by Paddle's type code."""
