"""Plain blocks: names, outputs, calls, cost, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from braces.ir.walk import names_bound
from braces.lazy import jax

pytestmark = pytest.mark.unoptimized

ONES = np.ones((2, 4), "f4")


def runs(program: br.Program, feed: Any, fetch: Any, seed: int = 0) -> list[Any]:
    """Return the results of both modes, which are equal."""
    found = []
    for mode in ("compile", "interpret"):
        scope, exe = br.Scope(), br.Executor(mode=mode)
        exe.init(program, scope, seed=seed)
        found.append(exe.run(program, scope, feed=feed, fetch=fetch))
    for left, right in zip(*found, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5)
    return found[0]


def op_of(program: br.Program, name: str) -> Any:
    """The operator of this name, at any depth."""
    return next(op for _, op in all_ops(program.definition.main) if op.name == name)


# ---- names -----------------------------------------------------------------------------------


def test_names_inside_begin_with_the_names_of_the_blocks() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("model") as model:
            with br.block("layer"):
                q = br.fc(x, 8, name="q")
            with br.block("layer"):
                r = br.tanh(br.fc(q, 8), name="r")
    assert [p.name for p in prog.parameters] == [
        "model/layer/q.w", "model/layer/q.b", "model/layer_1/fc_0.w", "model/layer_1/fc_0.b",
    ]  # fmt: skip
    assert (q.name, r.name, model.name) == ("model/layer/q", "model/layer_1/r", "model")
    assert [op.name for op in prog.block(1).ops] == ["model/layer", "model/layer_1"]


def test_what_masks_and_derivatives_add_inside_a_block_begins_with_its_name_too() -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["b", 4]), br.data("w", [4, 4])
        choice = br.create_if_else(x[:, 0] > 0.0)
        with choice.true_block() as rows:
            given = rows.add_input(x)
            with br.block("outer"):
                h = br.tanh(given @ w)
                with br.block("inner", recompute=True):
                    k = h - br.sum(h * given, axis=0)  # padding is left out of it
                z = br.tanh(k @ w)
            rows.add_output(z)
        choice.pass_through(x)
        loss = br.sum(choice() ** 2)
        br.gradients([loss], [w])
        br.jvp([loss], [w], [br.ones_like(w)])
    inside = [
        (op.name.partition("_grad")[0], name)
        for _, op in all_ops(prog.definition.main)
        if op.type == "block"
        for body in op.bodies().values()
        for name in names_bound(body)
    ]
    assert {block for block, _ in inside} == {"outer", "outer/inner"}
    assert [one for one in inside if not one[1].startswith(f"{one[0]}/")] == []


def test_a_block_in_a_program_that_was_read_gets_a_number_too() -> None:
    with br.Program() as prog, br.block("a"):
        br.parameter("w", [2]) * 2.0
    again = br.Program.from_bytes(prog.to_bytes())
    with again, br.block("a") as second:
        br.parameter("w", [2]) * 3.0
    assert second.name == "a_1"
    assert [p.name for p in again.parameters] == ["a/w", "a_1/w"]


def test_parameters_of_blocks_around_are_shared_by_their_own_names() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("model"):
            w = br.parameter("w", [4, 4])
            with br.block("layer"):
                br.fc(x, params=["w"], bias=False)
                assert br.get_variable("w") is w
        br.fc(x, params=["model/w"], bias=False)
    assert [p.name for p in prog.parameters] == ["model/w"]


def test_a_name_outside_does_not_hide_what_a_block_binds() -> None:
    with br.Program():
        x = br.data("x", [3])
        with br.block("a"):
            y = br.tanh(x, name="y")
        br.sin(x, name="a/y")
        with pytest.raises(br.DuplicateNameError, match="duplicate variable"):
            y * 2.0


# ---- outputs ---------------------------------------------------------------------------------


def test_only_what_is_used_outside_is_an_output() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        with br.block("a"):
            q = br.tanh(x)
            y = br.sin(q)
            br.cos(y)
        assert not op_of(prog, "a").outputs
        z = y * 2.0
        assert op_of(prog, "a").outputs == {"out": (y.name,)}
        z = z + q + y
    assert op_of(prog, "a").outputs == {"out": (y.name, q.name)}
    assert br.parse(str(prog)).definition == prog.definition
    runs(prog, {"x": np.ones(3)}, [z])


def test_fetching_by_handle_and_by_name_reads_a_closed_block_of_a_saved_program() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        with br.block("a"), br.block("b"):
            y = br.tanh(x, name="y")
    text = str(prog)
    (by_handle,), (by_name,) = (runs(prog, {"x": np.ones(3)}, [one]) for one in (y, "a/b/y"))
    (read,) = runs(br.parse(text), {"x": np.ones(3)}, ["a/b/y"])
    assert by_handle == pytest.approx(np.tanh(np.ones(3)))
    assert by_name.tolist() == by_handle.tolist() == read.tolist()
    assert str(prog) == text
    small = br.prune(prog, ["a/b/y"])
    assert small.var("a/b/y").type == y.type
    assert prog.var("a/b/y").table is prog.table
    assert op_of(prog, "a").outputs


def test_what_a_block_binds_stands_wherever_a_variable_may() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("a"):
            h = br.fc(x, 4, name="q")
            deep = br.mean(h) > 100.0
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            memory = net.add_memory(init=h)
            with br.block("cell"):
                memory.update(br.tanh(memory + h))
                net.add_output(memory.pre(1))
        choice = br.create_if_else(deep)
        with choice.true_block() as t:
            t.add_output(h)
        choice.pass_through(rnn.final(memory))
        with br.block("loss"):
            loss = br.mean(choice() + br.sum(rnn()))
        br.optimizer.sgd(0.1).minimize(loss)
    first = runs(prog, {"x": ONES}, [loss])
    assert np.isfinite(first[0])
    assert set(prog.updates) == {"a/q.w", "a/q.b"}


def test_an_operator_that_fails_leaves_no_output_behind() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        with br.block("a"):
            y = br.tanh(x)
        four = br.data("four", [4])
        text = str(prog)
        for fails in (lambda: br.matmul(y, four), lambda: br.gradients([y], [prog])):
            with pytest.raises(br.BracesError):
                fails()
            assert str(prog) == text


# ---- calling it again ------------------------------------------------------------------------


def test_a_call_has_the_same_parameters_and_types_of_its_own() -> None:
    with br.Program() as prog:
        x, other = br.data("x", ["b", 4]), br.data("other", ["n", 4])
        with br.block("encoder") as enc:
            y = br.tanh(br.fc(br.reshape(x, [x.shape[0], 2, 2]), 2, name="q"))
        z, again = y * 1.0, enc(other)
    assert enc.inputs == ("x",)
    assert enc.results == (y.name,)
    assert str(again.type) == "f32[n,2,2]"
    assert len(prog.parameters) == 2
    first, second = runs(prog, {"x": ONES, "other": np.ones((3, 4))}, [z, again])
    np.testing.assert_allclose(np.tile(first[:1], (3, 1, 1)), second, rtol=1e-6)


def test_a_call_is_refused_where_a_number_of_steps_was_written_down() -> None:
    with br.Program() as prog:
        x, other = br.data("x", [3, 4]), br.data("other", [5, 4])
        with br.block("a") as a:
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                h = net.add_memory(shape=[2], value=0.0, batch_like=x, batch_axis=0)
                h.update(h + br.sum(net.add_input(x, axis=1)))
            rnn.final(h) * 1.0
    with prog, pytest.raises(br.ShapeError, match=r"."):
        a(br.concat([other, other], axis=1))


def test_inputs_are_set_in_order_or_by_name() -> None:
    with br.Program() as prog:
        x, w, two = br.data("x", [3]), br.data("w", [3]), br.constant(2.0)
        with br.block("a") as a:
            y = x - w * two
        made = [y * 1.0, a(x, two, w), a(x=w), a(w=1.0 * x), a()]
    assert a.inputs == ("w", "constant_0", "x")
    feed = {"x": np.full(3, 5.0), "w": np.full(3, 1.0)}
    assert [float(v[0]) for v in runs(prog, feed, made)] == [3.0, -9.0, -1.0, -5.0, 3.0]


def test_each_call_draws_anew_and_for_each_trip_around_it() -> None:
    with br.Program() as prog:
        x = br.data("x", [64])
        with br.block("a") as a:
            y = br.dropout(x, 0.5)
        second = a(x)
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            net.add_output(a(x))
        steps = rnn()
    drawn = runs(prog, {"x": np.ones(64)}, [y, second, steps[0], steps[1]])
    assert len({one.tobytes() for one in drawn}) == 4
    assert all(np.array_equal(one, np.ones(64)) for one in runs(
        prog.for_test(), {"x": np.ones(64)}, [y, second]))  # fmt: skip


def test_states_are_moved_on_from_call_to_call_and_read_as_the_run_began() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("a") as a:
            count = br.state("count", [], 1.0)
            prog.update(count, count * 2.0 + 1.0)
            br.batch_norm(x, name="bn", momentum=0.5) + count
        z = a(x * 3.0)
        a(z)
    with br.Program() as plain:
        x = br.data("x", ["b", 4])
        names = ["scale", "bias", "mean", "var"]
        first = br.batch_norm(x, name="bn", momentum=0.5)
        del first
        shared = [f"bn.{name}" for name in names]
        second = br.batch_norm(x * 3.0, params=shared, momentum=0.5)
        br.batch_norm(second + 1.0, params=shared, momentum=0.5)
    rows = np.random.default_rng(0).normal(size=(8, 4)).astype("f4")
    for mode in ("compile", "interpret"):
        scopes = [br.Scope(), br.Scope()]
        for program, scope in zip((prog, plain), scopes, strict=True):
            br.Executor(mode=mode).init(program, scope, seed=0)
            br.Executor(mode=mode).run(program, scope, {"x": rows})
        assert scopes[0].var("a/count").value == 15.0
        for name in names[2:]:
            held = scopes[0].var(f"a/bn.{name}").value
            np.testing.assert_allclose(held, scopes[1].var(f"bn.{name}").value, rtol=1e-5)
    predict = br.prune(prog.for_test(), [z])
    assert len(predict.blocks) == 2


# ---- gradients and memory --------------------------------------------------------------------


def stack_of(
    layers: int, recompute: bool, grouped: bool = True
) -> tuple[br.Program, list[Any]]:
    """Layers that keep much, and the gradients of their parameters."""
    with br.Program() as prog:
        h = br.data("x", [64, 32])
        for number in range(layers):
            if grouped:
                with br.block(f"layer_{number}", recompute=recompute):
                    h = layer(h, "")
            else:
                h = layer(h, f"layer_{number}_")
        loss = br.mean(h * h)
        grads = br.append_backward(loss)
    return prog, [loss, *grads.values()]


def layer(h: br.Var, name: str) -> br.Var:
    u = br.tanh(br.fc(h, 256, name=f"{name}a"))
    u = br.exp(-br.square(br.sin(u)))
    return br.tanh(br.fc(u, 32, name=f"{name}b")) + h


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All that is compiled from now on."""
    found: list[Any] = []
    original = jax.stages.Lowered.compile

    def compile_(self: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(original(self, *args, **kwargs))
        return found[-1]

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_)
    return found


def measured(compiled: list[Any], *args: Any) -> tuple[Any, int, int]:
    """The loss, the instructions and the temporary memory of a stack."""
    prog, fetches = stack_of(*args)
    scope, exe = br.Scope(), br.Executor()
    exe.init(prog, scope, seed=0)
    compiled.clear()
    x = np.random.default_rng(0).normal(size=(64, 32)).astype("f4")
    values = exe.run(prog, scope, {"x": x}, fetches)
    (made,) = compiled
    memory = made.memory_analysis().temp_size_in_bytes
    return values, made.as_text().count(" = "), memory


def test_a_block_costs_nothing_and_one_that_runs_again_keeps_less(compiled: list[Any]) -> None:
    flat, flat_count, flat_memory = measured(compiled, 6, False, False)
    kept, kept_count, kept_memory = measured(compiled, 6, False)
    again, _, again_memory = measured(compiled, 6, True)
    assert (kept_count, kept_memory) == (flat_count, flat_memory)
    assert again_memory < kept_memory / 2
    for left, right in zip(kept, again, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)
    assert len(flat) == len(kept)


def test_gradients_in_an_open_block_go_on_outside_of_it() -> None:
    with br.Program() as prog:
        x, w = br.data("x", [3]), br.data("w", [3])
        with br.block("outer"):
            h = br.tanh(x * w)
            with br.block("inner"):
                loss = br.sum(h * h)
                inside = br.gradients([loss], [w, h])
                (moved,) = br.jvp([loss], [w], [x])
        outside = br.gradients([loss], [w, h])
    feed = {"x": np.ones(3), "w": np.arange(3.0)}
    found = runs(prog, feed, [*inside, *outside, moved])
    np.testing.assert_allclose(found[4], np.sum(found[0]), rtol=1e-6)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-6)
    np.testing.assert_allclose(found[1], found[3], rtol=1e-6)


def test_a_nan_and_a_listener_say_the_block() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        with br.block("a"), br.block("b"):
            y = br.log(x) * 2.0
    for mode in ("compile", "interpret"):
        with pytest.raises(br.NaNError, match=r"a/body\[0\]/a/b/body\[0\]"):
            br.Executor(mode=mode).run(prog, br.Scope(), {"x": [-1.0, 1.0]}, y, check_nan=True)


def test_the_block_runs_alone() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        with br.block("a"):
            br.tanh(x, name="y")
    block, scope = br.Block(prog.block(1).serialize(), prog.block(0)), br.Scope()
    scope.var("x").set(np.ones(2, "f4"))
    assert str(block.infer_shape(scope)["a/y"]) == "f32[2]"
    block.run(scope)
    assert scope.var("a/y").value == pytest.approx(np.tanh(np.ones(2)))
    assert block.eval(["a/y"], scope)[0] == pytest.approx(np.tanh(np.ones(2)))


# ---- what is refused -------------------------------------------------------------------------


def refused(build: Callable[[br.Var], Any], error: type[Exception], match: str) -> None:
    """An error with the user's line, which leaves the program as it was."""
    with br.Program() as prog:
        x = br.data("x", [3])
        before = str(prog)
        with pytest.raises(error, match=match) as raised:
            build(x)
    assert "test_plain_blocks.py:" in str(raised.value)
    assert str(prog).startswith(before.removesuffix("}\n"))
    assert "a_1" not in str(prog)


def built(x: br.Var) -> Any:
    with br.block("a") as a:
        br.tanh(x)
    return a


def empty(x: br.Var) -> None:
    with br.block("a"):
        pass


def twice(x: br.Var) -> None:
    with br.block("a"):
        br.parameter("w", [3])
        br.parameter("w", [3])


def used_while_open(x: br.Var) -> None:
    with br.block("a") as a:
        a(br.tanh(x))


def entered_again(x: br.Var) -> None:
    with built(x):
        br.sin(x)


def updated_in_a_loop(x: br.Var) -> None:
    with br.block("a") as a:
        count = br.state("count", [])
        br.default_program().update(count, count + br.sum(x))
        br.tanh(x)
    rnn = br.create_rnn(steps=2)
    with rnn.stepnet() as net:
        net.add_output(a(x))


def foreign(x: br.Var) -> None:
    with br.Program():
        other = br.data("x", [3])
    built(x)(other)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda x: br.block("a/b"), br.ProgramError, "invalid block name"),
        (lambda x: br.block(""), br.ProgramError, "invalid name"),
        (lambda x: br.block(7), br.ProgramError, "block: invalid argument name=7"),
        (empty, br.ProgramError, "`a` is empty"),
        (twice, br.DuplicateNameError, "duplicate variable `a/w`"),
        (used_while_open, br.ProgramError, "still open"),
        (entered_again, br.ProgramError, "already defined"),
        (lambda x: built(x)(x, x), br.ProgramError, "takes 1 positional inputs here, got 2"),
        (lambda x: built(x)(z=x), br.UnknownNameError, "no input `z`"),
        (lambda x: built(x)(br.constant([1, 2])), br.DTypeError, "dtype mismatch"),
        (lambda x: built(x)("x"), br.DTypeError, "expected a variable"),
        (updated_in_a_loop, br.ProgramError, "in a loop or a branch"),
        (foreign, br.ProgramError, "another program"),
    ],
)
def test_bad_input_is_refused(build: Any, error: type[Exception], match: str) -> None:
    refused(build, error, match)


def test_the_error_of_an_invalid_call_has_both_lines() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        with br.block("a") as a:
            br.matmul(x, br.parameter("w", [3, 4]))
        text = str(prog)
        with pytest.raises(br.ShapeError, match=r"cannot contract 2 with 3") as raised:
            a(br.data("short", [2]))
    assert str(raised.value).count("test_plain_blocks.py:") == 2
    assert str(prog).count("block()") == text.count("block()")


def test_an_exception_in_the_block_leaves_the_program_as_it_was() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        text = str(prog)
        with pytest.raises(br.BracesError), br.block("a"):
            br.matmul(br.fc(x, 2, name="q"), x)
        assert str(prog) == text
        assert not prog.startup.vars
        with br.block("a") as a:
            br.fc(x, 2, name="q")
    assert a.name == "a"
