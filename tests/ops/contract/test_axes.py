"""The axis map of each operator equals the behaviour of its kernel, on every example.

Entries of a mapped axis are permuted, and the output is permuted alike; all are made copies of
one, and that one's output stays; the last is cut off, and the output is cut. Along a contracted
axis the last entry is left out by the fill that is declared, or is cut off, and the output is
the same. A mixed axis is none of these, so that nothing is refused needlessly. Derivatives
follow their operators, and are held against their kernels too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pytest

from braces.define.axes.axis_map import (
    HIGHEST,
    LOWEST,
    AxisEffect,
    AxisMap,
    IdentityElements,
    Indices,
)
from braces.extend.operators import OPS, OpDef
from braces.extend.types import FLOAT64, TensorType
from braces.lazy import jax
from tests.ops.cases import Case, cases, differentiable_cases, numbered, sizes_in
from tests.ops.reference import is_float, numbers

pytestmark = pytest.mark.unoptimized

Values = Mapping[str, tuple[Any, ...]]
Outputs = dict[str, list[np.ndarray]]

# ---- one operator on numbers -----------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """An operator with values.

    Attributes:
        attrs: Its attributes, all of them numbers.
        cut: Whether its attributes hold for arrays that are cut, too.
    """

    definition: OpDef
    values: Values
    attrs: Mapping[str, Any]
    wanted: tuple[str, ...]
    cut: bool = True

    def compute(self, values: Values) -> Any:
        """The kernel on other values."""
        return self.definition.compute(values, self.attrs, self.wanted)

    @cached_property
    def kernel(self) -> Any:
        """The operator as a function that is compiled."""
        return jax.jit(self.compute)

    def run(self, values: Values) -> Outputs:
        """The outputs by slot."""
        with as_declared():
            return read(self.kernel(dict(values)))

    @cached_property
    def outputs(self) -> Outputs:
        """Return the results."""
        return self.run(self.values)

    @cached_property
    def axes(self) -> AxisMap:
        """Return the axis map of the definition."""
        rule = self.definition.axes_rule
        assert rule is not None
        return rule({**_types(self.values), **self.made}, self.attrs)

    @cached_property
    def made(self) -> dict[str, tuple[TensorType, ...]]:
        """The types of what it gives."""
        with as_declared():
            return _types(jax.eval_shape(self.compute, dict(self.values)))

    @cached_property
    def indices(self) -> dict[str, int]:
        """The indices of the inputs, with their sizes."""
        sized = itertools.chain(
            *(
                zip(self.axes.of(slot, i), x.shape, strict=True)
                for slot, found in self.values.items()
                for i, x in enumerate(found)
            )
        )
        return {index: size for index, size in sized if index is not None}

    def along(self, values: Any, index: str, chosen: Any, axes: AxisMap | None = None) -> Any:
        """Values with some entries along an index, of inputs or of outputs."""
        axes = axes or self.axes
        return {
            slot: tuple(_take(x, axes.of(slot, i), index, chosen) for i, x in enumerate(found))
            for slot, found in values.items()
        }


def _types(values: Mapping[str, Sequence[Any]]) -> dict[str, tuple[TensorType, ...]]:
    return {s: tuple(TensorType(x.dtype, x.shape) for x in xs) for s, xs in values.items()}


@contextmanager
def as_declared() -> Iterator[None]:
    """Every dtype is what is said, and none is promoted."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


def read(made: Any) -> Outputs:
    """Return the results of a kernel as NumPy arrays."""
    return {slot: [np.asarray(x) for x in found] for slot, found in made.items()}


def run_together(asked: Sequence[tuple[Sample, Values]]) -> list[Outputs]:
    """What operators give for values, by one program that has each once for each shape."""
    alike: dict[Any, list[int]] = {}
    for i, (sample, values) in enumerate(asked):
        shapes = tuple(x.shape for found in values.values() for x in found)
        alike.setdefault((id(sample), shapes), []).append(i)
    kernels = [asked[found[0]][0].compute for found in alike.values()]

    def together(given: Sequence[Values]) -> list[Any]:
        return [compute(values) for compute, values in zip(kernels, given, strict=True)]

    program, answers = jax.jit(together), dict[int, Outputs]()
    for turn in range(max(map(len, alike.values()))):
        chosen = [found[min(turn, len(found) - 1)] for found in alike.values()]
        with as_declared():
            made = program([dict(asked[i][1]) for i in chosen])
        answers |= dict(zip(chosen, map(read, made), strict=True))
    return [answers[i] for i in range(len(asked))]


def _take(x: Any, indices: Indices, index: str, chosen: Any) -> Any:
    for axis, one in enumerate(indices):
        if one == index:
            x = np.take(x, chosen, axis)
    return x


def same(got: Any, want: Any) -> bool:
    """Return whether all outputs are the same."""
    return all(len(got[slot]) == len(found) for slot, found in want.items()) and all(
        a.shape == b.shape and np.allclose(a, b, *_tolerance(b), equal_nan=True)
        for slot, found in want.items()
        for a, b in zip(got[slot], found, strict=True)
    )


def _tolerance(x: Any) -> tuple[float, float]:
    if x.dtype.kind not in "fV":
        return 0.0, 0.0
    return (1e-9, 1e-11) if x.dtype == np.float64 else (1e-5, 1e-6)


# ---- what is said of an index ----------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """What is said of an index, which what the operator gives shows to be so or not.

    Attributes:
        said: The claim in words.
        given: Values beside those of the sample.
        holds: Whether it is so, from the outputs for the sample's values and for each of these.
    """

    said: str
    given: Sequence[Values]
    holds: Callable[..., bool]

    def of(self, sample: Sample) -> bool:
        """Return whether it holds of a sample."""
        return self.holds(sample.outputs, *map(sample.run, self.given))


def permuted(sample: Sample, index: str, axes: AxisMap | None = None) -> Claim:
    """Outputs are permuted as inputs are."""
    order = np.roll(np.arange(sample.indices[index])[::-1], 1)

    def holds(made: Outputs, got: Outputs) -> bool:
        return same(got, sample.along(made, index, order, axes))

    return Claim(f"{index} is permuted", [sample.along(sample.values, index, order)], holds)


def each_on_its_own(sample: Sample, index: str, axes: AxisMap | None = None) -> Claim:
    """An entry of the outputs stays where all others are made copies of it."""
    size = sample.indices[index]
    ends = sorted({0, size - 1})

    def holds(made: Outputs, *found: Outputs) -> bool:
        return all(
            same(sample.along(got, index, [one], axes), sample.along(made, index, [one], axes))
            for one, got in zip(ends, found, strict=True)
        )

    given = [sample.along(sample.values, index, [one] * size) for one in ends]
    return Claim(f"{index} is each on its own", given, holds)


def cut(sample: Sample, index: str) -> Claim:
    """Outputs are cut as inputs are."""
    fewer = range(sample.indices[index] - 1)

    def holds(made: Outputs, got: Outputs) -> bool:
        return same(got, sample.along(made, index, fewer))

    return Claim(f"{index} is cut", [sample.along(sample.values, index, fewer)], holds)


def left_out(sample: Sample, index: str, fills: IdentityElements) -> Claim:
    """An entry that is filled counts as little as one that is cut off."""
    fewer = range(sample.indices[index] - 1)

    def holds(_: Outputs, got: Outputs, want: Outputs) -> bool:
        return same(sample.along(got, index, fewer), want)

    given = [_filled(sample, index, fills), sample.along(sample.values, index, fewer)]
    return Claim(f"{index} is left out by {fills}", given, holds)


def _filled(sample: Sample, index: str, fills: IdentityElements) -> dict[str, tuple[Any, ...]]:
    found = {slot: tuple(map(np.array, given)) for slot, given in sample.values.items()}
    for slot, fill in fills.items():
        for i, x in enumerate(found.get(slot, ())):
            for axis, one in enumerate(sample.axes.of(slot, i)):
                if one == index:
                    np.moveaxis(x, axis, 0)[-1] = _number(fill, x.dtype)
    return found


def _number(fill: Any, dtype: Any) -> Any:
    if fill not in (LOWEST, HIGHEST):
        return fill
    if dtype.kind == "b":
        return fill == HIGHEST
    if np.issubdtype(dtype, np.floating):
        return -np.inf if fill == LOWEST else np.inf
    info = np.iinfo(dtype)
    return info.min if fill == LOWEST else info.max


def replaced(sample: Sample) -> bool:
    """Return whether something takes its place where padding is filled."""
    return OPS.get(sample.definition.type.partition(".")[0]).masked_rule is not None


def is_mixed(sample: Sample, index: str) -> bool:
    """Return whether an axis is nothing better than mixed."""
    if any(index in one for one in sample.axes.inputs.get("state", ())):
        return True  # a random state is two numbers: part of it is none
    for other in renamed(sample, index):
        claims = permuted(sample, index, other), each_on_its_own(sample, index, other)
        if all(claim.of(sample) for claim in claims):
            return False
    having = [
        s for s, found in sample.axes.inputs.items() if any(index in one for one in found)
    ]
    left = any(index in one for found in sample.axes.outputs.values() for one in found)
    if left or not sample.cut or not permuted(sample, index).of(sample):
        return True
    fills = [dict.fromkeys(having, fill) for fill in (0, 1, LOWEST, HIGHEST)]
    return not any(left_out(sample, index, fill).of(sample) for fill in fills)


def renamed(sample: Sample, index: str) -> Iterator[AxisMap]:
    """What could be said in place of mixed: that the index is that of a mixed output axis."""
    axes, size = sample.axes, sample.indices[index]
    places = [
        list(_with_index(axes, axes.of(slot, i), x.shape, index, size))
        for slot, found in sample.outputs.items()
        for i, x in enumerate(found)
    ]
    slots = [slot for slot, found in sample.outputs.items() for _ in found]
    for chosen in islice(itertools.product(*places), 16):
        outputs: dict[str, tuple[Indices, ...]] = {}
        for slot, one in zip(slots, chosen, strict=True):
            outputs[slot] = (*outputs.get(slot, ()), one)
        yield AxisMap(axes.inputs, outputs)


def _with_index(
    axes: AxisMap, indices: Indices, shape: Sequence[int], index: str, size: int
) -> Iterator[Indices]:
    for at, one in enumerate(indices):
        if shape[at] == size and one in axes.mixed:
            yield (*indices[:at], index, *indices[at + 1 :])


def claims_of(sample: Sample) -> Iterator[Claim]:
    """What is said of the indices that are not mixed."""
    axes = sample.axes
    for index, size in sample.indices.items():
        if index in axes.mixed or size < 2:
            continue
        yield permuted(sample, index)
        if index not in axes.fills:
            yield each_on_its_own(sample, index)
        if sample.cut and index in axes.fills and not replaced(sample):
            yield left_out(sample, index, axes.fills[index])
        if sample.cut and index not in axes.fills:
            yield cut(sample, index)


def check(samples: Sequence[Sample]) -> None:
    """Hold what is said against what is done."""
    said = [(sample, list(claims_of(sample))) for sample in samples]
    asked = [
        (sample, values)
        for sample, claims in said
        for values in (sample.values, *(v for claim in claims for v in claim.given))
    ]
    answers = iter(run_together(asked))
    for sample, claims in said:
        outputs = next(answers)
        for claim in claims:
            assert claim.holds(outputs, *islice(answers, len(claim.given))), claim.said
        check_made(sample, outputs)


def check_made(sample: Sample, outputs: Outputs) -> None:
    """Indices that outputs alone have are along copies."""
    axes = sample.axes
    for slot, found in outputs.items():
        for i, x in enumerate(found):
            assert len(axes.of(slot, i)) == x.ndim, slot
            for axis, index in enumerate(axes.of(slot, i)):
                if index not in (*sample.indices, *axes.mixed) and x.size:
                    assert (x == np.take(x, [0], axis)).all(), f"{slot}: {index} is made"


# ---- examples --------------------------------------------------------------------------------


def distinct() -> list[Case]:
    """The examples that differ in more than the floats."""
    found: dict[str, Case] = {}
    for case in cases(FLOAT64):
        found.setdefault(f"{case.op} {case.types} {case.attrs}", case)
    return list(found.values())


def told_sizes(case: Case) -> bool:
    """Return whether an attribute is a shape, or has a size of the inputs in it."""
    kinds = [spec.kind for spec in case.definition.attrs]
    return any("Shape" in kind for kind in kinds) or any(
        True for value in case.attrs.values() for _ in sizes_in(value)
    )


def sample_of(case: Case) -> Sample:
    """An operator on suitable values."""
    sizes = case.sizes()
    given = {slot: v for slot, v in case.values(sizes).items() if v}
    values = {slot: tuple(map(np.asarray, found)) for slot, found in given.items()}
    wanted = tuple(slot.name for slot in case.definition.outputs)
    attrs = numbered(case.attrs, sizes)
    return Sample(case.definition, values, attrs, wanted, not told_sizes(case))


def derivatives(case: Case) -> Iterator[Sample]:
    """The gradient by the kernel, and the directional derivative."""
    base, rng = sample_of(case), case.rng()
    floats = {slot for slot, found in base.values.items() if is_float(found[0].dtype)}
    outs = {slot for slot, found in base.outputs.items() if found and is_float(found[0].dtype)}
    for transform, moved in (("vjp", outs), ("jvp", floats)):
        found = OPS.get(f"{case.op}.{transform}")
        known = dict(base.values) | {slot: tuple(v) for slot, v in base.outputs.items()}
        values: dict[str, tuple[Any, ...]] = {}
        for slot in found.inputs:
            stem = slot.name.removesuffix(found.suffix)
            if slot.name in known:
                values[slot.name] = known[slot.name]
            elif stem in moved:
                values[slot.name] = tuple(numbers(rng, x.shape, x.dtype) for x in known[stem])
        ends = floats if transform == "vjp" else outs
        wanted = [s.name for s in found.outputs if s.name.removesuffix(found.suffix) in ends]
        attrs = {spec.name: base.attrs[spec.name] for spec in found.attrs}
        yield replace(base, definition=found, values=values, attrs=attrs, wanted=tuple(wanted))


CASES = distinct()
FIRST = list({case.op: case for case in reversed(differentiable_cases())}.values())


def by_operator(found: Sequence[Case]) -> Any:
    """One test for each operator."""
    ops = sorted({case.op for case in found})
    return pytest.mark.parametrize("op", ops)


def of(op: str, found: Sequence[Case]) -> list[Case]:
    """The examples of an operator."""
    return [case for case in found if case.op == op]


@by_operator(CASES)
def test_axes_are_what_the_kernel_does(op: str) -> None:
    check([sample_of(case) for case in of(op, CASES)])


def mixed_somewhere(op: str) -> bool | None:
    """Return whether some axis that is said to be mixed is; `None` where none is said to be."""
    said = None
    for sample in map(sample_of, of(op, CASES)):
        for index, size in sample.indices.items():
            if index in sample.axes.mixed and size > 1:
                said = False
                if is_mixed(sample, index):
                    return True
    return said


@by_operator(CASES)
def test_what_is_mixed_is_mixed(op: str) -> None:
    assert mixed_somewhere(op) is not False


@by_operator(FIRST)
def test_axes_of_derivatives_are_what_they_do(op: str) -> None:
    check([sample for case in of(op, FIRST) for sample in derivatives(case)])


def axes_of(op: str, *shapes: tuple[int, ...], **attrs: Any) -> AxisMap:
    """The axes of an operator for arrays of these shapes, the output's last."""
    rule, names = OPS.get(op).axes_rule, ["x", "y"][: len(shapes) - 1]
    assert rule is not None
    return rule(
        {n: (TensorType(FLOAT64, s),) for n, s in zip([*names, "out"], shapes, strict=True)},
        attrs,
    )


@pytest.mark.parametrize(
    ("axes", "fates"),
    [
        (
            axes_of("matmul", (2, 1, 3), (2, 3, 5), (2, 1, 5)),
            [
                AxisEffect("mapped", (("out", 0, 0),)),
                AxisEffect("mapped", (("out", 0, 1),)),
                AxisEffect("contracted", (), {"x": 0, "y": 0}),
            ],
        ),
        (
            axes_of("cumsum", (2, 3), (2, 3), axis=1, reverse=False),
            [AxisEffect("mapped", (("out", 0, 0),)), AxisEffect("mixed")],
        ),
        (
            axes_of("add", (1, 3), (4, 3), (4, 3)),
            [AxisEffect("absent"), AxisEffect("mapped", (("out", 0, 1),))],
        ),
    ],
    ids=["matmul", "cumsum", "add"],
)
def test_effects_of_axes_follow_from_the_axis_map(
    axes: AxisMap, fates: list[AxisEffect]
) -> None:
    assert [axes.fate("x", axis) for axis in range(len(fates))] == fates
