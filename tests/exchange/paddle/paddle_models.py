"""Writes Paddle programs with Paddle's results; runs in an environment with Paddle 2.6.

    python tests/exchange/paddle/paddle_models.py FOLDER

A folder for each program, and in it `cases.npz`: each fed array as `feed/NAME`, or as
`feed/NAME` with `lengths/NAME` for sequences, and what is fetched as `fetch/0`, `fetch/1`, …
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import nn, static
from paddle.base.framework import Program

F = nn.functional
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


def save_cases(folder: Path, feed: dict[str, Any], fetched: Any, lengths: Any = None) -> None:
    arrays = {f"feed/{name}": np.asarray(value) for name, value in feed.items()}
    arrays |= {f"lengths/{name}": np.asarray(value) for name, value in (lengths or {}).items()}
    arrays |= {f"fetch/{at}": np.asarray(value) for at, value in enumerate(fetched)}
    np.savez(folder / "cases.npz", **arrays)


# ---- modules ---------------------------------------------------------------------------------


class Cnn(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(3, 4, 3, stride=2, padding=1, bias_attr=False)
        self.bn = nn.BatchNorm2D(4)
        self.deep = nn.Conv2D(4, 8, 3, groups=2, padding="SAME")
        self.up = nn.Conv2DTranspose(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        x = F.hardswish(self.bn(self.conv(x)))
        x = F.max_pool2d(F.relu6(self.deep(x)), 2)
        x = F.leaky_relu(self.up(x))
        x = F.interpolate(x, scale_factor=2, mode="bilinear") + F.interpolate(
            x, scale_factor=2, mode="nearest"
        )
        x = F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
        x = paddle.concat([x, F.adaptive_avg_pool2d(x, 1).expand_as(x)], axis=2)
        x = paddle.flatten(F.adaptive_max_pool2d(x, 1), 1)
        return F.softmax(self.head(x))


class Encoder(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(17, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, ids: Any) -> Any:
        seen = paddle.cast(ids == 0, "float32").unsqueeze([1, 2]) * -1e9
        x = self.words(ids)
        x = x + paddle.arange(x.shape[1], dtype="float32").reshape([1, -1, 1]) * 0.1
        x = self.encoder(x, seen)
        parts = paddle.split(x, 2, axis=-1)
        return paddle.tanh(parts[0]).mean(axis=1), parts[1][:, 0], paddle.argmax(x, axis=-1)


class Tagger(nn.Layer):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.rnn = kind(4, 5, num_layers=2, direction="bidirect")
        self.tags = nn.Linear(10, 3)

    def forward(self, x: Any, lengths: Any) -> Any:
        made, _ = self.rnn(x, sequence_length=lengths)
        return self.tags(made)


class Branching(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            y, z = self.yes(x), x * 2.0
        else:
            y, z = paddle.tanh(self.no(x)), x - 1.0
        return y, z + y


class Looping(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x: Any, count: Any) -> Any:
        i = paddle.zeros([1], dtype="int64")
        while i < count:
            if x.mean() > 0.2:
                x = x * 0.5
            x = paddle.tanh(self.step(x))
            i = i + 1
        return x, i


class Lists(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x: Any, count: Any) -> Any:
        made, total = [], paddle.zeros([3])
        for row in x:
            total = total + row
        i = paddle.zeros([1], dtype="int64")
        while i < count:
            x = paddle.tanh(self.step(x))
            made.append(x)
            i += 1
        return total, paddle.stack(made, axis=1), paddle.concat(made, axis=1), made[-1]


class Functions(nn.Layer):
    """Operators one by one: of numbers, of axes, of images."""

    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.PReLU(4)
        self.norms = nn.LayerList([
            nn.GroupNorm(2, 4), nn.InstanceNorm2D(4), nn.LayerNorm([4, 6, 6]),
        ])  # fmt: skip

    def forward(self, x: Any, y: Any) -> Any:
        made = [f(x) for f in (
            F.elu, F.selu, F.celu, F.softplus, F.softsign, F.mish, F.silu, F.swish, F.relu6,
            F.hardsigmoid, F.hardswish, F.hardtanh, F.hardshrink, F.softshrink, F.tanhshrink,
            F.log_sigmoid, F.thresholded_relu, F.gelu, self.slopes, *self.norms,
            lambda x: F.gelu(x, approximate=True), lambda x: F.leaky_relu(x, 0.3),
            lambda x: F.log_softmax(x, axis=1), lambda x: F.normalize(x, axis=1),
        )]  # fmt: skip
        return *made, *of_arithmetic(x, y), *of_axes(x, y), *of_images(x, y)


def of_arithmetic(x: Any, y: Any) -> list[Any]:
    return [f(x) for f in (
        paddle.abs, paddle.ceil, paddle.floor, paddle.round, paddle.sign, paddle.erf,
        paddle.square, paddle.sin, paddle.cos, paddle.atan, paddle.exp, paddle.expm1,
        lambda x: paddle.rsqrt(x.abs() + 1), lambda x: paddle.log(x.abs() + 1),
        lambda x: paddle.log1p(x.abs()), lambda x: paddle.clip(x, -0.5, 0.25),
        lambda x: x**3, lambda x: paddle.pow(x.abs(), 1.5), lambda x: -x % 0.7,
        lambda x: x // 0.4, lambda x: 1.0 / (x.abs() + 1), lambda x: 2.0 - x,
        lambda x: paddle.maximum(x, y), lambda x: paddle.minimum(x, y) * y - x / (y**2 + 1),
        lambda x: paddle.isnan(x), lambda x: paddle.logical_and(x > 0, y < 0),
        lambda x: paddle.stanh(x), lambda x: paddle.add_n([x, x, x]),
    )]  # fmt: skip


def of_axes(x: Any, y: Any) -> list[Any]:
    return [f(x) for f in (
        lambda x: paddle.logsumexp(x, axis=[1, 2]), lambda x: paddle.any(x > 1, axis=1),
        lambda x: paddle.all(x > -9), lambda x: x.min(axis=-1, keepdim=True),
        lambda x: x.sum(),
        lambda x: paddle.norm(x, p=1, axis=2), lambda x: paddle.norm(x, p=3, axis=1),
        lambda x: paddle.norm(x), lambda x: paddle.argmin(x), lambda x: x.std(axis=1),
        lambda x: paddle.cumsum(x, axis=-2), lambda x: paddle.sort(x, axis=1),
        lambda x: paddle.roll(x, 2, axis=1), lambda x: paddle.tril(x, 1), paddle.triu,
        lambda x: paddle.strided_slice(x, [2, 3], [5, 0], [0, 6], [-2, 2]),
        lambda x: paddle.split(x, [1, -1], axis=1)[1],
        lambda x: paddle.unbind(x, axis=1)[2],
        lambda x: paddle.einsum("nchw,ncwk->nchk", x, y),
        lambda x: x @ y.transpose([0, 1, 3, 2]),
        lambda x: paddle.index_select(x, paddle.to_tensor([2, 0]), axis=1),
        lambda x: paddle.gather_nd(x, paddle.to_tensor([[0, 1], [1, 3]])),
        lambda x: paddle.take_along_axis(x, paddle.argsort(y, axis=1), axis=1),
        lambda x: paddle.scatter(x, paddle.to_tensor([1]), y[:1]),
        lambda x: paddle.scatter(x, paddle.to_tensor([1, 1]), y, overwrite=False),
        lambda x: paddle.scatter_nd_add(x, paddle.to_tensor([[1], [1]]), y),
        lambda x: paddle.put_along_axis(x, paddle.argmax(y, 1, keepdim=True), y[:, :1], 1),
        lambda x: paddle.full_like(x, 2), lambda x: paddle.linspace(0, 1, 5) + x.mean(),
        lambda x: paddle.meshgrid(x[0, 0, 0], x[0, 0, :, 1])[1],
        lambda x: paddle.eye(3) * x.max(),
        lambda x: paddle.multiply(x, y[0, :, 0, 0].reshape([4, 1, 1])),
        lambda x: paddle.addmm(x[0, 0], x[1, 1], y[0, 0], beta=0.5, alpha=2.0),
        lambda x: paddle.bmm(x[0], y[0]), lambda x: paddle.dot(x[0, 0, 0], y[0, 0, 0]),
        lambda x: paddle.broadcast_to(x[:, :1], [2, 3, 6, 6]), lambda x: x.astype("int32"),
    )]  # fmt: skip


def of_images(x: Any, y: Any) -> list[Any]:
    return [f(x) for f in (
        lambda x: F.pad(x, [1, 2, 0, 1], mode="reflect"),
        lambda x: F.pad(x, [1, 1, 2, 0], mode="replicate"),
        lambda x: F.pad(x, [0, 1, 1, 0], mode="circular"), lambda x: F.pixel_shuffle(x, 2),
        lambda x: F.interpolate(x, [9, 4], mode="nearest"),
        lambda x: F.interpolate(x, [9, 4], mode="nearest", align_corners=False),
        lambda x: F.interpolate(x, [9, 4], mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x, [9, 4], mode="bilinear", align_mode=1),
        lambda x: F.interpolate(x, [9, 4], mode="bicubic"),
        lambda x: F.interpolate(x, scale_factor=[1.5, 2.0], mode="bilinear"),
        lambda x: F.adaptive_avg_pool2d(x, [4, 2]),
        lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False),
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: F.max_pool2d(x, 2, return_mask=True)[1],
        lambda x: F.grid_sample(x, y[:, :3, :, :2], align_corners=False),
    )]  # fmt: skip


class Shapes(nn.Layer):
    def forward(self, x: Any) -> Any:
        b, t = paddle.shape(x)[0], paddle.shape(x)[1]
        y = x.reshape([b, t * 2, -1]).transpose([0, 2, 1])
        y = paddle.expand(y.unsqueeze(1), [-1, 2, -1, -1]).flatten(0, 1)
        y = paddle.tile(y, [1, 1, 2]) + paddle.full([1], 0.5) * paddle.cast(b, "float32")
        top, at = paddle.topk(x, 2, axis=-1, largest=False)
        order = paddle.argsort(x, axis=1, descending=True)
        picked = paddle.gather(x, paddle.to_tensor([1, 0]), axis=2)
        norm = paddle.linalg.norm(x, p=2, axis=-1)
        back = paddle.flip(x, [1])[:, ::2, 1:-1].sum()
        stacked = paddle.stack([picked, picked * 2], axis=-1).cumsum(1)
        padded = F.pad(x.unsqueeze(1), [1, 2, 0, 1], mode="constant", value=0.5)
        one_hot = F.one_hot(paddle.argmax(x, axis=1), 7).sum(axis=[0, 1])
        chosen = paddle.where(x > 0, x, paddle.exp(x))
        made = y, top, at, order, norm, back, stacked, padded, one_hot, chosen
        return *made, x.max(axis=[1, 2]), x.prod(-1)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 2))


def exported(folder: Path, module: Any, specs: Any, *cases: Any) -> None:
    """A module by `paddle.jit.save`, and what it computes of arrays."""
    module.eval()
    paddle.jit.save(module, str(folder / "inference"), input_spec=specs)
    run_saved(folder, cases)


def run_saved(folder: Path, arrays: Any) -> None:
    """Return the results of Paddle's executor for a saved program."""
    paddle.enable_static()
    exe = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(str(folder / "inference"), exe)
        feed = dict(zip(feeds, arrays, strict=True))
        fetched = exe.run(program, feed=feed, fetch_list=fetches)
    paddle.disable_static()
    save_cases(folder, feed, fetched)


def spec(*shape: Any, dtype: str = "float32", name: str = "x") -> Any:
    return static.InputSpec(list(shape), dtype, name)


# ---- programs --------------------------------------------------------------------------------


def built(folder: Path, build: Callable[[], tuple[list[Any], list[Any]]], feed: Any) -> None:
    """A program of operators in both formats; what it computes."""
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    exe = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()), static.program_guard(main, startup):
        with paddle.utils.unique_name.guard():
            feeds, fetches = build()
        exe.run(startup)
        fetched = exe.run(main, feed=feed, fetch_list=fetches)
        static.save_inference_model(
            str(folder / "inference"), feeds, fetches, exe, program=main
        )
    paddle.disable_static()
    save_cases(folder, feed, fetched)


def in_old_files(source: Path, folder: Path, together: bool) -> None:
    """The same program with the names of fluid 1.x."""
    paddle.enable_static()
    exe = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        program, _, _ = static.load_inference_model(str(source / "inference"), exe)
        (folder / "__model__").write_bytes((source / "inference.pdmodel").read_bytes())
        arrays = [v for v in program.list_vars() if static.io.is_persistable(v)]
        static.io.save_vars(
            exe, str(folder), program, arrays, filename="__params__" if together else None
        )
    paddle.disable_static()
    (folder / "cases.npz").write_bytes((source / "cases.npz").read_bytes())


def arrays_of_arrays() -> tuple[list[Any], list[Any]]:
    x = static.data("x", [-1, 3])
    n = static.data("n", [1], dtype="int64")
    w = static.create_parameter([3, 3], "float32", name="w")
    i = paddle.zeros([1], dtype="int64")
    kept = paddle.tensor.create_array("float32")
    paddle.tensor.array_write(x, i, array=kept)

    def body(i: Any, kept: Any) -> Any:
        last = paddle.tensor.array_read(kept, i)
        i = paddle.increment(i)
        paddle.tensor.array_write(paddle.tanh(paddle.matmul(last, w)), i, array=kept)
        return [i, kept]

    i, kept = static.nn.while_loop(lambda i, kept: i < n, body, [i, kept])
    last = paddle.tensor.array_read(kept, i)
    return [x, n], [
        last,
        paddle.tensor.array_length(kept),
        paddle.tensor.array_read(kept, i - 1),
    ]


def switching() -> tuple[list[Any], list[Any]]:
    x, at = static.data("x", [-1, 3]), static.data("at", [1], dtype="int32")
    made = static.nn.switch_case(at, {
        0: lambda: x * 2.0, 1: lambda: paddle.exp(x), 5: lambda: x - 1.0,
    })  # fmt: skip
    nested = static.nn.cond(
        x.sum() > 0,
        lambda: static.nn.cond(at[0] > 0, lambda: (x + 1.0, x), lambda: (x, x * 3.0)),
        lambda: (x * x, -x),
    )
    return [x, at], [made, *nested]


def sequences() -> tuple[list[Any], list[Any]]:
    words = static.data("words", [-1, 1], dtype="int64", lod_level=1)
    emb = static.nn.embedding(words, [11, 6])
    emb.desc.set_lod_level(1)
    wide = static.nn.fc(emb, 12)
    block = static.default_main_program().current_block()

    def parameter(name: str, *shape: int) -> Any:
        return static.create_parameter(list(shape), "float32", name=name)

    def appended(kind: str, inputs: Any, outs: Any, attrs: Any, dtype: str = "float32") -> Any:
        made = {
            slot: block.create_var(dtype=dtype, name=f"{kind}_{name}.tmp")
            for slot, name in outs.items()
        }
        block.append_op(type=kind, inputs=inputs, outputs=made, attrs=attrs)
        return next(iter(made.values()))

    def gru(name: str, back: bool, origin: bool) -> Any:
        given = {"Input": [wide], "Weight": [parameter(f"{name}.w", 4, 12)],
                 "Bias": [parameter(f"{name}.b", 1, 12)]}  # fmt: skip
        outs = {slot: f"{name}_{slot}" for slot in
                ("Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden")}  # fmt: skip
        return appended("gru", given, outs, {"is_reverse": back, "origin_mode": origin,
                        "gate_activation": "sigmoid", "activation": "tanh"})  # fmt: skip

    both = paddle.concat([gru("a", False, False), gru("b", True, True)], axis=1)
    four = static.nn.fc(both, 8)
    given = {
        "Input": [four],
        "Weight": [parameter("l.w", 2, 8)],
        "Bias": [parameter("l.b", 1, 14)],
    }
    outs = {slot: f"l_{slot}" for slot in ("Hidden", "Cell", "BatchGate", "BatchCellPreAct")}
    peeping = appended("lstm", given, outs, {"use_peepholes": True, "is_reverse": True,
                       "gate_activation": "sigmoid", "cell_activation": "tanh",
                       "candidate_activation": "tanh"})  # fmt: skip
    emission = static.nn.fc(both, 5)
    given = {"Emission": [emission], "Transition": [parameter("t", 7, 5)]}
    path = appended("crf_decoding", given, {"ViterbiPath": "path"}, {}, "int64")
    pools = [
        appended("sequence_pool", {"X": [both]}, {"Out": f"{kind}", "MaxIndex": f"{kind}_at"},
                 {"pooltype": kind})
        for kind in ("SUM", "AVERAGE", "SQRT", "MAX", "LAST", "FIRST")
    ]  # fmt: skip
    given = {"X": [both], "Filter": [parameter("c", 24, 3)]}
    attrs = {"contextLength": 3, "contextStart": -1, "contextStride": 1}
    around = appended("sequence_conv", given, {"Out": "around"}, attrs)
    turned = appended("sequence_reverse", {"X": [both]}, {"Y": "turned"}, {})
    shares = appended("sequence_softmax", {"X": [static.nn.fc(both, 1)]}, {"Out": "shares"}, {})
    spread = appended(
        "sequence_expand", {"X": [pools[0]], "Y": [both]}, {"Out": "spread"}, {"ref_level": -1}
    )
    return [words], [both, peeping, path, *pools, around, turned, shares, spread]


def run_sequences(folder: Path) -> None:
    """Sequences: Paddle's own rows, put where ours lie."""
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    exe = static.Executor(paddle.CPUPlace())
    lengths, rows = [3, 1, 5], RNG.integers(0, 11, (9, 1))
    tensor = paddle.base.create_lod_tensor(rows, [lengths], paddle.CPUPlace())
    with static.scope_guard(static.Scope()), static.program_guard(main, startup):
        with paddle.utils.unique_name.guard():
            feeds, fetches = sequences()
        exe.run(startup)
        made = exe.run(main, feed={"words": tensor}, fetch_list=fetches, return_numpy=False)
        static.save_inference_model(
            str(folder / "inference"), feeds, fetches, exe, program=main
        )
    paddle.disable_static()
    found = [np.array(one) for one in made]
    found = [padded(one, lengths) if len(one) == len(rows) else one for one in found]
    save_cases(folder, {"words": padded(rows, lengths)}, found, {"words": lengths})


def padded(rows: Any, lengths: Any) -> Any:
    made = np.zeros((len(lengths), max(lengths), *rows.shape[1:]), rows.dtype)
    start = 0
    for at, length in enumerate(lengths):
        made[at, :length] = rows[start : start + length]
        start += length
    return made


def write_all(root: Path) -> None:
    def folder(name: str) -> Path:
        found = root / name
        found.mkdir(parents=True, exist_ok=True)
        return found

    paddle.seed(1)
    x4, x3 = normal(5, 4), normal(2, 3)
    exported(folder("mlp"), mlp(), [spec(None, 4)], x4)
    in_old_files(root / "mlp", folder("mlp_alone"), together=False)
    in_old_files(root / "mlp", folder("mlp_together"), together=True)
    exported(folder("cnn"), Cnn(), [spec(None, 3, 16, 16)], normal(2, 3, 16, 16))
    ids = RNG.integers(0, 17, (3, 6))
    exported(folder("encoder"), Encoder(), [spec(None, None, dtype="int64", name="ids")], ids)
    lengths = np.array([4, 2, 7], np.int32)
    for kind in (nn.LSTM, nn.GRU, nn.SimpleRNN):
        specs = [spec(None, None, 4), spec(None, dtype="int32", name="lengths")]
        exported(folder(kind.__name__), Tagger(kind), specs, normal(3, 7, 4), lengths)
    exported(folder("branching"), Branching(), [spec(None, 3)], x3)
    specs = [spec(None, 3), spec(1, dtype="int64", name="count")]
    exported(folder("looping"), Looping(), specs, x3, np.array([4]))
    exported(folder("lists"), Lists(), specs, x3, np.array([3]))
    exported(folder("functions"), Functions(), [spec(2, 4, 6, 6), spec(2, 4, 6, 6, name="y")],
             normal(2, 4, 6, 6), normal(2, 4, 6, 6))  # fmt: skip
    exported(folder("shapes"), Shapes(), [spec(None, None, 4)], normal(2, 3, 4))
    built(folder("arrays"), arrays_of_arrays, {"x": x3, "n": np.array([4])})
    built(folder("switching"), switching, {"x": x3, "at": np.array([1], np.int32)})
    run_sequences(folder("sequences"))


if __name__ == "__main__":
    os.environ.setdefault("GLOG_minloglevel", "2")
    assert isinstance(static.default_main_program(), Program)
    write_all(Path(sys.argv[1]))
