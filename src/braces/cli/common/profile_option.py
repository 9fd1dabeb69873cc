"""`braces run FILE --profile`: where the time of runs is spent."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from braces.cli.common.command import declare
from braces.cli.common.prepared_run import PreparedRun
from braces.cli.common.program_selection import STDOUT
from braces.errors import ProgramError, visible
from braces.ir.files.atomic_write import refuse_unwritable
from braces.report import in_bytes
from braces.runtime.profiling.profile import Profile
from braces.runtime.profiling.table_rows import GROUPINGS, OP

ENDINGS = (".json", ".json.gz")
_RUNS = 10


_USAGE = f"""\
--profile TRACE.json  run several times and print a profile instead of the values;
                      TRACE.json or .json.gz is a trace for Perfetto
--runs N              with --profile: the number of runs (default: {_RUNS})
--by                  with --profile: the grouping of rows (default: {OP})
"""


def add_profile(parser: ArgumentParser) -> None:
    """Declare the options of a profile."""
    # without a file, the value is False; argparse would parse a string with `type`
    trace = {"nargs": "?", "const": False, "type": _trace}
    declare(parser, _USAGE, profile=trace, runs=_runs, by=GROUPINGS)


def _trace(text: str) -> str:
    """Return a path that a trace can be written to, checked before the long run."""
    if not text.endswith(ENDINGS):
        raise ArgumentTypeError(
            f"expected a file name that ends in {' or '.join(ENDINGS)}, got {text!r}"
        )
    try:
        refuse_unwritable(text)
    except OSError as error:
        raise ArgumentTypeError(f"{text}: {error.strerror}") from None
    return text


def _runs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"expected a positive number of runs, got {text!r}")
    return int(text)


def check_profile(options: Namespace) -> None:
    """Check that the options are consistent, before any file is read.

    Raises:
        ProgramError: If options of a profile are given without it, together with a comparison,
            or the trace would overwrite the program.
    """
    if options.profile is None and (options.runs is not None or options.by is not None):
        raise ProgramError("--runs and --by require --profile.", fix="Add --profile.")
    if options.profile is not None and options.against:
        raise ProgramError("--against and --profile are exclusive.", fix="Remove one of them.")
    if options.profile and _is_same(options.profile, options.file):
        raise ProgramError(
            "the trace would overwrite the program.", fix="Use another file name for the trace."
        )


def _is_same(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def profile(
    ready: PreparedRun, mode: str, feeds: Mapping[str, Any], options: Namespace
) -> dict[str, Any]:
    """Profile runs, show the table, write the trace; return the last values by name."""
    measured = ready.profile(mode, feeds, options.runs or _RUNS)
    if options.profile:
        measured.save(options.profile)
    by = options.by or OP
    if options.json:
        print(json.dumps(_profile_data(measured, by)))
    elif options.out != STDOUT:
        measured.show(by=by)
        if options.profile:
            size = in_bytes(os.path.getsize(options.profile))
            print(
                f"trace: {visible(options.profile)}, {size}; open it in https://ui.perfetto.dev"
            )
    return measured.fetches


def _profile_data(measured: Profile, by: str) -> dict[str, Any]:
    return {
        "mode": measured.mode,
        "device": measured.device,
        "runs_s": measured.runs_s,
        "parts": dict(measured.parts),
        "phases": [asdict(phase) for phase in measured.phases],
        "memory": dict(measured.memory),
        "notes": measured.notes,
        "rows": [asdict(row) for row in measured.rows(by)],
    }
