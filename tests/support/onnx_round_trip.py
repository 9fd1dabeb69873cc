"""Programs exported to ONNX, and run by ONNX Runtime and by the interpreter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import braces as br
from braces.exchange.onnx.runtime import session
from braces.extend.programs import all_bodies
from braces.extend.types import is_float
from braces.frontend.core.functions import function_of as function_of
from braces.ir.records import BLOCK


def run_model(path: Path, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of ONNX Runtime for a model, by name."""
    loaded = session(str(path))
    entries = (*loaded.get_inputs(), *loaded.get_overridable_initializers())
    known = {entry.name for entry in entries}
    names = [entry.name for entry in loaded.get_outputs()]
    given = {name: np.asarray(value) for name, value in feed.items() if name in known}
    return dict(zip(names, loaded.run(names, given), strict=True))


def run_reference(path: Path, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of ONNX's reference evaluator, which supports all dtypes."""
    model = onnx.load(path)
    known = {entry.name for entry in model.graph.input}
    given = {name: np.asarray(value) for name, value in feed.items() if name in known}
    names = [entry.name for entry in model.graph.output]
    found = ReferenceEvaluator(model).run(names, given)
    assert isinstance(found, list)
    return dict(zip(names, found, strict=True))


def block_names(program: br.Program) -> list[str]:
    """The names of the plain blocks of a program, without those around them and counts."""
    names = [
        op.name
        for body, _ in all_bodies(program.definition.main)
        for op in body.ops
        if op.type == BLOCK
    ]
    return sorted(re.sub(r"_\d+(?=_|$)", "", name.rpartition("/")[2]) for name in names)


def check_exported(
    prog: br.Program,
    feeds: Sequence[Mapping[str, Any]],
    fetch: Sequence[br.Var],
    folder: Path,
    *,
    sizes: Mapping[str, int] | None = None,
    tolerance: float = 1e-9,
    reference: bool = False,
) -> None:
    """A program gives the same as a model and in the interpreter.

    Args:
        prog: The program, without persistable variables.
        feeds: What both are fed, run after run.
        fetch: What is compared.
        folder: Where the model is written.
        sizes: Numbers for symbolic sizes.
        tolerance: Of floats of 64 bits; of others 1e-4, of half precision 1e-2.
        reference: Whether the evaluator of ONNX runs the model, which rounds 64 bits to 32.
    """
    path = folder / "model.onnx"
    br.to_onnx(prog, path, fetches=fetch, sizes=sizes, updates=True)  # as it trains
    for feed in feeds:
        wanted = br.Executor(mode="interpret").run(prog, br.Scope(), feed=feed, fetch=fetch)
        found = (run_reference if reference else run_model)(path, feed)
        for var, want in zip(fetch, wanted, strict=True):
            got = found[var.name] if var.name in found else found[f"{var.name}.value"]
            assert (got.dtype, got.shape) == (want.dtype, want.shape), var.name
            _close(got, want, max(tolerance, 1e-6) if reference else tolerance, var.name)


def check_back(
    prog: br.Program,
    feeds: Sequence[Mapping[str, Any]],
    fetch: Sequence[br.Var],
    folder: Path,
    modes: Sequence[str] = ("interpret", "compile"),
) -> br.Program:
    """A program gives the same after it was a model; that which was read from the model.

    Args:
        prog: The program, without persistable variables.
        feeds: What both are fed, run after run.
        fetch: What is compared.
        folder: Where the model is written.
        modes: How the program that was read is run.
    """
    path = folder / "back.onnx"
    br.to_onnx(prog, path, fetches=fetch, updates=True)  # as it trains
    again, values = br.from_onnx(path)
    scope, interpreter = br.Scope(), br.Executor(mode="interpret")
    scope.update(values)
    for executor in map(br.Executor, modes):
        for feed in feeds:
            wanted = interpreter.run(prog, br.Scope(), feed=feed, fetch=fetch)
            given = {name: feed[name] for name in again.feeds}
            found = executor.run(again, scope, feed=given, fetch=list(again.fetches))
            for var, want, got in zip(fetch, wanted, found, strict=True):
                assert (got.dtype, got.shape) == (want.dtype, want.shape), var.name
                _close(got, want, 1e-9, var.name)
    return again


def _close(got: Any, want: Any, tolerance: float, name: str) -> None:
    if not is_float(want.dtype):
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    allowed = {8: tolerance, 4: 1e-4, 2: 2e-2}[want.dtype.itemsize]
    got, want = got.astype("float64"), want.astype("float64")
    np.testing.assert_allclose(got, want, allowed, allowed, err_msg=name)
