"""Outside of any program nothing is computed, and nothing is built behind one's back."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.building import call
from braces.extend.operators import OPS

INACTIVE = r"no program is active|only inside a program"


def outside(do: Callable[[], Any]) -> Any:
    """Run where no program was begun, and expect nothing to be left in the default one."""

    def alone() -> Any:
        assert not br.default_program().vars
        with pytest.raises(br.ProgramError, match=INACTIVE) as caught:
            do()
        assert not br.default_program().vars
        assert not br.default_program().block(0).ops
        return caught.value

    return contextvars.Context().run(alone)


TAKING = [name for name, one in OPS.definitions.items() if one.inputs and not one.owns_blocks]


@pytest.mark.parametrize("name", TAKING)
def test_an_operator_on_values_alone_is_refused(name: str) -> None:
    slots = [slot for slot in OPS.get(name).inputs if not slot.optional]
    outside(lambda: call(name, *(np.ones((2, 2)) for _ in slots or [0])))


@pytest.mark.parametrize(
    "do",
    [
        lambda: br.tanh(np.ones(3)),
        lambda: br.where(True, 1.0, [2.0]),
        lambda: br.concat([np.ones(3), np.ones((3,))]),
        lambda: br.einsum("i,i->", np.ones(3), np.ones(3)),
        lambda: br.cast(1, "float64"),
    ],
)
def test_the_error_has_the_place_and_a_fix(do: Callable[[], Any]) -> None:
    message = str(outside(do))
    for part in (__file__, "NumPy", "with br.Program() as prog:", "br.constant"):
        assert part in message


def test_declarations_and_what_follows_from_them_are_built(mode: str) -> None:
    def build() -> None:
        x, w = br.data("x", [2]), br.parameter("w", [2], init=[1.0, 2.0])
        y = br.tanh(br.constant(np.zeros(2))) + br.zeros([2]) + x * w + [0.5, 0.5]
        prog, scope, exe = br.default_program(), br.Scope(), br.Executor(mode=mode)
        assert y.program is prog
        exe.init(prog, scope)
        np.testing.assert_array_equal(exe.run(prog, scope, {"x": [1, 1]}, y), [1.5, 2.5])

    contextvars.Context().run(build)


def test_inside_of_a_program_values_alone_are_constants(mode: str) -> None:
    with br.Program() as prog:
        y = br.sqrt(np.array([4.0, 9.0]))
    got = br.Executor(mode=mode).run(prog, br.Scope(), fetch=y)
    np.testing.assert_array_equal(got, [2.0, 3.0])
