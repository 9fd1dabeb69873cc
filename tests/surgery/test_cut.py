"""`br.cut`: a program in two parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br

MODES = ["compile", "interpret"]
DRAW = np.random.default_rng(0)
FEED = {
    "x": DRAW.normal(size=(5, 6, 4)).astype("float32"),
    "lens": np.array([1, 6, 3, 2, 4], "int32"),
}


def model(train: bool, rate: float = 0.0) -> br.Program:
    """An RNN with lengths and a while in it, a plain block with norm, a row-wise branch."""
    with br.Program() as prog:
        x, lens = br.data("x", ["b", "t", 4]), br.data("lens", ["b"], "int32")
        rnn = br.create_rnn(lengths=lens)
        with rnn.stepnet() as net:
            row, h = net.add_input(x, axis=1), net.add_memory(shape=[8], batch_like=x)
            act = br.tanh(
                br.fc(br.concat([row, h.pre(1)], axis=-1), 8, name="cell"), name="act"
            )
            h.update(act)
        last = br.identity(rnn.final(h), name="last")
        with br.block("enc"):
            wide = br.batch_norm(br.fc(last, 8, name="wide"), name="norm")
            inner = br.tanh(wide, name="inner")
            out = br.dropout(inner * 2.0, rate) if rate else inner * 2.0
        choice = br.create_if_else(br.sum(out, axis=1) > 0.0)
        with choice.true_block() as case:
            case.add_output(br.sigmoid(case.add_input(out), name="gate"))
        with choice.false_block() as case:
            case.add_output(case.add_input(out))
        loss = br.mean(choice() ** 2, name="loss")
        prog.give(loss.name)
        if train:
            br.optimizer.momentum(0.1).minimize(loss)
    return prog


def both(exe: br.Executor, parts: Any, scope: br.Scope) -> list[Any]:
    first, rest = parts
    values = exe.run(first, scope, {k: v for k, v in FEED.items() if k in first.feeds})
    feed = {**FEED, **dict(zip(first.fetches, values, strict=True))}
    return exe.run(rest, scope, {k: v for k, v in feed.items() if k in rest.feeds})


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("train", "rate"), [(False, 0.0), (True, 0.0), (True, 0.5)])
@pytest.mark.parametrize("at", ["last", "enc/inner"])
def test_both_parts_together_are_the_program(
    mode: str, train: bool, rate: float, at: str
) -> None:
    prog, exe = model(train, rate), br.Executor(mode=mode)
    parts = br.cut(prog, at=[at])
    whole, split = exe.init(prog), exe.init(prog)
    for _ in range(2):
        (loss,) = exe.run(prog, whole, FEED)
        (again,) = both(exe, parts, split)
        np.testing.assert_allclose(again, loss, rtol=1e-5)
    for name in prog.updates:
        np.testing.assert_allclose(
            split.var(name).value, whole.var(name).value, atol=1e-5, err_msg=name
        )
    updated = [set(part.updates) for part in parts]
    assert updated[0] | updated[1] == set(prog.updates)
    assert not updated[0] & updated[1]


def test_the_rest_of_a_forward_program_reads_the_cut_values_alone() -> None:
    prog = model(train=False)
    first, rest = br.cut(prog, at=[prog.vars["last"]])
    assert (first.feeds, first.fetches) == (("x", "lens"), ("last",))
    assert rest.feeds == ("last",)
    assert not any(op.type == "loop" for op in rest.definition.main.ops)
    assert {var.name for var in first.parameters} == {"cell.w", "cell.b"}
    assert "cell.w" not in {var.name for var in rest.parameters}
    assert set(rest.startup.updates) >= {"enc/wide.w"}


def test_parts_are_saved_and_loaded(tmp_path: Any) -> None:
    prog, exe = model(train=True), br.Executor(mode="interpret")
    parts = list[br.Program]()
    for number, part in enumerate(br.cut(prog, at="last")):
        part.save(tmp_path / str(number))
        parts.append(br.Program.load(tmp_path / str(number)))
    (loss,) = exe.run(prog, exe.init(prog), FEED)
    np.testing.assert_allclose(both(exe, parts, exe.init(prog))[0], loss, rtol=1e-5)


def test_values_of_parameters_alone_are_folded_into_a_parameter() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3, 2], init=br.init.normal())
        folded = br.multiply(w, br.exp(br.parameter("s", [2], init=0.5)), name="folded")
        prog.give(br.matmul(br.data("x", ["n", 3]), folded, name="y").name)
    first, rest = br.cut(prog, at=["folded"], kind="parameter")
    exe = br.Executor()
    scope, feed = exe.init(prog), {"x": np.ones((4, 3), "float32")}
    constants = br.Scope()
    constants.update(dict(zip(first.fetches, exe.run(first, scope), strict=True)))
    assert [(var.name, var.trainable) for var in rest.parameters] == [("folded", True)]
    np.testing.assert_allclose(
        exe.run(rest, constants, feed)[0], exe.run(prog, scope, feed)[0], rtol=1e-6
    )


def test_two_values_one_of_which_depends_on_the_other() -> None:
    text = (
        "program { data x: f32[n]  a: f32[n] = tanh(x=x)  b: f32[n] = exp(x=a)"
        "  c: f32[n] = add(x=a, y=b)  return c }"
    )
    first, rest = br.cut(br.parse(text), at=["b", "a"])
    assert (first.fetches, set(rest.feeds)) == (("b", "a"), {"a", "b"})
    assert [op.name for op in rest.definition.main.ops] == ["c"]
    first, rest = br.cut(br.parse(text.replace("(x=a, y=b)", "(x=b, y=b)")), at=["b", "a"])
    values = br.Executor().run(first, br.Scope(), {"x": np.ones(3, "float32")})
    feed = dict(zip(first.fetches, values, strict=True))  # `a` is declared, and not read
    np.testing.assert_allclose(
        br.Executor().run(rest, br.Scope(), feed)[0], 2 * np.exp(np.tanh(1.0)), rtol=1e-6
    )


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recompute", [False, True])
def test_values_in_nested_plain_blocks_beside_others(mode: str, recompute: bool) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", "t", 4])
        with br.block("net"), br.block("enc", recompute=recompute):
            z = br.tanh(br.fc(x, 6, name="fc"), name="z")
            z = br.multiply(z, z, name="square")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(z, axis=1), net.add_memory(shape=[6], batch_like=x)
            h.update(br.tanh(row + br.fc(h.pre(1), 6, name="cell")))
        loss = br.mean(rnn.final(h)) + br.mean(z, name="mean")
        prog.give(loss.name)
        br.optimizer.sgd(0.1).minimize(loss)
    inner = [h.path for h in prog.find(name="*enc/z", kind="variables") if h.chain]
    assert len(inner) == 1 + recompute
    exe = br.Executor(mode=mode)
    for at in ([inner[0], "loop_0.final"], ["loop_0.final", inner[-1]], [*inner, "mean"]):
        first, rest = br.cut(prog, at=at)
        assert len(first.fetches) == len(at)
        whole, split = exe.init(prog, seed=0), exe.init(prog, seed=0)
        for _ in range(2):
            (wanted,) = exe.run(prog, whole, {"x": FEED["x"]})
            np.testing.assert_allclose(both(exe, (first, rest), split), [wanted], rtol=1e-5)
        for name in prog.updates:
            np.testing.assert_allclose(split[name], whole[name], atol=1e-6, err_msg=name)
    recut = br.cut(prog.rename({inner[0]: "net/enc/renamed"}), at=prog[inner[0]])
    assert recut[0].fetches != ()


@pytest.mark.parametrize(
    ("at", "error", "words"),
    [
        ("act", br.ProgramError, "inside the loop `rnn_0`: `rnn_0/body/.*act` is not a value"),
        ("gate", br.ProgramError, "inside the row-wise branch"),
        ("x", br.ProgramError, "expected a computed value, got data"),
        ("lost", br.UnknownNameError, "unknown variable `lost`"),
        ([], br.ProgramError, "at least one value"),
    ],
)
def test_what_cannot_be_cut_is_refused_by_name(
    at: Any, error: type[Exception], words: str
) -> None:
    prog = model(train=True)
    loop = next(op.name for op in prog.definition.main.ops if op.type == "loop")
    before = str(prog)
    with pytest.raises(error, match=words.replace("rnn_0", loop)):
        br.cut(prog, at=at)
    assert str(prog) == before


def test_unknown_kinds_symbolic_parameters_and_missing_results_are_refused() -> None:
    prog = model(train=False)
    with pytest.raises(br.ProgramError, match="unknown kind"):
        br.cut(prog, at="last", kind="constant")
    with pytest.raises(br.ProgramError, match="requires fixed sizes; `last` has the size `b`"):
        br.cut(prog, at="last", kind="parameter")
    with br.Program() as bare:
        br.exp(br.tanh(br.data("x", [2]), name="h"))
    with pytest.raises(br.ProgramError, match="no results"):
        br.cut(bare, at="h")


def test_a_pruned_program_has_its_targets_as_results() -> None:
    prog = model(train=True)
    small = br.prune(prog, ["loss", "cell.w"])
    assert small.fetches == ("loss",)
    assert "cell.w" in small.updates
    assert (
        br.Executor(mode="interpret").run(small, br.Executor().init(prog), FEED)[0].shape == ()
    )
