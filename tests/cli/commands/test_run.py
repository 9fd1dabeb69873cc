"""`braces run`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.cli.common.feed_values import read_feeds
from braces.cli.main import main
from braces.dtypes import parse_type
from braces.extend.programs import DATA, VarInfo
from tests.cli.saved_files import forward, model, saved

TEXT = """
program {
  data x: f32[b]
  data k: i32[]
  y: f32[b] = tanh(x=x)
  z: f32[b] = exp(x=y)
  return z
}
"""


@pytest.fixture
def text_file(tmp_path: Path) -> str:
    (tmp_path / "p.txt").write_text(TEXT)
    return str(tmp_path / "p.txt")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["run", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_text_program_gives_what_it_returns(
    text_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ran(capsys, text_file, "--feed", "x=[0, 0.0]")
    assert said == {"z": {"type": "f32[2]", "value": [1.0, 1.0]}}
    assert main(["run", text_file, "--feed", "x=[0]", "--interpret"]) == 0
    assert capsys.readouterr().out == "z: f32[1]\n[1.]\n"


def test_arrays_come_from_files_and_go_to_files(tmp_path: Path, text_file: str) -> None:
    xs = np.array([0.5, 1.0], np.float32)
    np.save(tmp_path / "x.npy", xs)
    np.savez(tmp_path / "x.npz", left=xs)
    for given in ("x.npy", "x.npz:left"):
        out = str(tmp_path / "out.npz")
        feed = f"x=@{tmp_path / given}"
        assert main(["run", text_file, "--feed", feed, "--fetch", "y,z", "-o", out]) == 0
        with np.load(out) as found:
            np.testing.assert_allclose(found["y"], np.tanh(xs), rtol=1e-6)
            assert set(found.files) == {"y", "z"}
    assert not list(tmp_path.glob("*.part"))


def test_a_saved_program_is_initialised_by_its_startup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out, loss = forward()
    path = saved(program, tmp_path / "p.braces")
    feeds = ["--feed", "x=[[1,2,3]]", "--feed", "y=random"]
    said = ran(capsys, path, *feeds, "--fetch", f"{out.name},{loss.name}", "--seed", "3")
    scope = br.Scope()
    br.Executor().init(program, scope, seed=3)
    want = br.Executor().run(program, scope, {"x": [[1, 2, 3]], "y": [[0.0]]}, out)
    assert said[out.name]["value"] == want.tolist()


def test_parameters_come_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out, _ = forward()
    scope = br.Scope()
    scope.var("fc.w").set(np.zeros((3, 1), np.float32))
    scope.var("fc.b").set(np.full(1, 0.5, np.float32))
    br.save_parameters(scope, tmp_path / "w.safetensors")
    path = saved(program, tmp_path / "p.braces")
    params = ["--params", str(tmp_path / "w.safetensors")]
    said = ran(capsys, path, "--feed", "x=[[1,2,3]]", "--fetch", out.name, *params)
    np.testing.assert_allclose(said[out.name]["value"], [[np.tanh(0.5)]], rtol=1e-6)


def test_a_model_runs_its_predict_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path / "m.model")
    said = ran(capsys, path, "--feed", "x=[[1,2,3]]")
    want = br.load_model(path).run(x=[[1, 2, 3]])["out"]
    assert said == {"out": {"type": "f32[1,1]", "value": want.tolist()}}


def test_what_a_model_gives_can_be_fetched_by_the_name_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path / "m.model")
    printed = ran(capsys, path, "--feed", "x=[[1,2,3]]")
    (variable,) = br.load_model(path).entry().fetches.values()
    for name in (*printed, variable):
        said = ran(capsys, path, "--feed", "x=[[1,2,3]]", "--fetch", name)
        assert said == {name: printed["out"]}
    assert main(["run", path, "--feed", "x=[[1,2,3]]", "--fetch", "oot"]) == 1
    assert "Did you mean `out`" in capsys.readouterr().err


def test_the_training_program_of_a_model_gives_its_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path / "m.model")
    feeds = ["--feed", "x=[[1,2,3]]", "--feed", "y=[[0.5]]"]
    (loss,) = ran(capsys, path, "--program", "train", *feeds).values()
    want = br.load_model(path).run_program("train", x=[[1, 2, 3]], y=[[0.5]])
    assert loss == {"type": "f32[]", "value": want.tolist()}


def test_a_seed_draws_another_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        out = br.random.normal([2], name="out")
    scope, path = br.Scope(), str(tmp_path / "m.model")
    br.Executor().init(prog, scope, seed=3)
    br.save_model(path, prog, scope, [], [out])
    said = [ran(capsys, path, *seed) for seed in ([], ["--seed", "3"], ["--seed", "4"])]
    assert said[0] == said[1] != said[2]
    assert said[2]["out"]["value"] == br.load_model(path).run(seed=4).tolist()


def test_passes_of_compiled_runs_can_be_left_out(
    text_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran_passes: list[tuple[br.passes.Pass, ...]] = []
    run = br.Executor.run

    def noted(self: br.Executor, *given: Any, **options: Any) -> Any:
        ran_passes.append(self.passes)
        return run(self, *given, **options)

    monkeypatch.setattr(br.Executor, "run", noted)
    feed = ["--feed", "x=random:f32[5]"]
    left_out = [
        "--without",
        "vectorize_before",
        "--without",
        "vectorize_after",
        "--against",
        "interpret",
    ]
    assert main(["run", text_file, *feed, *left_out]) == 0
    compiled = br.passes.default.without("vectorize_before", "vectorize_after")
    assert ran_passes == [compiled, (br.passes.dce,)]
    with pytest.raises(SystemExit):
        main(["run", text_file, "--without", "licm"])
    assert "unknown pass of compiled runs 'licm'" in capsys.readouterr().err


def test_against_the_other_mode_or_another_program(
    tmp_path: Path, text_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = ["--feed", "x=random:f32[5]"]
    assert main(["run", text_file, *feed, "--against", "interpret"]) == 0
    other = tmp_path / "other.txt"
    other.write_text(TEXT.replace("exp(x=y)", "exp(x=x)"))
    assert main(["run", text_file, *feed, "--against", str(other)]) == 1
    out = capsys.readouterr().out
    assert "First difference: `z`" in out
    assert "op `z` (exp)" in out
    assert main(["run", text_file, *feed, "--against", str(other), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["op"] == "z"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("exp(x=y)", "sin(x=y)", "op `z` (exp)"),  # the fetched operator is another one
        ("tanh(x=x)", "sin(x=x)", "op `y` (tanh)"),  # one before it is
        ("return z", "w: f32[b] = sin(x=x)  return z", ""),  # nothing that is fetched differs
    ],
)
def test_against_a_program_with_another_operator_in_its_place(
    tmp_path: Path,
    text_file: str,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    named: str,
) -> None:
    other = tmp_path / "other.txt"
    other.write_text(TEXT.replace(old, new))
    status = main(["run", text_file, "--feed", "x=[1, 2]", "--against", str(other)])
    out = capsys.readouterr().out
    assert status == (1 if named else 0)
    assert (
        "First difference: `z`" if named else "The results are equal within the tolerances."
    ) in out
    assert named in out


def test_programs_are_compared_as_written_where_passes_take_work_out_of_loops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        xs, w = br.data("xs", [20, 2, 3]), br.data("w", [3, 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[2, 3])
            h.update(br.tanh(net.add_input(xs) @ w + h))
            net.add_output(h.pre(1))
        out = br.identity(rnn(), name="out")
    prog.save(path := str(tmp_path / "p.braces"))
    feed = ["--feed", "xs=random:f32[20,2,3]", "--feed", "w=random:f32[3,3]"]
    assert main(["run", path, *feed, "--fetch", out.name, "--against", path]) == 0
    assert capsys.readouterr().out == "The results are equal within the tolerances.\n"


def test_arrays_go_to_standard_output_and_not_to_a_folder_that_is_not_there(
    tmp_path: Path, text_file: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = ["run", text_file, "--feed", "x=[0, 0]"]
    assert main([*run, "-o", "-"]) == 0
    with np.load(io.BytesIO(capsysbinary.readouterr().out)) as found:
        np.testing.assert_array_equal(found["z"], [1.0, 1.0])
    missing = str(tmp_path / "none" / "out.npz")
    assert main([*run, "-o", missing]) == 2
    assert f"braces run: {missing}: No such file".encode() in capsysbinary.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--feed", "x"], "Use --feed NAME=VALUE"),
        (["--feed", "xx=1"], "Did you mean `x`?"),
        (["--feed", "x=one"], "cannot be read"),
        (["--feed", "x=[1]", "--fetch", "w"], "unknown name `w`"),
        ([], "missing feeds: `x`: f32[b]."),
        ([], "Add --feed x=@FILE.npy, or --feed x=random."),
        (["--feed", "x=[[1]]"], "shape mismatch of the feed `x`"),
    ],
)
def test_mistakes_are_reported(
    text_file: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", text_file, *arguments]) == 1
    assert said in capsys.readouterr().err


def test_files_with_code_in_them_are_refused(
    tmp_path: Path, text_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([print]), allow_pickle=True)
    assert main(["run", text_file, "--feed", f"x=@{tmp_path / 'x.npy'}"]) == 1
    assert "pickle" in capsys.readouterr().err
    assert main(["run", text_file, "--feed", f"x=@{tmp_path / 'none.npy'}"]) == 2


def test_the_error_of_a_run_without_fetches_lists_the_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.txt").write_text(TEXT.replace("return z", ""))
    assert main(["run", str(tmp_path / "p.txt"), "--feed", "x=[1]"]) == 1
    assert "the last variables are y, z" in capsys.readouterr().err


def test_random_feeds_take_the_sizes_of_others() -> None:
    types = {"x": "f32[b,2]", "y": "i32[b]", "z": "bool[c,b]", "c": "c64[]"}
    data = {name: VarInfo(name, parse_type(t), DATA) for name, t in types.items()}
    given = ["y=random", "x=[[1,2],[3,4],[5,6]]", "z=random", "c=random"]
    feeds = read_feeds(given, data, seed=0)
    assert feeds["y"].shape == (3,)
    assert feeds["z"].shape == (4, 3)
    assert feeds["c"].dtype == np.complex64
    again = read_feeds(given, data, seed=0)
    assert all(np.array_equal(feeds[name], again[name]) for name in feeds)


def test_completion_knows_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert "prune" in text
        assert "targets" in text
