"""Which program of a file a command is about, and where its result goes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from braces.cli.common.program_files import STDIN, Content, read_file
from braces.errors import FileFormatError, UnknownNameError, suggest, visible
from braces.ir.files.atomic_write import write_atomically
from braces.ir.plain_blocks.escaping_values import bound_inside
from braces.program import Program
from braces.storage.model import PREDICT

STDOUT = "-"


def add_file(parser: ArgumentParser) -> None:
    """Declare the file that is read, and which program of a model is meant."""
    parser.add_argument("file", metavar="FILE", help="a program or model; - is standard input")
    parser.add_argument(
        "--program", metavar="NAME", help=f"of a model: which program ({PREDICT})"
    )


def add_output(parser: ArgumentParser) -> None:
    """Declare the program that is written."""
    parser.add_argument(
        "-o", "--out", required=True, metavar="OUT", help="where to write; - is standard output"
    )
    parser.add_argument("--text", action="store_true", help="write the text form")


def read_picked(options: Namespace) -> Picked:
    """The program that the options of `add_file` name, and what it gives.

    Raises:
        FileFormatError: The file has no programs.
        UnknownNameError: It has none of this name.
    """
    return pick(read_file(options.file), options.program)


@dataclass(frozen=True)
class Picked:
    """One of the programs of a file.

    Attributes:
        program: The program.
        gives: What it gives where no fetch is named: a name, and the variable that has it.
    """

    program: Program
    gives: Mapping[str, str]

    def variable(self, name: str) -> str:
        """The variable of the main block that a user means: by what it is given as, or its own.

        What a plain block binds is meant by its own name too.

        Raises:
            UnknownNameError: There is neither.
        """
        main = self.program.definition.main
        known = {own: own for own in (*bound_inside(main), *main.vars)} | dict(self.gives)
        if name not in known:
            raise UnknownNameError(
                f"There is no variable `{name}` in the main block, and nothing is given under"
                " this name.",
                fix=suggest(name, known),
            )
        return known[name]


def pick(content: Content, name: str | None) -> Picked:
    """One of the programs of a file."""
    programs = content.programs
    if not programs:
        raise FileFormatError("The file has arrays, and no programs.")
    if name is None:
        name = PREDICT if PREDICT in programs else next(iter(programs))
    if name not in programs:
        raise UnknownNameError(f"There is no program `{name}`.", fix=suggest(name, programs))
    return Picked(programs[name], content.gives.get(name, {}))


def write_program(program: Program, options: Namespace) -> None:
    """Write a program where the options of `add_output` say."""
    write_bytes(str(program).encode() if options.text else program.to_bytes(), options.out)


def write_bytes(data: bytes, path: str) -> None:
    """Write a file, at once or not at all; `-` is standard output."""
    if path == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, data)


def shown_name(path: str) -> str:
    """What messages call a file."""
    return "standard input" if path == STDIN else visible(path)


def split_names(given: Sequence[str]) -> list[str]:
    """Names that were given one by one, or with commas between.

    Example:
        >>> split_names(["a,b", "c"])
        ['a', 'b', 'c']
    """
    return [name for one in given for name in one.split(",") if name]


def count_ops(program: Program) -> int:
    """The operators of all blocks."""
    return sum(len(block.ops) for block in program.blocks)
