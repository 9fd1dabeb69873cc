"""Generated names of operators and their outputs."""

from __future__ import annotations

import numpy as np

import braces as br


def test_generated_operators_avoid_names_of_outputs_that_exist(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        named = br.tanh(x, name="loop_0.final") + br.relu(x, name="switch_0.1")
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            h.update(h.pre(1) * 2.0)
        chosen = br.cond(br.sum(x) > 0.0, lambda: (x + 1.0, x), lambda: (x, x))
    assert rnn.final(h).name == "loop_1.final"
    assert [var.name for var in chosen] == ["switch_1.0", "switch_1.1"]
    given = np.array([1.0, -2.0, 3.0], "f")
    found = br.Executor(mode=mode).run(
        prog, br.Scope(), {"x": given}, [rnn.final(h), *chosen, named]
    )
    wanted = [given * 4, given + 1, given, np.tanh(given) + np.maximum(given, 0)]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, expected, 1e-6)
    assert str(br.Program(br.parse(str(prog)).definition)) == str(prog)
