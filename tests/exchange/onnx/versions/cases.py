"""Small models that hold operators, each in the versions that it fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, parser

OLDEST = 7
NEWEST = onnx.defs.onnx_opset_version()
FOREVER = 1 << 10


# ---- versions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """A version of an operator.

    Attributes:
        schema: What ONNX says of it.
        last: The last opset that has it.
        before: What ONNX says of the version before, where some opset from 7 on has that.
    """

    schema: Any
    last: int
    before: Any

    @property
    def op_type(self) -> str:
        """The operator."""
        return self.schema.name

    @property
    def since(self) -> int:
        """Its number: the first opset that has it."""
        return self.schema.since_version

    @property
    def opsets(self) -> set[int]:
        """The first and the last opset that has it."""
        return {max(self.since, OLDEST), self.last}

    def news(self) -> Iterator[str]:
        """The attributes and inputs that it added; attributes with another default, too."""
        old = {} if self.before is None else _defaults(self.before)
        for name, default in _defaults(self.schema).items():
            if old.get(name) != default:
                yield name
        count = 0 if self.before is None else len(self.before.inputs)
        yield from (one.name for one in self.schema.inputs[count:])

    def __str__(self) -> str:
        return f"{self.op_type}-{self.since}"


def _defaults(schema: Any) -> dict[str, Any]:
    return {k: one.default_value.SerializeToString() for k, one in schema.attributes.items()}


@cache
def versions() -> tuple[Version, ...]:
    """All versions of ONNX's operators that are in force from opset 7 on."""
    schemas = defaultdict[str, list[Any]](list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            schemas[schema.name].append(schema)
    return tuple(version for name in sorted(schemas) for version in _in_force(schemas[name]))


def _in_force(schemas: list[Any]) -> Iterator[Version]:
    schemas.sort(key=lambda schema: schema.since_version)
    ends = [schema.since_version - 1 for schema in schemas[1:]]
    before = None
    for schema, last in zip(schemas, [*ends, NEWEST], strict=True):
        if last >= OLDEST:
            yield Version(schema, last, before)
            before = schema


# ---- cases -----------------------------------------------------------------------------------


class Fixed(np.ndarray):
    """An input that the model brings along."""


def fixed(value: Any, dtype: Any = "int64") -> Any:
    """An input that the model brings along."""
    return np.asarray(value, dtype).view(Fixed)


@dataclass(frozen=True)
class Case:
    """What is computed.

    Attributes:
        inputs: Of a node, `None` for one that is left out; of a text by name.
        attrs: The attributes of the node.
        outputs: Which outputs of the node there are.
        text: A graph in ONNX's own words, in place of a node.
        since: The first version of the operator that it fits.
        until: The last one.
        drawn: Whether it gives random numbers, of which dtypes and shapes are held.
        typed: Whether it makes sense with inputs of other dtypes.
        want: What it gives, where nothing else tells.
    """

    inputs: Sequence[Any] | Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[int] = (0,)
    text: str = ""
    since: int = 0
    until: int = FOREVER
    drawn: bool = False
    typed: bool = True
    want: Callable[..., Sequence[Any]] | None = None

    def fits(self, version: Version) -> bool:
        """Return whether a version of the operator can be written so."""
        return self.since <= version.since <= self.until


Table = Mapping[str, Sequence[Case]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def case(*inputs: Any, outputs: Any = (0,), **options: Any) -> Case:
    """A node with these inputs and attributes."""
    own = {
        k: options.pop(k) for k in ("since", "until", "drawn", "typed", "want") if k in options
    }
    places = range(outputs) if isinstance(outputs, int) else outputs
    return Case(inputs, options, tuple(places), **own)


def text(graph: str, *, inputs: Mapping[str, Any] = NOTHING, **options: Any) -> Case:
    """A graph in ONNX's own words, and what its inputs are."""
    return Case(inputs, text=graph, typed=False, **options)


# ---- models ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A case in one version.

    Attributes:
        name: What tests call it.
        version: The version that it is of.
        case: What it was made from.
        graph: Its graph.
        fed: Its inputs by name.
    """

    name: str
    version: Version
    case: Case
    graph: Any
    fed: Mapping[str, Any]

    def alone(self, opset: int) -> Any:
        """A model of this alone."""
        return written(self.graph, opset)


def written(graph: Any, opset: int) -> Any:
    """A model with a graph."""
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13
    )


def model_of(version: Version, name: str, given: Case) -> Model:
    """The model of a case."""
    if given.text:
        graph = parser.parse_graph(given.text)
        return Model(name, version, given, graph, given.inputs)
    places = list(enumerate(given.inputs))
    names = ["" if value is None else f"x{i}" for i, value in places]
    made = [f"y{i}" if i in given.outputs else "" for i in range(max(given.outputs) + 1)]
    node = helper.make_node(version.op_type, names, made, **given.attrs)
    node.attribute.sort(key=lambda attribute: attribute.name)
    there = {f"x{i}": np.asanyarray(value) for i, value in places if value is not None}
    brought = [
        onnx.numpy_helper.from_array(np.asarray(value), k)
        for k, value in there.items()
        if isinstance(value, Fixed)
    ]
    fed = {k: value for k, value in there.items() if not isinstance(value, Fixed)}
    entries = [
        helper.make_tensor_value_info(k, code_of(v.dtype), v.shape) for k, v in fed.items()
    ]
    results = [helper.make_empty_tensor_value_info(one) for one in made if one]
    graph = helper.make_graph([node], version.op_type, entries, results, brought)
    return Model(name, version, given, graph, fed)


def code_of(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def joined(models: Sequence[Model]) -> tuple[Any, dict[str, Any]]:
    """One graph of many models, and the inputs of all."""
    whole, fed = onnx.GraphProto(name="many"), dict[str, Any]()
    for at, one in enumerate(models):
        graph = onnx.compose.add_prefix_graph(one.graph, f"m{at}_")
        for entries in ("node", "input", "output", "initializer", "sparse_initializer"):
            getattr(whole, entries).extend(getattr(graph, entries))
        fed.update({f"m{at}_{name}": value for name, value in one.fed.items()})
    return whole, fed


# ---- dtypes ----------------------------------------------------------------------------------

DTYPES = {
    "bool": np.bool_, "float": np.float32, "double": np.float64,
    **{name: getattr(np, name) for name in (
        "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    )},
    **{name: getattr(ml_dtypes, name) for name in (
        "bfloat16", "int2", "int4", "uint2", "uint4",
    )},
    **{f"float8{kind}": getattr(ml_dtypes, f"float8_{kind}") for kind in (
        "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz",
    )},
    "float8e8m0": ml_dtypes.float8_e8m0fnu, "float4e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
"""Dtypes by what schemas call them."""


def added(version: Version) -> Iterator[tuple[str, Any]]:
    """The dtypes that a version allows and the one before does not, by type parameter."""
    old = {} if version.before is None else _allowed(version.before)
    for name, dtypes in _allowed(version.schema).items():
        yield from ((name, dtype) for dtype in dtypes if dtype not in old.get(name, ()))


def _allowed(schema: Any) -> dict[str, list[str]]:
    return {
        one.type_param_str: [
            word
            for allowed in one.allowed_type_strs
            if (word := allowed.removeprefix("tensor(").removesuffix(")")) in DTYPES
        ]
        for one in schema.type_constraints
    }


def retyped(version: Version, given: Case, param: str, dtype: str) -> Case | None:
    """A case with another dtype for what a type parameter stands for; `None` without one."""
    formals = version.schema.inputs
    places = [
        i
        for i, value in enumerate(given.inputs)
        if value is not None and formals[min(i, len(formals) - 1)].type_str == param
    ]
    if not places or not given.typed:
        return None
    inputs = list(given.inputs)
    for i in places:
        inputs[i] = converted(inputs[i], DTYPES[dtype])
    return replace(given, inputs=tuple(inputs))


def converted(x: Any, dtype: Any) -> Any:
    """Numbers in a dtype, as far as it has them."""
    made, whole = np.asarray(x), np.dtype(dtype)
    if whole.kind == "b":
        made = made > 0
    if whole.kind == "u" or whole.name in ("uint2", "uint4", "float8_e8m0fnu"):
        made = np.abs(made)
    if whole.name in ("int2", "int4", "uint2", "uint4"):
        info = ml_dtypes.iinfo(whole)
        made = np.clip(made, float(info.min), float(info.max))
    made = made.astype(dtype)
    return made.view(Fixed) if isinstance(x, Fixed) else made
