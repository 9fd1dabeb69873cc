"""Nodes that stand for several others: functions of a model, and ONNX's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.builder.var import Var
from braces.dims import Dim, Shape
from braces.dtypes import DType, ListType
from braces.errors import ProgramError
from braces.exchange.common.model.names import RECOMPUTE
from braces.exchange.common.values.constants import Known, Value
from braces.exchange.onnx.reader.file.schema_check import schema_of
from braces.exchange.onnx.reader.graph.node import STANDARD, Names, Node, operator_of
from braces.lazy import onnx


@dataclass(frozen=True)
class FunctionBody:
    """What stands for a node.

    Attributes:
        nodes: In order, with the node's own attributes in place of references.
        inputs: The names of what it is given.
        outputs: The names of what it gives.
        versions: The version of each domain's operators.
    """

    nodes: tuple[Any, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    versions: Mapping[str, int]


def versions_of(imports: Iterable[Any]) -> dict[str, int]:
    """The version of each domain's operators."""
    return {entry.domain or STANDARD: entry.version for entry in imports}


FunctionId: TypeAlias = "tuple[str, str, str]"
"""What nodes call a function by: its domain, its name, and its overload."""


def own_functions(model: Any) -> dict[FunctionId, Any]:
    """The functions that a model brings along."""
    return {(f.domain or STANDARD, f.name, f.overload): f for f in model.functions}


def called_by(proto: Any) -> FunctionId:
    """The function that a node calls, if the model brings it along."""
    return proto.domain or STANDARD, proto.op_type, proto.overload


def caller(names: Names, proto: Any, function: Any) -> Node:
    """A node that calls a function of the model.

    Raises:
        ProgramError: It has more inputs or outputs than the function.
    """
    for what in ("input", "output"):
        given, most = len(getattr(proto, what)), len(getattr(function, what))
        if given > most:
            raise ProgramError(
                f"{operator_of(proto):.80} has {given} {what}s, and the function {most}."
            )
    return Node(names, proto, {})


def runs_again(function: Any) -> bool:
    """Whether gradients run a function again, as Braces wrote it."""
    return any(one.key == RECOMPUTE and one.value == "1" for one in function.metadata_props)


def has_body(proto: Any, version: int) -> bool:
    """Whether ONNX writes an operator as a graph of others."""
    schema = schema_of(proto.op_type, version, proto.domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def schema_body(node: Node) -> FunctionBody | None:
    """How ONNX writes a node as others; `None` where it does not."""
    schema = schema_of(node.proto.op_type, node.version, node.proto.domain)
    if schema is None:
        return None
    found = onnx.FunctionProto()
    if schema.has_function:
        found.CopyFrom(schema.function_body)
    elif schema.has_context_dependent_function:
        types = [_type_of(node.value(at)) for at in range(node.count)]
        written = node.proto.SerializeToString()
        found.ParseFromString(schema.get_context_dependent_function(written, types))
    else:
        return None
    defaults = {
        name: one.default_value
        for name, one in schema.attributes.items()
        if one.default_value.name
    }
    return written_out(found, node, defaults)


def written_out(function: Any, node: Node, defaults: Mapping[str, Any]) -> FunctionBody:
    """A function with the attributes of the node that calls it in place of references."""
    own = {a.name: a for a in node.proto.attribute}
    attrs = {**defaults, **{a.name: a for a in function.attribute_proto}, **own}
    return FunctionBody(
        tuple(_bound(one, attrs) for one in function.node),
        tuple(function.input),
        tuple(function.output),
        {**node.names.versions, **versions_of(function.opset_import)},
    )


def _bound(node: Any, attrs: Mapping[str, Any]) -> Any:
    """A node with attributes in place of references to them."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        named = attribute.ref_attr_name
        if named and named not in attrs:
            continue
        kept = made.attribute.add()
        kept.CopyFrom(attrs[named] if named else attribute)
        kept.name = attribute.name
        for graph in (kept.g, *kept.graphs) if kept.HasField("g") or kept.graphs else ():
            inner = [_bound(one, attrs) for one in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return made


# ---- types, as schemas ask for them ----------------------------------------------------------


def _type_of(value: Value) -> bytes:
    """The type of a value as ONNX writes it; nothing where there is none."""
    if isinstance(value, Known):
        return _tensor_type(value.dtype, value.array.shape)
    if isinstance(value, Var) and not isinstance(value.type, ListType):
        return _tensor_type(value.dtype, value.shape)
    return b""


def _tensor_type(dtype: DType, shape: Shape) -> bytes:
    made = onnx.TypeProto()
    made.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    made.tensor_type.shape.SetInParent()
    for size in shape:
        axis = made.tensor_type.shape.dim.add()
        if isinstance(size, Dim):
            axis.dim_param = str(size)
        else:
            axis.dim_value = size
    return made.SerializeToString()
