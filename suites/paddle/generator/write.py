"""Write Paddle programs, with Paddle's values and gradients; runs in an environment of Paddle.

    PYTHONPATH=suites/paddle python -m generator.write FOLDER GROUP NAME...

A case is a folder with `net.pdmodel`, `net.pdiparams` and `case.npz`: `feed/NAME`, `fetch/0`, ...,
`weight/0`, ... (the factors of the loss), `gradient/NAME` of inputs and parameters. A case that
Paddle itself cannot compute or save has `error.txt`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ.setdefault("FLAGS_enable_pir_api", "0")

import paddle
from paddle import nn, static

from . import cases, control_flow


class One(nn.Layer):
    """A function of any number of arrays as a layer; `inner` is a layer that it calls."""

    def __init__(self, function: Any, inner: Any = None) -> None:
        super().__init__()
        self.function, self.inner = function, inner

    def forward(self, a: Any) -> Any:
        return apply(self, a)


class Two(One):
    def forward(self, a: Any, b: Any) -> Any:
        return apply(self, a, b)


class Three(One):
    def forward(self, a: Any, b: Any, c: Any) -> Any:
        return apply(self, a, b, c)


def apply(layer: Any, *arrays: Any) -> Any:
    if layer.inner is None:
        return layer.function(*arrays)
    return layer.function(layer.inner, *arrays)


class OneWith(One):
    def forward(self, a: Any) -> Any:
        return self.function(a, self.inner)


class TwoWith(One):
    def forward(self, a: Any, b: Any) -> Any:
        return self.function(a, b, self.inner)


class Stacked(nn.Layer):
    """Lists of parameters and layers."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([self.create_parameter([3, 3]) for _ in range(2)])
        self.layers = nn.LayerList([nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x: Any) -> Any:
        for weight, layer in zip(self.weights, self.layers):
            x = paddle.tanh(layer(x @ weight))
        return x


def assigned(x: Any) -> Any:
    y = x * 1
    y[:, 1] = 0.5
    y[1:3, 2:] = y[1:3, 2:] * 2
    y[0] = paddle.arange(5, dtype="float32")
    return y


def masked(x: Any) -> Any:
    y = x * 1
    y[y > 0.3] = 0.25
    return y


# ---- cases -----------------------------------------------------------------------------------


def layer_of(case: cases.Case) -> Any:
    """Return the layer of a case."""
    wrappers = (One, Two, Three)
    if case.group == "vision":
        return getattr(paddle.vision.models, case.name)(num_classes=10)
    if case.group == "control_flow":
        function = getattr(control_flow, case.name)
        if "layer" in case.text:
            return (OneWith, TwoWith)[len(case.inputs) - 1](function, nn.Linear(3, 3))
        return wrappers[len(case.inputs) - 1](function)
    made = eval(case.text, {**globals(), "F": nn.functional})
    if isinstance(made, tuple):
        return wrappers[len(case.inputs) - 1](made[1], made[0])
    return made if isinstance(made, nn.Layer) else wrappers[len(case.inputs) - 1](made)


def flat(value: Any) -> list[Any]:
    """Return the arrays in nested results."""
    if isinstance(value, Sequence):
        return [one for part in value for one in flat(part)]
    if isinstance(value, dict):
        return [one for part in value.values() for one in flat(part)]
    return [] if value is None or isinstance(value, str) else [value]


def array_of(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def specs(case: cases.Case, arrays: dict[str, Any]) -> list[Any]:
    """Return the declared inputs; the first size is unknown."""
    return [
        static.InputSpec(
            list(arrays[i.name].shape) if i.static else [None, *arrays[i.name].shape[1:]],
            str(arrays[i.name].dtype), i.name,
        )
        for i in case.inputs
    ]  # fmt: skip


def write_case(folder: Path, case: cases.Case) -> None:
    """Write one case."""
    paddle.seed(3)
    np.random.seed(3)
    arrays = {i.name: i.array(at) for at, i in enumerate(case.inputs)}
    layer = layer_of(case)
    layer.eval()
    randomize(layer)
    saved = {f"feed/{name}": array for name, array in arrays.items()}
    states = {name: array_of(value) for name, value in layer.state_dict().items()}
    eager: list[Any] = []
    try:
        eager = values_and_gradients(layer, case, arrays, saved)
    except Exception as error:
        saved["no_gradient"] = np.asarray(f"{type(error).__name__}: {error!s:.300}")
    layer.set_state_dict({name: paddle.to_tensor(value) for name, value in states.items()})
    layer = paddle.jit.to_static(layer, input_spec=specs(case, arrays), full_graph=True)
    layer.eval()
    paddle.jit.save(layer, str(folder / "net"))
    results = run_saved(folder, arrays)
    if eager and not all(map(same, eager, results)):
        saved["no_gradient"] = np.asarray("the saved program and eager mode differ in Paddle")
    saved |= {f"fetch/{at}": value for at, value in enumerate(results)}
    np.savez(folder / "case.npz", **saved)


def same(a: Any, b: Any) -> bool:
    """Return whether two results are nearly equal."""
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


def randomize(layer: Any) -> None:
    """Make statistics, biases and scales differ from zeros and ones."""
    rng = np.random.default_rng(7)
    for name, value in layer.state_dict().items():
        if "float" not in str(value.dtype) or value.ndim != 1:
            continue
        noise = rng.normal(size=value.shape) * 0.1
        array = array_of(value) + (np.abs(noise) if "variance" in name else noise)
        value.set_value(array.astype(array_of(value).dtype))


def values_and_gradients(
    layer: Any, case: Any, arrays: Any, saved: dict[str, Any]
) -> list[Any]:
    """Return the results in eager mode, and enter the gradients of a weighted sum."""
    inputs = [paddle.to_tensor(array) for array in arrays.values()]
    for one in inputs:
        one.stop_gradient = not differentiable(one)
    loss, results = weighted(layer, inputs, saved)
    if loss is None:
        return results
    names = [i.name for i, one in zip(case.inputs, inputs) if not one.stop_gradient]
    params = [one for one in layer.parameters() if not one.stop_gradient]
    if any(isinstance(one, nn.layer.rnn.RNNBase) for one in layer.sublayers()):
        layer.train()  # the gradient of a recurrent layer needs it
        loss, _ = weighted(layer, inputs, saved)
    wanted = [one for one in inputs if not one.stop_gradient] + params
    names += [one.name for one in params]
    gradients = paddle.grad([loss], wanted, allow_unused=True)
    for name, one in zip(names, gradients):
        if one is not None:
            saved[f"gradient/{name}"] = array_of(one)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size <= MOST_DIFFERENCES:
            saved[f"slope/{name}"] = slopes(layer, arrays, name)
    return results


def weighted(layer: Any, inputs: list[Any], saved: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return the loss and the results; enter the weights."""
    results = flat(layer(*inputs))
    found = [array_of(one) for one in results]
    rng, loss = np.random.default_rng(11), None
    for at, (one, array) in enumerate(zip(results, found)):
        if not differentiable(one) or one.stop_gradient or array.dtype.kind == "c":
            continue
        weight = np.asarray(rng.normal(size=array.shape)).astype(array.dtype)
        saved[f"weight/{at}"] = weight
        part = (one * paddle.to_tensor(weight)).sum().astype("float32")
        loss = part if loss is None else loss + part
    return loss, found


MOST_DIFFERENCES, STEP = 120, 1e-2


def slopes(layer: Any, arrays: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    """Return the central differences of the loss by the elements of an input.

    They tell an error of Paddle's gradient from one of the importer.
    """
    made = np.zeros(arrays[name].shape)
    for place in np.ndindex(made.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = arrays[name].copy()
            moved[place] += step
            inputs = [paddle.to_tensor({**arrays, name: moved}[key]) for key in arrays]
            for one in inputs:
                one.stop_gradient = not differentiable(one)
            ends.append(float(weighted(layer, inputs, {})[0]))
        made[place] = (ends[0] - ends[1]) / (2 * STEP)
    return made


def differentiable(one: Any) -> bool:
    return "float" in str(one.dtype) or "complex" in str(one.dtype)


def run_saved(folder: Path, arrays: dict[str, Any]) -> list[Any]:
    """Return the results of the saved program."""
    paddle.enable_static()
    try:
        exe = static.Executor(paddle.CPUPlace())
        with static.scope_guard(static.Scope()):
            program, feeds, fetches = static.load_inference_model(str(folder / "net"), exe)
            feed = {name: arrays[name] for name in feeds}
            results = exe.run(program, feed=feed, fetch_list=fetches)
    finally:
        paddle.disable_static()
    return [np.asarray(one) for one in results]


def main(root: Path, group: str, names: list[str]) -> None:
    for name in names:
        folder = root / group / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error.txt").write_text("the process of Paddle ended")
        try:
            write_case(folder, cases.case(group, name))
        except Exception as error:
            text = "".join(traceback.format_exception_only(type(error), error))
            if os.environ.get("TRACE"):
                traceback.print_exc()
            (folder / "error.txt").write_text(text[-2000:])
        else:
            (folder / "error.txt").unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
