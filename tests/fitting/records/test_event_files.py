"""Event files, read by protobuf with the messages of TensorFlow, and by TensorBoard."""

from __future__ import annotations

import math
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

import braces as br
from braces.fitting.tensorboard import EventFile
from tests.fitting.nets import STEPS, fit

MESSAGES = {
    "Event": [
        ("wall_time", 1, "DOUBLE", ""),
        ("step", 2, "INT64", ""),
        ("file_version", 3, "STRING", ""),
        ("summary", 5, "MESSAGE", "Summary"),
    ],
    "Summary": [("value", 1, "MESSAGE", "Value")],
    "Value": [("tag", 1, "STRING", ""), ("simple_value", 2, "FLOAT", "")],
}
"""Fields of tensorflow/core/util/event.proto and framework/summary.proto."""


@cache
def event_class() -> Any:
    """The class of the message `Event`."""
    file = descriptor_pb2.FileDescriptorProto(name="events.proto", package="events")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, type_name in fields:
            label = "LABEL_REPEATED" if field == "value" else "LABEL_OPTIONAL"
            entry = message.field.add(name=field, number=number)
            entry.label = descriptor_pb2.FieldDescriptorProto.Label.Value(label)
            entry.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind}")
            if type_name:
                entry.type_name = f".events.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("events.Event"))


def crc_bit_by_bit(content: bytes) -> int:
    """CRC-32C by its definition, masked as in TensorFlow's record_writer."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def parsed(path: Path) -> list[Any]:
    """The events of a file; each checksum must be right."""
    content, events = path.read_bytes(), list[Any]()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        record = content[12 : 12 + length]
        assert struct.unpack("<I", content[8:12]) == (crc_bit_by_bit(content[:8]),)
        assert struct.unpack("<I", content[12 + length : 16 + length]) == (
            crc_bit_by_bit(record),
        )
        event = event_class()()
        assert event.ParseFromString(record) == len(record)
        assert not unknown_fields.UnknownFieldSet(event)
        events.append(event)
        content = content[16 + length :]
    return events


def event_file(folder: Path) -> Path:
    (path,) = folder.glob("events.out.tfevents.*")
    return path


def test_protobuf_reads_the_history_from_an_event_file(tmp_path: Path) -> None:
    run = fit(log_files=[tmp_path / "board"], log_every=2)
    first, *events = parsed(event_file(tmp_path / "board"))
    assert first.file_version == "brain.Event:2"
    assert all(event.wall_time > 1.7e9 for event in events)
    scalars = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value]
    for name in run.history.names:
        curve = [(step, value) for step, tag, value in scalars if tag == name]
        assert [step for step, _ in curve] == [STEPS, 2 * STEPS, 3 * STEPS]
        assert [value for _, value in curve] == pytest.approx(run.history[name], rel=1e-6)
    assert [s for s, tag, _ in scalars if tag == "step/loss"] == list(range(2, 22, 2))


@pytest.mark.parametrize("step", [0, 1, 127, 128, 2**31, 2**62])
def test_steps_tags_and_values_of_any_size_are_read(tmp_path: Path, step: int) -> None:
    file = EventFile(tmp_path)
    file.truncate(0)
    values = {"a": math.nan, "ü/" + 300 * "x": -math.inf, "big": 1e300, "small": 1e-45}
    file.add(step, values)
    _, event = parsed(event_file(tmp_path))
    assert event.step == step
    read = {value.tag: value.simple_value for value in event.summary.value}
    assert list(read) == list(values)
    assert math.isnan(read["a"])
    assert [read[name] for name in list(values)[1:]] == [-math.inf, math.inf, 2.0**-149]
    assert [number for number, _ in file.truncate(step)] == ([0, step] if step else [0])


def test_tensorboard_reads_the_same_curves(tmp_path: Path) -> None:
    """TensorBoard's own reader, where it is installed."""
    name = "tensorboard.backend.event_processing.event_accumulator"
    reader: Any = pytest.importorskip(name, reason="TensorBoard is no requirement")
    with pytest.raises(RuntimeError):
        fit(tmp_path / "job", log_files=[tmp_path / "board"], callbacks=[Fails()])
    run = fit(tmp_path / "job", log_files=[tmp_path / "board"])
    accumulator = reader.EventAccumulator(str(tmp_path / "board"))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == set(run.history.names)
    for tag in run.history.names:
        scalars = accumulator.Scalars(tag)
        assert [scalar.step for scalar in scalars] == [STEPS, 2 * STEPS, 3 * STEPS]
        assert [s.value for s in scalars] == pytest.approx(run.history[tag], rel=1e-6)


class Fails(br.Callback):
    """An error after the first epoch."""

    def on_step(self, run: Any, step: Any) -> None:
        if step.number == STEPS + 2:
            raise RuntimeError("mine")
