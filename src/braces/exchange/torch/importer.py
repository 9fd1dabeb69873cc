"""Import a program of torch.export."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from braces.errors import BracesError, ProgramError
from braces.exchange.common.model.names import clean_name, fetch_as
from braces.exchange.common.model.unsupported import (
    MissingValue,
    UnsupportedNode,
    unsupported_error,
)
from braces.exchange.common.model.weights import Array
from braces.exchange.torch.decompose import OUTPUT, RETURNED_KINDS, decompose, output_names
from braces.exchange.torch.graph.convert import dtype_from, is_torch
from braces.exchange.torch.reader import TorchReader
from braces.exchange.torch.rules.tensor.creation_random import scalar
from braces.extend.building import Var, data, with_user_line
from braces.extend.programs import PARAMETER, STATE, Program


@with_user_line
def from_torch(exported: Any) -> tuple[Program, dict[str, Array]]:
    """Convert a program of `torch.export.export`, and return the values of its parameters.

    Every operator becomes a few of ours, with names derived from the nodes of the export.
    `torch.cond`, `while_loop`, `scan` and `map` become branches and loops with blocks of their
    own, and so do recurrent layers. Parameters and buffers keep the module's names. Buffer
    mutations of a module in training mode, as by batch norm, become `updates` of the program.
    An axis that is `torch.export.Dim("batch")` has the symbolic size `batch`.

    Args:
        exported: The result of `torch.export.export(module, args)`.

    Returns:
        The program, whose `feeds` and `fetches` are in the order of the module's inputs and
        outputs, and the values of its parameters and states by name, for `scope.update`.
        Outputs in a dict are named by their keys, all others `output`, `output_1`, ….

    Raises:
        ProgramError: If the export has unsupported nodes; the message lists all of them, with
            the module's own lines.

    Example:
        >>> import braces as br
        >>> import torch                                             # doctest: +SKIP
        >>> module = torch.nn.Linear(3, 1)                           # doctest: +SKIP
        >>> exported = torch.export.export(module, (torch.ones(2, 3),))  # doctest: +SKIP
        >>> prog, values = br.from_torch(exported)                   # doctest: +SKIP
        >>> prog.feeds, prog.fetches, list(values)                   # doctest: +SKIP
        (('input',), ('output',), ['weight', 'bias'])
    """
    if not is_torch(exported, "ExportedProgram"):
        raise ProgramError(
            f"expected a torch.export.ExportedProgram, got {exported!r:.80}.",
            fix="Call br.from_torch(torch.export.export(module, args)).",
        )
    with _reporting_invalid("PyTorch cannot decompose the exported program"):
        functional = decompose(exported)
    return read_decomposed(functional)


def read_decomposed(functional: Any) -> tuple[Program, dict[str, Array]]:
    """Convert an export whose operators have rules, and return the values of its parameters.

    Raises:
        ProgramError: If the export has unsupported nodes, or is invalid.
    """
    program = Program()
    reader = TorchReader(program)
    with _reporting_invalid("invalid exported program"):
        _build_program(reader, functional)
    if reader.problems:
        raise unsupported_error(reader.problems, "The exported program")
    return program, reader.values


def _build_program(reader: TorchReader, exported: Any) -> None:
    """Build the program of an export."""
    with reader.program:
        inputs = _declare(reader, exported)
        reader.program.table.names.reserve(filter(None, _fetch_names(exported)))
        with suppress(MissingValue):  # unsupported nodes are reported elsewhere
            _fetch_outputs(reader, exported, reader.run(exported.graph_module, inputs))


@contextmanager
def _reporting_invalid(what: str) -> Generator[None]:
    """Report an exception of PyTorch, or of a damaged export, as an error of the export."""
    try:
        yield
    except BracesError:
        raise
    except Exception as error:
        raise ProgramError(
            f"{what}.",
            given=f"{type(error).__name__}: {error!s:.500}",
            fix="Export the module again, and run it by exported.module()(*args).",
        ) from error


# ---- inputs ----------------------------------------------------------------------------------


def _declare(reader: TorchReader, exported: Any) -> list[Any]:
    """Return the values of an export's placeholders, in order."""
    nodes = [node for node in exported.graph.nodes if node.op == "placeholder"]
    specs = exported.graph_signature.input_specs
    values = list[Any]()
    for node, spec in zip(nodes, specs, strict=True):
        try:
            values.append(_input(reader, exported, node, spec))
        except BracesError as error:
            reader.problems.append(UnsupportedNode("input", f"`{node.name}`", error))
            values.append(MissingValue)
    return values


def _input(reader: TorchReader, exported: Any, node: Any, spec: Any) -> Any:
    kind = spec.kind.name
    if kind == "USER_INPUT":
        return _declare_input(reader, node, spec)
    if kind == "TOKEN":
        return None
    if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
        raise ProgramError(f"unsupported input of kind {kind.lower()}.")
    kept = exported.state_dict.get(spec.target)
    tensor = exported.constants[spec.target] if kept is None else kept
    if kind == "CONSTANT_TENSOR":
        return reader.constant(spec.target, tensor) if node.users else None
    return reader.parameter_var(
        spec.target, tensor, PARAMETER if kind == "PARAMETER" else STATE
    )


def _declare_input(reader: TorchReader, node: Any, spec: Any) -> Any:
    """Declare an input of the module: a feed, or a constant number of the export."""
    fake_tensor = node.meta.get("val")
    if is_torch(fake_tensor, "SymInt"):
        return data(clean_name(spec.arg.name, "input"), [], dtype="int64")
    if not is_torch(fake_tensor, "FakeTensor"):
        return fake_tensor
    shape = [reader.symbols.size(size) for size in fake_tensor.shape]
    return data(clean_name(spec.arg.name, "input"), shape, dtype=dtype_from(fake_tensor.dtype))


# ---- outputs ---------------------------------------------------------------------------------


def _fetch_outputs(reader: TorchReader, exported: Any, values: Sequence[Any]) -> None:
    """Fetch the outputs of an export, and add its mutations as updates."""
    specs, names = exported.graph_signature.output_specs, _fetch_names(exported)
    for spec, value, name in zip(specs, values, names, strict=True):
        try:
            _output(reader, spec, value, name)
        except BracesError as error:
            reader.problems.append(UnsupportedNode("output", f"`{spec.arg.name}`", error))


def _fetch_names(exported: Any) -> list[str]:
    """Return the names of fetches, in the order of the outputs; empty for other outputs."""
    return [clean_name(name, OUTPUT) if name else "" for name in output_names(exported)]


def _output(reader: TorchReader, spec: Any, value: Any, name: str) -> None:
    program, kind = reader.program, spec.kind.name
    if kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
        program.update(reader.targets[spec.target], value)
    elif kind == "TOKEN":
        return
    elif kind not in RETURNED_KINDS:
        raise ProgramError(
            f"unsupported output of kind {kind.lower()}.",
            fix="Return the values that the module writes into its inputs.",
        )
    elif isinstance(value, str):
        raise ProgramError("unsupported output: a string.", fix="Return tensors.")
    elif value is not None:
        var = value if isinstance(value, Var) else scalar(value)
        fetch_as(program, var, name, reserved=True)
