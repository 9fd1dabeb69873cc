"""Fourier transforms on several devices: along an axis that is cut, and of a batch that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import gradients
from tests.support.sharded_models import collectives

pytestmark = pytest.mark.unoptimized

SIZE = 16
LAYOUT = br.Layout(br.Mesh({"data": 8}), {"t": "data"})

TRANSFORMS: dict[str, Callable[[br.Var], br.Var]] = {
    "fft": lambda x: br.fft.fft(x, axis=1),
    "ifft of 5": lambda x: br.fft.ifft(x, n=5, axis=1),
    "rfft": lambda x: br.fft.rfft(br.real(x), axis=1),
    "irfft": lambda x: br.fft.irfft(x, axis=1),
    "fft of a batch": lambda x: br.fft.fft(x, axis=2),
    "rfft of a batch": lambda x: br.fft.rfft(br.real(x), axis=2),
    "irfft of a batch": lambda x: br.fft.irfft(x, axis=0),
    "fftn": br.fft.fftn,
    "ifftn": lambda x: br.fft.ifftn(x, axes=(0, 1)),
    "fftn of a batch": lambda x: br.fft.fftn(x, axes=(0, 2)),
}


def energy(x: br.Var) -> br.Var:
    """A real number that depends on all of a value, and its derivative too."""
    if x.dtype.kind != "c":
        return br.sum(br.sin(x))
    return br.sum(br.sin(br.real(x))) + br.sum(br.cos(br.imag(x)) * br.real(x))


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def check(program: br.Program, feed: dict[str, Any], fetch: list[br.Var]) -> None:
    """Hold values on several devices against those on one."""
    one, several = (
        exe.run(program, br.Scope(), feed=feed, fetch=fetch)
        for exe in (br.Executor(), br.Executor(layout=LAYOUT))
    )
    for want, got, var in zip(one, several, fetch, strict=True):
        np.testing.assert_allclose(got, want, 1e-9, 1e-11, err_msg=var.name)


def test_transforms_and_two_orders_of_gradients_are_those_of_one_device() -> None:
    with br.Program() as program:
        x = br.data("x", [2, "t", 3], dtype="complex128")
        outs = [transform(x) for transform in TRANSFORMS.values()]
        first = [gradients([energy(out)], [x])[0] for out in outs]
        second = [gradients([energy(grad)], [x])[0] for grad in first]
    check(program, {"x": numbers(2, SIZE, 3)}, [*outs, *first, *second])


@pytest.mark.parametrize("kind", ["loop", "trips", "branch"])
def test_so_are_those_in_a_construct(kind: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["t", 4, 6], dtype="complex128")
        out = CONSTRUCTS[kind](x)
        (first,) = gradients([energy(out)], [x])
    check(program, {"x": numbers(SIZE, 4, 6)}, [out, first])


def recurrent(x: br.Var) -> br.Var:
    """Transforms of what a step remembers."""
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h = net.add_memory(init=x[:, 0] * 0.0)
        h.update(br.fft.fft(h * 0.3 + net.add_input(x, axis=1)[:, ::-1], axis=0))
        net.add_output(h.next)
    return rnn()


def in_trips(x: br.Var) -> br.Var:
    """Transforms of which no trip needs another, along the axis that is cut and the other."""
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        xt = net.add_input(x, axis=1)
        net.add_output(br.fft.fft(xt, axis=0) + br.fft.fft(xt * xt, axis=1))
    return rnn()


def branching(x: br.Var) -> br.Var:
    """Transforms of the rows of a branch."""
    choice = br.create_if_else(br.real(x)[:, 0, 0] > 0.0)
    with choice.true_block() as t:
        t.add_output(br.fft.fft(t.add_input(x), axis=2))
    with choice.false_block() as f:
        f.add_output(br.fft.ifft(f.add_input(x), axis=1))
    return choice()


CONSTRUCTS = {"loop": recurrent, "trips": in_trips, "branch": branching}


def test_each_device_transforms_its_own_items_of_a_batch() -> None:
    with br.Program() as program:
        x = br.data("x", ["t", 4, 6], dtype="complex64")
        loss = energy(br.fft.fftn(x, axes=(1, 2)))
        fetch = [loss, *gradients([loss], [x])]
    exe = br.Executor(layout=LAYOUT)
    exe.run(program, br.Scope(), feed={"x": numbers(SIZE, 4, 6).astype("F")}, fetch=fetch[:1])
    assert collectives(exe, program) == {"all-reduce": 1}
