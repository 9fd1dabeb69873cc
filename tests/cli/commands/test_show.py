"""`braces show`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces import save_model, save_parameters
from braces.cli.main import main
from braces.extend.programs import parse_program
from braces.passes.registry import PASSES


def nested() -> tuple[br.Program, br.Var]:
    with br.Program() as prog:
        x = br.data("x", ["t", "batch", 4])
        w = br.parameter("w", [4, 4], init=1.0)
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[4], batch_like=x, batch_axis=1)
            h.update(br.tanh(br.matmul(net.add_input(x), w) + h))
        last = rnn.final(h)
    return prog, last


@pytest.fixture
def program_file(tmp_path: Path) -> str:
    prog, _ = nested()
    prog.save(tmp_path / "prog.braces")
    return str(tmp_path / "prog.braces")


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    prog, last = nested()
    scope = br.Scope()
    scope.var("w").set([[1.0] * 4] * 4)
    save_model(tmp_path / "m.model", prog, scope, feeds=["x"], fetches=[last])
    return str(tmp_path / "m.model")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["show", *arguments]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return json.loads(shown(capsys, "--json", *arguments))


def test_blocks_are_shown_in_each_other(
    program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, program_file).splitlines()
    body = next(line for line in lines if "loop_0 (loop) body" in line)
    assert body.startswith("    loop_0 (loop) body (")
    assert body.endswith("{ 3 operators  captures w")
    assert any(
        line.split() == ["w", "parameter", "f32[4,4]", "16", "64", "B"] for line in lines
    )
    assert "\033" not in "".join(lines)


def test_json_has_the_same_content(
    program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = as_json(capsys, program_file)
    program = said["programs"]["program"]
    assert said["kind"] == "program"
    assert said["bytes"] == Path(program_file).stat().st_size
    assert program["op_counts"]["matmul"] == 1
    assert program["ops"] == sum(program["op_counts"].values()) == 5
    assert program["data"] == {"x": "f32[t,batch,4]"}
    (loop,) = program["blocks"]["blocks"]
    assert (loop["owner"], loop["block"], loop["captures"]) == ("loop_0", "body", ["w"])


def test_the_text_form_reads_back(
    program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prog, _ = nested()
    assert parse_program(shown(capsys, "--text", program_file)) == prog.definition


def test_a_model_shows_its_programs_and_arrays(
    model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = as_json(capsys, model_file)
    assert said["kind"] == "model"
    assert list(said["programs"]) == ["predict"]
    assert said["arrays"] == [{"name": "w", "type": "f32[4,4]", "numbers": 16, "bytes": 64}]
    text = shown(capsys, model_file)
    assert "1 variable  16 numbers, 64 B" in text
    assert "  w  parameter  f32[4,4]" in text


def test_a_model_that_can_be_trained_tells_parameters_from_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        y = br.data("x", [4]) * br.parameter("w", [4])
        steps = br.state("steps", [])
        prog.update("steps", (steps + 1.0).name)
    scope = br.Scope()
    br.Executor().init(prog, scope)
    save_model(tmp_path / "m.model", prog, scope, feeds=["x"], fetches=[y])
    lines = shown(capsys, str(tmp_path / "m.model")).splitlines()
    assert [line.split()[:2] for line in lines[-2:]] == [["w", "parameter"], ["steps", "state"]]


def test_what_a_program_gives_is_shown_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [4])
        y = br.data("x", [4]) * w
        br.optimizer.sgd(0.1).minimize(br.sum(y, name="loss"))
    scope, path = br.Scope(), tmp_path / "m.model"
    br.Executor().init(prog, scope)
    save_model(path, prog, scope, feeds=["x"], fetches={"best": y})
    programs = as_json(capsys, str(path))["programs"]
    assert programs["predict"]["gives"] == {"best": "f32[4]"}
    assert programs["train"]["gives"] == {"loss": "f32[]"}
    assert "fetch best: f32[4]" in shown(capsys, str(path))
    prog.save(tmp_path / "p.braces")
    assert "fetch loss: f32[]" in shown(capsys, str(tmp_path / "p.braces"))


def test_a_file_of_parameters_shows_its_arrays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scope = br.Scope()
    scope.var("w").set([1.0, 2.0])
    path = str(tmp_path / "w.safetensors")
    save_parameters(scope, path)
    said = as_json(capsys, path)
    assert (said["kind"], said["programs"]) == ("arrays", {})
    assert [array["name"] for array in said["arrays"]] == ["w"]
    assert "w  array" in shown(capsys, path)


def test_the_standard_input_may_be_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prog, _ = nested()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(str(prog).encode())))
    assert as_json(capsys, "-")["kind"] == "text"


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 40, b"\xff" * 40, b"program {", b"\x08\0\0\0\0\0\0\0{", b"not one"]
)
def test_a_file_that_is_nothing_of_ours_ends_with_1(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "strange"
    path.write_bytes(data)
    assert main(["show", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Error: " in said.err.splitlines()[0]


def test_a_folder_is_bad_usage(tmp_path: Path) -> None:
    assert main(["show", str(tmp_path)]) == 2


def test_a_damaged_program_is_an_error_and_never_a_traceback(
    program_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(program_file).read_bytes()
    path = tmp_path / "damaged"
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert main(["show", str(path)]) in (0, 1)
    capsys.readouterr()


# ---- folded ----------------------------------------------------------------------------------


@pytest.fixture
def trained(tmp_path: Path) -> tuple[str, br.Program]:
    """A program of two blocks, one of them longer than what is shown whole, and its file."""
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("short"):
            y = br.tanh(br.fc(x, 4, name="fc"))
        br.optimizer.adam().minimize(br.mean(y, name="loss"))
    path = str(tmp_path / "trained.braces")
    prog.save(path)
    return path, prog


def test_a_long_block_is_a_line_of_the_text(
    trained: tuple[str, br.Program], capsys: pytest.CaptureFixture[str]
) -> None:
    path, prog = trained
    for said in ("--text", "--after=verify"):
        text = shown(capsys, said, path)
        (line,) = (line for line in text.splitlines() if "= block(…)" in line)
        count = len(prog.blocks[-1].ops)
        begins = f"  adam = block(…) {{ … {count} operators; return adam/where_0: i32[], adam/"
        assert line.startswith(begins)
        assert ", … 4 more }  # " in line
        assert "short/tanh_0: f32[b,4] = tanh(" in text
        assert "update short/fc.w = adam/" in text


def test_a_folded_text_is_unfolded_and_reads_back(
    trained: tuple[str, br.Program],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, prog = trained
    for how in (["--unfold"], ["--text", "--unfold"], ["--after=verify", "--unfold"]):
        assert parse_program(shown(capsys, *how, path)) == prog.definition
    folded = tmp_path / "folded.txt"
    folded.write_text(shown(capsys, "--text", path))
    assert main(["show", str(folded)]) == 1
    assert "--text --unfold" in capsys.readouterr().err


def test_layers_are_a_list_where_a_program_is_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def text(layers: int) -> str:
        with br.Program() as prog:
            x = br.data("x", [4])
            for _ in range(layers):
                with br.block("layer"):
                    for _ in range(12):
                        x = br.tanh(x)
            br.tanh(x)
        path = str(tmp_path / "p.braces")
        prog.save(path)
        return shown(capsys, "--text", path)

    assert "…" not in text(3)
    boxes = text(12).splitlines()[2:-2]  # less the data, and what stands behind them
    names = ["layer", *(f"layer_{i}" for i in range(1, 12))]
    assert [line.split("  # ")[0] for line in boxes] == [
        f"  {name} = block(…) {{ … 12 operators; return {name}/tanh_11: f32[4] }}"
        for name in names
    ]


def test_a_block_that_gives_nothing_is_folded_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        with br.block("outer"), br.block("inner"):
            for _ in range(41):
                x = br.tanh(x)
    path = str(tmp_path / "p.braces")
    prog.save(path)
    text = shown(capsys, "--text", path)
    assert "  outer = block(…) { … 42 operators }" in text
    assert len(text.splitlines()) == 4


def test_blocks_are_a_line_each_of_the_summary(
    trained: tuple[str, br.Program], capsys: pytest.CaptureFixture[str]
) -> None:
    path, prog = trained
    lines = shown(capsys, path).splitlines()
    assert "    short (block) { 3 operators }" in lines
    assert f"    adam (block) {{ {len(prog.blocks[-1].ops)} operators }}" in lines


# ---- after a pass ----------------------------------------------------------------------------

TWO = """
program {
  data x: f32[3]
  data other: f32[3]
  y: f32[3] = tanh(x=x)
  z: f32[3] = exp(x=other)
  return y
}
"""


def test_a_program_is_shown_after_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.braces"
    path.write_text(TWO)
    text = shown(capsys, "--after", "dce", str(path))
    assert parse_program(text) == br.passes.dce(br.parse(TWO)).definition
    assert "other" not in text
    assert shown(capsys, "--text", "--after", "dce", str(path)) == text
    assert shown(capsys, "--after", "verify", str(path)) == str(br.parse(TWO))
    said = as_json(capsys, "--after", "dce", str(path))["programs"]["program"]
    assert (said["ops"], said["gives"]) == (1, {"y": "f32[3]"})


def test_what_nobody_reads_is_wanted_where_a_program_says_nothing(
    program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "--after", "dce", program_file)
    assert "return loop_0" in text
    assert "tanh" in text


def test_all_programs_of_a_model_are_shown_after_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        y = br.data("x", [4]) * br.parameter("w", [4])
        br.optimizer.sgd(0.1).minimize(br.sum(br.dropout(y, 0.5), name="loss"))
    scope, path = br.Scope(), str(tmp_path / "m.model")
    br.Executor().init(prog, scope)
    save_model(path, prog, scope, feeds=["x"], fetches={"best": y})
    text = shown(capsys, "--after", "for_test", path)
    assert "# predict\n" in text
    assert "# train\n" in text
    assert "training=true" not in text
    assert "training=true" in shown(capsys, "--text", path)
    programs = as_json(capsys, "--after", "dce", path)["programs"]
    assert programs["predict"]["gives"] == {"best": "f32[4]"}


def test_an_unknown_pass_is_bad_usage_and_all_are_listed(
    program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("elimnate", "", "a\x1b[31m"):
        with pytest.raises(SystemExit) as stopped:
            main(["show", "--after", name, program_file])
        assert stopped.value.code == 2
        said = capsys.readouterr()
        assert f"unknown pass {name!r}" in said.err
        assert ", ".join(PASSES) in said.err
        assert (said.out, "\x1b" in said.err) == ("", False)


@pytest.mark.parametrize(
    ("words", "wrong", "way_out"),
    [
        ("gradients", "gradients requires arguments", "write gradients:TARGET,INPUT,..."),
        ("checkpoint:", "checkpoint requires arguments", "write checkpoint:TRIPS,LOOP,..."),
        ("gradients:y", "missing input for the gradient of `y`.", "TARGET,INPUT"),
        (
            "jvp:y",
            "expected pairs of an input and its tangent",
            "write jvp:TARGET,INPUT,TANGENT",
        ),
        (
            "jvp:y,x",
            "expected pairs of an input and its tangent",
            "write jvp:TARGET,INPUT,TANGENT",
        ),
        (
            "ragged_steps:x",
            "missing loops for the lengths `x`.",
            "write ragged_steps:LENGTHS,LOOP",
        ),
        ("checkpoint:x", "invalid argument every='x'", "write checkpoint:TRIPS,LOOP"),
    ],
)
def test_a_pass_without_the_words_that_it_needs_is_bad_usage_with_the_way_out(
    words: str, wrong: str, way_out: str, program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", "--after", words, program_file])
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert wrong in said.err
    assert way_out in said.err
    assert not said.out


def test_lengths_that_there_are_not_are_refused_where_there_is_no_loop_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.braces"
    path.write_text(TWO)
    assert main(["show", "--after", "ragged_steps:yy,loop_0", str(path)]) != 0
    said = capsys.readouterr()
    assert "unknown variable `yy`." in said.err
    assert "Did you mean `y`" in said.err
    assert not said.out


def test_a_pass_takes_words(program_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--after", "checkpoint:2", program_file)
    assert text.count("= loop(") == 3
    assert shown(capsys, "--after", "checkpoint:2,loop_7", program_file).count("= loop(") == 1


def test_a_derivative_is_one_more_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.braces"
    path.write_text(TWO)
    text = shown(capsys, "--after", "gradients:y,x,other", str(path))
    assert "return y, x_grad, other_grad" in text
    said = as_json(capsys, "--after", "jvp:y,x,other", str(path))["programs"]["program"]
    assert said["gives"] == {"y": "f32[3]", "y_tangent": "f32[3]"}
    assert main(["show", "--after", "gradients:u,x", str(path)]) == 1
    assert "unknown variable `u`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    [
        "checkpoint",
        "checkpoint:",
        "checkpoint:0",
        "checkpoint:x",
        "prune:1",
        "gradients",
        "jvp:,x",
    ],
)
def test_words_that_a_pass_does_not_take_are_bad_usage(
    given: str, program_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", "--after", given, program_file])
    assert stopped.value.code == 2
    assert given in capsys.readouterr().err


def test_a_pass_is_named(program_file: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", program_file, "--after"])
    assert stopped.value.code == 2


def test_the_help_lists_passes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert all(name in said for name in PASSES)


def test_a_file_without_programs_has_nothing_to_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scope, path = br.Scope(), str(tmp_path / "w.safetensors")
    scope.var("w").set([1.0, 2.0])
    save_parameters(scope, path)
    assert main(["show", "--after", "dce", path]) == 1
    assert "has arrays, and no programs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 40, b"program {", b"program { y: f32[] = a() }"]
)
def test_a_bad_file_is_an_error_with_a_pass_too(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "strange"
    path.write_bytes(data)
    assert main(["show", "--after", "licm", str(path)]) == 1
    assert "Error: " in capsys.readouterr().err.splitlines()[0]
    assert main(["show", "--after", "licm", str(tmp_path / "nowhere")]) == 2


# ---- pages -----------------------------------------------------------------------------------


def test_a_page_has_the_values_of_the_file_and_with_feeds_gradients(
    model_file: str, program_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert shown(capsys, model_file, "--html", str(page)) == ""
    text = page.read_text(encoding="utf-8")
    assert "<summary>Parameters (1)</summary>" in text
    assert "all 1</span>" in text
    assert "<summary>Gradients" not in text
    for given in ([model_file], [program_file, "--fetch", "loop_0.final"]):
        shown(capsys, *given, "--html", str(page), "--feed", "x=random:f32[2,3,4]")
        assert "<summary>Gradients (1)</summary>" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    assert main(["show", model_file, "--html", str(page), "--program", "trian"]) == 1
    assert main(["show", model_file, "--html", str(page), "--feed", "z=1"]) == 1
    assert page.read_bytes() == before
