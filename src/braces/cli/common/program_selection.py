"""Selection of a program of a file, and output of programs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from braces.cli.common.command import declare
from braces.cli.common.program_files import STDIN, Content, read_file
from braces.errors import FileFormatError, UnknownNameError, suggest, visible
from braces.ir.files.atomic_write import write_atomically
from braces.ir.plain_blocks.escaping_values import bound_inside
from braces.program import Program
from braces.storage.model import PREDICT

STDOUT = "-"


def add_file(parser: ArgumentParser) -> None:
    """Declare the input file, and the option that selects a program of a model."""
    declare(parser, "file FILE  a program or model; - is standard input")
    declare(parser, f"--program NAME  the program of a model (default: {PREDICT})")


def add_output(parser: ArgumentParser) -> None:
    """Declare the options of the output file."""
    declare(parser, "-o --out OUT  output file; - is standard output", out={"required": True})
    declare(parser, "--text  write the text form")


def read_selected(options: Namespace) -> SelectedProgram:
    """Return the program selected by the options of `add_file`, with its default fetches.

    Raises:
        FileFormatError: If the file has no programs.
        UnknownNameError: If the file has no program of this name.
    """
    return select_program(read_file(options.file), options.program)


@dataclass(frozen=True)
class SelectedProgram:
    """A selected program of a file.

    Attributes:
        program: The program.
        gives: Default fetches: names and their variables.
    """

    program: Program
    gives: Mapping[str, str]

    def variable(self, name: str) -> str:
        """Return the variable of the main block for a fetch name or a variable name.

        Variables inside plain blocks can be named, too.

        Raises:
            UnknownNameError: If neither a fetch nor a variable has this name.
        """
        main = self.program.definition.main
        var_of_name = {inner: inner for inner in (*bound_inside(main), *main.vars)} | dict(
            self.gives
        )
        if name not in var_of_name:
            raise UnknownNameError(
                f"unknown name `{name}`: neither a variable of the main block nor a default "
                "fetch.",
                fix=suggest(name, var_of_name),
            )
        return var_of_name[name]


def select_program(content: Content, name: str | None) -> SelectedProgram:
    """Return a program of a file."""
    programs = content.programs
    if not programs:
        raise FileFormatError("the file has arrays, and no programs.")
    if name is None:
        name = PREDICT if PREDICT in programs else next(iter(programs))
    if name not in programs:
        raise UnknownNameError(f"unknown program `{name}`.", fix=suggest(name, programs))
    return SelectedProgram(programs[name], content.gives.get(name, {}))


def write_program(program: Program, options: Namespace) -> None:
    """Write a program to the output given by the options of `add_output`."""
    write_bytes(str(program).encode() if options.text else program.to_bytes(), options.out)


def write_bytes(data: bytes, path: str) -> None:
    """Write a file atomically; `-` is standard output."""
    if path == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, data)


def shown_name(path: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if path == STDIN else visible(path)


def split_names(texts: Sequence[str]) -> list[str]:
    """Split names given separately or with commas.

    Example:
        >>> split_names(["a,b", "c"])
        ['a', 'b', 'c']
    """
    return [name for text in texts for name in text.split(",") if name]


def count_ops(program: Program) -> int:
    """Return the number of operators in all blocks."""
    return sum(len(block.ops) for block in program.blocks)
