"""`braces prune FILE --targets y -o OUT`: the smallest program that computes the targets."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from braces.cli.common.command import YES, Command, declare
from braces.cli.common.program_selection import (
    add_file,
    add_output,
    count_ops,
    read_selected,
    split_names,
    write_program,
)
from braces.passes.cleanup.prune import prune


def _arguments(parser: ArgumentParser) -> None:
    add_file(parser)
    usage = "--targets NAMES ...  the variables to compute, such as y or y,z"
    declare(parser, usage, targets={"required": True})
    add_output(parser)


def _run(options: Namespace) -> int:
    picked = read_selected(options)
    program = picked.program
    small = prune(program, list(map(picked.variable, split_names(options.targets))))
    write_program(small, options)
    print(f"Kept {count_ops(small)} of {count_ops(program)} operators.", file=sys.stderr)
    return YES


COMMAND = Command(
    "prune",
    "write the smallest program that computes some variables",
    "braces prune step.braces --targets loss -o loss.braces",
    _arguments,
    _run,
)
