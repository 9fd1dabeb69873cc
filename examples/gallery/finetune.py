"""Fine-tuning of an imported ONNX model: a new head, a frozen trunk, then all parameters.

Magika is a convolutional network of Google that recognizes 200 types of files by their bytes,
Python among them. Its trunk is cut out of the ONNX file, and a new head separates three kinds
of Python files: modules, tests, and stubs of types (.pyi).

    1. imported trunk, frozen; the new head learns
    2. all parameters learn, with a lower learning rate
    3. the result is exported to ONNX, and compared in ONNX Runtime

The files are those of installed packages; the held-out ones come from other packages. The model
is a file of the package magika, which is downloaded, not installed.

    python -m examples.gallery.finetune             train, measure
    python -m examples.gallery.finetune --small     a random network of the same structure
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart
from examples.real_models import look_alike
from examples.real_models.cases import beginning_and_end
from examples.real_models.packages import MAGIKA, VERSIONS

MODEL = f"{MAGIKA}/model.onnx"
KINDS = ("module", "test", "stub")


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        files: The most training files of each kind.
        held_out: The most held-out files of each kind.
        epochs: Passes with a frozen trunk, and with all parameters.
        rates: The learning rates of both stages.
        batch: The batch size.
        mode: The mode of the executor.
    """

    files: int = 200
    held_out: int = 100
    epochs: tuple[int, int] = (5, 3)
    rates: tuple[float, float] = (3e-3, 2e-4)
    batch: int = 20
    mode: str = "compile"


SMALL = Settings(files=16, held_out=8, epochs=(3, 2), rates=(3e-2, 3e-3), batch=8)

# ---- data ------------------------------------------------------------------------------------

Files = dict[str, np.ndarray]


def python_files(packages: Iterable[str]) -> dict[str, list[Path]]:
    """The Python files of packages by kind, in a fixed random order."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    folders = [Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib")]
    for package in packages:
        folder = next(f / package for f in folders if (f / package).is_dir())
        for path in sorted(folder.rglob("*.py*")):
            if path.suffix == ".pyi":
                found["stub"].append(path)
            elif path.suffix == ".py" and path.stat().st_size > 1000:
                found["test" if path.name.startswith("test_") else "module"].append(path)
    order = np.random.default_rng(0)
    return {
        kind: [paths[i] for i in order.permutation(len(paths))] for kind, paths in found.items()
    }


def read(packages: Iterable[str], most: int) -> Files:
    """The bytes that the network reads, and the kinds: `bytes` i32[n, 2048], `kind` i32[n]."""
    found = python_files(packages)
    chosen = [(path, k) for k, kind in enumerate(KINDS) for path in found[kind][:most]]
    rows = [beginning_and_end(path.read_bytes()) for path, _ in chosen]
    return {"bytes": np.stack(rows), "kind": np.array([k for _, k in chosen], "int32")}


def training_files(settings: Settings) -> Files:
    """Files of SciPy, JAX, the standard library, and the stubs of a type checker."""
    return read(("scipy", "jax", "test", "json", "asyncio", "basedpyright"), settings.files)


def held_out_files(settings: Settings) -> Files:
    """Files of NumPy and scikit-learn."""
    return read(("numpy", "sklearn"), settings.held_out)


def download(folder: Path) -> Path:
    """The ONNX file of Magika; pip downloads its package.

    Raises:
        CalledProcessError: If pip cannot download the package.
    """
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    subprocess.run([*command, f"magika=={VERSIONS['magika']}"], check=True)
    with zipfile.ZipFile(next(folder.glob("magika*.whl"))) as archive:
        return Path(archive.extract(MODEL, folder))


# ---- programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """A classifier on an imported trunk.

    Attributes:
        program: From the feed `bytes` to the probabilities.
        logits: The logits of the kinds.
        likely: The probabilities.
        scope: The parameters; those of the head have no value yet.
    """

    program: br.Program
    logits: br.Var
    likely: br.Var
    scope: br.Scope


def build(model: Path) -> Net:
    """Cut the trunk out of an ONNX file, and put a new head on it."""
    imported, values = br.from_onnx(model)
    features = imported.find(type="matmul")[-1].inputs[0]  # what the old head reads
    trunk, _ = br.cut(imported, at=[features])
    with br.Program() as program:
        content = br.data("bytes", ["n", 2048], dtype="int32")
        logits = br.fc(br.call(trunk, content, name="trunk"), len(KINDS), name="head")
        likely = br.softmax(logits, name="likely")
    scope = br.Scope()
    scope.update(values, prefix="trunk/")
    return Net(program, logits, likely, scope)


def stage(
    net: Net, name: str, rate: float, parameters: Sequence[str] | None
) -> tuple[br.Program, br.metrics.Metric]:
    """A program that trains some parameters, or all of them, and its accuracy.

    The optimizer has a name, because the learning rate is a variable `name/learning_rate` of
    the scope, which both stages share.
    """
    with copy(net.program) as training:
        kind = br.data("kind", ["n"], dtype="int32")
        logits = training.var(net.logits.name)
        loss = br.softmax_cross_entropy(logits, kind)
        accuracy = br.metrics.accuracy(logits, kind)
        br.optimizer.adam(rate, name=name).minimize(loss, parameters)
    return training, accuracy


# ---- training --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned classifier.

    Attributes:
        net: The classifier.
        exe: The executor.
        runs: The training of each stage.
    """

    net: Net
    exe: br.Executor
    runs: Sequence[br.Training]

    def likely(self, content: np.ndarray) -> np.ndarray:
        """The probabilities of the kinds, 50 files at a time."""
        parts = np.array_split(content, -(-len(content) // 50))
        run, net = self.exe.run, self.net
        found = [run(net.program, net.scope, {"bytes": part}, net.likely) for part in parts]
        return np.concatenate(found)

    def export(self, path: Path) -> None:
        """Write the classifier to an ONNX file."""
        br.to_onnx(self.net.program, path, scope=self.net.scope, fetches=[self.net.likely])


def tune(
    model: Path, settings: Settings, training: Files, valid: Files, *, quiet: bool = False
) -> Tuned:
    """Train the head, then all parameters; both stages share one scope."""
    net, exe = build(model), br.Executor(mode=settings.mode)
    parts, runs = {"frozen": ["head.w", "head.b"], "whole": None}, list[br.Training]()
    for name, epochs, rate in zip(parts, settings.epochs, settings.rates, strict=True):
        program, accuracy = stage(net, name, rate, parts[name])
        runs.append(
            br.fit(
                program,
                br.batches(training, settings.batch, drop_last=True),
                epochs=epochs,
                validation=br.batches(valid, 50, shuffle=False),
                metrics={"accuracy": accuracy},
                scope=net.scope,
                exe=exe,
                quiet=quiet,
            )
        )
    return Tuned(net, exe, runs)


# ---- measurement -----------------------------------------------------------------------------


def histogram_accuracy(training: Files, valid: Files) -> float:
    """The accuracy of logistic regression on the frequencies of bytes: a baseline."""
    from sklearn.linear_model import LogisticRegression

    def frequencies(files: Files) -> np.ndarray:
        counts = [np.bincount(row, minlength=257)[:256] for row in files["bytes"]]
        return np.sqrt(counts)

    model = LogisticRegression(max_iter=2000).fit(frequencies(training), training["kind"])
    return float(np.mean(model.predict(frequencies(valid)) == valid["kind"]))


def in_onnx_runtime(path: Path, content: np.ndarray) -> np.ndarray:
    """The outputs of an ONNX file in ONNX Runtime.

    Raises:
        ImportError: If ONNX Runtime is not installed.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (likely,) = session.run(None, {"bytes": content})
    return likely


def draw(tuned: Tuned) -> str:
    """The held-out accuracy and loss over the epochs of both stages."""
    frozen, whole = (run.history for run in tuned.runs)
    first = range(1, len(frozen) + 1)
    second = range(len(frozen), len(frozen) + len(whole) + 1)
    accuracy = frozen["val_accuracy"]
    curves: dict[str, Any] = {
        "frozen trunk": (first, accuracy),
        "all parameters": (second, [accuracy[-1], *whole["val_accuracy"]]),
    }
    return line_chart(curves, x="epoch", y="held-out accuracy")


def example(small: bool) -> tuple[str, str]:
    """Fine-tune, measure, export and compare."""
    settings = SMALL if small else Settings()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if small:
            look_alike.write(folder)
        model = folder / MODEL if small else download(folder)
        training, valid = training_files(settings), held_out_files(settings)
        tuned = tune(model, settings, training, valid, quiet=small)
        tuned.export(folder / "kinds.onnx")
        theirs = in_onnx_runtime(folder / "kinds.onnx", valid["bytes"])
    ours = tuned.likely(valid["bytes"])
    frozen, whole = (run.history["val_accuracy"][-1] for run in tuned.runs)
    result = (
        f"{len(valid['kind'])} held-out files, {len(training['kind'])} for training: accuracy "
        f"{frozen:.1%} with a frozen trunk, then {whole:.1%} with all parameters; logistic "
        f"regression on byte frequencies {histogram_accuracy(training, valid):.1%}\n"
        f"ONNX Runtime: {np.mean(ours.argmax(1) == theirs.argmax(1)):.1%} equal decisions, "
        f"largest difference of a probability {np.abs(ours - theirs).max():.0e}"
    )
    return result, draw(tuned)


if __name__ == "__main__":
    run_example(__doc__, example)
