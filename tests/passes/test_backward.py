"""What gradients may be asked for."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br


def test_parameters_are_given_as_the_program_lists_them() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        loss = br.mean(br.square(br.fc(x, 2)))
        by_info = br.gradients(loss, prog.parameters)
        by_handle = br.gradients(loss, [prog.var(info.name) for info in prog.parameters])
        with pytest.raises(br.UnknownNameError, match="Did you mean `x`"):
            prog.var("xx")
    assert [var.type for var in by_info] == [info.type for info in prog.parameters]
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=0)
    left, right = exe.run(
        prog, scope, feed={"x": np.ones((2, 3), "float32")}, fetch=[by_info[0], by_handle[0]]
    )
    np.testing.assert_array_equal(left, right)
