"""A model of ONNX as a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any, cast

import numpy as np

from braces.builder.builder import Builder
from braces.builder.source_line import says_where
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.errors import (
    BracesError,
    FileFormatError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.exchange.common.model.names import cleaned, dimension_name, free, give
from braces.exchange.common.model.unsupported import Missing, Problem, unreadable
from braces.exchange.common.model.weights import UPDATES
from braces.exchange.common.values.constants import Array, Known, Value
from braces.exchange.onnx.reader.file.dtypes import dtype_named
from braces.exchange.onnx.reader.file.example_inputs import Examples, read_examples
from braces.exchange.onnx.reader.file.external_data import take_in
from braces.exchange.onnx.reader.files import admit, load
from braces.exchange.onnx.reader.graph import function_bodies as bodies
from braces.exchange.onnx.reader.graph.call_counting import Endless
from braces.exchange.onnx.reader.graph.node import Names
from braces.exchange.onnx.reader.graph.sequences import is_list, stacked
from braces.exchange.onnx.reader.reader import NeedsValue, Reader
from braces.exchange.onnx.types import axes_of
from braces.frontend.core.variables import data
from braces.program import Program


@says_where
def from_onnx(
    model: str | PathLike[str] | Any,
    sizes: Mapping[str, int] | None = None,
    inputs: Examples | None = None,
) -> tuple[Program, dict[str, Array]]:
    """A model of ONNX as a program, and the values of its parameters.

    Every node becomes a few operators, called after what the model calls its values. `Loop`,
    `Scan` and `If` become loops and branches with blocks of their own, and a node that calls a
    function of the model becomes a plain block. Initializers of float dtypes with axes become
    parameters, which train; what is computed from shapes alone becomes sizes. Inputs with an
    axis called `N` have a symbolic size `N`.

    Args:
        model: A path, or an `onnx.ModelProto`. Weights beside the file must lie in its folder.
        sizes: Numbers for symbolic sizes, as `{"N": 1}`.
        inputs: Example values of inputs: a dict by name, or a list in the order of the model's
            inputs, with `None` for one without an example. Where sizes or indices that must be
            known follow from an input, it is no feed of the program, but a constant of that
            value.

    A training step that `br.to_onnx` wrote with `updates=True` is one again: a run gives the
    next values of what it updates.

    Returns:
        The program, whose `feeds` and `fetches` are in the order of the model's inputs and
        outputs, and the values of its parameters by name, for `scope.update`.

    Raises:
        FileFormatError: The file is no model.
        ProgramError: The model has what no program has; the message lists all of that. Or there
            are more examples than inputs.
        FeedError: An example does not become an array of the dtype of its input.
        ShapeError: An example has another number of axes than its input.
        UnknownNameError: The model has no such input, or no such size.
        OSError: There is no such file.

    Example:
        >>> import braces as br, numpy as np, onnx.parser
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 18]>
        ...     half (float[N, 3] x) => (float[N, 1] y) <float[3, 1] w = {1, 2, 3}> {
        ...         z = Relu(x)
        ...         y = MatMul(z, w)
        ...     }''')
        >>> prog, values = br.from_onnx(model)
        >>> prog.feeds, prog.fetches, prog.var("y").type, list(values)
        (('x',), ('y',), f32[N,1], ['w'])
        >>> scope = br.Scope()
        >>> scope.update(values)
        >>> exe = br.Executor()
        >>> exe.run(prog, scope, feed={"x": np.ones((1, 3), "float32")}, fetch=["y"])
        [array([[6.]], dtype=float32)]
    """
    proto, file, folder = load(model)
    versions = admit(proto, file)
    examples = read_examples(proto.graph, inputs)
    _check_sizes(proto.graph, sizes or {})
    take_in(proto, folder)
    fixed = dict[str, Any]()
    blocks = bool(proto.functions)
    while True:
        try:
            return _read(proto, file, versions, sizes or {}, examples, fixed, blocks)
        except NeedsValue as needed:
            fixed.update((name, examples[name]) for name in needed.names)
        except ProgramError as error:
            if not blocks or isinstance(error, Endless):
                raise
            blocks = False  # a size that only a run tells may be known beyond its block then


def _read(
    proto: Any,
    file: str,
    versions: Mapping[str, int],
    sizes: Mapping[str, int],
    examples: Mapping[str, Any],
    fixed: Mapping[str, Any],
    blocks: bool,
) -> tuple[Program, dict[str, Array]]:
    """The program of a model, with these inputs as constants; of functions blocks, or not."""
    program = Program()
    left = examples.keys() - fixed.keys()
    updates = _updates(proto, file)
    reader = Reader(program, file, bodies.own_functions(proto), left, updates, blocks)
    names = Names(reader, versions)
    reader.admit(proto.graph.node)
    with program:
        reader.initializers(names, proto.graph)
        for entry in proto.graph.input:
            if entry.name in fixed:
                names.values[entry.name] = _fixed(fixed[entry.name])
            elif entry.name not in names.values:
                _declare(reader, names, entry, sizes, examples)
        reader.run(names, proto.graph.node)
        if not reader.problems:
            nexts = {*updates.values()}
            _give(reader, names, [one for one in proto.graph.output if one.name not in nexts])
            _move(reader, names)
    if reader.problems:
        raise unreadable(reader.problems, file)
    return program, reader.parameters


def _updates(proto: Any, file: str) -> dict[str, str]:
    """Which outputs are the next values of initializers, by the names of these.

    Raises:
        FileFormatError: The model says that of what it does not have.
    """
    given = next((entry.value for entry in proto.metadata_props if entry.key == UPDATES), "{}")
    weights = {tensor.name for tensor in proto.graph.initializer}
    outputs = {entry.name for entry in proto.graph.output}
    try:
        found = dict[str, str](json.loads(given))
        known = found.keys() <= weights and outputs.issuperset(found.values())
    except (ValueError, TypeError, RecursionError):
        found, known = {}, False
    if not known:
        raise FileFormatError(
            f"{file} says of other names than its own which are next values.",
            given=f"{UPDATES}: {given:.100}",
            fix="Take the entry out of the metadata, or write the model anew.",
        )
    return found


def _move(reader: Reader, names: Names) -> None:
    """Make outputs that are next values of persistable variables their updates."""
    for name, output in reader.updates.items():
        before, after = names.value(name), reader.lift(names.value(output))
        if not isinstance(before, Var):
            raise ProgramError(
                f"`{name}` has a next value in each run, and is a constant here.",
                fix=f"Leave {name!r:.60} out of inputs=.",
            )
        reader.program.update(before, after)


def _fixed(example: Any) -> Value:
    """An input that is a constant."""
    if isinstance(example, list):
        return [Known.of(one_value) for one_value in cast("list[Any]", example)]
    return Known.of(example)


def _check_sizes(graph: Any, sizes: Mapping[str, int]) -> None:
    """Refuse sizes that no axis of an input has."""
    known = {axis.dim_param for entry in graph.input for axis in axes_of(entry.type)}
    for name in sizes:
        if name not in known:
            raise UnknownNameError(
                f"The model has no size `{name}`.", fix=suggest(name, known - {""})
            )


def _declare(
    reader: Reader,
    names: Names,
    entry: Any,
    sizes: Mapping[str, int],
    examples: Mapping[str, Any],
) -> None:
    """Make an input of a model one of the program."""
    try:
        names.values[entry.name] = _input(
            reader.program, entry.name, entry.type, sizes, examples.get(entry.name)
        )
    except BracesError as error:
        reader.problems.append(Problem("input", f"`{entry.name}`", error))
        names.values[entry.name] = Missing


def _input(
    program: Builder, name: str, type_: Any, sizes: Mapping[str, int], example: Any
) -> Value:
    which = type_.WhichOneof("value")
    if which == "optional_type":
        inner = type_.optional_type.elem_type
        return None if example is None else _input(program, name, inner, sizes, example)
    if which == "sequence_type":
        return _sequence(program, name, type_.sequence_type.elem_type, sizes, example)
    if which != "tensor_type":
        raise ProgramError(
            f"An input that is a {str(which).removesuffix('_type')} is not read."
        )
    tensor = type_.tensor_type
    if not tensor.HasField("shape") and example is None:
        raise ShapeError(
            "The model does not say how many axes it has.",
            fix=f"Give an example of it: inputs={{{name!r}: array}}.",
        )
    shape: list[Any] = (
        [_size(axis, sizes) for axis in tensor.shape.dim]
        if tensor.HasField("shape")
        else [None] * np.ndim(example)
    )
    called = free(program.table, cleaned(name, "input"))
    return data(called, shape, dtype=dtype_named(tensor.elem_type))


def _sequence(
    program: Builder, name: str, type_: Any, sizes: Mapping[str, int], example: Any
) -> Value:
    """A sequence as one input for each of its values; an example says how many."""
    if not isinstance(example, list):
        raise ShapeError(
            "The model does not say how many values the sequence has.",
            fix=f"Give an example of it, a list: inputs={{{name!r}: [array, array]}}.",
        )
    values, element = cast("list[Any]", example), _of_any_size(type_, sizes)
    return [
        _input(program, f"{name}.{i}", element, sizes, one_) for i, one_ in enumerate(values)
    ]


def _of_any_size(type_: Any, sizes: Mapping[str, int]) -> Any:
    """The type of elements, which differ in what has a name for one of them."""
    made = type(type_)()
    made.CopyFrom(type_)
    for axis in axes_of(made):
        if axis.dim_param not in sizes and axis.HasField("dim_param"):
            axis.ClearField("dim_param")
    return made


def _size(axis: Any, sizes: Mapping[str, int]) -> Size | None:
    if axis.HasField("dim_value"):
        return axis.dim_value if axis.dim_value >= 0 else None
    if axis.dim_param in sizes:
        return sizes[axis.dim_param]
    found = dimension_name(axis.dim_param)
    return None if found is None else Dim.named(found)


def _give(reader: Reader, names: Names, entries: Any) -> None:
    """Make the outputs of a model what the program gives."""
    for entry in entries:
        try:
            _give_value(reader, names.value(entry.name), cleaned(entry.name, "output"))
        except BracesError as error:
            reader.problems.append(Problem("output", f"`{entry.name}`", error))


def _give_value(reader: Reader, value: Value, name: str) -> None:
    """One output; of a sequence each value, and of an optional that is empty nothing.

    A sequence whose length only a run knows is one array.
    """
    if isinstance(value, list):
        for at, one_value in enumerate(value):
            _give_value(reader, one_value, f"{name}.{at}")
    elif is_list(value):
        give(reader.program, stacked(reader, value), name)
    elif value is not None:
        give(reader.program, reader.lift(value), name)
