"""Programs of Paddle as ours: files, layers, values by NumPy, gradients, training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import FileFormatError, ProgramError, ShapeError, UnknownNameError
from paddle_programs import image, mlp, normal
from paddle_writing import Written, stored
from tests.support.running import run_fetches

pytestmark = pytest.mark.unoptimized

FUZZ = Path(__file__).parents[3] / "scripts" / "fuzz_paddle.py"
MODES = ("compile", "interpret")


def run(folder: Path, feed: Any, mode: str = "compile") -> list[Any]:
    prog, values = br.from_paddle(folder)
    br.verify(prog)
    return run_fetches(prog, feed, mode, values=values)


def close(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def mlp_by_numpy(p: Written, x: Any) -> Any:
    w = p.weights
    hidden = np.maximum(x @ w["fc_0.w_0"] + w["fc_0.b_0"], 0.0) * 0.75
    made = np.exp(hidden @ w["fc_1.w_0"].T)
    return made / made.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("style", ["2.x", "together", "alone"])
def test_layers_of_all_formats_of_files_agree_with_numpy(style: str, tmp_path: Path) -> None:
    p, x = mlp(), normal(5, 3)
    folder = p.save(tmp_path / "net", style)
    (found,) = run(folder, {"x": x}, "interpret" if style == "alone" else "compile")
    close(found, mlp_by_numpy(p, x))
    prog, values = br.from_paddle(folder)
    assert prog.feeds == ("x",)
    assert prog.fetches == ("save_infer_model/scale_0",)
    assert sorted(values) == sorted(p.weights)
    assert all(prog.var(name).info.kind == "parameter" for name in values)


def test_a_program_is_found_by_its_folder_its_file_or_its_name(tmp_path: Path) -> None:
    mlp().save(tmp_path)
    for given in (tmp_path, tmp_path / "net.pdmodel", str(tmp_path / "net")):
        assert br.from_paddle(given)[0].feeds == ("x",)
    (tmp_path / "other.pdmodel").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"2 Paddle programs[\s\S]*net\.pdmodel"):
        br.from_paddle(tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_a_program_that_was_read_trains(mode: str, tmp_path: Path) -> None:
    p = mlp()
    prog, values = br.from_paddle(p.save(tmp_path))
    x, y = normal(6, 3), np.arange(6) % 2
    with prog:
        labels = br.data("y", [None], dtype="int64")
        made = prog.var(prog.fetches[0])
        loss = br.mean(-br.log(br.take_along_axis(made, br.expand_dims(labels, 1), axis=1)))
        (grad,) = br.gradients([loss], [prog.var("fc_0.w_0")])
        br.optimizer.sgd(learning_rate=0.5).minimize(loss)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope, seed=0)
    scope.update(values)
    feed = {"x": x, "y": y}
    first, found = exe.run(prog, scope, feed=feed, fetch=[loss, grad])
    for at in ((0, 1), (2, 3)):
        ends = []
        for step in (1e-2, -1e-2):
            moved = Written(weights={name: w.astype("f8") for name, w in p.weights.items()})
            moved.weights["fc_0.w_0"][at] += step
            ends.append(-np.mean(np.log(mlp_by_numpy(moved, x)[np.arange(6), y])))
        np.testing.assert_allclose(found[at], (ends[0] - ends[1]) / 2e-2, rtol=2e-3, atol=1e-5)
    for _ in range(20):
        (last,) = exe.run(prog, scope, feed=feed, fetch=[loss])
    assert last < first


def test_images_and_shapes_that_are_computed_agree_with_numpy(tmp_path: Path) -> None:
    p, x = image(), normal(2, 3, 6, 6)
    folder, w = p.save(tmp_path), p.weights
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    made = np.einsum("nchwij,ocij->nohw", views, w["conv.w"])

    def beside(name: str) -> Any:
        return w[name].reshape(1, 4, 1, 1)

    made = (made - beside("bn.mean")) / np.sqrt(beside("bn.var") + 1e-5)
    made = made * beside("bn.s") + beside("bn.b")
    made = made * np.clip(made + 3, 0, 6) / 6
    made = made.reshape(2, 4, 3, 2, 3, 2).max(axis=(3, 5)).mean(axis=(2, 3))
    g, h = run(folder, {"x": x})
    close(g, made)
    close(h, made.sum(keepdims=True).reshape(1))  # an axis, as the file says
    prog, _ = br.from_paddle(folder)
    kinds = {name: prog.var(name).info.kind for name in w}
    assert kinds["bn.mean"] == kinds["bn.var"] == "state"
    assert kinds["bn.s"] == "parameter"
    assert "shape" not in {op.type for op in prog.block(0).ops}  # it is known


@pytest.mark.parametrize(
    ("reduction", "combine"), [(b"assign", None), (b"add", np.add), (b"multiply", np.multiply)]
)
def test_a_scatter_along_an_axis_reduces_as_paddle_says(
    reduction: bytes, combine: Any, tmp_path: Path
) -> None:
    p, x, updates = Written(), normal(3, 4), normal(3, 1)
    index = np.array([[1], [3], [0]])
    for name, array in (("x", x), ("index", index), ("updates", updates)):
        p.feed(name, *array.shape, dtype=str(array.dtype))
    p.var("y", 3, 4)
    given = {"Input": "x", "Index": "index", "Value": "updates"}
    p.fetch(p.op("put_along_axis", given, {"Result": "y"}, Axis=1, Reduce=reduction))
    (found,) = run(p.save(tmp_path), {"x": x, "index": index, "updates": updates})
    old = np.take_along_axis(x, index, axis=1)
    np.put_along_axis(x, index, combine(old, updates) if combine else updates, axis=1)
    close(found, x)


def test_shapes_of_inputs_can_be_said(tmp_path: Path) -> None:
    folder = mlp().save(tmp_path)
    prog, _ = br.from_paddle(folder, shapes={"x": ["batch", 3]})
    assert str(prog.var("x").type) == "f32[batch,3]"
    with pytest.raises(UnknownNameError, match="unknown input `y`"):
        br.from_paddle(folder, shapes={"y": [1]})
    with pytest.raises(ShapeError, match="`x`: expected 2, got 1"):
        br.from_paddle(folder, shapes={"x": [1]})


def test_a_feed_of_no_sensible_place_comes_first(tmp_path: Path) -> None:
    p = Written()
    p.feed("x", 1)
    p.feed("y", 1)
    p.attr(p.desc.blocks[0].ops[1].attrs[0], b"second")
    p.fetch("x")
    assert br.from_paddle(p.save(tmp_path))[0].feeds == ("x", "y")


def test_all_that_cannot_be_read_is_said_at_once(tmp_path: Path) -> None:
    p = Written()
    x = p.feed("x", -1, 3)
    p.op("beam_search", {"X": x}, {"Out": "a"})
    p.op("relu", {"X": "a"}, {"Out": "b"})
    p.op("mul", {"X": x}, {"Out": "c"}, op_callstack=[b'  File "net.py", line 7, in f', b"g()"])
    p.op("pool2d", {"X": x}, {"Out": "d"}, ksize=3)
    p.fetch("b", "c")
    with pytest.raises(ProgramError, match="3 unsupported operators") as caught:
        br.from_paddle(p.save(tmp_path))
    said = str(caught.value)
    assert all(word in said for word in ("beam_search", "`c`", "missing input `Y`", "pool2d"))


# ---- files from strangers --------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) - 3]


@pytest.mark.parametrize(("change", "word"), [
    (cut, r"expected \d+ bytes, got \d+"),
    (lambda data: data + b"\0", "has 1 bytes after"),
    (lambda data: b"\1" + data[1:], "version 1"),
    (lambda data: data[:4] + b"\xff" * 8 + data[12:], r"expected \d+ bytes, got \d+"),
    (lambda data: data[:16] + b"\xff\xff\xff\x7f" + data[20:], "header has 2147483647 bytes"),
    (lambda data: stored(np.ones((1, 1), "f4")), r"got \[1, 1\] of float32"),
    (lambda data: data.replace(b"\x08\x05", b"\x08\x63", 1), "Paddle dtype code 99"),
])  # fmt: skip
def test_arrays_that_make_no_sense_are_refused(change: Any, word: str, tmp_path: Path) -> None:
    folder = mlp().save(tmp_path)
    path = folder / "net.pdiparams"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FileFormatError, match=word):
        br.from_paddle(folder)


def test_arrays_that_are_not_there_are_missed(tmp_path: Path) -> None:
    folder = mlp().save(tmp_path)
    (folder / "net.pdiparams").unlink()
    with pytest.raises(FileFormatError, match=r"missing file net\.pdiparams.*`fc_0\.b_0`"):
        br.from_paddle(folder)


def test_a_shape_that_no_file_holds_takes_no_memory(tmp_path: Path) -> None:
    p = Written()
    p.fetch(p.weight("w", np.ones((2, 2), "f4")))
    folder = p.save(tmp_path)
    path = folder / "net.pdiparams"
    data = path.read_bytes()
    header = p.desc.blocks[0].vars[0].type.lod_tensor.tensor
    header.dims[:] = [1 << 40, 1 << 40]
    text = header.SerializeToString()
    path.write_bytes(data[:16] + len(text).to_bytes(4, "little") + text + b"\0" * 16)
    with pytest.raises(FileFormatError, match=r"expected \d+ bytes, got \d+"):
        br.from_paddle(folder)


@pytest.mark.parametrize("name", ["../w", "/etc/passwd", "w\0x", "."])
def test_arrays_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(stored(np.ones(2, "f4")))
    p = Written()
    p.op("relu", {"X": p.weight(name, np.ones(2, "f4"))}, {"Out": "y"})
    p.fetch("y")
    folder = tmp_path / "net"
    folder.mkdir()
    (folder / "__model__").write_bytes(p.desc.SerializeToString())
    with pytest.raises(FileFormatError, match=r"outside of the folder|does not exist beside"):
        br.from_paddle(folder)


def test_blocks_that_own_themselves_are_refused(tmp_path: Path) -> None:
    p = Written()
    p.feed("x", 1, dtype="bool")
    with p.block() as inner:
        p.op("while", {"Condition": "x"}, {"Out": "x"}, sub_block=inner)
    p.op("while", {"Condition": "x"}, {"Out": "x"}, sub_block=inner)
    with pytest.raises(FileFormatError, match="is not a child of its block"):
        br.from_paddle(p.save(tmp_path))
    p.desc.blocks[1].idx = 5
    with pytest.raises(FileFormatError, match="do not form a tree"):
        br.from_paddle(p.save(tmp_path))


def test_blocks_that_double_what_is_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braces.exchange.paddle.reader.MOST_OPERATORS", 500)
    p = Written()
    p.feed("c", 1, dtype="bool")
    blocks = []
    for at in range(1, 13):
        p.desc.blocks.add(idx=at, parent_idx=at - 1)
        blocks.append(at)
    for at in range(12):
        p.at = at
        for _ in range(2):
            p.op("fill_constant", {}, {"Out": "t"}, shape=[1], dtype=0, value=1.0)
            op = p.desc.blocks[at].ops.add(type="conditional_block")
            op.inputs.add(parameter="Cond", arguments=["t"])
            op.attrs.add(name="sub_block", type=8, block_idx=at + 1)
            op.attrs.add(name="is_scalar_condition", type=6, b=True)
    with pytest.raises(ProgramError, match="more than 500 operators"):
        br.from_paddle(p.save(tmp_path))


def test_the_error_of_a_foreign_file_has_the_expected_format(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"has no Paddle program[\s\S]*__model__"):
        br.from_paddle(tmp_path)
    (tmp_path / "net.json").write_text('{"base_code":{"magic":"pir","version":1}}')
    with pytest.raises(
        FileFormatError, match=r"format of Paddle 3[\s\S]*FLAGS_enable_pir_api=0"
    ):
        br.from_paddle(tmp_path)
    with pytest.raises(FileFormatError, match="FLAGS_enable_pir_api=0"):
        br.from_paddle(tmp_path / "net")
    (tmp_path / "__model__").write_bytes(b"\xff" * 40)
    with pytest.raises(FileFormatError, match="not a Paddle program"):
        br.from_paddle(tmp_path)
    with pytest.raises(FileNotFoundError):
        br.from_paddle(tmp_path / "nowhere")
    (tmp_path / "__model__").write_bytes(Written().desc.SerializeToString())
    with pytest.raises(ProgramError, match="has no fetches"):
        br.from_paddle(tmp_path)


def test_random_damage_is_refused_or_becomes_a_program() -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--count", "120", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout
