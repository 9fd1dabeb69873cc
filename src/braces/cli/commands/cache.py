"""`braces cache`: the folder of compiled code."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from braces.cli.common.command import NO, YES, Command, declare
from braces.cli.common.terminal import Style
from braces.lower.cache.cache_directory import (
    JAX_VARIABLE,
    MAX_BYTES,
    VARIABLE,
    find_cache_folder,
    list_entries,
    reason_not_cache,
    remove_file,
)
from braces.report import in_bytes


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, "--clear  delete the compiled code; other files are not deleted")


def _run(options: Namespace) -> int:
    folder = find_cache_folder()
    if folder is None:
        print(f"The cache is disabled: {VARIABLE} is empty, or the home folder is unknown.")
        return NO
    print(folder)
    reason = reason_not_cache(folder) if os.path.lexists(folder) else None
    if reason is not None:
        print(f"The folder is not used: it {reason}.")
        return NO
    entries = list_entries(folder)
    files = f"{len(entries)} file{'s' * (len(entries) != 1)}"
    size = in_bytes(sum(entry.size_bytes for entry in entries))
    if options.clear:
        for entry in entries:
            remove_file(entry.path)
        print(f"{files} removed, {size}")
        return YES
    print(f"{files}, {size} of at most {in_bytes(MAX_BYTES)}")
    if JAX_VARIABLE in os.environ:
        print(Style(sys.stdout).dim(f"This folder is not used while {JAX_VARIABLE} is set."))
    return YES


COMMAND = Command(
    "cache",
    "show or clear the cache of compiled code",
    "braces cache --clear",
    _arguments,
    _run,
)
