"""A model as the server runs it: its signature, and whether requests can be joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from braces.dims import Dim, Size
from braces.dtypes import TensorType, Type
from braces.errors import BracesError, ProgramError
from braces.lower.xla.interruptible_loops import may_be_interruptible
from braces.passes.analysis.batch_independence import explain_dependence, find_batch_axis
from braces.passes.cleanup.prune import prune
from braces.runtime.direct_run import DirectRun
from braces.serving.protocol.tensor_spec import DATATYPES, Array, TensorSpec
from braces.storage.model import PREDICT, Model

START = "start"
"""The program of a model file that computes the first state of a generation."""
Arrays = Mapping[str, Array]
"""Arrays by name."""


@dataclass(frozen=True)
class Signature:
    """Inputs, outputs and batch axis of a model.

    Attributes:
        inputs: The inputs by name.
        outputs: The outputs by name.
        joined_inputs: The inputs with the batch axis, on axis 0; the others must be equal in
            requests that are joined.
        joined_outputs: The outputs with the batch axis; each request gets its own elements.
        separate: Why requests are not joined; empty if they can be.
        rows: The symbolic size of axis 0 that the inputs share; empty if there is none.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    joined_inputs: frozenset[str] = frozenset()
    joined_outputs: frozenset[str] = frozenset()
    separate: str = ""
    rows: str = ""

    @property
    def is_joined(self) -> bool:
        """True if requests can be joined along the batch axis."""
        return not self.separate

    def free_sizes(self) -> list[str]:
        """Return the symbolic sizes of the inputs, without that of the batch axis."""
        names = (size for spec in self.inputs.values() for size in spec.shape)
        return [*dict.fromkeys(s for s in names if isinstance(s, str) and s != self.rows)]

    def example(self, rows: int, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return inputs of zeros, of which only the types matter."""

        def sizes_of(spec: TensorSpec) -> Iterator[int]:
            for size in spec.shape:
                yield size if isinstance(size, int) else sizes.get(size, rows)

        return {n: np.zeros([*sizes_of(s)], s.dtype) for n, s in self.inputs.items()}


@dataclass(frozen=True)
class ServedModel:
    """A version of a model, ready to run.

    Attributes:
        name: The name of the model.
        version: The version: a positive integer as text.
        platform: The origin of the file, such as `braces_model`.
        signature: Inputs, outputs and batch axis.
        run: Computes all outputs.
        compile: Compiles for the types of these inputs.
        start: The program that computes the first state of a generation.
        metadata: The metadata of the model, which clients get as `parameters`.
        is_steady: Whether the time of a run depends on its sizes alone: the program has no
            loops and branches.
    """

    name: str
    version: str
    platform: str
    signature: Signature
    run: Callable[[Arrays], Arrays]
    compile: Callable[[Arrays], None]
    start: ServedModel | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_steady: bool = False

    def describe(self, versions: Sequence[str]) -> dict[str, Any]:
        """Return the metadata of the protocol."""
        signature = self.signature
        return {
            "name": self.name,
            "versions": list(versions),
            "platform": self.platform,
            "inputs": [spec.describe() for spec in signature.inputs.values()],
            "outputs": [spec.describe() for spec in signature.outputs.values()],
            **({"parameters": self.metadata} if self.metadata else {}),
        }


def serve_model(
    model: Model, name: str, version: str, platform: str, timeout_s: float | None = None
) -> ServedModel:
    """Return a loaded model as the server runs it.

    Args:
        model: The model.
        name: Its name.
        version: Its version.
        platform: The origin of its file.
        timeout_s: The time limit of a run; a loop that does not end stops then.

    Raises:
        ProgramError: If an input or output has a type that the protocol does not have.
    """
    served = _serve_program(model, PREDICT, (name, version, platform), timeout_s)
    served = replace(served, metadata=model.metadata)
    if START not in model.programs:
        return served
    start = _serve_program(model, START, (name, version, platform), timeout_s)
    return replace(served, start=start)


def _serve_program(
    model: Model, program: str, origin: tuple[str, str, str], timeout_s: float | None
) -> ServedModel:
    entry = model.entry(program)
    fetches = dict(entry.fetches)
    only = next(iter(fetches))
    direct = DirectRun(model.executor, entry.program, model.scope, fetches)

    def run(feed: Arrays) -> Arrays:
        if not entry.program.updates:
            return direct(feed, timeout_s)
        results = model.run_program(program, feed, None, timeout_s)
        if isinstance(results, dict):
            return cast("dict[str, Array]", results)
        return {only: results}

    def compile_for(feed: Arrays) -> None:
        model.executor.compile(entry.program, model.scope, feed, fetches)
        if not entry.program.updates:
            with suppress(BracesError):  # zeros may be invalid inputs
                run(feed)  # with a time limit, a loop is compiled once more

    is_steady = not may_be_interruptible(entry.program.definition.main)
    signature = signature_of(model, program)
    return ServedModel(*origin, signature, run, compile_for, is_steady=is_steady)


def signature_of(model: Model, program: str = PREDICT) -> Signature:
    """Return the signature of a program of a model.

    Raises:
        ProgramError: If an input or output has a type that the protocol does not have.
    """
    entry = model.entry(program)
    infos = entry.program.infos
    inputs = {name: _spec(name, infos[name].type, "input") for name in entry.feeds}
    outputs = {
        name: _spec(name, infos[var].type, "output") for name, var in entry.fetches.items()
    }
    definition = prune(entry.program, list(entry.fetches.values())).definition
    declared = {name: infos[name].type for name in entry.feeds}
    rows = find_batch_axis(declared.values())
    if rows is None:
        return Signature(
            inputs, outputs, separate="axis 0 of its inputs is not one symbolic size."
        )
    if entry.program.updates:
        reason = "it updates variables, or draws numbers."
        return Signature(inputs, outputs, separate=reason, rows=str(rows))
    if reason := explain_dependence(definition, rows, entry.fetches.values()):
        return Signature(inputs, outputs, separate=reason, rows=str(rows))
    has_rows = {name for name, type_ in declared.items() if _is_first(type_, rows)}
    varying = {n for n, var in entry.fetches.items() if _is_first(infos[var].type, rows)}
    return Signature(inputs, outputs, frozenset(has_rows), frozenset(varying), rows=str(rows))


def _is_first(type_: Type, rows: Size) -> bool:
    return isinstance(type_, TensorType) and type_.rank > 0 and type_.shape[0] == rows


def _spec(name: str, type_: Type, what: str) -> TensorSpec:
    if not isinstance(type_, TensorType) or type_.dtype not in DATATYPES:
        raise ProgramError(
            f"the {what} `{name}` has no datatype of the inference protocol.",
            given=f"{name}: {type_}",
            fix=f"Expected an array of {', '.join(DATATYPES.values())}.",
        )
    shape = (str(size) if isinstance(size, Dim) else int(size) for size in type_.shape)
    return TensorSpec(name, type_.dtype, tuple(shape))


def row_count(signature: Signature, feed: Arrays) -> int:
    """Return the number of batch elements of a request; 0 if there is no batch axis."""
    return next((len(feed[name]) for name in signature.joined_inputs), 0)


def byte_count(arrays: Arrays) -> int:
    """Return the number of bytes of arrays."""
    return sum(array.itemsize * math.prod(array.shape) for array in arrays.values())
