"""Every version of ONNX's operators that is in force in an opset that is read.

ONNX's own suite has the newest version of each operator. Here each version has models that use
what is its own: attributes that became inputs, dtypes that it brought, defaults that changed.
Those of an opset are one model, so they are compiled together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import braces as br
from tests.exchange.onnx.versions import arrays, blocks, nets, numbers, planes, sums
from tests.exchange.onnx.versions.cases import (
    Case,
    Model,
    Table,
    Version,
    added,
    joined,
    model_of,
    retyped,
    versions,
    written,
)
from tests.exchange.onnx.versions.judging import difference, judged
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

TEXTS = "has texts, which programs do not"
LEFT_OUT = {
    "ImageDecoder": "decodes pictures, which stands before a model",
    "RegexFullMatch": TEXTS,
    "StringConcat": TEXTS,
    "StringNormalizer": TEXTS,
    "StringSplit": TEXTS,
}
"""Operators that are not read, and why."""
NOT_USED = {
    "Upsample-10": "deprecated: no model of an opset from 10 on has it",
    "Constant-12.value_string": TEXTS,
    "Constant-12.value_strings": TEXTS,
    "TfIdfVectorizer-9.pool_strings": TEXTS,
}
"""Versions, and attributes that they added, that no case has, and why."""

TABLE: Table = {
    **numbers.TABLE,
    **arrays.TABLE,
    **sums.TABLE,
    **planes.TABLE,
    **nets.TABLE,
    **blocks.TABLE,
}
ALWAYS_SAID = {
    # ONNX Runtime does not read a layer without it, nor do exporters leave it out
    *(f"{name}.hidden_size" for name in ("GRU", "LSTM", "RNN")),
    "TfIdfVectorizer.pool_int64s",  # in its place there would be texts
}
"""Attributes that may be left out, and that each case has."""
NOT_TYPED = {
    "Pad.float8e8m0": "has no zero, which margins hold where nothing is said",
    "ReduceLogSumExp.int32": "logarithms of integers, which some cut off before they add",
    "ReduceLogSumExp.int64": "logarithms of integers, which some cut off before they add",
    "DequantizeLinear.T2.float8e8m0": "has a case of its own, which says another result",
    "QuantizeLinear.T2.int32": "has a case of its own, for the scale of others is no integer",
    "QLinearMatMul.T3": "products of floats of one byte, which nothing computes",
    "RMSNormalization.T": "has a case of its own, of one dtype for both inputs",
    "RMSNormalization.V": "has a case of its own, of one dtype for both inputs",
}
"""Dtypes and type parameters of operators that no case is written anew with, and why."""
OPSETS = sorted({opset for version in versions() for opset in version.opsets})


def cases_of(version: Version) -> list[Case]:
    """The cases that a version can be written so."""
    return [one for one in TABLE.get(version.op_type, ()) if one.fits(version)]


QUICK = (7, 14)
"""Opsets of which `make check` runs the versions: the oldest, with most attributes of old, and
one that has many versions and compiles soon."""
READ = [version for version in versions() if cases_of(version)]


# ---- completeness ----------------------------------------------------------------------------


def test_every_version_in_force_has_a_case_or_a_reason() -> None:
    missing = [str(v) for v in versions() if v.op_type not in LEFT_OUT and v not in READ]
    assert sorted(missing) == sorted(name for name in NOT_USED if "." not in name)
    assert len(versions()) > len(READ) > 500


def used(version: Version) -> Iterator[str]:
    """The attributes and inputs of a version that cases have."""
    for given in cases_of(version):
        yield from model_attributes(model_of(version, "", given), version.op_type)
        if not given.text:
            formals = version.schema.inputs
            there = [i for i, value in enumerate(given.inputs) if value is not None]
            yield from (formals[min(i, len(formals) - 1)].name for i in there)


def model_attributes(model: Model, op_type: str) -> Iterator[str]:
    """The attributes of nodes of an operator, and its inputs where a graph is a text."""
    for node in model.graph.node:
        if node.op_type == op_type:
            yield from (attribute.name for attribute in node.attribute)
            if model.case.text:
                formals = model.version.schema.inputs
                there = [i for i, name in enumerate(node.input) if name]
                yield from (formals[min(i, len(formals) - 1)].name for i in there)


def test_what_a_version_adds_is_used_by_a_case() -> None:
    missing = {f"{v}.{name}" for v in READ for name in {*v.news()} - {*used(v)}}
    assert missing == {name for name in NOT_USED if "." in name}


def test_what_may_be_left_out_is_left_out_by_a_case() -> None:
    missing = set[str]()
    for version in READ:
        models = [model_of(version, "", given) for given in cases_of(version)]
        there = [{*model_attributes(model, version.op_type)} for model in models]
        optional = [n for n, one in version.schema.attributes.items() if not one.required]
        always = {name for name in optional if all(name in names for names in there)}
        missing |= {f"{version.op_type}.{name}" for name in always}
    assert missing == ALWAYS_SAID


# ---- values ----------------------------------------------------------------------------------


def models_of(opset: int) -> list[Model]:
    """The models of the versions whose first or last opset this is."""
    return [
        model_of(version, f"{version} {at}", given)
        for version in READ
        if opset in version.opsets
        for at, given in enumerate(cases_of(version))
    ]


def typed_models_of(opset: int) -> list[Model]:
    """Those of the dtypes that versions added whose first opset this is."""
    return [
        model_of(version, f"{version} {param} {dtype}", given)
        for version in READ
        if opset == min(version.opsets)
        for param, dtype in added(version)
        if (given := first_retyped(version, param, dtype)) is not None
    ]


def first_retyped(version: Version, param: str, dtype: str) -> Case | None:
    """The first case that makes sense with another dtype, with that."""
    words = (dtype, param, f"{param}.{dtype}")
    if any(f"{version.op_type}.{word}" in NOT_TYPED for word in words):
        return None
    made = (retyped(version, given, param, dtype) for given in cases_of(version))
    return next((one for one in made if one is not None), None)


def run(models: Sequence[Model], opset: int, mode: str) -> list[list[Any]]:
    """Return the results of all models, imported as one model."""
    graph, fed = joined(models)
    prog, values = br.from_onnx(written(graph, opset))
    scope, exe = br.Scope(), br.Executor(mode=mode)
    scope.update(values)
    exe.init(prog, scope, seed=0, missing_only=True)
    feed = dict(zip(prog.feeds, fed.values(), strict=True))
    results = iter(exe.run(prog, scope, feed=feed, fetch=list(prog.fetches)))
    return [[next(results) for _ in model.graph.output] for model in models]


def hold(models: Sequence[Model], opset: int, mode: str) -> None:
    """Hold models against what they give elsewhere."""
    wrong = dict[str, str]()
    for model, got in zip(models, run(models, opset, mode), strict=True):
        want = judged(model, opset)
        found = difference(got, want, drawn=model.case.drawn) if want else "nothing runs it"
        if found:
            wrong[model.name] = found
    assert not wrong


@pytest.mark.parametrize("opset", [one if one in QUICK else thorough(one) for one in OPSETS])
def test_versions_of_an_opset_give_what_they_give_elsewhere(opset: int) -> None:
    hold(models_of(opset), opset, "compile")


@pytest.mark.thorough
@pytest.mark.parametrize("opset", OPSETS)
def test_versions_of_an_opset_give_the_same_operator_by_operator(opset: int) -> None:
    hold(models_of(opset), opset, "interpret")


@pytest.mark.thorough
@pytest.mark.parametrize("opset", OPSETS)
def test_dtypes_that_versions_added_are_read(opset: int) -> None:
    hold(typed_models_of(opset), opset, "compile")
