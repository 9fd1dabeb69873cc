"""Files of models that strangers made, or that were damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from braces.errors import FileFormatError, VerifyError
from braces.storage.model import Model
from braces.storage.model_files import load_model, read_programs
from braces.storage.parameters import save_parameters
from braces.storage.tensor_file import write_tensors
from tests.storage.nets import XS, Net


def test_other_files_are_no_models(net: Net, path: Path) -> None:
    def refused(match: str) -> None:
        with pytest.raises(FileFormatError, match=match) as caught:
            load_model(path)
        assert caught.value.at == str(path)

    save_parameters(net.scope, path)
    refused(r"expected a file of format braces\.model")
    safetensors.numpy.save_file({"w": XS}, path)
    refused(r"expected a file of format braces\.model")
    net.program.save(path)
    refused("invalid or damaged safetensors file")
    path.write_bytes(b"")
    refused("invalid or damaged safetensors file")
    with pytest.raises(FileNotFoundError):
        load_model(path.with_name("not-there"))


PROGRAM = Net(train=False).program.to_bytes()
SIGNATURE = {"feeds": ["x"], "fetches": {"out": "matmul_1"}}


def stored(**arrays: Any) -> dict[str, Any]:
    found = {"w": np.zeros((3, 8), "f4"), "u": np.zeros((8, 1), "f4")}
    found |= {"random_state": np.zeros(2, "u4")}
    found |= {"__braces__/predict": np.frombuffer(PROGRAM, "u1"), **arrays}
    return {name: array for name, array in found.items() if array is not None}


def test_the_forgeries_start_from_a_good_file(path: Path) -> None:
    write_tensors(path, stored(), "braces.model", programs={"predict": SIGNATURE})
    assert isinstance(load_model(path), Model)


@pytest.mark.parametrize(
    ("arrays", "programs"),
    [
        ({}, None),
        ({}, []),
        ({}, {"train": SIGNATURE}),
        ({}, {"../up": SIGNATURE}),
        ({}, {"predict": None}),
        ({}, {"predict": {}}),
        ({}, {"predict": {"feeds": "x", "fetches": {}}}),
        ({}, {"predict": {"feeds": [], "fetches": []}}),
        ({}, {"predict": {"feeds": [["x"]], "fetches": {}}}),
        ({}, {"predict": {"feeds": ["w"], "fetches": {}}}),
        ({}, {"predict": {"feeds": [], "fetches": {"out": "no"}}}),
        ({}, {"predict": {"feeds": [], "fetches": {"out": ["w"]}}}),
        ({"w": None}, {"predict": SIGNATURE}),
        ({"w": np.zeros((3, 9), "f4")}, {"predict": SIGNATURE}),
        ({"w": np.zeros((3, 8, 1), "f4")}, {"predict": SIGNATURE}),
        ({"w": np.zeros((3, 8), "f8")}, {"predict": SIGNATURE}),
        ({"__braces__/predict": None}, {"predict": SIGNATURE}),
        ({"__braces__/predict": np.zeros(9, "i1")}, {"predict": SIGNATURE}),
        ({"__braces__/predict": np.zeros(9, "u1")}, {"predict": SIGNATURE}),
        ({"__braces__/predict": np.frombuffer(PROGRAM[:-1], "u1")}, {"predict": SIGNATURE}),
    ],
)
def test_a_model_that_contradicts_itself_is_refused(
    arrays: dict[str, Any], programs: Any, path: Path
) -> None:
    write_tensors(path, stored(**arrays), "braces.model", programs=programs)
    with pytest.raises(FileFormatError):
        load_model(path)


def test_a_program_of_a_newer_format_is_refused(net: Net, path: Path) -> None:
    newer = PROGRAM.replace(b"braces.program\x10\x01", b"braces.program\x10\x02")
    program = np.frombuffer(newer, "u1")
    arrays = stored(**{"__braces__/predict": program})
    write_tensors(path, arrays, "braces.model", programs={"predict": SIGNATURE})
    with pytest.raises(FileFormatError, match="newer Braces: format 2") as caught:
        load_model(path)
    assert "program `predict`" in str(caught.value)


def test_what_a_newer_writer_adds_is_left_alone(path: Path) -> None:
    signature = {**SIGNATURE, "note": {"new": True}}
    write_tensors(
        path, stored(more=XS), "braces.model", programs={"predict": signature}, note=[1]
    )
    model = load_model(path)
    np.testing.assert_array_equal(model.run(x=XS), np.zeros((4, 1)))
    assert "more" in model.scope


def test_the_programs_are_read_without_the_parameters(path: Path) -> None:
    arrays = stored(w=np.zeros((3, 8), "f4"), more=np.array([True]))
    write_tensors(path, arrays, "braces.model", programs={"predict": SIGNATURE})
    damaged = path.read_bytes()[:-1] + b"\7"  # the last array is `more`
    path.write_bytes(damaged)
    with pytest.raises(FileFormatError, match="invalid bools in `more`"):
        load_model(path)
    found = read_programs(path)
    assert found["predict"].feeds == ("x",)
    assert found["predict"].program.to_bytes() == PROGRAM


def test_a_model_cut_anywhere_is_refused(net: Net, path: Path) -> None:
    content = net.save(path).read_bytes()
    rng = random.Random(0)
    lengths = {*range(64), *(rng.randrange(len(content)) for _ in range(200)), len(content) - 1}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError):
            load_model(path)


def test_random_damage_is_refused_or_harmless(net: Net, path: Path) -> None:
    content = net.save(path).read_bytes()
    head = 8 + int.from_bytes(content[:8], "little")
    places = [*range(head)]
    for name, entry in json.loads(content[8:head]).items():
        if name.startswith("__braces__/"):
            start, stop = entry["data_offsets"]
            places += range(head + start, head + stop)
    rng, refusals = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(content)
        for at in rng.sample(places, rng.choice([1, 1, 3])):
            damaged[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path.write_bytes(damaged)
        try:
            load_model(path)
        except (FileFormatError, VerifyError):
            refusals += 1
    assert refusals > 100


def test_a_header_is_plain_json(net: Net, path: Path) -> None:
    content = net.save(path).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"].keys() == {"braces"}
    assert header["__braces__/predict"]["dtype"] == "U8"
