"""Log files, progress and curves of `br.fit`."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
import sys
import time
import types
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.fitting.history import History, curves_svg, sparkline
from braces.fitting.progress import DRAWN_PER_S, Progress
from braces.fitting.tensorboard import crc32c, masked_crc32c
from tests.fitting.nets import STEPS, fit


class Stop(br.Callback):
    """A callback that fails at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, run: Any, step: Any) -> None:
        if step.number == self.step:
            raise RuntimeError("mine")


def logged(log_folder: Path, **options: Any) -> Any:
    """Fit with a log file of each kind."""
    files = [log_folder / name for name in ("log.jsonl", "log.csv", "board")]
    return fit(log_files=files, log_every=3, **options)


def read_events(folder: Path) -> list[tuple[int, str, float]]:
    """Read step, tag and value of the scalars, with a reader for these fields alone."""
    (path,) = folder.glob("events.out.tfevents.*")
    content, at, scalars = path.read_bytes(), 0, list[tuple[int, str, float]]()
    while at < len(content):
        length, crc = struct.unpack_from("<QI", content, at)
        event = content[at + 12 : at + 12 + length]
        assert crc == masked_crc32c(content[at : at + 8])
        assert struct.unpack_from("<I", content, at + 12 + length)[0] == masked_crc32c(event)
        fields = dict(read_fields(event))
        for _, value in read_fields(fields.get(5, b"")):
            parts = dict(read_fields(value))
            scalars.append((fields[2], parts[1].decode(), struct.unpack("<f", parts[2])[0]))
        at += 12 + length + 4
    return scalars


def read_fields(message: bytes) -> list[tuple[int, Any]]:
    """Read the fields of a protobuf message."""
    at, fields = 0, list[tuple[int, Any]]()

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at, number, shift = at + 1, number | (byte & 127) << shift, shift + 7
            if byte < 128:
                return number

    while at < len(message):
        tag = varint()
        kind, size = tag & 7, {1: 8, 5: 4}.get(tag & 7, 0)
        if kind == 0:
            fields.append((tag >> 3, varint()))
            continue
        size = varint() if kind == 2 else size
        fields.append((tag >> 3, message[at : at + size]))
        at += size
    return fields


# ---- log files ----


def test_log_files_have_the_rows_of_the_history(tmp_path: Path) -> None:
    run = logged(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line for line in lines if "epoch" in line] == run.history.rows
    steps = [line["step"] for line in lines if "epoch" not in line]
    assert steps == list(range(3, 3 * STEPS + 1, 3))
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in row.items()} for row in rows] == run.history.rows
    events = read_events(tmp_path / "board")
    losses = [value for _, tag, value in events if tag == "val_loss"]
    assert losses == pytest.approx(run.history["val_loss"], rel=1e-6)
    assert [step for step, tag, _ in events if tag == "step/loss"] == steps


def test_rows_beyond_the_checkpoint_are_removed_after_a_resume(tmp_path: Path) -> None:
    whole, parts, job = tmp_path / "whole", tmp_path / "parts", tmp_path / "job"
    logged(whole)
    with pytest.raises(RuntimeError):
        logged(parts, folder=job, callbacks=[Stop(2 * STEPS + 1)])
    with open(parts / "log.jsonl", "a") as file:  # as a killed process leaves it
        file.write('{"step": 18, "loss": 9.0}\n{"epoch": 3, "step": 21}\n{"epo')
    with open(parts / "log.csv", "a") as file:
        file.write("3,21,9.0\n3,")
    (events,) = (parts / "board").glob("*")
    with open(events, "ab") as file:
        file.write(events.read_bytes()[-20:])
    logged(parts, folder=job)
    for name in ("log.jsonl", "log.csv"):
        assert (parts / name).read_text() == (whole / name).read_text()
    assert read_events(parts / "board") == read_events(whole / "board")


def test_a_new_run_begins_new_log_files(tmp_path: Path) -> None:
    for _ in range(2):
        logged(tmp_path, epochs=1)
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 2
    assert len([s for s, tag, _ in read_events(tmp_path / "board") if tag == "loss"]) == 1


def test_the_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


# ---- curves ----


def test_curves_are_valid_svg_with_a_point_for_each_finite_value() -> None:
    image = curves_svg({"loss <a>": [3.0, math.nan, 1.0], "val": [2.0, 2.0, math.inf]})
    root = ET.fromstring(image)
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == 4
    assert "loss <a>" in "".join(root.itertext())
    ET.fromstring(curves_svg({}))
    ET.fromstring(curves_svg({"loss": [1.0]}))


def test_sparklines_have_a_character_for_each_value() -> None:
    assert sparkline([1.0, 2.0, 3.0]) == "▁▄█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([math.nan, 1.0]) == " ▁"
    assert sparkline([]) == ""


def test_a_history_shows_its_curves() -> None:
    history = fit().history
    assert repr(history).startswith("<History: 3 epochs, loss ")
    assert str(history).splitlines()[-1] == "3 epochs"
    html = history._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html.count("<tr>") == 4
    assert "<svg" in html
    with pytest.raises(br.UnknownNameError, match="`los`"):
        history["los"]
    assert repr(History()) == "<History: 0 epochs>"
    assert "<svg" in History()._repr_html_()  # pyright: ignore[reportPrivateUsage]


# ---- progress ----


def shown(monkeypatch: pytest.MonkeyPatch, stream: Any, **options: Any) -> str:
    """Return the progress of a fit on standard error."""
    monkeypatch.setattr(sys, "stderr", stream)
    fit(quiet=False, **options)
    return stream.getvalue()


def test_without_a_terminal_each_epoch_is_one_plain_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braces.fitting.progress.ANNOUNCED_AFTER_S", 600.0)
    lines = shown(monkeypatch, io.StringIO(), folder=tmp_path).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert "val_loss" in lines[0]
    assert "steps/s" in lines[0]
    assert "\x1b" not in "".join(lines)
    resumed = shown(monkeypatch, io.StringIO(), folder=tmp_path, epochs=4).splitlines()
    assert resumed[0] == f"resumed at step {3 * STEPS} from {tmp_path}"
    assert resumed[1].startswith("epoch 4/4")


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    text = shown(monkeypatch, Terminal())
    assert "epoch 3/3" in text
    assert f"━ {STEPS}/{STEPS}" in text
    assert DRAWN_PER_S <= 10


def test_quiet_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    fit()
    assert not stream.getvalue()


def test_a_long_compilation_is_announced_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("braces.fitting.progress.ANNOUNCED_AFTER_S", 0.0)
    stream = io.StringIO()
    progress = Progress(stream)

    class Slow(br.Callback):
        def on_start(self, run: Any) -> None:
            progress.on_start(run)
            time.sleep(0.2)

    fit(callbacks=[Slow()])
    assert stream.getvalue() == "compiling …\n"


def test_the_bar_shows_compilation_then_rate_and_remaining_time() -> None:
    progress, texts = Progress(Terminal()), list[str]()

    class Reader(br.Callback):
        def on_start(self, run: Any) -> None:
            progress.on_start(run)
            progress._live.stop()  # pyright: ignore[reportPrivateUsage]
            texts.append(progress.text())

        def on_step(self, run: Any, step: Any) -> None:
            progress.on_step(run, step)
            texts.append(progress.text())

    fit(callbacks=[Reader()])
    assert texts[0].startswith("compiling … ")
    assert texts[5].startswith("epoch 1/3  ━")
    assert f" 5/{STEPS}  " in texts[5]
    assert "steps/s" in texts[5]
    assert texts[5].rstrip().endswith("left")


def test_a_notebook_shows_the_history_and_updates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed = list[Any]()

    class Handle:
        def update(self, value: Any) -> None:
            displayed.append(value)

    def display(value: Any, display_id: bool) -> Handle:
        displayed.append(value)
        return Handle()

    class ZMQInteractiveShell:
        pass

    module = types.ModuleType("IPython")
    vars(module)["get_ipython"] = ZMQInteractiveShell
    vars(module)["display"] = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert not shown(monkeypatch, io.StringIO())
    assert len(displayed) == 3
    assert isinstance(displayed[0], History)
