"""Validate a model against the schemas of ONNX before any rule reads it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from braces.errors import FileFormatError, ProgramError
from braces.lazy import onnx


def check_texts(model: Any, file: str) -> None:
    """Refuse a model with names that are not UTF-8: protobuf accepts any bytes.

    Raises:
        FileFormatError: If a name is not valid UTF-8.
    """
    for message in _messages(model):
        for field in _fields(message.DESCRIPTOR)[0]:
            content = getattr(message, field)
            texts = [content] if isinstance(content, str | bytes) else content
            if any(isinstance(text, bytes) for text in texts):
                raise FileFormatError(
                    f"{file} is not a valid ONNX model: `{field}` is not UTF-8."
                )


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message and all messages inside it."""
    pending = [message]
    while pending:
        current = pending.pop()
        yield current
        _, single, many = _fields(current.DESCRIPTOR)
        pending += [getattr(current, name) for name in single if current.HasField(name)]
        for name in many:
            pending += getattr(current, name)


@functools.cache
def _fields(descriptor: Any) -> tuple[list[str], list[str], list[str]]:
    """Return the fields of a message type: strings, single messages, and repeated messages."""
    texts, single, many = list[str](), list[str](), list[str]()
    for field in descriptor.fields:
        if field.type == field.TYPE_STRING:
            texts.append(field.name)
        elif field.type == field.TYPE_MESSAGE:
            (single if field.has_presence else many).append(field.name)
    return texts, single, many


@functools.cache
def schema_of(type_: str, version: int, domain: str) -> Any:
    """Return the schema of an operator; `None` if ONNX has none."""
    try:
        return onnx.defs.get_schema(type_, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # version numbers beyond an int of C
        return None


@functools.cache
def output_dtype_sources(type_: str, version: int, domain: str) -> tuple[int, ...]:
    """Return for each output the input with the same type parameter; -1 if there is none."""
    schema = schema_of(type_, version, domain)
    if schema is None:
        return ()
    inputs = [parameter.type_str for parameter in schema.inputs]
    not_variadic = [
        parameter.option != onnx.defs.OpSchema.FormalParameterOption.Variadic
        for parameter in schema.outputs
    ]
    return tuple(
        inputs.index(parameter.type_str) if alone and parameter.type_str in inputs else -1
        for parameter, alone in zip(schema.outputs, not_variadic, strict=True)
    )


def attributes_of(proto: Any, version: int) -> Mapping[str, Any]:
    """Return the attributes of a node by name, as Python values.

    Attributes that the schema does not contain are ignored.

    Raises:
        ProgramError: If an attribute has the wrong type, or a required one is missing.
    """
    schema = schema_of(proto.op_type, version, proto.domain)
    schemas = None if schema is None else schema.attributes
    values = dict[str, Any]()
    for attribute in proto.attribute:
        attribute_schema = schemas.get(attribute.name) if schemas is not None else None
        if schemas is not None and attribute_schema is None:
            continue
        values[attribute.name] = _value(proto, attribute, attribute_schema)
    for name, attribute_schema in schemas.items() if schemas is not None else ():
        if attribute_schema.required and name not in values:
            raise ProgramError(f"{proto.op_type}: missing required attribute `{name}`.")
    if schema is not None:
        _check_count(proto, "inputs", len(proto.input), schema.min_input, schema.max_input)
        _check_count(proto, "outputs", len(proto.output), schema.min_output, schema.max_output)
    return values


def _check_count(proto: Any, what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise ProgramError(f"{proto.op_type}: expected {expected} {what}, got {count}.")


def _value(proto: Any, attribute: Any, attribute_schema: Any) -> Any:
    """Return the value of an attribute; strings as `str`."""
    if attribute_schema is not None and attribute.type != attribute_schema.type.value:
        raise ProgramError(
            f"{proto.op_type:.80}: expected attribute `{attribute.name:.80}` of type "
            f"{attribute_schema.type.name.lower()}."
        )
    try:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        if attribute.type == onnx.AttributeProto.STRINGS:
            return [text.decode() for text in value]
    except ValueError:
        raise ProgramError(
            f"{proto.op_type:.80}: attribute `{attribute.name:.80}` has no value, or is not "
            "UTF-8."
        ) from None
    return value
