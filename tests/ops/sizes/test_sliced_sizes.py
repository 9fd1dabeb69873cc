"""Operators and all their derivatives on axes of sizes that slices have, as `max(t - 1, 0)`.

A size is one expression everywhere: whatever an operator makes of an axis of size `b`, it makes
of an axis of any other size, with that put in the place of `b`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.extend.types import Size, Type, parse_size, substitute
from tests.ops.cases import MODES, Built, Case, build, differentiable_cases, sizes_in
from tests.ops.differentiated import Differentiated
from tests.support.running import run

pytestmark = pytest.mark.unoptimized

SIZES = ("max({}-1,0)", "floordiv({}+1,2)", "min({},3)", "max(min({}-1,2),0)")


# ---- types of all derivatives of all operators -----------------------------------------------


def with_sizes(case: Case, sizes: Mapping[str, str]) -> Case:
    """The case with sizes in the place of its symbolic dimensions."""

    def put(match: re.Match[str]) -> str:
        return sizes.get(match[0], match[0])

    def part(name: str, text: str) -> str:
        symbolic = name in case.types or [*sizes_in(case.attrs[name])]
        return f"{name}={re.sub(r'[A-Za-z_]+', put, text) if symbolic else text}"

    return replace(case, example=" ".join(part(*one) for one in case.parts))


SYMBOLIC = list({case.op: case for case in differentiable_cases() if case.symbols}.values())


def differentiated(case: Case) -> Built:
    """A program with the derivatives of a case, second order included."""
    built = build(case)
    Differentiated(built, dict.fromkeys(case.symbols, 1))
    return built


def with_sizes_of(type_: Type, sizes: Mapping[str, Size]) -> Type:
    return type_.map_sizes(lambda size: substitute(size, sizes))


@pytest.mark.parametrize("case", SYMBOLIC, ids=str)
def test_derivatives_of_sliced_axes_have_the_sizes_of_the_slices(case: Case) -> None:
    plain = differentiated(case).program.definition.main.vars
    for size in SIZES:
        texts = {name: size.format(f"{name}x") for name in case.symbols}
        sizes = {name: parse_size(text) for name, text in texts.items()}
        sliced = differentiated(with_sizes(case, texts)).program.definition.main.vars
        assert sliced.keys() == plain.keys()
        for name in plain.keys() - {"sizes"}:
            assert sliced[name].type == with_sizes_of(plain[name].type, sizes)


# ---- values of what follows a slice ----------------------------------------------------------

SLICES = (
    np.s_[:, 1:],
    np.s_[:, :-1],
    np.s_[:, ::2],
    np.s_[:, ::-1],
    np.s_[:, 1:-1],
    np.s_[:, -3:],
    np.s_[:, :2],
    np.s_[:, 5:],
    np.s_[:, :-5],
    np.s_[:, 1:3],
    np.s_[:, -1::-2],
    np.s_[:, 3:1],
    np.s_[..., None],
)


def shifted(h: Var) -> Var:
    """Hidden states that predict those of the next step."""
    with br.block("states"):
        states = br.gelu(h)
    return br.sum(br.log_softmax(states[:, :-1]) * br.tanh(states)[:, 1:], axis=-1)


def shifted_in_a_loop(h: Var) -> Var:
    rnn = br.create_rnn(steps=2)
    with rnn.stepnet() as net:
        state = net.add_memory(init=h)
        new = br.tanh(state.pre(1) * br.cos(h))
        state.update(new)
        net.add_output(br.sum(br.tanh(new[:, 1:]) * new[:, :-1]))
    return rnn()


def joined_again(h: Var) -> Var:
    return h * br.concat([br.tanh(h[:, :1]), br.exp(h[:, 1:])], axis=1)


def interleaved(h: Var) -> Var:
    return h + br.concat([br.tanh(h[:, ::2]), br.exp(h[:, 1::2])], axis=1)


AFTER: dict[str, Callable[[Var], Var]] = {
    "tanh": br.tanh,
    "diff": lambda h: br.tanh(br.signal.diff(h, axis=1)),
    "cumsum": lambda h: br.cumsum(h, axis=1),
    "softmax": lambda h: br.softmax(h, axis=1),
    "matmul": lambda h: br.tanh(h) @ br.swapaxes(h, -1, -2),
    "layer_norm": br.layer_norm,
    "concat": lambda h: br.tanh(br.concat([h, br.sigmoid(h)], axis=1)),
    "pad": lambda h: br.tanh(br.pad(h, [(0, 0), (1, 2)] + [(0, 0)] * (h.ndim - 2))),
    "sort": lambda h: br.sort(br.tanh(h), axis=1),
    "reshape": lambda h: br.tanh(br.reshape(h, [h.shape[0], -1])),
    "shifted": shifted,
    "shifted in a loop": shifted_in_a_loop,
    "joined again": joined_again,
    "interleaved": interleaved,
}


SLICES_BEFORE: dict[str, tuple[Any, ...]] = {
    "tanh": SLICES,
    "joined again": (np.s_[:],),
    "interleaved": (np.s_[:],),
}


def derivatives(name: str, batch: str | int, steps: str | int) -> tuple[br.Program, list[Var]]:
    """A program with derivatives of a function of slices of an axis."""
    found = list[Var]()
    with br.Program() as program:
        x = br.data("x", [batch, steps, 3], dtype="float64")
        for index in SLICES_BEFORE.get(name, SLICES[:2]):
            y = br.sum(AFTER[name](br.sin(x)[index]) ** 2)
            (first,) = br.gradients([y], [x])
            (second,) = br.gradients([br.sum(first * first)], [x])
            found += [y, first, second, *br.jvp([y], [x], [br.cos(x)])]
    return program, found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", AFTER)
def test_derivatives_behind_slices_are_those_of_axes_of_known_size(
    name: str, mode: str
) -> None:
    program, fetch = derivatives(name, "b", "t")
    for steps in (0, 1, 6):
        x = np.random.default_rng(steps).normal(size=(2, steps, 3))
        got = run(mode, program, fetch, x=x)
        want = run(mode, *derivatives(name, 2, steps), x=x)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, 1e-9, 1e-9)
