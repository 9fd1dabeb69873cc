"""Layers that normalise: their parameters, and weights that are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.made import parameters, run

pytestmark = pytest.mark.unoptimized


def test_norm_layers_start_without_effect(mode: str, rng: np.random.Generator) -> None:
    without = {"scale": False, "bias": False}
    with br.Program() as prog:
        x = br.data("x", ["b", 4, 6])
        pairs = [
            (br.layer_norm(x, name="ln"), br.layer_norm(x, **without)),
            (
                br.layer_norm(x, axis=(1, 2), name="ln2", bias=False),
                br.layer_norm(x, axis=(1, 2), **without),
            ),
            (br.rms_norm(x, name="rms"), br.rms_norm(x, scale=False)),
            (br.group_norm(x, 2, name="gn"), br.group_norm(x, 2, **without)),
        ]
    assert parameters(prog) == {
        "ln.scale": "f32[6]",
        "ln.bias": "f32[6]",
        "ln2.scale": "f32[4,6]",
        "rms.scale": "f32[6]",
        "gn.scale": "f32[4]",
        "gn.bias": "f32[4]",
    }
    fed = rng.normal(size=(3, 4, 6)).astype("f4")
    got, _ = run(mode, prog, {"x": fed}, [one for pair in pairs for one in pair])
    for left, right in zip(got[::2], got[1::2], strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


def test_norms_take_the_weights_themselves_and_then_make_none(
    mode: str, rng: np.random.Generator
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4, 6])
        scale, bias = br.parameter("s", [6], 2.0), br.parameter("c", [6], 0.5)
        four = np.full(4, 2.0, "f4")
        plain = br.layer_norm(x, False, False)
        grouped = br.group_norm(x, 2, False, False)
        pairs = [
            (br.layer_norm(x, scale, bias), plain * scale + bias),
            (br.layer_norm(x, scale), plain * scale),
            (br.layer_norm(x, bias=bias), plain + bias),
            (br.layer_norm(x, scale, True, name="ln"), plain * scale),
            (br.layer_norm(x, [2.0] * 6), plain * 2.0),
            (br.rms_norm(x, scale * 2.0), br.rms_norm(x, False) * scale * 2.0),
            (br.group_norm(x, 2, four, bias=four), grouped * 2.0 + 2.0),
            (
                br.layer_norm(x, False, False, axis=None),
                br.layer_norm(x, False, False, axis=(0, 1, 2)),
            ),
        ]
    assert parameters(prog) == {"s": "f32[6]", "c": "f32[6]", "ln.bias": "f32[6]"}
    fed = rng.normal(size=(3, 4, 6)).astype("f4")
    got, _ = run(mode, prog, {"x": fed}, [one for pair in pairs for one in pair])
    for left, right in zip(got[::2], got[1::2], strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, w: br.layer_norm(x, w, params=["a"]), "creates no parameters"),
        (lambda x, w: br.group_norm(x, w), "groups"),
        (lambda x, w: br.batch_norm(x, w), r"got one.*br\.batch_norm\(x, mean, var\)"),
        (lambda x, w: br.batch_norm(x, var=w), "both running statistics, got one"),
        (lambda x, w: br.batch_norm(x, w, w, training=None), "training"),
        (lambda x, w: br.layer_norm(x, scale="w"), "expected a variable"),
    ],
)
def test_norms_refuse_and_leave_no_trace(build: Any, message: str) -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["b", 4]), br.parameter("w", [4])
        before = str(prog), str(prog.startup)
        with pytest.raises(br.BracesError, match=f"(?s){message}") as caught:
            build(x, w)
        assert "test_norm_layers.py:" in str(caught.value)
        assert (str(prog), str(prog.startup)) == before


def test_batch_norm_with_memories_of_a_loop_gives_the_next_ones(
    mode: str, rng: np.random.Generator
) -> None:
    def step(carry: Any, rows: Any) -> Any:
        out, mean, var = br.batch_norm(rows, *carry, momentum=0.5)
        return (mean, var), out

    with br.Program() as prog:
        x = br.data("x", [3, 50, 2])
        (mean, var), out = br.scan(step, (br.zeros([2]), br.ones([2])), x)
    assert parameters(prog) == {}
    assert not prog.updates
    fed = rng.normal(2.0, 3.0, size=(3, 50, 2)).astype("f4")
    (got_mean, got_var, got), _ = run(mode, prog, {"x": fed}, [mean, var, out])
    want_mean, want_var = np.zeros(2), np.ones(2)
    for rows in fed:
        want_mean = 0.5 * want_mean + 0.5 * rows.mean(0)
        want_var = 0.5 * want_var + 0.5 * rows.var(0)
    np.testing.assert_allclose(got_mean, want_mean, rtol=1e-4)
    np.testing.assert_allclose(got_var, want_var, rtol=1e-4)
    centred = fed - fed.mean(1, keepdims=True)
    np.testing.assert_allclose(got, centred / fed.std(1, keepdims=True), atol=1e-3)


def test_batch_norm_that_does_not_train_leaves_its_statistics(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        out = br.batch_norm(x, training=False, scale=False, bias=False, epsilon=0.0, name="bn")
    assert not prog.updates
    fed = np.ones((2, 3), "f4")
    got, values = run(mode, prog, {"x": fed}, out)
    np.testing.assert_allclose(got, fed)
    assert list(values) == ["bn.mean", "bn.var"]


def test_batch_norm_keeps_running_statistics(mode: str, rng: np.random.Generator) -> None:
    with br.Program() as prog:
        out = br.batch_norm(br.data("x", ["b", 3]), momentum=0.75, name="bn")
    assert parameters(prog) == {"bn.scale": "f32[3]", "bn.bias": "f32[3]"}
    assert set(prog.updates) == {"bn.mean", "bn.var"}
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(3):
        fed = rng.normal(2.0, 3.0, size=(50, 3)).astype("f4")
        got = exe.run(prog, scope, {"x": fed}, fetch=out)
        mean, var = 0.75 * mean + 0.25 * fed.mean(0), 0.75 * var + 0.25 * fed.var(0)
        np.testing.assert_allclose(got, (fed - fed.mean(0)) / fed.std(0), atol=1e-3)
    np.testing.assert_allclose(scope.var("bn.mean").value, mean, rtol=1e-4)
    np.testing.assert_allclose(scope.var("bn.var").value, var, rtol=1e-4)
    test = prog.for_test()
    assert not test.updates
    got = exe.run(test, scope, {"x": fed}, fetch=out.name)
    np.testing.assert_allclose(got, (fed - mean) / np.sqrt(var + 1e-5), rtol=1e-3, atol=1e-4)


def test_the_error_of_batch_norm_in_an_inner_block_has_a_fix() -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 3])
        before = str(prog), str(prog.startup)
        with pytest.raises(br.ProgramError, match=r"(?s)running statistics.*br\.layer_norm"):
            br.scan(lambda c, row: (c, br.batch_norm(row)), None, x)
        assert (str(prog), str(prog.startup)) == before
