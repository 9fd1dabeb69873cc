"""Failed building restores a program to its previous state.

Most of building appends. These are the ways in which it does not: operators that move out of a
block, come to stand before others or are sorted anew, and updates that take another's place.
What else must be as before, `tests/plugins/rollback.py` holds against a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

import braces as br
from braces.builder.undo_journal import Journal
from braces.passes.cleanup.loop_invariant_code_motion import move_before


class Stop(Exception):
    pass


@pytest.fixture
def prog() -> Generator[br.Program]:
    """A program in which a loop, a block and a shared layer stand already."""
    with br.Program() as program:
        x = br.data("x", ["b", 4])
        br.batch_norm(x, name="norm")
        with br.block("encoder"):
            y = br.batch_norm(br.fc(x, 4, name="fc"), name="inner")
        halved(br.sum(y))
        yield program


def halved(value: Any) -> Any:
    """A loop whose trips only the data knows, so that its gradient keeps histories."""
    loop = br.create_while()
    with loop.block() as body:
        memory = body.add_memory(init=value)
        body.set_condition(memory > 1.0)
        memory.update(memory * memory * 0.5)
    return loop.final(memory)


def a_gradient_puts_histories_before_the_loop(prog: br.Program) -> None:
    x = prog.var("x")
    br.gradients(halved(br.sum(x)), x)


def a_tangent_is_sorted_into_the_program(prog: br.Program) -> None:
    x = prog.var("x")
    br.jvp([halved(br.sum(x))], [x], [x * 2.0])


def a_constant_moves_out_of_a_block(prog: br.Program) -> None:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(prog.var("x"))
        memory = net.add_memory(init=br.zeros([4]) + 1.0)
        memory.update(memory + row)
        net.add_output(row)
    rnn()


def statistics_move_once_more(prog: br.Program) -> None:
    names = [f"norm.{role}" for role in ("scale", "bias", "mean", "var")]
    br.batch_norm(prog.var("x") * 2.0, params=names)


def a_block_gives_out_another_variable(prog: br.Program) -> None:
    _ = br.tanh(br.get_variable("encoder/fc"))


WAYS = [
    a_gradient_puts_histories_before_the_loop,
    a_tangent_is_sorted_into_the_program,
    a_constant_moves_out_of_a_block,
    statistics_move_once_more,
    a_block_gives_out_another_variable,
]


@pytest.mark.parametrize("way", WAYS)
def test_a_program_is_as_before(prog: br.Program, way: Callable[[br.Program], None]) -> None:
    before, startup = str(prog), str(prog.startup)

    def attempt() -> None:
        way(prog)
        assert str(prog) != before
        raise Stop

    for _ in range(2):  # what is built again has the same names
        with pytest.raises(Stop), prog.transaction():
            attempt()
        assert (str(prog), str(prog.startup)) == (before, startup)
    br.verify(prog)


@pytest.mark.parametrize("way", WAYS)
def test_only_the_later_part_is_taken_back(
    prog: br.Program, way: Callable[[br.Program], None]
) -> None:
    def inner() -> None:
        with prog.transaction():
            way(prog)
            raise Stop

    def outer() -> None:
        with prog.transaction():
            br.tanh(prog.var("x"))
            kept = str(prog)
            with pytest.raises(Stop):
                inner()
            assert str(prog) == kept
            raise Stop

    with pytest.raises(Stop):
        outer()
    assert "tanh" not in str(prog)


def test_what_moved_out_of_a_block_moves_back(prog: br.Program) -> None:
    def attempt() -> None:
        with prog.transaction():
            assert move_before(net.table, start.name)
            assert start.table is net.outer
            raise Stop

    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(prog.var("x"))
        start = br.zeros([4]) + 1.0
        with pytest.raises(Stop):
            attempt()
        assert start.table is net.table
        memory = net.add_memory(init=start)
        memory.update(memory + row)
        net.add_output(memory.pre(1))
    assert rnn().type == prog.var("x").type
    br.verify(prog)


def test_what_no_moment_can_ask_for_is_let_go() -> None:
    journal, undone = Journal(), list[int]()
    for i in range(3):
        journal.note(lambda i=i: undone.append(i))
    moment = journal.now
    for i in range(3, 6):
        journal.note(lambda i=i: undone.append(i))
    journal.back_to(moment)
    assert undone == [5, 4, 3]
    journal.back_to(moment)
    assert undone == [5, 4, 3]
