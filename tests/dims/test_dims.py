"""Sizes: correct simplification, parsing of all printed forms, and bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import assume, given, reject, strategies as st

import braces as br
from braces import verify
from braces.dims import (
    Dim,
    Size,
    Unifier,
    call,
    calls_in,
    divide_exactly,
    never_negative,
    parse_size,
    product,
    substitute,
)
from braces.errors import BracesError, ShapeError

NAMES: tuple[str, ...] = ("b", "t", "h.w", "n_0")
B, T = Dim.named("b"), Dim.named("t")


# ---- against plain integers ------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """A size, and what it is for values of its names, by plain arithmetic."""

    size: Size
    value: Callable[[dict[str, int]], int]


def known(number: int) -> Built:
    return Built(number, lambda _: number)


def named(name: str) -> Built:
    return Built(Dim.named(name), lambda values: values[name])


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}
OPERATORS: dict[str, Callable[[Size, Size], Size]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


@st.composite
def joined(draw: st.DrawFn, parts: st.SearchStrategy[Built]) -> Built:
    name, left, right = draw(st.sampled_from(list(FUNCTIONS))), draw(parts), draw(parts)
    if name in ("floordiv", "mod") and draw(st.booleans()):
        right = known(draw(st.integers(1, 8)))
    compute = FUNCTIONS[name]
    try:
        if name in OPERATORS:
            size = OPERATORS[name](left.size, right.size)
        else:
            size = call(name, left.size, right.size)
    except ShapeError:
        assume(False)
        raise
    return Built(size, lambda values: compute(left.value(values), right.value(values)))


sizes = st.recursive(
    st.integers(-9, 9).map(known) | st.sampled_from(NAMES).map(named), joined, max_leaves=14
)
values = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})


@given(sizes, st.lists(values, min_size=1, max_size=6))
def test_a_size_is_what_plain_arithmetic_says(
    built: Built, cases: list[dict[str, int]]
) -> None:
    for case in [dict.fromkeys(NAMES, 0), *cases]:
        try:
            wanted = built.value(case)
        except ZeroDivisionError:
            continue
        assert substitute(built.size, case) == wanted, f"{built.size} at {case}"
        if never_negative(built.size):
            assert wanted >= 0, f"{built.size} at {case}"


@given(sizes)
def test_what_can_be_built_can_be_read(built: Built) -> None:
    text = str(built.size)
    again = parse_size(text)
    assert again == built.size
    assert str(again) == text
    assert substitute(built.size, {}) == built.size


@given(sizes, st.sampled_from(NAMES), sizes, values)
def test_putting_in_and_computing_may_change_places(
    built: Built, name: str, inner: Built, case: dict[str, int]
) -> None:
    try:
        put_in = inner.value(case)
        assume(put_in >= 0)
        wanted = built.value({**case, name: put_in})
        whole = substitute(built.size, {name: inner.size})
        found = substitute(whole, case)
    except (ShapeError, ZeroDivisionError):
        reject()
    assert found == wanted, f"{whole} at {case}"


# ---- simplified ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (((B - 1) // 2 + 1) // 2, "floordiv(b + 1, 4)"),
        ((B + 7) // 4, "floordiv(b + 3, 4) + 1"),
        ((4 * B + T) // 2, "2*b + floordiv(t, 2)"),
        ((2 * B + 1) // 4, "floordiv(b, 2)"),
        (B // -2, "floordiv(-b, 2)"),
        ((B % 2) // 2, "0"),
        ((B % 8) % 8, "mod(b, 8)"),
        (call("max", (B - 1) // 2 + 1, 0), "floordiv(b + 1, 2)"),
        (call("max", (B - 3) // 2 + 1, 0), "max(floordiv(b + 1, 2) - 1, 0)"),
        (call("max", call("max", B - 3, 0) - 2, 0), "max(b - 5, 0)"),
        (call("max", 0, B - 1), "max(b - 1, 0)"),
        (call("min", call("min", B, 5), 3), "min(b, 3)"),
        (call("max", B, B + 1), "b + 1"),
        (call("min", call("max", B - 1, 0), 2), "max(min(b - 1, 2), 0)"),
        (call("max", call("min", B, 3) - 1, 0), "max(min(b - 1, 2), 0)"),
        (call("max", B - 1, 0) + call("min", B, 1), "b"),
        (2 * call("max", B, T) + call("min", T, B), "b + max(b, t) + t"),
        (T * call("max", B - 1, 0) + T * call("min", B, 1), "b*t"),
        ((B + 2) // 3 + B // 3 + (B + 1) // 3, "b"),
        (3 - B // 2 - (B + 1) // 2, "-b + 3"),
    ],
    ids=str,
)
def test_sizes_are_simplified(size: Size, text: str) -> None:
    assert str(size) == text


@given(sizes, sizes)
def test_a_product_is_divided_by_its_factors(left: Built, right: Built) -> None:
    try:
        whole = left.size * right.size
    except ShapeError:
        reject()
    assume(right.size != 0)
    quotient = divide_exactly(whole, right.size)
    if quotient is None:  # equal sums of functions may have other terms
        assert any(any(calls_in(size)) for size in (left.size, right.size))
    else:
        assert quotient * right.size == whole
    inexact = divide_exactly(whole + 1, right.size)
    assert inexact is None or inexact * right.size == whole + 1


@pytest.mark.parametrize("padding", ["same", "valid", 1, 2])
def test_many_strided_convolutions_are_one_division(padding: str | int) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3, "h", "w"])
        for _ in range(12):
            x = br.conv2d(x, br.full([3, 3, 3, 3], 0.1), stride=2, padding=padding)
        br.reshape(x, [x.shape[0], -1])
    text = str(program)
    assert str(br.parse(text)) == text
    assert br.Program.from_bytes(program.to_bytes()).definition == program.definition
    assert len(str(x.type)) < 100


def test_different_windows_and_pools_flatten_and_are_read() -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 1, "h", "w"])
        for reach, padding in ((3, 0), (5, 2), (2, 0), (7, 3), (3, 1), (4, 1), (5, 0)):
            x = br.conv2d(x, br.full([1, 1, reach, reach], 0.1), stride=2, padding=padding)
            x = br.max_pool2d(x, 3, stride=2, padding=1)
        br.reshape(x, [-1])
    assert str(br.parse(str(program))) == str(program)


# ---- bounded ---------------------------------------------------------------------------------


def binomials(count: int) -> tuple[Size, ...]:
    return tuple(Dim.named(f"a{i}") + Dim.named(f"b{i}") for i in range(count))


def quickly(build: Callable[[], object], match: str) -> None:
    start = time.perf_counter()
    with pytest.raises(BracesError, match=match):
        build()
    assert time.perf_counter() - start < 2


def towers(count: int) -> Size:
    size: Size = B
    for _ in range(count):
        size = call("max", size * B - 1, T)
    return size


def repeated(count: int) -> Size:
    size: Size = B
    for _ in range(count):
        size = call("min", product((size,) * 4), T)
    return size


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: product(binomials(20)), "the limit is 2000 characters"),
        (lambda: product((B + 1,) * 65), "too large"),
        (lambda: product((B,) * 65), "too large"),
        (lambda: product((2**62 * B, B, 4)), "too large"),
        (lambda: Dim.named("x" * 2001), "the limit is 2000 characters"),
        (lambda: Dim.named("a b"), "invalid dimension name"),
        (lambda: towers(17), "more than 16 nested functions"),
        (lambda: repeated(17), "nested functions|too large|characters"),
        (lambda: call("floordiv", B, 0), "division by zero"),
        (
            lambda: substitute(product(binomials(4)), {"a0": product(binomials(6))}),
            "the limit is 2000 characters",
        ),
    ],
)
def test_what_no_file_holds_is_refused_where_it_is_computed(
    build: Callable[[], object], match: str
) -> None:
    quickly(build, match)


def declared(size: object) -> Size:
    return br.parse(f"program {{ data x: f32[{size}] }}").var("x").shape[0]


def test_the_limits_are_those_of_files() -> None:
    for size in (towers(16), product((B,) * 64), Dim.named("x" * 2000), (2**63 - 1) * B):
        assert parse_size(str(size)) == size
        assert str(br.parse(f"program {{ data x: f32[{size}] }}").var("x").shape[0]) == str(
            size
        )


def test_many_unnamed_dimensions_in_a_row_are_resolved() -> None:
    unifier = Unifier()
    dims = [unifier.fresh() for _ in range(5000)]
    for left, right in pairwise(dims):
        unifier.known[str(left)] = right
    assert unifier.resolve(dims[0]) == dims[-1]


@pytest.mark.parametrize(
    ("operation", "attrs"),
    [("reshape", " {shape=[-1]}"), ("sum", ""), ("mean", ""), ("tanh", "")],
)
@pytest.mark.parametrize("types", [None, True])
def test_checking_many_sums_of_sizes_takes_no_time(
    operation: str, attrs: str, types: bool | None
) -> None:
    sizes = ",".join(map(str, binomials(20)))
    text = f"program {{ data x: f32[{sizes}]  y: f32[b] = {operation}(x=x){attrs} }}"
    quickly(lambda: verify(br.parse(text), types=types), "B50")


def test_the_builder_says_which_line_makes_a_size_too_long() -> None:
    with br.Program() as program:
        x = br.data("x", list(binomials(20)))
        before = str(program)
        with pytest.raises(ShapeError, match="the limit is 2000 characters") as caught:
            br.reshape(x, [-1])
    assert "test_dims.py:" in str(caught.value)
    assert str(program) == before


def test_a_name_with_many_digits_is_read() -> None:
    name = "d" + "1" * 30
    assert declared(name) == Dim.named(name)
