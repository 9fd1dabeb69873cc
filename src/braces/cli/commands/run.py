"""`braces run FILE --feed x=@x.npy --fetch y`: run a program once."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from threading import Timer
from typing import Any

import numpy as np

from braces.cli.common.command import NO, YES, Command, declare, seconds
from braces.cli.common.pass_options import add_without
from braces.cli.common.prepared_run import (
    COMPILE,
    INTERPRET,
    Difference,
    PreparedRun,
    feeds_for,
    first_difference,
    is_close,
    largest_difference,
    prepare_run,
)
from braces.cli.common.profile_option import add_profile, check_profile, profile
from braces.cli.common.program_selection import add_file, write_bytes
from braces.cli.common.terminal import Style
from braces.errors import ProgramError
from braces.exchange.onnx.runtime import ONNX_RUNTIME, run_by_onnx_runtime
from braces.ir.walk import producers
from braces.runtime.inputs.feeds import describe_array

_USAGE = """\
--feed NAME=VALUE ...  @x.npy, @x.npz:key, a number, [numbers], true, random, or random:f32[4,8]
--fetch NAMES ...      the variables to fetch, such as y or y,z
--params FILE          a safetensors file of parameters
--seed N               the seed of random operators (default: the seed in the model file)
--interpret            run operator by operator
--against OTHER        compare with another program on the same feeds, with `interpret` or
                       `compile`, or for an .onnx file with `onnxruntime`; print the first
                       operator that differs
--rtol R               with --against: the relative tolerance (default: 1e-4)
--atol A               with --against: the absolute tolerance (default: 1e-5)
--timeout SECONDS      end the process if loading, compiling and running take longer
"""


def _arguments(parser: ArgumentParser) -> None:
    add_file(parser)
    declare(parser, _USAGE, seed=int, rtol=1e-4, atol=1e-5, timeout=seconds)
    add_without(parser)
    add_profile(parser)
    form = parser.add_mutually_exclusive_group()
    declare(form, "-o --out OUT.npz  write the arrays; - is standard output")
    declare(form, "--json  print JSON")


def _run(options: Namespace) -> int:
    if options.timeout is None:
        return _run_once(options)
    timer = Timer(options.timeout, _end_process, (options.timeout,))
    timer.daemon = True
    timer.start()
    try:
        return _run_once(options)
    finally:
        timer.cancel()


def _end_process(timeout_s: float) -> None:
    """End the process: an exception would not interrupt a single long-running operator."""
    print(f"RunError: The run took longer than --timeout {timeout_s:g}.", file=sys.stderr)
    sys.stderr.flush()
    os._exit(NO)


def _run_once(options: Namespace) -> int:
    check_profile(options)
    ready = prepare_run(options.file, options)
    feeds = feeds_for(ready, options)
    if options.against:
        return _against(ready, feeds, options)
    mode = INTERPRET if options.interpret else COMPILE
    if options.profile is not None:
        results = profile(ready, mode, feeds, options)
        if options.out:
            write_arrays(options.out, results)
        return YES
    values = ready.run(mode, feeds, list(ready.fetches.values()))
    results = dict(zip(ready.fetches, values, strict=True))
    if options.out:
        write_arrays(options.out, results)
    elif options.json:
        print(json.dumps({name: _value_data(value) for name, value in results.items()}))
    else:
        _print(results, Style(sys.stdout))
    return YES


def _value_data(value: Any) -> dict[str, Any]:
    numbers = value.astype(np.float64) if value.dtype.kind == "V" else value
    pairs = np.stack([value.real, value.imag], -1) if value.dtype.kind == "c" else numbers
    return {"type": describe_array(value), "value": pairs.tolist()}


def _print(results: Mapping[str, Any], style: Style) -> None:
    for name, value in results.items():
        text = np.array2string(value, threshold=64, max_line_width=96)
        print(f"{style.bold(name)}: {style.dim(describe_array(value))}\n{text}")


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays as `.npz`, atomically.

    Raises:
        ProgramError: If the name of an array is a path outside of the archive's folder.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(_archive_entry(name), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
    write_bytes(buffer.getvalue(), path)


def _archive_entry(name: str) -> zipfile.ZipInfo:
    """Return the archive entry of an array; the fixed date makes bytes reproducible."""
    if name.startswith("/") or ".." in name.split("/"):
        raise ProgramError(
            f"`{name}` cannot name a file of the archive: it is a path outside of its folder.",
            fix="Use other names in --fetch, or use --json.",
        )
    return zipfile.ZipInfo(f"{name}.npy")


def _against(ready: PreparedRun, feeds: Mapping[str, Any], options: Namespace) -> int:
    mode = INTERPRET if options.interpret else COMPILE
    if options.against == ONNX_RUNTIME:
        return _report_difference(_compare_onnx_runtime(ready, mode, feeds, options), options)
    modes, other = (mode, mode), ready
    if options.against in (COMPILE, INTERPRET):
        modes = (mode, options.against)
    else:
        other = prepare_run(options.against, options)
        other = replace(other, scope=_merge_state(ready, other))
    difference = first_difference(ready, other, modes, feeds, (options.rtol, options.atol))
    return _report_difference(difference, options)


def _compare_onnx_runtime(
    ready: PreparedRun, mode: str, feeds: Mapping[str, Any], options: Namespace
) -> Difference | None:
    """Return the first output that differs from ONNX Runtime's."""
    expected = run_by_onnx_runtime(options.file, ready.program, feeds)
    names = [name for name in ready.fetches.values() if name in expected]
    makers = producers(ready.program.definition.main.ops)
    for name, actual in zip(names, ready.run(mode, feeds, names), strict=True):
        if not is_close(actual, expected[name], options.rtol, options.atol):
            return Difference(makers[name], name, largest_difference(actual, expected[name]))
    return None


def _report_difference(mismatch: Difference | None, options: Namespace) -> int:
    """Print the difference and return the exit status."""
    data: dict[str, Any] = {"same": mismatch is None}
    if mismatch:
        data |= {"op": mismatch.op.name, "type": mismatch.op.type, "variable": mismatch.name,
                 "largest": mismatch.largest}  # fmt: skip
    if options.json:
        print(json.dumps(data))
    elif mismatch is None:
        print("The results are equal within the tolerances.")
    else:
        print(f"First difference: `{mismatch.name}`, at most {mismatch.largest:.3g}.")
        print(f"  at: {mismatch.op.describe()}")
    return NO if mismatch else YES


def _merge_state(ready: PreparedRun, other: PreparedRun) -> Any:
    """Return the state of the second program; shared variables take the first one's values."""
    scope = other.copied()
    for name in ready.scope.names():
        variable = ready.scope.find_var(name)
        if variable is not None and variable.initialized:
            scope.var(name).set(variable.value)
    return scope


COMMAND = Command(
    "run",
    "run a program once and print the fetched values",
    "braces run demo/digits.model --feed image=@image.npy",
    _arguments,
    _run,
)
