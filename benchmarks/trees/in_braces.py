"""Braces: a row-wise branch in an RNN with lengths in a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import braces as br
from benchmarks.anew import program_anew
from benchmarks.trees.task import MOST_TRIPS, STILL, Task

SETTLED = 24
"""Runs after which no more operators are put together."""


def compiled(task: Task) -> Callable[[], list[Any]]:
    """The compiled program."""
    return _run(task, "compile")


def interpreted(task: Task) -> Callable[[], list[Any]]:
    """The same program, operator by operator, with bundles of frequent operators."""
    turn = _run(task, "interpret")
    for _ in range(SETTLED):
        turn()
    return turn


def compiling(task: Task) -> Callable[[], None]:
    """From building the program to its executable."""
    return program_anew(lambda: program(task), task.values, task.feed)


def _run(task: Task, mode: str) -> Callable[[], list[Any]]:
    prog, fetch = program(task)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    for name, value in task.values.items():
        scope.var(name).set(value)
    return lambda: exe.run(prog, scope, feed=task.feed, fetch=fetch)


def program(task: Task) -> tuple[br.Program, list[br.Var]]:
    """The loss, its gradients, and the gradients of the sum of their squares."""
    with br.Program() as prog:
        p = {
            name: br.parameter(name, value.shape, dtype="float64")
            for name, value in task.values.items()
        }
        loss = br.sum(br.square(roots(task, p)) * br.constant(task.weights))
        first = br.gradients([loss], list(p.values()))
        second = br.gradients([sum(br.sum(br.square(grad)) for grad in first)], [*p.values()])
    return prog, [loss, *first, *second]


def roots(task: Task, p: dict[str, br.Var]) -> br.Var:
    """The converged roots."""
    steps, lengths = (
        br.data("steps", ["rows", "time"], dtype="int32"),
        br.data("lengths", ["rows"], dtype="int32"),
    )
    rows = steps.shape[0]
    loop = br.create_while()
    with loop.block() as body:
        context = body.add_memory(init=br.zeros([rows, task.width], dtype="float64"))
        moved = body.add_memory(init=br.constant(1e9, dtype="float64"))
        trip = body.add_memory(init=br.constant(0, dtype="int32"))
        body.set_condition(br.logical_and(moved > STILL, trip < MOST_TRIPS))
        after = one_reading(task, p, steps, lengths, context)
        moved.update(br.max(br.abs(after - context)))
        context.update(after)
        trip.update(trip + 1)
    return loop.final(context)


def one_reading(
    task: Task, p: dict[str, br.Var], steps: br.Var, lengths: br.Var, context: br.Var
) -> br.Var:
    """Read all trees once; the roots."""
    rows, kept = steps.shape[0], [steps.shape[0], task.depth, task.width]
    rnn = br.create_rnn(lengths=lengths)
    with rnn.stepnet() as net:
        step = net.add_input(steps, axis=1)
        stack = net.add_memory(init=br.zeros(kept, dtype="float64"))
        top = net.add_memory(init=br.zeros([rows], dtype="int32"))
        choice = br.create_if_else(step >= 0)
        with choice.true_block() as shift:
            words, read = shift.add_input(step), shift.add_input(context) @ p["read"]
            value = br.tanh(br.take(p["emb"], words, axis=0) + read)
            place = shift.add_input(top)
            shift.add_output(put(shift.add_input(stack), place, value), place + 1)
        with choice.false_block() as reduce:
            inside, place = reduce.add_input(stack), reduce.add_input(top)
            pair = [pick(inside, place - 2), pick(inside, place - 1)]
            value = br.tanh(br.concat(pair, axis=-1) @ p["join"])
            reduce.add_output(put(inside, place - 2, value), place - 1)
        pushed, place = choice()
        stack.update(pushed)
        top.update(place)
    return rnn.final(stack)[:, 0]


def at(stack: br.Var, place: br.Var) -> br.Var:
    """1 at one place of each stack, otherwise 0."""
    return br.expand_dims(br.one_hot(place, stack.shape[1], dtype="float64"), -1)


def put(stack: br.Var, place: br.Var, value: br.Var) -> br.Var:
    """Stacks with another vector at one place."""
    here = at(stack, place)
    return stack * (1.0 - here) + here * br.expand_dims(value, 1)


def pick(stack: br.Var, place: br.Var) -> br.Var:
    """The vectors at one place of each stack."""
    return br.sum(stack * at(stack, place), axis=1)
