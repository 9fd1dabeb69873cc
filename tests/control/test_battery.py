"""The battery: every program in both modes, to second order, against differences and jvp."""

from __future__ import annotations

import pytest
from battery import CASES
from checking import Checked, check, reread

import braces as br
from braces.ops.control import loop_keeping

# One program is checked at a time, and its derivatives are read again by the next test.
_LAST: dict[str, Checked] = {}


def checked(name: str) -> Checked:
    if name not in _LAST:
        case = CASES[name]
        _LAST.clear()
        _LAST[name] = check(case.build, *case.feeds, shapes=case.shapes)
    return _LAST[name]


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_second_order_and_forward_mode_agree(name: str) -> None:
    checked(name)


@pytest.mark.parametrize("name", list(CASES)[::4])
def test_gradient_program_is_the_same_saved_loaded_pruned(name: str) -> None:
    reread(checked(name), CASES[name].feeds[0])


@pytest.mark.parametrize("name", list(CASES)[1::6])
def test_memories_that_are_kept_once_give_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_keeping, "SMALL_BYTES", 0)
    case = CASES[name]
    check(case.build, *case.feeds, shapes=case.shapes)


@pytest.mark.parametrize(("width", "pushes"), [(8, 2), (64, 1)])
def test_a_large_memory_is_kept_once(width: int, pushes: int) -> None:
    with br.Program() as prog:
        start, n = br.data("h", [width, width]), br.data("n", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            h = body.add_memory(init=start)
            body.set_condition(i < n)
            h.update(br.tanh(h @ h))
            i.update(i + 1)
        br.gradients([br.sum(loop.final(h))], [start])
    assert str(prog).count("= list_push(") == pushes
