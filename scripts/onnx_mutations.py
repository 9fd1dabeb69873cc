"""Mutations of ONNX models with a valid encoding: any field of any message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

import mutations as m

Message: TypeAlias = Any
Change: TypeAlias = "Callable[[Random, Message], None]"

NUMBERS = (*range(-3, 5), 7, 64, 2**16, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 0.5, 1e30, -1e30, float("inf"), float("nan"))
PLACES = ("../weights", "/etc/passwd", "", ".", "a/../../b", "/dev/zero", "x\0y", "~", "here")
DEEP = (3, 15, 30)
"""Levels of graphs; protobuf reads about 33."""


def mutate_model(rng: Random, data: bytes) -> bytes:
    """One to five changes of the structure of a model."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        rng.choice(CHANGES)(rng, model)
    return model.SerializeToString()


def _messages(message: Message) -> Iterator[Message]:
    """A message and all nested messages."""
    found = [message]
    while found:
        one = found.pop()
        yield one
        for field, value in one.ListFields():
            if field.type == field.TYPE_MESSAGE:
                found += list(value) if _many(field) else [value]


def _many(field: Any) -> bool:
    return bool(field.label == field.LABEL_REPEATED)


def _nodes(model: Message) -> list[Message]:
    return [one for one in _messages(model) if isinstance(one, NodeProto)]


# ---- any field -------------------------------------------------------------------------------


def change_field(rng: Random, model: Message) -> None:
    """A field of a message: removed, changed, duplicated, or reordered."""
    message = rng.choice(list(_messages(model)))
    field = rng.choice(message.DESCRIPTOR.fields)
    if _many(field):
        _change_list(rng, message, field)
    elif rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.type != field.TYPE_MESSAGE:
        setattr(message, field.name, _other(rng, field))
    else:
        _change_inner(rng, model, getattr(message, field.name))


def _change_list(rng: Random, message: Message, field: Any) -> None:
    values = getattr(message, field.name)
    kept = list(values)
    match rng.randrange(5):
        case 0 if kept:
            del kept[rng.randrange(len(kept))]
        case 1 if kept:
            kept[rng.randrange(len(kept)) :: 1] = [rng.choice(kept)] * rng.choice((1, 2, 30))
        case 2:
            rng.shuffle(kept)
        case 3 if field.type != field.TYPE_MESSAGE:
            kept[rng.randrange(len(kept) + 1) :][:1] = [_other(rng, field)]
            kept += [_other(rng, field)]
        case _ if field.type != field.TYPE_MESSAGE and kept:
            kept[rng.randrange(len(kept))] = _other(rng, field)
        case _:
            kept = kept[: rng.randrange(len(kept) + 1)]
    copies = [_copied(one) for one in kept]
    del values[:]
    values.extend(copies)


def _copied(value: Any) -> Any:
    if not hasattr(value, "CopyFrom"):
        return value
    made = type(value)()
    made.CopyFrom(value)
    return made


def _change_inner(rng: Random, model: Message, message: Message) -> None:
    """A message replaced by another one of its type, or by an empty one."""
    others = [one for one in _messages(model) if type(one) is type(message)]
    other = _copied(rng.choice(others)) if others and rng.random() < 0.7 else type(message)()
    message.CopyFrom(other)


def _other(rng: Random, field: Any) -> Any:
    """An unusual value of a field."""
    if field.type == field.TYPE_STRING:
        return rng.choice(m.NAMES)
    if field.type == field.TYPE_BYTES:
        return rng.choice((b"", b"\xff\xfe", b"x" * 9, bytes(64), b"NOTSET", b"valid"))
    if field.type == field.TYPE_ENUM:
        return rng.choice(list(field.enum_type.values_by_number))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    low, high = (0, 2**64) if field.type == field.TYPE_UINT64 else (-(2**63), 2**63)
    if field.type == field.TYPE_INT32:
        low, high = -(2**31), 2**31
    return min(max(rng.choice(NUMBERS), low), high - 1)


# ---- what hurts importers --------------------------------------------------------------------


def change_attribute(rng: Random, model: Message) -> None:
    """An attribute of a node with another value or type, or one more."""
    nodes = _nodes(model)
    if not nodes:
        return
    node = rng.choice(nodes)
    known = [a.name for one in nodes for a in one.attribute] or ["axis"]
    schema = _schema(node)
    names = [*known, *(schema.attributes if schema is not None else ())]
    name = rng.choice(names)
    for at in reversed(range(len(node.attribute))):
        if node.attribute[at].name == name:
            del node.attribute[at]
    value = rng.choice((
        rng.choice(NUMBERS), [rng.choice(NUMBERS) for _ in range(rng.randrange(5))],
        rng.choice(FLOATS), [0.5, 2.0], rng.choice(m.NAMES), ["a", "b"],
        helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, float("nan")]),
    ))  # fmt: skip
    if value == []:
        node.attribute.append(AttributeProto(name=name, type=AttributeProto.INTS))
    else:
        node.attribute.append(helper.make_attribute(name, value))


def _schema(node: Message) -> Any:
    try:
        return onnx.defs.get_schema(node.op_type, domain=node.domain)
    except onnx.defs.SchemaError:
        return None


def change_operator(rng: Random, model: Message) -> None:
    """Another operator, of this domain or another."""
    nodes = _nodes(model)
    if nodes:
        node = rng.choice(nodes)
        schemas = onnx.defs.get_all_schemas()
        node.op_type = rng.choice(schemas).name if rng.random() < 0.9 else rng.choice(m.NAMES)
        if rng.random() < 0.1:
            node.domain = rng.choice(("com.microsoft", "ai.onnx", "ai.onnx.ml", *m.NAMES))


def change_names(rng: Random, model: Message) -> None:
    """A renamed input or output of a node: cycles, duplicates, gaps."""
    nodes = _nodes(model)
    names = [n for node in nodes for n in (*node.input, *node.output)]
    if not names:
        return
    node = rng.choice(nodes)
    ends = node.input if (node.input and rng.random() < 0.6) or not node.output else node.output
    wanted = rng.choice(names) if rng.random() < 0.85 else rng.choice(m.NAMES)
    if ends and rng.random() < 0.7:
        ends[rng.randrange(len(ends))] = wanted
    elif ends and rng.random() < 0.5:
        del ends[rng.randrange(len(ends))]
    else:
        ends.append(wanted)


def change_sizes(rng: Random, model: Message) -> None:
    """A size of an input or a tensor: absurd, negative, symbolic, or one axis more."""
    types = [
        one.tensor_type for one in _messages(model.graph) if isinstance(one, onnx.TypeProto)
    ]
    tensors = [one for one in _messages(model.graph) if isinstance(one, TensorProto)]
    if tensors and (not types or rng.random() < 0.4):
        dims = rng.choice(tensors).dims
        if dims and rng.random() < 0.7:
            dims[rng.randrange(len(dims))] = rng.choice(NUMBERS)
        else:
            dims.append(rng.choice(NUMBERS))
    elif types:
        type_ = rng.choice(types)
        axes = type_.shape.dim
        axis = rng.choice(axes) if axes and rng.random() < 0.7 else axes.add()
        if rng.random() < 0.5:
            axis.dim_value = rng.choice(NUMBERS)
        else:
            axis.dim_param = rng.choice(("N", "M", "2*N", *m.NAMES))


def change_values(rng: Random, model: Message) -> None:
    """Numbers of a small tensor, which may be sizes, axes or bounds."""
    tensors = [one for one in _messages(model.graph) if isinstance(one, TensorProto)]
    whole = [t for t in tensors if t.data_type == TensorProto.INT64]
    if whole:
        tensor = rng.choice(whole)
        values = [rng.choice(NUMBERS) for _ in range(rng.randrange(6))]
        name = tensor.name
        made = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        tensor.CopyFrom(made)


def make_known(rng: Random, model: Message) -> None:
    """An input that becomes an initializer, with small, unusual or huge numbers."""
    if not model.graph.input:
        return
    entry = rng.choice(model.graph.input)
    type_ = entry.type.tensor_type
    count = rng.randrange(5)
    code = type_.elem_type if rng.random() < 0.7 else rng.randrange(30)
    made = TensorProto(name=entry.name, data_type=code, dims=[count])
    made.raw_data = b"".join(
        (rng.choice(NUMBERS) % 2**64).to_bytes(8, "little") for _ in range(count)
    )
    if rng.random() < 0.2:
        made.dims[:] = [rng.choice(NUMBERS), rng.choice(NUMBERS)]
    model.graph.initializer.append(made)


def move_outside(rng: Random, model: Message) -> None:
    """The data of a tensor in a file that is elsewhere or missing."""
    tensors = [one for one in _messages(model) if isinstance(one, TensorProto)]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    tensor.data_location = TensorProto.EXTERNAL
    said = {"location": rng.choice(PLACES), "offset": rng.choice(NUMBERS),
            "length": rng.choice((*NUMBERS, "x"))}  # fmt: skip
    for key in rng.sample(sorted(said), rng.randrange(4)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(said[key])


def nest(rng: Random, model: Message) -> None:
    """Very deeply nested graphs, or functions that call themselves."""
    if rng.random() < 0.4:
        _recurse(rng, model)
        return
    nodes = _nodes(model)
    inner = [_copied(rng.choice(nodes))] if nodes else []
    entry = onnx.ValueInfoProto(name="deep")
    nested = any(a.HasField("g") for one in inner for a in one.attribute)
    for _ in range(2 if nested else rng.choice(DEEP)):
        graph = helper.make_graph(inner, "inner", [], [entry])
        both = {"then_branch": graph, "else_branch": graph if rng.random() < 0.02 else None}
        inner = [helper.make_node("If", ["flag"], ["deep"], **both)]
    model.graph.node.extend(inner)


def _recurse(rng: Random, model: Message) -> None:
    """Functions that call each other."""
    nodes = _nodes(model)
    domain = rng.choice(("mine", "", "ai.onnx"))
    for one, other in (("first", "second"), ("second", rng.choice(("first", "Relu")))):
        calls = [helper.make_node(other, ["x"], [f"y{i}"], domain=domain) for i in range(2)]
        made = model.functions.add(name=one, domain=domain, input=["x"], output=["y0"])
        made.node.extend(calls)
        made.opset_import.append(helper.make_opsetid("", 18))
    if nodes:
        node = rng.choice(nodes)
        node.op_type, node.domain = "first", domain


def change_versions(rng: Random, model: Message) -> None:
    """Operators of other versions and domains."""
    if model.opset_import and rng.random() < 0.8:
        rng.choice(model.opset_import).version = rng.choice((*range(5, 30), *NUMBERS))
    else:
        entry = model.opset_import.add(domain=rng.choice(("", "ai.onnx", *m.NAMES)))
        entry.version = rng.choice((*range(5, 30), *NUMBERS))


CHANGES: Sequence[Change] = (
    *[change_field] * 4, *[change_attribute] * 4, change_operator, *[change_names] * 2,
    *[change_sizes] * 3, *[change_values] * 3, *[make_known] * 2, move_outside, nest,
    change_versions,
)  # fmt: skip
"""All of them, the more often the more they reach."""


def mutate_text(rng: Random, data: bytes) -> bytes:
    """A name of the model with bytes that are not valid text."""
    model = onnx.ModelProto.FromString(data)
    names = {n for node in _nodes(model) for n in (*node.input, *node.output, node.op_type)}
    wanted = [name.encode() for name in sorted(names) if name]
    if not wanted:
        return m.flip_bits(rng, data)
    name = rng.choice(wanted)
    return data.replace(name, b"\xff" * len(name), rng.choice((1, 2, -1)))
