"""Checks of one architecture: values, gradients and one step of Adam, with random weights."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import braces as br
from suites.case import Check, Excluded, attempt
from suites.comparison import Imported, difference, import_check, value_checks

Array = np.ndarray[Any, Any]
Built = tuple[Any, Sequence[Any], Mapping[str, Any]]
"""A module, its positional arguments and its keyword arguments."""

RATE = 1e-3
"""The learning rate of the step."""
RANDOM = (
    "p", "dropout", "drop_prob", "dropout_p", "attn_drop", "layerdrop", "attention_dropout",
    "activation_dropout",
)  # fmt: skip
"""Attributes of modules that are probabilities of random draws in training mode."""


def checks(build: Callable[[], Built]) -> Iterator[Check]:
    """Compare values in both modes and after a file, gradients, and a step of Adam."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.manual_seed(0)
    net, args, keywords = build()
    net.eval()
    with torch.no_grad():
        wanted = [tensor.numpy() for tensor in tensors(net(*args, **keywords))]
    exported = export(net, args, keywords)

    def read() -> Imported:
        program, values = br.from_torch(exported)
        return Imported(program, values, feed_of(program, args, keywords))

    check, made = import_check(read)
    if made is None:
        yield check
        return
    yield from value_checks(made, wanted, rtol=1e-3, atol=1e-4 * max(map(largest, wanted)))
    yield from training_checks(net, args, keywords)


def training_checks(net: Any, args: Sequence[Any], keywords: Any) -> Iterator[Check]:
    """Compare the gradients of a loss, and parameters and buffers after a step of Adam."""
    net = Training(without_draws(net)).train()
    program, values = br.from_torch(export(net, args, keywords))
    ours = braces_step(program, values, feed_of(program, args, keywords))
    theirs = torch_step(copy.deepcopy(net), args, keywords)

    def gradient_difference() -> str:
        exact = exact_step(net, args, keywords) if compare(ours, theirs) else theirs
        return compare(ours, exact, slack=max(1.0, 10 * error(theirs, exact)))

    yield attempt("gradient", gradient_difference)
    yield attempt("training step", lambda: compare_updates(ours, theirs))


# ---- modules ---------------------------------------------------------------------------------


class Training(torch.nn.Module):
    """The mean squared distance of all outputs of a module from fixed numbers."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """The loss."""
        outputs = tensors(self.net(*args, **keywords))
        return sum(_distance(y) for y in outputs if y.is_floating_point() and y.requires_grad)


def _distance(y: Any) -> Any:
    goal = torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)
    return (y - goal).square().mean()


def without_draws(net: Any) -> Any:
    """Set the probabilities of dropout to zero: its draws differ between libraries."""
    for part in net.modules():
        for name in RANDOM:
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return net


def export(net: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Export a module."""
    try:
        return torch.export.export(net, tuple(args), dict(keywords), strict=False)
    except Exception as cause:
        raise Excluded(f"torch.export: {type(cause).__name__}: {cause}") from cause


def tensors(tree: Any) -> list[Any]:
    """The tensors of a tree, in order."""
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def feed_of(program: br.Program, args: Any, keywords: Any) -> dict[str, Array]:
    """The feed of a program: the tensors of the arguments, in order."""
    arrays = [tensor.numpy() for tensor in tensors((tuple(args), dict(keywords)))]
    return dict(zip(program.feeds, arrays, strict=True))


# ---- steps -----------------------------------------------------------------------------------


@dataclass
class Step:
    """A step of Adam: the loss, gradients by parameter, and the values after it by name."""

    loss: Array
    gradients: dict[str, Array]
    after: dict[str, Array]


def braces_step(program: br.Program, values: Any, feed: Any) -> Step:
    """The step of an imported training program."""
    trained = [name for name in values if _is_trained(program, name)]
    with program:
        loss = program.var(program.fetches[0])
        gradients = dict(
            zip(trained, br.gradients(loss, [program.var(n) for n in trained]), strict=True)
        )
        br.optimizer.adam(RATE).minimize(loss)
    scope, executor = br.Scope(), br.Executor()
    executor.init(program, scope, seed=0)
    scope.update(values)
    used = {name: grad for name, grad in gradients.items() if grad is not None}
    arrays = executor.run(program, scope, feed=feed, fetch=[loss, *used.values()])
    after = {name: np.asarray(scope.var(name).value) for name in values}
    made = {name: np.zeros_like(values[name]) for name in trained}
    made |= dict(zip(used, map(np.asarray, arrays[1:]), strict=True))
    return Step(np.asarray(arrays[0]), made, after)


def _is_trained(program: br.Program, name: str) -> bool:
    info = program.var(name).info
    return info.kind == "parameter" and info.trainable


def torch_step(net: Any, args: Sequence[Any], keywords: Any) -> Step:
    """The step of PyTorch, which changes the module."""
    parameters = {n: p for n, p in net.named_parameters() if p.requires_grad}
    optimizer = torch.optim.Adam(parameters.values(), lr=RATE)
    loss = net(*args, **keywords)
    loss.backward()
    gradients = {n: _gradient(p) for n, p in parameters.items()}
    optimizer.step()
    kept = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    after = {name: tensor.detach().numpy() for name, tensor in kept.items()}
    return Step(loss.detach().numpy(), gradients, after)


def _gradient(parameter: Any) -> Array:
    grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return grad.numpy().copy()


def exact_step(net: Any, args: Sequence[Any], keywords: Any) -> Step:
    """The step of PyTorch in double precision."""
    tree = torch.utils._pytree
    double = tree.tree_map(_doubled, (tuple(args), dict(keywords)))
    return torch_step(copy.deepcopy(net).double(), *double)


def _doubled(leaf: Any) -> Any:
    floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    return leaf.double() if floating else leaf


# ---- comparisons -----------------------------------------------------------------------------


def largest(array: Array) -> float:
    """The largest finite absolute value of an array; at least 1e-30."""
    numbers = np.abs(array[np.isfinite(array)].astype("float64"))
    return float(numbers.max(initial=1e-30))


def compare(ours: Step, theirs: Step, slack: float = 1.0) -> str:
    """The first difference of the loss or of a gradient, in units of the tolerance."""
    missing = ours.gradients.keys() ^ theirs.gradients.keys()
    if missing:
        return f"gradients of other parameters: {', '.join(sorted(missing)[:5])}"
    at, worst = max(_errors(ours, theirs).items(), key=lambda entry: entry[1])
    return f"{at}: {worst:.2g} times the tolerance" if not worst <= slack else ""


def error(ours: Step, exact: Step) -> float:
    """The largest difference of the loss or of a gradient, in units of the tolerance."""
    return max(_errors(ours, exact).values())


def _errors(ours: Step, theirs: Step) -> dict[str, float]:
    whole = max(map(largest, theirs.gradients.values()))
    errors = {"loss": _distance_in(ours.loss, theirs.loss, 1e-4 * largest(theirs.loss))}
    for name, wanted in theirs.gradients.items():
        unit = 1e-3 * largest(wanted) + 1e-6 * whole
        errors[name] = _distance_in(ours.gradients[name], wanted, unit)
    return errors


def _distance_in(made: Array, wanted: Array, unit: float) -> float:
    if made.shape != wanted.shape:
        return np.inf
    return float(np.abs(made.astype("float64") - wanted).max(initial=0.0) / unit)


def compare_updates(ours: Step, theirs: Step) -> str:
    """The first difference of a parameter or buffer after the step.

    Elements with a small gradient may have any sign after rounding, and the first step of Adam
    is the sign, so these are not compared.
    """
    whole = max(map(largest, theirs.gradients.values()))
    for name, wanted in theirs.after.items():
        if name not in ours.after:
            continue
        made, sure = ours.after[name], np.ones(wanted.shape, bool)
        if name in theirs.gradients:
            gradient = np.abs(theirs.gradients[name])
            sure = gradient > 1e-2 * largest(gradient) + 1e-5 * whole
        scale = RATE if name in theirs.gradients else largest(wanted)
        text = difference(made[sure], wanted[sure], rtol=1e-4, atol=0.02 * scale)
        if text:
            return f"{name}: {text}"
    return ""
