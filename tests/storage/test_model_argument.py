"""A loaded model, or another value, in place of a program; and values in place of paths."""

import jax
import numpy as np
import onnxruntime
import pytest

import braces as br

FEED = {"x": np.ones((2, 4), "float32")}


@pytest.fixture(scope="module")
def trained():
    with br.Program() as prog:
        x, t = br.data("x", ["n", 4]), br.data("t", ["n", 3])
        y = br.fc(x, 3, name="out")
        br.optimizer.adam(0.1).minimize(br.mean((y - t) ** 2))
    scope = br.Scope()
    br.Executor().init(prog, scope)
    return prog, scope, y


@pytest.fixture(scope="module")
def model(trained, tmp_path_factory):
    prog, scope, y = trained
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    br.save_model(path, prog, scope, ["x"], {"scores": y})
    return br.load_model(path)


def test_a_model_exports_to_onnx_with_its_parameters_and_the_names_of_its_fetches(
    model, tmp_path
):
    br.to_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [output.name for output in session.get_outputs()] == ["scores"]
    np.testing.assert_allclose(session.run(None, FEED)[0], model.run(FEED)["scores"], rtol=1e-5)


def test_the_keys_of_fetches_name_the_outputs_of_an_onnx_model(trained, tmp_path):
    prog, scope, y = trained
    names = {"a": y, "b": y, y.name: y}
    br.to_onnx(prog, tmp_path / "m.onnx", scope=scope, fetches=names)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [output.name for output in session.get_outputs()][:2] == ["a", "b"]
    expected = br.Executor().run(prog.for_test(), scope, FEED, y)
    for got in session.run(None, FEED):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    imported, values = br.from_onnx(tmp_path / "m.onnx")
    assert imported.fetches[:2] == ("a", "b")
    assert {"out.w", "out.b"} <= values.keys()


def test_a_model_exports_to_stablehlo_with_its_parameters(model, tmp_path):
    br.to_stablehlo(model, tmp_path / "m.hlo")
    exported = jax.export.deserialize(bytearray((tmp_path / "m.hlo").read_bytes()))
    (scores,), _, _ = exported.call({}, FEED)
    np.testing.assert_allclose(scores, model.run(FEED)["scores"], rtol=1e-5)


def test_a_model_is_read_like_its_program(model, trained):
    assert br.verify(model) == []
    assert not br.diff(model, model.program())
    assert br.diff(trained[0], model)
    assert not br.compare_values(model, model, feed=FEED)
    assert not br.compare_values(
        model, trained[0].for_test(), (None, trained[1]), feed=FEED, fetch="out"
    )
    layout = br.Layout(br.Mesh({"data": 2}), {"n": "data"})
    assert br.plan(model, layout, {"n": 4}).values


def test_other_functions_name_the_program_and_the_scope_of_a_model(model, tmp_path):
    exe = br.Executor()
    calls = (
        lambda: br.prune(model, ["scores"]),
        lambda: br.cut(model, "out"),
        lambda: br.save_model(tmp_path / "m", model, model.scope, ["x"], ["out"]),
        lambda: exe.run(model, model.scope, FEED),
        lambda: exe.evaluate(model, model.scope, FEED),
        lambda: exe.init(model),
        lambda: exe.feeds(model, [FEED]),
    )
    for call in calls:
        with pytest.raises(br.errors.ProgramError, match="Pass model") as caught:
            call()
        assert "model.scope" in str(caught.value)
        assert "<Model: predict(x: f32[n,4])" in str(caught.value)


def test_a_missing_attribute_of_a_model_names_that_of_its_program(model):
    for name in ("cost", "find", "for_test", "to_html", "frozen"):
        with pytest.raises(AttributeError, match=rf"Use model\.program\(\)\.{name}\."):
            getattr(model, name)
    with pytest.raises(AttributeError, match="Model has no attribute `scop`"):
        _ = model.scop


def test_swapped_arguments_name_the_call(trained, tmp_path):
    prog, scope, y = trained
    path = str(tmp_path / "f")
    calls = {
        r"br\.save_parameters\(scope, path\)": lambda: br.save_parameters(path, scope),
        r"br\.load_parameters\(scope, path\)": lambda: br.load_parameters(path, scope),
        r"br\.save_checkpoint\(scope, folder": lambda: br.save_checkpoint(path, scope, 1),
        r"br\.load_checkpoint\(scope, folder": lambda: br.load_checkpoint(path, scope),
        r"br\.save_model\(path, program, sc": lambda: br.save_model(prog, path, scope, [], [y]),
        r"br\.to_onnx\(program, path\)": lambda: br.to_onnx(path, prog),
        r"br\.to_stablehlo\(program, path\)": lambda: br.to_stablehlo(path, prog),
        r"br\.prune\(program, targets\)": lambda: br.prune(y, prog),
        r"Checkpoint\(folder\)\.save\(scope": lambda: br.Checkpoint(path).save(1, scope),
        r"Checkpoint\(folder\)\.save_now\(s": lambda: br.Checkpoint(path).save_now(1, scope),
        r"Checkpoint\(folder\)\.restore\(sc": lambda: br.Checkpoint(path).restore(path),
    }
    for wanted, call in calls.items():
        with pytest.raises(br.errors.BracesError, match=wanted):
            call()


def test_a_value_in_place_of_a_path_is_named(trained):
    prog, scope, _ = trained
    calls = (
        lambda: br.load_model(scope),
        lambda: br.load_parameters(scope, prog),
        lambda: br.save_parameters(scope, scope),
        lambda: prog.save(scope),
        lambda: br.Program.load(scope),
        lambda: prog.to_html(scope),
    )
    for call in calls:
        with pytest.raises(br.errors.ProgramError, match="expected a path, got <") as caught:
            call()
        assert "pathlib.Path" in str(caught.value)
