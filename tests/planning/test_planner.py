"""`br.plan`: a process with virtual devices, and errors before its start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.planning import planner
from braces.planning.compiled_run import compile_and_report
from braces.planning.report import PlanReport
from braces.planning.request import PlanRequest, answer_text, read_answer
from braces.report import Sheet, Table

LAYOUT = br.Layout(br.Mesh({"data": 4}), {"batch": "data"}, fsdp="data")


def program() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["batch", 8])
        br.optimizer.adam(0.1).minimize(br.mean(br.fc(x, 4, name="up")))
    return prog


@pytest.fixture(scope="module")
def report() -> PlanReport:
    return br.plan(program(), LAYOUT, {"batch": 64}, device="h100")


def test_a_plan_of_another_process_equals_that_of_this_one(report: PlanReport) -> None:
    prog = program()
    here = compile_and_report(prog.definition, LAYOUT, (), {"batch": 64})
    assert report.values == here.values
    assert report.collectives[0].bytes == here.collectives[0].bytes
    assert (report.counts, report.memory) == (here.counts, here.memory)
    assert report.devices == 4
    assert [one.device for one in report.estimates] == ["h100"]


def test_a_plan_is_shown_and_saved(report: PlanReport, tmp_path: Path) -> None:
    text = str(report)
    assert text.startswith("a run on 4 devices: data=4; batch=64")
    for said in (
        "up.w",
        "all-reduce",
        "h100",
        "estimated time of a step",
        "note: Estimated from",
    ):
        assert said in text
    assert "up.w" in report.html()
    data = json.loads(json.dumps(report.data()))
    assert {"memory", "collectives", "estimates", "values", "warnings"} <= data.keys()
    report.save(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "largest values" in page
    with pytest.raises(OSError, match="no-such"):
        report.save(tmp_path / "no-such" / "plan.html")


def test_what_does_not_fit_is_said(report: PlanReport) -> None:
    assert not report.warnings()
    large = replace(report, memory={"peak": 90 * 10**9}, kinds=("h100", "h200"))
    (warning,) = large.warnings()
    assert "h100 (80 GB)" in warning
    assert "h200" not in warning
    assert f"note: {warning}" in str(large)


def test_names_are_escaped_where_they_are_shown() -> None:
    table = Table("t", ["name"], [["<script>"], ["a\x1b[31m" + "b" * 99]])
    assert "<script>" not in table.html()
    shown = Sheet([], [table.limit_rows(None)], []).text()
    assert "\x1b" not in shown
    assert shown.count("b") < 60


# ---- what is refused -------------------------------------------------------------------------


def refused(match: str, error: type[Exception], *given: Any, **named: Any) -> None:
    with pytest.raises(error, match=match):
        br.plan(*given, **named)


def test_what_does_not_fit_together_is_refused_at_once() -> None:
    prog, sizes = program(), {"batch": 64}

    def laid(*args: Any, **named: Any) -> br.Layout:
        return br.Layout(br.Mesh({"data": 4}), *args, **named)

    refused("program, then a layout", br.ProgramError, LAYOUT, prog)
    refused("unsupported mesh", br.LayoutError, prog, br.Layout(br.Mesh({"d": -1})), sizes)
    refused("unsupported mesh", br.LayoutError, prog, br.Layout(br.Mesh({"d": 5000})), sizes)
    refused("'bach'", br.LayoutError, prog, laid({"bach": "data"}), sizes)
    refused("'up.v'", br.LayoutError, prog, laid(None, {"up.v": ("data", None)}), sizes)
    refused("1 axes", br.LayoutError, prog, laid(None, {"up.w": ("data",)}), sizes)
    refused(r"(?s)size `batch` of `x`.*--size", br.ShapeError, prog, LAYOUT)
    refused("no dimension `batc`", br.UnknownNameError, prog, LAYOUT, {"batc": 1})
    refused("sharded evenly: batch=66 on 4", br.ShapeError, prog, LAYOUT, {"batch": 66})
    refused("for the size `batch`, got '8'", br.ShapeError, prog, LAYOUT, {"batch": "8"})
    refused("unknown fetch `los`", br.UnknownNameError, prog, LAYOUT, sizes, fetch="los")
    refused("unknown device 'v99'", br.DeviceError, prog, LAYOUT, sizes, device="v99")
    refused("invalid timeout_s=0;", br.ProgramError, prog, LAYOUT, sizes, timeout_s=0)
    refused(
        "invalid timeout_s=nan;", br.ProgramError, prog, LAYOUT, sizes, timeout_s=float("nan")
    )
    refused(
        "no fetches and no updates", br.ProgramError, br.Program(), br.Layout(br.Mesh({"d": 2}))
    )


def test_a_process_that_takes_too_long_is_ended() -> None:
    refused("took longer than 0.05 s", br.RunError, program(), LAYOUT, {"batch": 8},
            timeout_s=0.05)  # fmt: skip


@pytest.mark.parametrize(
    ("status", "said"),
    [(-int(signal.SIGKILL), "by SIGKILL"), (3, "status 3"), (0, "status 0")],
)
def test_the_death_of_the_planning_process_is_an_error(
    status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Any, **named: Any) -> Any:
        return subprocess.CompletedProcess(command, status, "", "line\nout of luck\n")

    monkeypatch.setattr(planner.subprocess, "run", run)
    refused(rf"(?s){said}.*out of luck", br.RunError, program(), LAYOUT, {"batch": 8})


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    refused(
        "cannot start the planning process", br.DeviceError, program(), LAYOUT, {"batch": 8}
    )


def test_errors_of_the_other_process_are_of_the_same_class() -> None:
    error = br.ShapeError("It is wrong.", at="there", given="this", fix="Do that.")
    with pytest.raises(br.ShapeError, match=r"(?s)wrong.*there.*this.*Do that"):
        read_answer(answer_text(error))


def test_a_request_survives_serialization() -> None:
    layout = br.Layout(
        br.Mesh({"a": 2, "b": 3}), {"n": ("a", "b")}, {"*.w": (None, ("a", "b"))}, fsdp="a"
    )
    asked = PlanRequest(b"\x00\xff", layout, ("y",), {"n": 6})
    assert PlanRequest.from_json(asked.to_json()) == asked


ORPHANED = """
import os, subprocess, sys, time
code = "import os, time; from braces.planning import worker;" \
       "from threading import Thread; Thread(target=worker._end_with_parent," \
       "args=(os.getppid(),)).start(); print(os.getpid(), flush=True)"
made = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
print(made.stdout.readline(), flush=True)
os._exit(0)
"""


@pytest.mark.thorough
def test_a_process_whose_parent_is_gone_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHANED], capture_output=True, text=True, check=True, timeout=60
    )
    deadline = time.monotonic() + 20
    while _is_there(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_there(int(done.stdout))


def _is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
