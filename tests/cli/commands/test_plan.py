"""`braces plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import braces as br
from braces import Program
from braces.cli.main import main
from braces.planning import planner
from braces.planning.compiled_run import compile_and_report
from braces.planning.request import PlanRequest, answer_text

OPTIONS = ("--mesh", "data=2,model=2", "--dims", "batch=data", "--size", "batch=8")


@pytest.fixture
def file(tmp_path: Path) -> str:
    with br.Program() as prog:
        x = br.data("x", ["batch", 8])
        h = br.fc(x, 16, act="relu", name="up")
        br.optimizer.sgd(0.1).minimize(br.mean(br.fc(h, 4, name="down")))
    path = tmp_path / "p.braces"
    prog.save(path)
    return str(path)


@pytest.fixture(autouse=True)
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eight devices of this process do; `br.plan` has tests with another one."""

    def asked(question: PlanRequest, timeout_s: float) -> str:
        assert timeout_s == planner.TIMEOUT_S
        definition = Program.from_bytes(question.program).definition
        return answer_text(
            compile_and_report(definition, question.layout, question.fetches, question.sizes)
        )

    monkeypatch.setattr(planner, "_run_worker", asked)


def test_options_say_how_all_lies(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    params = "--params", "up.w=,model", "--params", "down.w=model,", "--fsdp", "data"
    assert main(["plan", file, *OPTIONS, *params, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["mesh"] == {"data": 2, "model": 2}
    lies = {one["name"]: one["sharding"] for one in told["values"]}
    assert lies["x"] == "data, -"
    assert lies["up.w"] == "data, model"
    assert lies["down.w"] == "model, data"
    assert {one["device"] for one in told["estimates"]} >= {"h100", "v5e"}
    assert told["collectives"][0]["operators"]


def test_tables_and_a_page(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "plan.html"
    assert (
        main(["plan", file, *OPTIONS, "-o", str(page), "--rows", "2", "--device", "b200"]) == 0
    )
    said = capsys.readouterr().out
    assert said.startswith("a run on 4 devices: data=2, model=2; batch=8")
    assert "and 4 more" in said
    assert "b200" in said
    assert "h100" not in said
    assert said.splitlines()[-1].startswith(f"page: {page}")
    assert "down.w" in page.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mesh", "data"), "invalid value 'data'"),
        (("--mesh", "data=x"), "invalid or duplicate axis data=x"),
        (("--mesh", "data=2,data=2"), "invalid or duplicate axis data=2"),
        (("--mesh", "data=0"), "invalid mesh axis 'data': 0"),
        (("--mesh", "data=2", "--dims", "batch"), "invalid value 'batch'"),
        (("--mesh", "data=2", "--params", "up.w"), "invalid value 'up.w'"),
        (("--mesh", "data=2", "--size", "batch"), "invalid size 'batch'"),
        (("--mesh", f"data={'9' * 5000}"), "invalid or duplicate axis data=999"),
        (("--mesh", "data=2", "--timeout", "0"), "invalid time '0'; expected seconds"),
        (("--mesh", "data=2", "--timeout", "soon"), "invalid time 'soon'; expected seconds"),
        (("--mesh", "data=2", "--device", "pc"), "invalid choice"),
        (("--mesh", "data=2", "-o", "/no/such/folder/p.html"), "No such file"),
        ((), "--mesh"),
    ],
)
def test_bad_usage(
    file: str, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["plan", file, *options])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--mesh", "data=2", "--size", "batch=8", "--dims", "batch=model"),
            "mesh axis 'model'",
        ),
        (("--mesh", "data=2", "--size", "batch=8", "--dims", "bach=data"), "'bach'"),
        (("--mesh", "data=2", "--size", "bach=8"), "no dimension `bach`"),
        (("--mesh", "data=2"), "--size batch="),
        (
            ("--mesh", "data=3", "--size", "batch=8", "--dims", "batch=data"),
            "batch=8 on 3 devices",
        ),
        (("--mesh", "data=9999", "--size", "batch=8"), "unsupported mesh for a plan"),
        (("--mesh", "data=2", "--size", "batch=8", "--fetch", "z"), "unknown name `z`"),
    ],
)
def test_what_does_not_fit_the_program(
    file: str, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", file, *options]) == 1
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b"\x00\x01no program")
    assert main(["plan", str(path), *OPTIONS]) in (1, 2)
    assert main(["plan", str(tmp_path / "none"), *OPTIONS]) == 2
    assert "Error" in capsys.readouterr().err
