"""Lists with data-dependent positions: values, derivatives, errors, capacity, both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.support.comparison import near

pytestmark = pytest.mark.unoptimized

MODES = ("compile", "interpret")


def both(prog: br.Program, fetch: Any, **feed: Any) -> list[Any]:
    """Return the results of a run, which are equal in both modes."""
    compiled, interpreted = (
        br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=fetch) for mode in MODES
    )
    for one, other in zip(compiled, interpreted, strict=True):
        assert one.dtype == other.dtype
        near(one, other, 1e-12, "modes")
    return compiled


def times(n: br.Var, carried: tuple[br.Var, ...], step: Callable[..., Any]) -> tuple[Any, ...]:
    """A while of so many trips; `step` gets the number of the trip and what is carried."""
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0))
        memories = [body.add_memory(init=one) for one in carried]
        body.set_condition(i < n)
        after = step(i, *(memory.pre(1) for memory in memories))
        for memory, value in zip(memories, after, strict=True):
            memory.update(value)
        i.update(i + 1)
    return tuple(map(loop.final, memories))


def test_each_change_gives_the_list_that_python_would_have() -> None:
    rows, at = np.arange(8.0).reshape(4, 2), [0, 3, -1, -4]
    with br.Program() as prog:
        x, i = br.data("x", [4, 2], dtype="f64"), br.data("i", [], dtype="int32")
        xs = br.lists.unstack(x)
        new = br.constant([9.0, 9.0], dtype="f64")
        last, rest = br.lists.pop(xs)
        found = [
            br.lists.stack(changed)
            for changed in (
                br.lists.set(xs, i, new), br.lists.insert(xs, i, new),
                br.lists.erase(xs, i), rest,
                br.lists.append(xs, new), br.lists.resize(xs, 2),
                br.lists.write(xs, i + 5, new),
            )
        ]  # fmt: skip
        fetch = [xs[i], br.lists.length(xs), last, *found]
    for place in at:
        front = place % 4
        inserted = list(rows)
        inserted.insert(place, np.full(2, 9.0))
        written = np.zeros((max(4, place + 6), 2))
        written[:4] = rows
        written[place + 5] = 9.0
        wanted = [
            rows[place], 4, rows[3], np.where(np.arange(4)[:, None] == front, 9.0, rows),
            np.stack(inserted), np.delete(rows, front, 0), rows[:3],
            np.vstack([rows, np.full((1, 2), 9.0)]), rows[:2], written,
        ]  # fmt: skip
        for one, want in zip(both(prog, fetch, x=rows, i=place), wanted, strict=True):
            np.testing.assert_array_equal(one, want)


def test_lists_filled_and_read_by_place_in_loops_have_derivatives_of_both_orders() -> None:
    with br.Program() as prog:
        x, n = br.data("x", [3], dtype="f64"), br.data("n", [], dtype="int64")
        first = br.lists.append(br.lists.create([3], "f64"), x)

        def fill(i: br.Var, xs: br.Var) -> Any:
            grown = br.lists.append(xs, br.sin(xs[i]) * x)
            changed = br.lists.set(grown, i, grown[i] * grown[-1])
            return (br.lists.erase(br.lists.insert(changed, i, x), i + 1),)

        (filled,) = times(n, (first,), fill)

        def read(i: br.Var, total: br.Var) -> Any:
            return (total + filled[n - i] * br.lists.resize(filled, i + 1)[i] * 0.5,)

        (total,) = times(n, (x,), read)
        y = br.sum(total * total)
        (grad,) = br.gradients([y], [x])
        (second,) = br.gradients([br.sum(grad * grad)], [x])
        (moved,) = br.jvp([y], [x], [br.constant([1.0, -2.0, 0.5], dtype="f64")])
    start = np.array([0.3, -0.7, 1.1])

    def value(at: Any, which: Any) -> Any:
        return br.Executor().run(prog, br.Scope(), feed={"x": at, "n": 4}, fetch=which)

    def slope(which: br.Var) -> Any:
        ends = [(value(start + h, which), value(start - h, which)) for h in 1e-6 * np.eye(3)]
        return np.array([(up - down) / 2e-6 for up, down in ends])

    found = both(prog, [y, grad, second, moved], x=start, n=4)
    near(found[1], slope(y), 1e-6, "first order")
    near(found[3], found[1] @ [1.0, -2.0, 0.5], 1e-12, "forward mode")
    jacobian = slope(grad)
    near(found[2], jacobian @ (2 * found[1]), 1e-5, "second order")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", [3, -4])
def test_a_place_outside_of_a_list_is_an_error_that_changes_nothing(
    mode: str, place: int
) -> None:
    with br.Program() as prog:
        state = br.state("count", [], dtype="int64")
        i = br.data("i", [], dtype="int64")
        xs = br.lists.unstack(br.constant([1.0, 2.0, 3.0]))
        (found,) = times(br.constant(2), (br.constant(0.0),), lambda t, total: (total + xs[i],))
        prog.update(state, state + 1)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    with pytest.raises(br.IndexRangeError, match="list index is out of range") as caught:
        exe.run(prog, scope, feed={"i": place}, fetch=found)
    assert str(place) in str(caught.value)
    assert "test_lists.py" in str(caught.value)
    assert scope.var("count").value == 0


def test_lists_outgrow_their_room_in_a_trip_in_which_they_are_read() -> None:
    with br.Program() as prog:
        n = br.data("n", [], dtype="int64")
        none = br.lists.create([], "int64")

        def step(i: br.Var, xs: br.Var, total: br.Var) -> Any:
            longer = br.lists.append(br.lists.append(xs, i), i * 2)
            value, rest = br.lists.pop(longer)
            return rest, total + value + longer[i // 2]

        xs, total = times(n, (none, br.constant(0)), step)
        (peak,) = times(n, (none,), lambda i, ys: (br.lists.append(ys, i),))
        shrunk = times(n - 1, (peak,), lambda i, ys: (br.lists.erase(ys, 0),))
        fetch = [total, br.lists.length(xs), shrunk[0][0]]
    for count in (3, 300):
        trips = np.arange(count)
        wanted = int((2 * trips + trips // 2).sum())
        assert [*map(int, both(prog, fetch, n=count))] == [wanted, count, count - 1]


def test_lists_that_begin_apart_stand_for_each_other_in_branches_and_loops() -> None:
    with br.Program() as prog:
        n, x = br.data("n", [], dtype="int64"), br.data("x", ["rows"], dtype="f64")
        one = br.lists.append(br.lists.create([], "f64"), br.constant(1.0, dtype="f64"))
        two = br.lists.append(br.lists.create([], "f64"), br.constant(2.0, dtype="f64"))
        chosen = br.cond(n > 2, lambda: one, lambda: br.lists.append(two, x[0]))

        def swap(i: br.Var, left: br.Var, right: br.Var) -> Any:
            return br.lists.append(right, x[0] * br.cast(i, "f64")), left

        left, right = times(n, (chosen, br.lists.unstack(x)), swap)
        y = br.sum(br.lists.stack(left)) * br.sum(br.lists.stack(right))
        (grad,) = br.gradients([y], [x])
    for count in (1, 70):
        rows = np.array([0.5, -1.0, 3.0])
        pair = [[2.0, 0.5] if count <= 2 else [1.0], [*rows]]
        for trip in range(count):
            pair = [[*pair[1], rows[0] * trip], pair[0]]
        found = both(prog, [y, grad], x=rows, n=count)
        near(found[0], np.sum(pair[0]) * np.sum(pair[1]), 1e-12, "value")
        assert found[1].shape == (3,)


def test_what_is_no_list_or_does_not_fit_is_refused_at_build() -> None:
    with br.Program():
        x = br.data("x", [3])
        xs = br.lists.create([3])
        for wrong, error in (
            (lambda: br.lists.get(x, 0), br.DTypeError),
            (lambda: br.lists.append(xs, 1.0), br.DTypeError),
            (lambda: xs[x], br.ShapeError),
            (lambda: xs[1.5], br.DTypeError),
            (lambda: xs[br.constant([1, 2])], br.ShapeError),
            (lambda: xs + x, br.BracesError),
            (lambda: br.lists.unstack(br.constant(1.0)), br.ShapeError),
        ):
            with pytest.raises(error):
                wrong()
        with pytest.raises(
            br.ProgramError, match="data-dependent size, which is unsupported in a loop"
        ):
            times(br.constant(3), (xs,), lambda i, ys: (br.lists.stack(ys),))


def check_gradient(build: Callable[[br.Var, br.Var], br.Var], start: Any, n: int) -> None:
    """Gradients of both orders against differences of values, in both modes."""
    with br.Program() as prog:
        x, count = br.data("x", start.shape, dtype="f64"), br.data("n", [], dtype="int64")
        y = build(x, count)
        (grad,) = br.gradients([y], [x])
        (second,) = br.gradients([br.sum(br.sin(grad))], [x])
    found = both(prog, [grad, second], x=start, n=n)

    def slope(which: br.Var) -> Any:
        exe, steps = br.Executor(mode="interpret"), 1e-6 * np.eye(start.size)
        ends = [
            [exe.run(prog, br.Scope(), feed={"x": start + h, "n": n}, fetch=which)
             for h in (step, -step)]
            for step in steps
        ]  # fmt: skip
        return np.array([(up - down) / 2e-6 for up, down in ends])

    near(found[0], slope(y), 1e-6, "first order")
    near(found[1], slope(grad) @ np.cos(found[0]), 1e-5, "second order")


def test_lists_that_begin_in_a_trip_have_derivatives() -> None:
    def inner(x: br.Var, n: br.Var) -> br.Var:
        def step(i: br.Var, total: br.Var) -> Any:
            first = br.lists.append(br.lists.create([2], "f64"), total)
            (made,) = times(
                i + 1, (first,), lambda j, ys: (br.lists.append(ys, br.sin(ys[j] * x)),)
            )
            return (made[-1] * made[0] + made[i],)

        return br.sum(times(n, (x,), step)[0])

    def replaced(x: br.Var, n: br.Var) -> br.Var:
        first = br.lists.append(br.lists.create([2], "f64"), x)

        def step(i: br.Var, xs: br.Var, total: br.Var) -> Any:
            del i
            product = total * xs[0]
            return br.lists.append(br.lists.create([2], "f64"), product * x), product

        xs, total = times(n, (first, x), step)
        return br.sum(total) + br.sum(xs[0])

    for build in (inner, replaced):
        check_gradient(build, np.array([0.7, -1.2]), 3)


def test_a_list_is_not_fetched(mode: str) -> None:
    with br.Program() as prog:
        xs = br.lists.create([2])
    with pytest.raises(br.ProgramError, match="cannot fetch the list"):
        br.Executor(mode=mode).run(prog, br.Scope(), fetch=xs)


def test_the_gradient_of_a_list_that_a_row_wise_branch_reads_is_refused() -> None:
    with br.Program():
        x = br.data("x", ["b"], dtype="f64")
        xs = br.lists.unstack(x)
        choice = br.create_if_else(x > 0.0)
        with choice.true_block() as above:
            above.add_output(above.add_input(x) * xs[0])
        choice.pass_through(x)
        y = choice()
        with pytest.raises(br.GradientError, match="with respect to a list"):
            br.gradients([br.sum(y)], [x])
