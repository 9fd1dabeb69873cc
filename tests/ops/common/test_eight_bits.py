"""Numbers of one byte or less that are only stored: moved, converted, saved, not computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.dtypes import NARROW
from braces.errors import DTypeError, FeedError
from braces.extend.types import STORED

pytestmark = pytest.mark.unoptimized
WHOLE = tuple(name for name in NARROW if "int" in name)
KINDS = pytest.mark.parametrize("short", STORED)


def numbers(short: str) -> Any:
    return np.array([[1, 2, 4], [0.5, 8, 0.25]]).astype(STORED[short])


@KINDS
def test_they_are_moved_as_they_are(mode: str, short: str) -> None:
    x = numbers(short)
    with br.Program() as program:
        given = br.data("x", [2, 3], short)
        kept = br.constant(x)
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            xt = net.add_input(given)
            before = net.add_memory(init=kept[0])
            before.update(xt)
            net.add_output(before.pre(1))
        out = [
            br.concat([given, kept], axis=0), br.permute_dims(given)[::-1],
            br.take(given, [1, 0], axis=0), br.reshape(given, [-1]), rnn(),
            br.where([[True], [False]], given, given[::-1]),
        ]  # fmt: skip
    found = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": x}, fetch=out)
    want = [
        np.concatenate([x, x]), x.T[::-1], x[::-1], x.reshape(-1), x[[0, 0]], x[[0, 0]],
    ]  # fmt: skip
    for got, right in zip(found, want, strict=True):
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.view("u1"), np.ascontiguousarray(right).view("u1"))


@KINDS
def test_nothing_is_computed_with_them(short: str) -> None:
    with br.Program():
        x = br.data("x", [2, 3], short)
        for build in (lambda: x + 1.0, lambda: br.exp(x), lambda: br.sum(x), lambda: x == x):
            with pytest.raises(
                DTypeError, match=r"unsupported storage-only dtype(.|\n)*br.cast"
            ) as caught:
                build()
            assert short in str(caught.value)
        with pytest.raises(DTypeError, match=r"no dtype promotion of .* a storage-only dtype"):
            br.concat([x, br.data("y", [2, 3])], axis=0)
        with pytest.raises(DTypeError, match=r"no dtype promotion of .* a storage-only dtype"):
            br.where(True, x, br.data("z", [2, 3], "int8"))


@KINDS
def test_they_are_fed_as_they_are(short: str) -> None:
    with br.Program() as program:
        x = br.data("x", [2], short)
    with pytest.raises(FeedError, match="storage dtypes are not converted, got float32"):
        br.Executor().run(program, br.Scope(), feed={"x": np.ones(2, "f4")}, fetch=x)


@pytest.mark.parametrize("short", [name for name in STORED if name != "f8e8m0fnu"])
def test_numbers_are_rounded_as_numpy_rounds_them(mode: str, short: str) -> None:
    dtype = STORED[short]
    x = np.linspace(-300, 300, 1201, dtype="f4")
    x = np.concatenate([x, x * 1e-6, [0.0, np.nan, np.inf, -np.inf, 1e6, -1e-9]]).astype("f4")
    with br.Program() as program:
        given = br.data("x", x.shape)
        small = br.cast(given, short)
        back = br.cast(small, "float32")
        q = br.layers.quantize(given, 1.0, dtype=short)
    found = br.Executor(mode=mode).run(
        program, br.Scope(), feed={"x": x}, fetch=[small, back, q]
    )
    np.testing.assert_array_equal(found[0].astype("f4"), x.astype(dtype).astype("f4"))
    np.testing.assert_array_equal(found[1], x.astype(dtype).astype("f4"))
    limits: Any = ml_dtypes.iinfo if short in WHOLE else ml_dtypes.finfo
    inside = x.clip(float(limits(dtype).min), float(limits(dtype).max))
    inside = np.rint(inside) if short in WHOLE else inside
    there = ~np.isnan(x) if short in WHOLE else slice(None)
    np.testing.assert_array_equal(
        found[2].astype("f4")[there], inside.astype(dtype).astype("f4")[there]
    )


@pytest.mark.parametrize("short", NARROW)
def test_all_numbers_of_less_than_eight_bits_go_through_all_that_moves_them(
    mode: str, short: str, tmp_path: Path
) -> None:
    dtype = NARROW[short]
    every = np.arange(4 if short.endswith("2") else 16, dtype="u1").view(dtype)
    wide = np.arange(-300, 300)
    with br.Program() as program:
        x, i = br.data("x", ["n"], short), br.data("wide", wide.shape, "int64")
        old = br.state("old", every.shape, init=every, dtype=short)
        program.update(old, br.flip(old))
        n = br.constant(3)
        xs = br.lists.append(br.lists.unstack(x), br.zeros([], dtype=short))
        rows = br.create_if_else(br.cast(x, "int32") > 0)
        with rows.true_block() as above:
            above.add_output(above.add_input(x))
        rows.pass_through(br.full_like(x, value=1))
        out = [
            x, old, br.cast(i, short), br.cast(x, "int32"), br.cast(x, "bool"), xs[n], rows(),
            br.lists.stack(xs), br.pad(x, (1, 1)), br.constant(every), br.cast(x, "f8e4m3fn"),
            br.layers.dequantize(x, 0.5),
        ]  # fmt: skip
    texts = br.parse(str(program)), br.Program.from_bytes(program.to_bytes())
    assert all(str(other) == str(program) for other in texts)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(program, scope)
    found = exe.run(program, scope, feed={"x": every, "wide": wide}, fetch=out)
    exact = every.astype("f4")
    zero = np.zeros(1, dtype)
    want = [
        every, every, wide.astype(dtype), exact.astype("i4"), exact != 0, every[3],
        np.where(exact.astype("i4") > 0, every, np.ones(1, dtype)),
        np.concatenate([every, zero]), np.concatenate([zero, every, zero]), every,
        exact.astype(STORED["f8e4m3fn"]), exact / 2,
    ]  # fmt: skip
    for got, right in zip(found, want, strict=True):
        assert got.dtype == right.dtype
        np.testing.assert_array_equal(got.reshape(-1).view("u1"), right.reshape(-1).view("u1"))
    assert scope.var("old").value.dtype == dtype
    br.save_checkpoint(scope, tmp_path, 1)
    again = br.Scope()
    br.load_checkpoint(again, tmp_path)
    np.testing.assert_array_equal(again.var("old").value.view("u1"), every[::-1].view("u1"))


@KINDS
def test_parameters_come_back_from_files(short: str, tmp_path: Path) -> None:
    x = numbers(short)
    with br.Program() as program:
        w = br.parameter("w", x.shape, init=x, dtype=short, trainable=False)
        out = br.cast(w, "float32") * 2.0
    scope, other, exe = br.Scope(), br.Scope(), br.Executor()
    exe.init(program, scope)
    br.save_parameters(scope, tmp_path / "p")
    br.load_parameters(other, tmp_path / "p")
    assert other.get_var("w").value.dtype == x.dtype
    np.testing.assert_array_equal(exe.run(program, other, fetch=out), x.astype("f4") * 2)
