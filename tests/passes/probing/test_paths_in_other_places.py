"""Paths of inner values in models, in JAX and ONNX, and in functions of the main block."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
ACT = "loop_0/body/act"
X = np.array([2.0, 3.0], "float32")


def trained() -> br.Program:
    with br.Program() as prog:
        x, w, rnn = br.data("x", ["t"]), br.parameter("w", [], init=1.0), br.create_rnn()
        with rnn.stepnet() as step:
            h = step.add_memory(init=w)
            h.update(br.multiply(h.pre(1), step.add_input(x), name="act"))
        loss = br.square(rnn.final(h), name="loss")
        br.optimizer.sgd(0.0).minimize(loss)
    return prog


def test_models_fetch_inner_values_and_gradients(tmp_path: Path) -> None:
    prog, exe, path = trained(), br.Executor(), tmp_path / "model"
    scope = exe.init(prog)
    fetches = {"act": ACT, "grad": br.grad_of("loss", ACT)}
    br.save_model(path, prog, scope, ["x"], fetches)
    found = br.load_model(path).run(x=X)
    assert {name: value.tolist() for name, value in found.items()} == {
        "act": [2.0, 6.0],
        "grad": [36.0, 12.0],
    }


def test_onnx_files_have_inner_values(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    prog, path = br.prune(trained(), ["loss"]), tmp_path / "model.onnx"
    scope = br.Executor().init(prog)
    br.to_onnx(prog, path, scope=scope, fetches=[ACT, "loss"])
    act, loss = runtime.InferenceSession(path).run(None, {"x": X})
    assert (act.tolist(), float(loss)) == ([2.0, 6.0], 36.0)


def test_profiles_and_comparisons_take_inner_values() -> None:
    prog, exe = trained(), br.Executor(mode="interpret")
    scope = exe.init(prog)
    profile = exe.profile(prog, scope, {"x": X}, ACT, runs=1)
    assert profile.fetches.tolist() == [2.0, 6.0]
    assert not br.compare_values(prog, prog, scope, {"x": X}, fetch=ACT)


def test_profiles_take_patches(mode: str) -> None:
    prog, exe = br.prune(trained(), ["loss"]), br.Executor(mode=mode)
    scope = exe.init(prog)
    for patch in ({ACT: br.patch(5.0, trips=0)}, {ACT: lambda v: v + 1.0}, {}):
        profile = exe.profile(prog, scope, {"x": X}, ["loss", ACT], patch=patch, runs=2)
        wanted = exe.run(prog, scope, {"x": X}, ["loss", ACT], patch=patch)
        for found, value in zip(profile.fetches, wanted, strict=True):
            np.testing.assert_allclose(found, value)
        assert sum(row.calls for row in profile.rows() if row.name == "loss") in (0, 2)
    with pytest.raises(br.UnknownNameError, match="lost"):
        exe.profile(prog, scope, {"x": X}, "loss", patch={"lost": 1.0})
    with pytest.raises(br.ProgramError, match="derivative of `loss`"):
        exe.profile(trained(), scope, {"x": X}, "loss", patch={ACT: 1.0})


@pytest.mark.parametrize("name", ["act", ACT])
def test_functions_of_the_main_block_name_the_probe(name: str) -> None:
    prog = trained()
    calls: list[Callable[[], Any]] = [
        lambda: prog.explain(name),
        lambda: prog.cost(name),
        lambda: br.prune(prog, [name]),
        lambda: prog.block(0).eval([name], br.Scope()),
    ]
    for call in calls:
        with pytest.raises(br.UnknownNameError, match=r"prog\.probe\('loop_0/body/act'\)"):
            call()
