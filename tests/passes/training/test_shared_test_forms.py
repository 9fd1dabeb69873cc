"""Copies for inference of one program share their compiled code."""

import numpy as np

import braces as br

FEED = {"x": np.ones((2, 4), "float32")}


def test_each_call_of_for_test_shares_compiled_code_until_the_program_changes():
    with br.Program() as prog:
        y = br.dropout(br.fc(br.data("x", ["n", 4]), 3, name="out"), 0.5)
        smaller = prog.var("out.w") * 0.5
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    for values in (None, {"out.w": smaller}, {"out.w": smaller.name}):
        exe.run(prog.for_test(values), scope, FEED, y)
        compiled = exe.stats.compilations
        for _ in range(3):
            exe.run(prog.for_test(values), scope, FEED, y)
        assert exe.stats.compilations == compiled
    with prog:
        z = y + 1.0
    exe.run(prog.for_test(), scope, FEED, z)
    assert exe.stats.compilations == compiled + 1


def test_values_of_parameters_give_different_copies():
    with br.Program() as prog:
        w = br.parameter("w", [4], init=1.0)
        y = br.data("x", ["n", 4]) @ w
        double, triple = w * 2.0, w * 3.0
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    runs = [
        exe.run(prog.for_test(values), scope, FEED, y)[0]
        for values in (None, {w: double}, {w: triple}, {w: double})
    ]
    assert runs == [4.0, 8.0, 12.0, 8.0]
