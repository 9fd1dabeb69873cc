"""Write the golden files of this version, which every later version must read and run alike.

    python scripts/golden.py

Each program is saved in `tests/golden/VERSION/` as bytes, as text, and with one run of it:
feeds, fetches, and the scope afterwards. The folder also has a model, a checkpoint and a
file of parameters. `tests/golden/test_golden.py` compares the library with all of them. Once
CHANGELOG.md has a heading for a version, this script refuses to change its files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from braces.dtypes import NARROW, ONE_BYTE, SHORT_NAMES
from braces.storage.tensor_file import write_tensors

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "golden"
RNG = np.random.default_rng(0)

Feed = dict[str, Any]
PROGRAMS: dict[str, Callable[[], tuple[Feed, list[br.Var]]]] = {}


def golden(build: Callable[[], tuple[Feed, list[br.Var]]]) -> Callable[..., Any]:
    """Register a function that builds a program, and returns a feed and the fetches."""
    PROGRAMS[build.__name__] = build
    return build


# ---- programs --------------------------------------------------------------------------------


@golden
def dtypes() -> tuple[Feed, list[br.Var]]:
    """Every dtype, as feeds and as short and long array constants."""
    feed: Feed = {}
    fetches: list[br.Var] = []
    for short, dtype in SHORT_NAMES.items():
        x = br.data(f"x_{short}", [2], dtype=dtype)
        feed[x.name] = np.array([0, 1]).astype(dtype)
        few, many = np.array([1, 0]).astype(dtype), np.arange(34).reshape(2, 17).astype(dtype)
        stored = br.cast(x, "float32") if short in NARROW else x
        same = (
            br.bitcast(x, "uint8") == 1
            if short in ONE_BYTE
            else stored == br.constant(few.astype(stored.dtype))
        )
        fetches.append(br.where(same, x, br.constant(many)[:, 1]))
    return feed, fetches


@golden
def attributes() -> tuple[Feed, list[br.Var]]:
    """Every kind of attribute."""
    x = br.data("x", ["b", 3])
    odd = br.constant(np.array([np.nan, np.inf, -0.0], "f4"))
    scaled = br.einsum("bi,bj->bij", x, x) * 0.1
    shaped = br.full([x.shape[0], 3], 0.5, dtype="float32")
    total = br.sum(scaled, axis=None, keepdims=False)
    return {"x": RNG.normal(size=(4, 3)).astype("f4")}, [
        br.cast(x, "float16"),
        br.reshape(scaled, [x.shape[0], 9]),
        shaped + br.where(br.isnan(odd), 0.0, br.minimum(odd, 9.0)) + total,
    ]


@golden
def rnn() -> tuple[Feed, list[br.Var]]:
    """A recurrent net over rows of several lengths, trained with a schedule and clipping."""
    x, y = br.data("x", ["t", "b", 3]), br.data("y", ["b"], dtype="int32")
    lengths = br.data("lengths", ["b"], dtype="int32")
    w = br.parameter("w", [3, 3], init=np.eye(3, dtype="f4") * 0.5)
    cell = br.create_rnn(lengths=lengths, reverse=True)
    with cell.stepnet() as net:
        row = net.add_input(x)
        h = net.add_memory(shape=[3], batch_like=x, batch_axis=1)
        h.update(br.tanh(h.pre(1) @ w + row))
        net.add_output(h.pre(1))
    loss = br.softmax_cross_entropy(cell.final(h), y) + br.mean(cell() ** 2)
    rate = br.optimizer.exponential_decay(0.1, 2, 0.5)
    br.optimizer.chain(br.optimizer.clip_by_global_norm(1.0), br.optimizer.adam(rate)).minimize(
        loss
    )
    feed = {
        "x": RNG.normal(size=(4, 2, 3)).astype("f4"),
        "y": np.array([2, 0], "i4"),
        "lengths": np.array([4, 2], "i4"),
    }
    return feed, [loss, cell()]


@golden
def loops() -> tuple[Feed, list[br.Var]]:
    """A loop of unknown length with stacked rows, its second derivative, and forward mode."""
    x = br.data("x", ["b"], dtype="float64")
    loop = br.create_while(max_trips=50)
    with loop.block() as body:
        root = body.add_memory(init=x)
        body.set_condition(br.any(br.abs(root * root - x) > 1e-12))
        root.update((root + x / root) * 0.5)
        body.add_output(br.sum(root.pre(1)))
    final = loop.final(root)
    (slope,) = br.gradients([final], [x])
    (curve,) = br.gradients([slope], [x])
    (pushed,) = br.jvp([slope], [x], [br.ones_like(x)])
    return {"x": np.array([1.0, 2.0, 9.0])}, [final, loop(), slope, curve, pushed]


@golden
def branches() -> tuple[Feed, list[br.Var]]:
    """Scalar branches, row-wise branches and switches, nested in each other."""
    x, index = br.data("x", ["b", 2]), br.data("index", [], dtype="int32")
    w = br.parameter("w", [2], init=np.array([0.5, -1.5], "f4"))
    rows = br.create_if_else(br.sum(x, axis=1) > 0.0)
    with rows.true_block() as t:
        given = t.add_input(x)
        inner = br.create_if_else(br.sum(w) > 9.0)
        with inner.true_block() as yes:
            yes.add_output(w * 2.0)
        with inner.false_block() as no:
            no.add_output(w * w)
        t.add_output(br.tanh(given * inner()))
    with rows.false_block() as f:
        f.add_output(f.add_input(x) * 0.5)
    out = rows()
    chosen = br.switch(index, [lambda: out * w, lambda: br.exp(out), lambda: out])
    loss = br.sum(chosen**2)
    br.optimizer.momentum(0.1).minimize(loss)
    (slope,) = br.gradients([loss], [x])
    return {"x": RNG.normal(size=(5, 2)).astype("f4"), "index": np.int32(1)}, [loss, slope]


@golden
def blocks() -> tuple[Feed, list[br.Var]]:
    """Nested plain blocks, called and recomputed, with an updated state."""
    x = br.data("x", ["b", 3])
    with br.block("encoder", recompute=True) as encoder:
        with br.block("inner"):
            seen = br.state("seen", [])
            br.default_program().update(seen, seen + 1.0)
            h = br.fc(x, 3, act="tanh", name="fc")
        y = h * h + x
    again = encoder(y)
    loss = br.mean(again * h)
    br.optimizer.sgd(0.1).minimize(loss)
    (slope,) = br.gradients([loss], [x])
    (moved,) = br.jvp([loss], [h], [x])
    return {"x": RNG.normal(size=(4, 3)).astype("f4")}, [loss, slope, moved]


@golden
def adam() -> tuple[Feed, list[br.Var]]:
    """The step of an optimizer: a block that updates two parameters and their state."""
    x, y = br.data("x", ["b", 3]), br.data("y", ["b", 2])
    w = br.parameter("w", [3, 2], init=np.array([[1, -1], [0.5, 2], [0, 3]], "f4"))
    bias = br.parameter("bias", [2], init=np.array([0.25, -0.5], "f4"))
    loss = br.mean((x @ w + bias - y) ** 2)
    br.optimizer.adam(0.1).minimize(loss)
    feed = {"x": RNG.normal(size=(4, 3)), "y": RNG.normal(size=(4, 2))}
    return {name: value.astype("f4") for name, value in feed.items()}, [loss]


@golden
def gradients() -> tuple[Feed, list[br.Var]]:
    """Custom gradients: of two inputs, in a loop, and of a called block."""
    x, w = br.data("x", ["b", 3]), br.parameter("w", [3], init=np.array([1, -0.5, 2], "f4"))

    @br.custom_gradient
    def gated(x: br.Var, w: br.Var) -> Any:
        h = br.tanh(x * w)
        return br.round(h * 4.0), lambda g: (g * h * w, br.sum(g * x, axis=0))

    with br.block("step") as step:
        y = gated(x, w)
        h = y + x
    again = step(h)
    end, rows = br.scan(lambda c, _: (gated(c, w) * 0.5, c), again, None, length=2)
    loss = br.mean(end * end) + br.sum(rows)
    (slope,) = br.gradients([loss], [x], br.ones_like(loss))
    br.optimizer.sgd(0.1).minimize(loss + br.sum(slope))
    return {"x": RNG.normal(size=(4, 3)).astype("f4")}, [loss, slope]


@golden
def derivations() -> tuple[Feed, list[br.Var]]:
    """A derivative in the body of a loop, and a step that is renamed; see `EDITS`."""
    x, w = br.data("x", ["b", 3]), br.parameter("w", [3], init=np.array([1, -0.5, 2], "f4"))

    def descend(c: br.Var, _: None) -> Any:
        (slope,) = br.gradients([br.sum(br.tanh(c))], [c])
        return c - slope, slope

    end, slopes = br.scan(descend, x * w, None, length=2)
    loss = br.mean(end)
    br.optimizer.sgd(0.1).minimize(loss)
    return {"x": RNG.normal(size=(4, 3)).astype("f4")}, [loss, slopes]


@golden
def naturals() -> tuple[Feed, list[br.Var]]:
    """Integers from 2^63 on as attributes, which no float equals."""
    x = br.data("x", ["b"], dtype="uint64")
    floor, most = br.clip(x, min=2**63 + 1), br.clip(x, max=2**64 - 2)
    padded = br.pad(x, [(1, 2)], value=2**64 - 1)
    return {"x": np.array([0, 2**63, 2**64 - 1], "u8")}, [
        br.full_like(x, 2**63 + 1),
        br.where(floor < most, floor, most),
        padded,
    ]


@golden
def axes() -> tuple[Feed, list[br.Var]]:
    """Names of axes with fixed sizes, which a layout refers to."""
    x, w = br.data("x", ["b", ("wide", 3)]), br.parameter("w", [("wide", 3), ("mlp", 2)])
    loss = br.sum(br.tanh(x @ w))
    br.optimizer.sgd(0.5).minimize(loss)
    return {"x": np.array([[1, -0.5, 2], [0, 0.25, 1]], "f4")}, [loss]


@golden
def edits() -> tuple[Feed, list[br.Var]]:
    """An optimizer step of which a constant is changed; see `EDITS`."""
    x, w = br.data("x", ["b", 3]), br.parameter("w", [3], init=np.array([1, -0.5, 2], "f4"))
    loss = br.mean(br.tanh(x * w))
    br.optimizer.sgd(0.1).minimize(loss)
    return {"x": RNG.normal(size=(4, 3)).astype("f4")}, [loss]


# ---- files -----------------------------------------------------------------------------------


EDITS: dict[str, Callable[[br.Program], br.Program]] = {
    "derivations": lambda program: program.rename({"w": "weight"}),
    "edits": lambda program: program.set_constant("sgd/body/sgd/constant_0", -2.0),
}
"""Changes of programs after they were built."""


def write_program(name: str, folder: Path) -> None:
    """A program as bytes and text, with one run of it."""
    with br.Program() as program:
        feed, fetches = PROGRAMS[name]()
    if name in EDITS:
        program = EDITS[name](program)
        fetches = [program.var(var.name) for var in fetches]
    program.save(folder / f"{name}.braces")
    (folder / f"{name}.prog").write_text(str(program), encoding="utf-8")
    exe, scope = br.Executor(), br.Scope()
    exe.init(program, scope, seed=0)
    values = exe.run(program, scope, feed=feed, fetch=fetches)
    write_run(folder / f"{name}.run", program, scope, feed, fetches, values)


def write_net(folder: Path) -> None:
    """A network with dropout and running statistics: a model, a checkpoint and parameters."""
    rng = np.random.default_rng(1)
    with br.Program() as program:
        x, y = br.data("x", ["b", 3]), br.data("y", ["b"], dtype="int32")
        hidden = br.batch_norm(br.fc(x, 4, act="tanh"))
        logits = br.fc(br.dropout(hidden, 0.5), 3, name="out")
        loss = br.softmax_cross_entropy(logits, y)
        br.optimizer.adamw(1e-2).minimize(loss)
    feed = {"x": rng.normal(size=(4, 3)).astype("f4"), "y": np.array([0, 1, 2, 0], "i4")}
    exe, scope = br.Executor(), br.Scope()
    exe.init(program, scope, seed=0)
    for _ in range(3):
        exe.run(program, scope, feed=feed, fetch=loss)
    train = (program, ["x", "y"], {"loss": loss})
    br.save_model(
        folder / "net.model",
        program,
        scope,
        ["x"],
        {"logits": logits},
        programs={"train": train},
    )
    br.save_checkpoint(scope, folder / "net.checkpoints", step=3, data_position={"epoch": 1})
    br.save_parameters(scope, folder / "net.safetensors")
    feed.pop("y")
    predict = br.prune(program.for_test(), [logits])
    values = exe.run(predict, scope, feed=feed, fetch=[logits])
    write_run(folder / "net.run", program, scope, feed, [logits], values)


def write_run(
    path: Path,
    program: br.Program,
    scope: br.Scope,
    feed: Feed,
    fetches: list[br.Var],
    values: list[Any],
) -> None:
    """Feeds and results of a run, and the scope afterwards."""
    arrays = {f"feed/{name}": np.asarray(value) for name, value in feed.items()}
    arrays |= {f"fetch/{v.name}": np.asarray(a) for v, a in zip(fetches, values, strict=True)}
    held = {
        info.name: np.asarray(scope.get_var(info.name).value) for info in program.persistables
    }
    arrays |= {f"state/{name}": value for name, value in held.items()}
    write_tensors(path, arrays, "braces.golden")


def refuse(version: str) -> str | None:
    """The reason against writing the files of this version, if any."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if re.search(rf"^## \[?v?{re.escape(version)}\b", text, re.MULTILINE):
        return f"{version} is released: its golden files never change. Raise the version first."
    return None


def main() -> int:
    """Write all files of this version; exit status 1 if it is released."""
    if reason := refuse(br.__version__):
        print(reason, file=sys.stderr)
        return 1
    folder = FOLDER / br.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        write_program(name, folder)
    write_net(folder)
    for path in sorted(folder.rglob("*.*")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
