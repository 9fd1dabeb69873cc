"""Nodes with a function body: functions of the model, and function operators of ONNX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.errors import ProgramError
from braces.exchange.common.model.names import RECOMPUTE
from braces.exchange.common.values.constants import Constant, Value
from braces.exchange.onnx.reader.file.schema_check import schema_of
from braces.exchange.onnx.reader.graph.node import (
    ONNX_DOMAIN,
    GraphScope,
    OnnxNode,
    operator_of,
)
from braces.extend.building import Var
from braces.extend.types import Dim, DType, ListType, Shape
from braces.lazy import onnx


@dataclass(frozen=True)
class FunctionBody:
    """The expansion of a node.

    Attributes:
        nodes: The nodes in order, with references to attributes resolved.
        inputs: The names of its inputs.
        outputs: The names of its outputs.
        versions: The version of each domain's operators.
    """

    nodes: tuple[Any, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    versions: Mapping[str, int]


def versions_of(imports: Iterable[Any]) -> dict[str, int]:
    """Return the version of each domain's operators."""
    return {entry.domain or ONNX_DOMAIN: entry.version for entry in imports}


FunctionId: TypeAlias = "tuple[str, str, str]"
"""The key of a function: its domain, its name, and its overload."""


def own_functions(model: Any) -> dict[FunctionId, Any]:
    """Return the functions that a model defines."""
    return {(f.domain or ONNX_DOMAIN, f.name, f.overload): f for f in model.functions}


def called_by(proto: Any) -> FunctionId:
    """Return the key of the function that a node calls, if the model defines it."""
    return proto.domain or ONNX_DOMAIN, proto.op_type, proto.overload


def call_node(names: GraphScope, proto: Any, function: Any) -> OnnxNode:
    """Return a node that calls a function of the model.

    Raises:
        ProgramError: If the node has more inputs or outputs than the function.
    """
    for what in ("input", "output"):
        count, limit = len(getattr(proto, what)), len(getattr(function, what))
        if count > limit:
            raise ProgramError(
                f"{operator_of(proto):.80}: expected at most {limit} {what}s, got {count}."
            )
    return OnnxNode(names, proto, {})


def is_rematerialized(function: Any) -> bool:
    """Return whether a function is marked for rematerialization by our exporter."""
    return any(
        entry.key == RECOMPUTE and entry.value == "1" for entry in function.metadata_props
    )


def has_body(proto: Any, version: int) -> bool:
    """Return whether ONNX defines an operator as a function."""
    schema = schema_of(proto.op_type, version, proto.domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def schema_body(node: OnnxNode) -> FunctionBody | None:
    """Return the function body that ONNX defines for a node; `None` if there is none."""
    schema = schema_of(node.proto.op_type, node.version, node.proto.domain)
    if schema is None:
        return None
    function = onnx.FunctionProto()
    if schema.has_function:
        function.CopyFrom(schema.function_body)
    elif schema.has_context_dependent_function:
        types = [_type_of(node.value(at)) for at in range(node.count)]
        serialized = node.proto.SerializeToString()
        function.ParseFromString(schema.get_context_dependent_function(serialized, types))
    else:
        return None
    defaults = {
        name: attribute_schema.default_value
        for name, attribute_schema in schema.attributes.items()
        if attribute_schema.default_value.name
    }
    return inline_attributes(function, node, defaults)


def inline_attributes(
    function: Any, node: OnnxNode, defaults: Mapping[str, Any]
) -> FunctionBody:
    """Return the body of a function with the attributes of the calling node."""
    own = {a.name: a for a in node.proto.attribute}
    attrs = {**defaults, **{a.name: a for a in function.attribute_proto}, **own}
    return FunctionBody(
        tuple(_bind_attributes(body_node, attrs) for body_node in function.node),
        tuple(function.input),
        tuple(function.output),
        {**node.names.versions, **versions_of(function.opset_import)},
    )


def _bind_attributes(node: Any, attrs: Mapping[str, Any]) -> Any:
    """Return a node with references to attributes resolved."""
    bound_node = onnx.NodeProto()
    bound_node.CopyFrom(node)
    del bound_node.attribute[:]
    for attribute in node.attribute:
        ref_name = attribute.ref_attr_name
        if ref_name and ref_name not in attrs:
            continue
        copied = bound_node.attribute.add()
        copied.CopyFrom(attrs[ref_name] if ref_name else attribute)
        copied.name = attribute.name
        for graph in (
            (copied.g, *copied.graphs) if copied.HasField("g") or copied.graphs else ()
        ):
            inner = [_bind_attributes(inner_node, attrs) for inner_node in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return bound_node


# ---- types, as schemas take them -------------------------------------------------------------


def _type_of(value: Value) -> bytes:
    """Return the type of a value as ONNX serializes it; empty if there is none."""
    if isinstance(value, Constant):
        return _tensor_type(value.dtype, value.array.shape)
    if isinstance(value, Var) and not isinstance(value.type, ListType):
        return _tensor_type(value.dtype, value.shape)
    return b""


def _tensor_type(dtype: DType, shape: Shape) -> bytes:
    proto = onnx.TypeProto()
    proto.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    proto.tensor_type.shape.SetInParent()
    for size in shape:
        axis = proto.tensor_type.shape.dim.add()
        if isinstance(size, Dim):
            axis.dim_param = str(size)
        else:
            axis.dim_value = size
    return proto.SerializeToString()
