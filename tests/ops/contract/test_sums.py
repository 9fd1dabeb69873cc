"""Declared sums of operators equal those of their kernels, on every example."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from braces.extend.operators import OPS
from braces.ops.linalg.matmul import LETTERS
from tests.ops.cases import Case
from tests.ops.contract.test_axes import (
    CASES,
    Outputs,
    Sample,
    by_operator,
    of,
    run_together,
    same,
    sample_of,
)

pytestmark = pytest.mark.unoptimized


def has_numbers(case: Case) -> bool:
    """Return whether all inputs are numbers, which einsum of NumPy takes."""
    return all(type_.dtype.kind in "fiu" for type_ in chain.from_iterable(case.types.values()))


ADDING = [case for case in CASES if OPS.get(case.op).adds_to]
JOINING = [case for case in CASES if OPS.get(case.op).joins]
ADDITIVE = [case for case in CASES if OPS.get(case.op).additive and has_numbers(case)]
PRODUCTS = [case for case in CASES if OPS.get(case.op).product and has_numbers(case)]


def moved(sample: Sample, slot: str) -> dict[str, tuple[np.ndarray, ...]]:
    """The values with one input larger by its places."""
    (x,) = sample.values[slot]
    more = np.arange(x.size).reshape(x.shape).astype(x.dtype)
    return {**sample.values, slot: (x + more,)}


@by_operator(ADDING)
def test_what_is_added_to_does_not_decide_what_is_added(op: str) -> None:
    for sample in map(sample_of, of(op, ADDING)):
        for slot in sample.definition.adds_to:
            more = moved(sample, slot)
            before, after = run_together([(sample, sample.values), (sample, more)])
            (x,), (larger,), (out,), (found,) = (
                *(values[slot] for values in (sample.values, more)),
                *(made["out"] for made in (before, after)),
            )
            wanted = out + np.broadcast_to((larger - x).astype(out.dtype), out.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def summed_axes(sample: Sample) -> list[str]:
    """The axes along which there are several entries, and which the output lacks."""
    axes = sample.axes
    return [i for i, n in sample.indices.items() if n > 1 and i in axes.fills]


@by_operator(ADDITIVE)
def test_what_is_additive_is_the_sum_of_what_it_gives_of_parts(op: str) -> None:
    asked = list[tuple[Sample, Any]]()
    for sample in map(sample_of, of(op, ADDITIVE)):
        for index in summed_axes(sample):
            first, *rest = range(sample.indices[index])
            for chosen in ([first, *rest], [first], rest):
                asked.append((sample, sample.along(sample.values, index, chosen)))
    made = [found["out"][0] for found in run_together(asked)] if asked else []
    for whole, first, rest in zip(made[::3], made[1::3], made[2::3], strict=True):
        np.testing.assert_allclose(whole, first + rest, rtol=1e-5, atol=1e-9)


def einsum_of(sample: Sample) -> Outputs:
    """The products of the inputs, added up over all axes that the output lacks."""
    letters: dict[str, str] = {}

    def spelled(indices: tuple[str | None, ...]) -> str:
        return "".join(letters.setdefault(i, LETTERS[len(letters)]) for i in indices if i)

    given, terms = list[np.ndarray](), list[str]()
    for slot, xs in sample.values.items():
        for i, x in enumerate(xs):
            indices = sample.axes.of(slot, i)
            given.append(x.reshape([n for n, at in zip(x.shape, indices, strict=True) if at]))
            terms.append(spelled(indices))
    ((slot, (out,)),) = sample.outputs.items()
    equation = f"{','.join(terms)}->{spelled(sample.axes.of_output(slot))}"
    return {slot: [np.einsum(equation, *given).reshape(out.shape).astype(out.dtype)]}


@by_operator(PRODUCTS)
def test_products_are_those_that_einsum_spells_by_the_axes(op: str) -> None:
    samples = [sample_of(case) for case in of(op, PRODUCTS)]
    made = run_together([(sample, sample.values) for sample in samples])
    for sample, found in zip(samples, made, strict=True):
        assert same(found, einsum_of(sample)), sample


@by_operator(JOINING)
def test_what_is_joined_follows_one_another_along_the_axis_that_is_said(op: str) -> None:
    samples = [sample_of(case) for case in of(op, JOINING)]
    made = run_together([(sample, sample.values) for sample in samples])
    for sample, found in zip(samples, made, strict=True):
        ((_, xs),) = sample.values.items()
        wanted = np.concatenate(xs, sample.attrs[sample.definition.joins])
        assert same(found, {slot: [wanted] for slot in found}), sample
