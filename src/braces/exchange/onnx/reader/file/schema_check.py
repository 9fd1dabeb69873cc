"""What a model says, held against what ONNX allows, before any rule reads it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from braces.errors import FileFormatError, ProgramError
from braces.lazy import onnx


def check_texts(model: Any, file: str) -> None:
    """Refuse a model with names that are no text: protobuf reads any bytes.

    Raises:
        FileFormatError: There is one.
    """
    for message in _messages(model):
        for field in _fields(message.DESCRIPTOR)[0]:
            found = getattr(message, field)
            texts = [found] if isinstance(found, str | bytes) else found
            if any(isinstance(text, bytes) for text in texts):
                raise FileFormatError(f"{file} is no model of ONNX: a `{field}` is no text.")


def _messages(message: Any) -> Iterator[Any]:
    """A message and all inside it."""
    pending = [message]
    while pending:
        found = pending.pop()
        yield found
        _, one, many = _fields(found.DESCRIPTOR)
        pending += [getattr(found, name) for name in one if found.HasField(name)]
        for name in many:
            pending += getattr(found, name)


@functools.cache
def _fields(descriptor: Any) -> tuple[list[str], list[str], list[str]]:
    """The fields of a kind of message that hold texts, a message, and many messages."""
    texts, one, many = list[str](), list[str](), list[str]()
    for field in descriptor.fields:
        if field.type == field.TYPE_STRING:
            texts.append(field.name)
        elif field.type == field.TYPE_MESSAGE:
            (one if field.has_presence else many).append(field.name)
    return texts, one, many


@functools.cache
def schema_of(type_: str, version: int, domain: str) -> Any:
    """What ONNX says of an operator; `None` where it does not know it."""
    try:
        return onnx.defs.get_schema(type_, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # of versions beyond an integer of C
        return None


@functools.cache
def followed(type_: str, version: int, domain: str) -> tuple[int, ...]:
    """For each output of an operator the input whose dtype it has; -1 where ONNX says none."""
    schema = schema_of(type_, version, domain)
    if schema is None:
        return ()
    inputs = [one.type_str for one in schema.inputs]
    single = [
        one.option != onnx.defs.OpSchema.FormalParameterOption.Variadic
        for one in schema.outputs
    ]
    return tuple(
        inputs.index(one.type_str) if alone and one.type_str in inputs else -1
        for one, alone in zip(schema.outputs, single, strict=True)
    )


def attributes_of(proto: Any, version: int) -> Mapping[str, Any]:
    """The attributes of a node by name, as Python has them.

    Those that ONNX does not know of the operator mean nothing.

    Raises:
        ProgramError: One has another type than it must, or is left out though it must not be.
    """
    schema = schema_of(proto.op_type, version, proto.domain)
    known = None if schema is None else schema.attributes
    found = dict[str, Any]()
    for attribute in proto.attribute:
        wanted = known.get(attribute.name) if known is not None else None
        if known is not None and wanted is None:
            continue
        found[attribute.name] = _value(proto, attribute, wanted)
    for name, wanted in known.items() if known is not None else ():
        if wanted.required and name not in found:
            raise ProgramError(f"{proto.op_type} has no attribute `{name}`.")
    if schema is not None:
        _check_count(proto, "inputs", len(proto.input), schema.min_input, schema.max_input)
        _check_count(proto, "outputs", len(proto.output), schema.min_output, schema.max_output)
    return found


def _check_count(proto: Any, what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        raise ProgramError(f"{proto.op_type} has {count} {what}, and not {least} to {most}.")


def _value(proto: Any, attribute: Any, wanted: Any) -> Any:
    """The value of an attribute; texts as text."""
    if wanted is not None and attribute.type != wanted.type.value:
        raise ProgramError(
            f"The attribute `{attribute.name:.80}` of {proto.op_type:.80} has another type "
            f"than {wanted.type.name.lower()}."
        )
    try:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        if attribute.type == onnx.AttributeProto.STRINGS:
            return [text.decode() for text in value]
    except ValueError:
        raise ProgramError(
            f"The attribute `{attribute.name:.80}` of {proto.op_type:.80} has no value, or one "
            "that is no text."
        ) from None
    return value
