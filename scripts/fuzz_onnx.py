"""Damage ONNX models in many ways, and import them: each is refused, or becomes a program.

    python scripts/fuzz_onnx.py --count 50000 --seed 0

The models are the small ones of ONNX's backend test suite, with all operators, and some
classical models, which `--tables` selects. An exception other than `BracesError` is a
finding, and so is a case that runs long, takes much memory, or opens another file than those of
its folder. `--first N --count 1` repeats a case. The exit status is 1 if there are findings,
else 0.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

import braces as br
import fuzz_files as f
import mutations as m
import onnx_mutations as om
from onnx_cases import cases
from onnx_tables import table_models

LARGEST = 20_000
"""Models of more bytes are weights mostly."""
OFTEN = 40
"""How often a model with functions is there, so that one case of some twenty damages one."""
KIND = "onnx"


def load_onnx(path: Path) -> None:
    """Import a model; if it is refused, also with values of its inputs."""
    try:
        _use(br.from_onnx(path)[0])
    except br.BracesError:
        _use(br.from_onnx(path, inputs=_examples(path))[0])


def _use(program: br.Program) -> None:
    br.verify(program, all=True)
    assert str(br.Program.from_bytes(program.to_bytes())) == str(program)


def _examples(path: Path) -> dict[str, Any]:
    """A small array for each input, and a list for each sequence."""
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
        return {entry.name: _example(entry.type) for entry in model.graph.input}
    except Exception:  # no model, or names that are no text: the importer has said so
        return {}


def _example(type_: Any) -> Any:
    if type_.WhichOneof("value") == "sequence_type":
        return [np.ones(2, np.float32)] * 2
    sizes = [axis.dim_value for axis in type_.tensor_type.shape.dim]
    integer = type_.tensor_type.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
    dtype = np.int64 if integer else np.float32
    return np.ones([n if 0 < n < 5 else 2 for n in sizes[:6]], dtype)


def functions() -> list[bytes]:
    """Models with functions: a training step of blocks, and calls in calls of other domains."""
    with br.Program() as prog:
        x = br.data("x", ["batch", 4])
        with br.block("layer", recompute=True) as layer:
            h = br.tanh(br.fc(x, 4, name="q"))
            with br.block("rows"):
                y = br.reshape(h * h, [-1, 2])
        loss = br.mean(layer(h)) + br.sum(y)
        br.optimizer.sgd(0.1).minimize(loss)
    scope = br.Scope()
    br.Executor(mode="interpret").init(prog, scope, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        br.to_onnx(prog, path, scope=scope, fetches=[loss], updates=True)
        step = path.read_bytes()
    return [step, onnx.parser.parse_model(CALLS).SerializeToString()]


CALLS = """<ir_version: 10, opset_import: ["" : 18, "net" : 1, "lib" : 1]>
net (float[N,4] x, bool c) => (float[M,2] y) <int64[2] s = {-1, 2}> {
    a = lib.scale<k = 2.0>(x)
    b = net.turn(a, c)
    d = net.turn(b, c)
    [rows] y = net.rows(d, s)
}
<domain: "lib", opset_import: ["" : 18]> scale <k: float = 4.0> (x, w) => (y) {
    f = Constant<value_float: float = @k>()
    y = Mul(x, f)
}
<domain: "net", opset_import: ["" : 18, "lib" : 1]> turn (x, c) => (y) {
    y = If(c) <then_branch = yes () => (float[N,4] r) { r = lib.scale(x) },
               else_branch = no () => (float[N,4] q) { q = Sin(x) }>
}
<domain: "net", opset_import: ["" : 18]> rows (x, s) => (y) { y = Reshape(x, s) }"""

LOADERS: f.Loaders = {
    KIND: (
        load_onnx,
        (*m.BYTES, *[m.mutate_fields] * 5, *[om.mutate_model] * 15, om.mutate_text),
    )
}


def fuzz(
    first: int, count: int, seed: int, limit_s: float, *, tables: bool = False
) -> f.Outcome:
    """Run cases, each in a folder with nothing but the model and one file of weights."""
    outcome = f.Outcome()
    warnings.simplefilter("ignore")  # NumPy tells of numbers that overflow
    models = [found.SerializeToString() for found in table_models()]
    if not tables:
        models += [case.model().SerializeToString() for case in cases().values()]
    small = [(KIND, data) for data in models if len(data) <= LARGEST]
    small += [(KIND, data) for data in functions()] * OFTEN
    with tempfile.TemporaryDirectory() as made:
        Path(made, "here").write_bytes(bytes(64))
        path = Path(made, "case")
        _warm_up([data for _, data in small], path)
        sys.addaudithook(reading(made))
        f.limit_memory()
        for number in range(first, first + count):
            f.run_case(number, seed, small, path, limit_s, outcome, LOADERS)
            if number % 5_000 == 4_999:
                f.tell(outcome, number + 1)
        left = sorted(os.listdir(made))
        assert left == ["case", "here"], f"files were written: {left}"
    return outcome


def _warm_up(models: Sequence[bytes], path: Path) -> None:
    """Import all modules that the importer loads lazily."""
    for model in models[::20]:
        path.write_bytes(model)
        with suppress(br.BracesError):
            load_onnx(path)


def reading(folder: str) -> Any:
    """A hook that refuses to open files elsewhere."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not f.watching():
            return
        place = arguments[0]
        if isinstance(place, str | bytes | os.PathLike) and not f.importing(event):
            whole = os.path.realpath(os.fsdecode(place))
            if not whole.startswith((folder, sys.prefix, sys.base_prefix)):
                raise f.ForbiddenError(f"open {whole:.200}")

    return watch


def main() -> int:
    """Run the command line."""
    parser = f.command_line(__doc__, count=5_000, limit_s=10.0)
    parser.add_argument("--tables", action="store_true", help="only models of tables")
    options = parser.parse_args()
    outcome = fuzz(
        options.first, options.count, options.seed, options.limit, tables=options.tables
    )
    return f.report(outcome, options.first + options.count)


if __name__ == "__main__":
    sys.exit(main())
