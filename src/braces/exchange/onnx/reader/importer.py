"""Import an ONNX model as a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any, cast

import numpy as np

from braces.errors import (
    BracesError,
    FileFormatError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.exchange.common.model.names import clean_name, dimension_name, fetch_as, unused_name
from braces.exchange.common.model.unsupported import (
    MissingValue,
    UnsupportedNode,
    unsupported_error,
)
from braces.exchange.common.model.weights import UPDATES
from braces.exchange.common.values.constants import Array, Constant, Value
from braces.exchange.onnx.reader.file.dtypes import dtype_named
from braces.exchange.onnx.reader.file.example_inputs import Examples, read_examples
from braces.exchange.onnx.reader.file.external_data import load_external_data
from braces.exchange.onnx.reader.files import admit, load
from braces.exchange.onnx.reader.graph import function_bodies
from braces.exchange.onnx.reader.graph.call_counting import TooManyNodes
from braces.exchange.onnx.reader.graph.node import GraphScope, Rule
from braces.exchange.onnx.reader.graph.sequences import is_list, stack_list
from braces.exchange.onnx.reader.reader import NeedsValue, OnnxReader
from braces.exchange.onnx.reader.rules import RULES
from braces.exchange.onnx.reader.user_rules import UserRule, read_rules
from braces.exchange.onnx.types import axes_of
from braces.extend.building import Builder, Var, data, with_user_line
from braces.extend.programs import Program
from braces.extend.types import Dim, Size


@with_user_line
def from_onnx(
    model: str | PathLike[str] | Any,
    sizes: Mapping[str, int] | None = None,
    inputs: Examples | None = None,
    *,
    constants: Mapping[str, Any] | None = None,
    rules: Mapping[str, UserRule] | None = None,
) -> tuple[Program, dict[str, Array]]:
    """Convert an ONNX model to a program, and return the values of its parameters.

    Every node becomes a few operators, with names derived from those of the model. `Loop`,
    `Scan` and `If` become loops and branches with separate blocks, and a call of a function
    of the model becomes a plain block. Initializers of float dtypes with axes become trainable
    parameters; values computed from shapes alone become sizes. An axis of an input called `N`
    becomes a symbolic size `N`.

    Args:
        model: A path, or an `onnx.ModelProto`. External data must be in the folder of the file.
        sizes: Numbers for symbolic sizes, as `{"N": 1}`.
        inputs: Example values of inputs: a dict by name, or a list in the order of the model's
            inputs, with `None` for one without an example. If sizes or indices that must be
            known depend on an input, it becomes a constant of that value instead of a feed.
        constants: Values by the names of inputs that become constants instead of feeds. An `If`
            whose condition is then known has one branch in the program. The types of the other
            one need not fit.
        rules: Functions by operator, as `"Scale"` or `"my.domain.Scale"`, for operators without
            a conversion rule, or in place of it. A function gets the inputs of a node as
            variables, `None` for an omitted one, and its attributes as keywords. It returns
            the output, or a tuple of them.

    A training step that `br.to_onnx` wrote with `updates=True` remains a training step: a run
    gives the next values of the updated variables.

    Returns:
        The program, whose `feeds` and `fetches` are in the order of the model's inputs and
        outputs, and the values of its parameters by name, for `scope.update`.

    Raises:
        FileFormatError: If the file is not a model.
        ProgramError: If the model has unsupported nodes (the message lists all of them), or
            there are more examples than inputs; or an input is both a constant and an example;
            or `rules` is not a dict of functions.
        FeedError: If an example or a constant cannot be converted to the dtype of its input.
        ShapeError: If the rank of an example or a constant differs from that of its input.
        UnknownNameError: If the model has no input or no size of a given name.
        OSError: If the file does not exist.

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
    load_external_data(proto, folder)
    fixed = _read_constants(proto.graph, constants, examples)
    blocks, own = bool(proto.functions), read_rules(rules)
    while True:
        try:
            return _read_model(
                proto, file, versions, sizes or {}, examples, fixed, blocks, {**RULES, **own}
            )
        except NeedsValue as needed:
            fixed.update((name, examples[name]) for name in needed.names)
        except ProgramError as error:
            if not blocks or isinstance(error, TooManyNodes):
                raise
            blocks = (
                False  # a size that is data-dependent inside a block may be known when inlined
            )


def _read_model(
    proto: Any,
    file: str,
    versions: Mapping[str, int],
    sizes: Mapping[str, int],
    examples: Mapping[str, Any],
    fixed: Mapping[str, Any],
    blocks: bool,
    rules: Mapping[str, Rule],
) -> tuple[Program, dict[str, Array]]:
    """Build the program of a model with the `fixed` inputs as constants.

    With `blocks`, functions become plain blocks; else they are inlined.
    """
    program = Program()
    unused_examples = examples.keys() - fixed.keys()
    updates = _updates(proto, file)
    reader = OnnxReader(
        program,
        file,
        function_bodies.own_functions(proto),
        rules,
        unused_examples,
        updates,
        blocks,
    )
    names = GraphScope(reader, versions)
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
            _fetch_outputs(
                reader,
                names,
                [
                    graph_output
                    for graph_output in proto.graph.output
                    if graph_output.name not in nexts
                ],
            )
            _add_updates(reader, names)
    if reader.problems:
        raise unsupported_error(reader.problems, file)
    return program, reader.parameters


def _updates(proto: Any, file: str) -> dict[str, str]:
    """Return the outputs that are the next values of initializers, by the names of these.

    Raises:
        FileFormatError: If the metadata contains an unknown name.
    """
    text = next((entry.value for entry in proto.metadata_props if entry.key == UPDATES), "{}")
    weights = {tensor.name for tensor in proto.graph.initializer}
    outputs = {entry.name for entry in proto.graph.output}
    try:
        updates = dict[str, str](json.loads(text))
        is_valid = updates.keys() <= weights and outputs.issuperset(updates.values())
    except (ValueError, TypeError, RecursionError):
        updates, is_valid = {}, False
    if not is_valid:
        raise FileFormatError(
            f"{file} has metadata with unknown names of updated inputs.",
            given=f"{UPDATES}: {text:.100}",
            fix="Remove the metadata entry, or export the model again.",
        )
    return updates


def _add_updates(reader: OnnxReader, names: GraphScope) -> None:
    """Make outputs that are next values of persistable variables their updates."""
    for name, output in reader.updates.items():
        before, after = names.value(name), reader.lift(names.value(output))
        if not isinstance(before, Var):
            raise ProgramError(
                f"`{name}` is updated by each run and cannot be a constant.",
                fix=f"Remove {name!r:.60} from `inputs` and `constants`.",
            )
        reader.program.update(before, after)


def _read_constants(graph: Any, constants: Any, examples: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of inputs that are constants by name, in the declared dtypes."""
    if not isinstance(constants, Mapping | None):
        raise ProgramError(
            f"expected a mapping for `constants`, got {constants!r:.80}.",
            fix="Pass constants={'name': array}.",
        )
    values = cast("Mapping[str, Any]", constants or {})
    both = sorted(examples.keys() & values.keys())
    if both:
        raise ProgramError(
            f"the input `{both[0]:.60}` is both in `inputs` and in `constants`.",
            fix="Remove it from `inputs`.",
        )
    return read_examples(graph, values)


def _fixed(example: Any) -> Value:
    """Return an input that is a constant."""
    if isinstance(example, list):
        return [Constant.of(one_value) for one_value in cast("list[Any]", example)]
    return Constant.of(example)


def _check_sizes(graph: Any, sizes: Mapping[str, int]) -> None:
    """Raise an error for sizes that no axis of an input has."""
    declared_names = {axis.dim_param for entry in graph.input for axis in axes_of(entry.type)}
    for name in sizes:
        if name not in declared_names:
            raise UnknownNameError(
                f"unknown size `{name}`.", fix=suggest(name, declared_names - {""})
            )


def _declare(
    reader: OnnxReader,
    names: GraphScope,
    entry: Any,
    sizes: Mapping[str, int],
    examples: Mapping[str, Any],
) -> None:
    """Declare an input of a model as one of the program."""
    try:
        names.values[entry.name] = _input(
            reader.program, entry.name, entry.type, sizes, examples.get(entry.name)
        )
    except BracesError as error:
        reader.problems.append(UnsupportedNode("input", f"`{entry.name}`", error))
        names.values[entry.name] = MissingValue


def _input(
    program: Builder, name: str, type_: Any, sizes: Mapping[str, int], example: Any
) -> Value:
    kind = type_.WhichOneof("value")
    if kind == "optional_type":
        inner = type_.optional_type.elem_type
        return None if example is None else _input(program, name, inner, sizes, example)
    if kind == "sequence_type":
        return _sequence(program, name, type_.sequence_type.elem_type, sizes, example)
    if kind != "tensor_type":
        raise ProgramError(f"unsupported input of type {str(kind).removesuffix('_type')}.")
    tensor = type_.tensor_type
    if not tensor.HasField("shape") and example is None:
        raise ShapeError(
            "the input has no declared rank.",
            fix=f"Pass an example: inputs={{{name!r}: array}}.",
        )
    shape: list[Any] = (
        [_size(axis, sizes) for axis in tensor.shape.dim]
        if tensor.HasField("shape")
        else [None] * np.ndim(example)
    )
    free_name = unused_name(program.table, clean_name(name, "input"))
    return data(free_name, shape, dtype=dtype_named(tensor.elem_type))


def _sequence(
    program: Builder, name: str, type_: Any, sizes: Mapping[str, int], example: Any
) -> Value:
    """Declare one input for each value of a sequence; an example gives the length."""
    if not isinstance(example, list):
        raise ShapeError(
            "the sequence has no declared length.",
            fix=f"Pass a list as an example: inputs={{{name!r}: [array, array]}}.",
        )
    values, element = cast("list[Any]", example), _without_names(type_, sizes)
    return [
        _input(program, f"{name}.{i}", element, sizes, one_) for i, one_ in enumerate(values)
    ]


def _without_names(type_: Any, sizes: Mapping[str, int]) -> Any:
    """Return an element type whose named sizes may differ between elements."""
    element_type = type(type_)()
    element_type.CopyFrom(type_)
    for axis in axes_of(element_type):
        if axis.dim_param not in sizes and axis.HasField("dim_param"):
            axis.ClearField("dim_param")
    return element_type


def _size(axis: Any, sizes: Mapping[str, int]) -> Size | None:
    if axis.HasField("dim_value"):
        return axis.dim_value if axis.dim_value >= 0 else None
    if axis.dim_param in sizes:
        return sizes[axis.dim_param]
    word = dimension_name(axis.dim_param)
    return None if word is None else Dim.named(word)


def _fetch_outputs(reader: OnnxReader, names: GraphScope, entries: Any) -> None:
    """Fetch the outputs of a model."""
    for entry in entries:
        try:
            _fetch_value(reader, names.value(entry.name), clean_name(entry.name, "output"))
        except BracesError as error:
            reader.problems.append(UnsupportedNode("output", f"`{entry.name}`", error))


def _fetch_value(reader: OnnxReader, value: Value, name: str) -> None:
    """Fetch one output; of a sequence each value, and of an empty optional nothing.

    A sequence of data-dependent length is one array.
    """
    if isinstance(value, list):
        for at, one_value in enumerate(value):
            _fetch_value(reader, one_value, f"{name}.{at}")
    elif is_list(value):
        fetch_as(reader.program, stack_list(reader, value), name)
    elif value is not None:
        fetch_as(reader.program, reader.lift(value), name)
