"""Calls of PyTorch that are exported, imported and compared with their own results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.utils import _pytree as tree

import braces as br
from suites.case import Check, Excluded, attempt
from suites.comparison import (
    SLOPE_STEP,
    Imported,
    differences,
    import_check,
    only_second_is_slope,
    value_checks,
)

UNINITIALIZED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty",
                 "new_empty_strided")  # fmt: skip
"""Operators whose results have no values."""


class Call(torch.nn.Module):
    """A function of tensors, which are its inputs; its other arguments are fixed.

    Tensors are copied first, since programs do not write into their inputs.
    """

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        self.function = function
        leaves, self.structure = tree.tree_flatten(arguments)
        self.places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(leaves[at].detach() for at in self.places)
        self.leaves = [None if at in self.places else leaf for at, leaf in enumerate(leaves)]

    def forward(self, *tensors: Any) -> Any:
        """Call the function with other tensors."""
        leaves = list(self.leaves)
        for at, tensor in zip(self.places, tensors, strict=True):
            leaves[at] = tensor.clone() if tensor.layout == torch.strided else tensor
        args, kwargs = tree.tree_unflatten(leaves, self.structure)
        return self.function(*args, **kwargs)


class Comparison:
    """A call, its export, and its imported program.

    Raises:
        Excluded: If PyTorch cannot run or export the call.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        try:
            with torch.no_grad():
                self.wanted = [array(leaf) for leaf in results(self.run(call.tensors))]
            torch.manual_seed(0)
            self.exported = torch.export.export(call, call.tensors, strict=False)
        except Exception as error:
            raise Excluded(f"{type(error).__name__}: {error}") from None

    def run(self, tensors: Sequence[Any]) -> Any:
        """The results of PyTorch."""
        torch.manual_seed(0)
        return self.call(*tensors)

    def is_random(self, made: Imported) -> bool:
        """Whether the results are random in both, or uninitialized memory."""
        calls = [
            node.target for node in self.exported.graph.nodes if node.op == "call_function"
        ]
        if calls and str(calls[-1]).removeprefix("aten.").partition(".")[0] in UNINITIALIZED:
            return True
        tags = {tag for target in calls for tag in getattr(target, "tags", ())}
        if torch.Tag.nondeterministic_seeded not in tags:
            return False
        first, again = (made.run("compile", seed=seed) for seed in (0, 1))
        return bool(differences(first, again))

    def imported(self) -> Imported:
        """The imported program."""
        program, values = br.from_torch(self.exported)
        feed = zip(program.feeds, map(array, self.call.tensors), strict=True)
        return Imported(program, values, dict(feed))

    # ---- values ------------------------------------------------------------------------------

    def values(self, *, training: bool = False) -> Iterator[Check]:
        """Compare the results; shapes and dtypes of random ones.

        A model file has the program of inference, so in training it is not compared.
        """
        check, made = import_check(self.imported)
        if made is None:
            yield check
            return
        training = training or str(made.program.for_test()) != str(made.program)
        random = list[bool]()
        check = attempt("compiled", lambda: random.append(self.is_random(made)) or "")
        if not random:
            yield check
        elif random[0]:
            yield attempt("compiled", lambda: kinds(made.run("compile"), self.wanted))
        elif made.program.fetches or self.wanted:
            checks = value_checks(made, self.wanted, rtol=2e-4, atol=near(self.wanted))
            yield from (c for c in checks if not training or c.what != "file")

    # ---- gradients ---------------------------------------------------------------------------

    def gradients(self, parameters: Sequence[tuple[str, Any]] = ()) -> Iterator[Check]:
        """Compare the gradients of inputs and parameters, of a random weighted sum of results.

        Raises:
            Excluded: If PyTorch has no gradient.
        """
        inputs = [tensor.clone() for tensor in self.call.tensors]
        for tensor in inputs:
            tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())
        weights, wanted = self._wanted_gradients(inputs, [p for _, p in parameters])

        def compare() -> str:
            made = self.imported()
            if self.is_random(made):
                raise Excluded("random results")
            names = [*made.program.feeds, *(name for name, _ in parameters)]
            chosen = [
                name for name, grad in zip(names, wanted, strict=True) if grad is not None
            ]
            expected = [grad for grad in wanted if grad is not None]
            found = _gradients(made, weights, chosen)
            text = differences(found, expected, rtol=1e-3, atol=10 * near(expected))
            if text and not parameters:
                self._exclude_wrong_slope(weights, inputs, wanted, found)
            return text

        yield attempt("gradient", compare)

    def _exclude_wrong_slope(
        self, weights: Sequence[Any], inputs: Sequence[Any], theirs: Sequence[Any], ours: Any
    ) -> None:
        """Compare both gradients with a difference quotient of PyTorch's own values.

        Raises:
            Excluded: If the gradient of the import is the slope, and that of PyTorch is not.
        """
        draw = np.random.default_rng(2)
        exact = [_widened(x.detach()) for x in inputs]
        moves = [torch.tensor(draw.normal(size=x.shape)).to(x.dtype) for x in exact]
        chosen = [grad is not None for grad in theirs]
        with torch.no_grad():
            ends = [
                _weighted(results(self.run(_moved(exact, moves, chosen, size))), weights)
                for size in (SLOPE_STEP, -SLOPE_STEP)
            ]
        used = [array(move) for move, use in zip(moves, chosen, strict=True) if use]
        known = [grad for grad in theirs if grad is not None]
        if only_second_is_slope(ends, used, known, ours):
            raise Excluded("PyTorch's gradient is not the slope of its own values")

    def _wanted_gradients(
        self, inputs: Sequence[Any], parameters: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The weights of results, and the gradients of PyTorch; `None` for integers."""
        every = [*inputs, *parameters]
        try:
            outputs = list(results(self.run(inputs)))
            chosen = [tensor for tensor in every if tensor.requires_grad and tensor.numel()]
            draw, weights = np.random.default_rng(1), list[Any]()
            for output in outputs:
                used = isinstance(output, torch.Tensor) and output.requires_grad
                weights.append(draw.normal(size=tuple(output.shape)) if used else None)
            total = _weighted(outputs, weights)
            if isinstance(total, int) or not chosen:
                raise Excluded("no gradient")
            found = iter(torch.autograd.grad(total, chosen, allow_unused=True))
        except RuntimeError as error:
            raise Excluded(f"{type(error).__name__}: {error}") from None
        return weights, [
            _cotangent(next(found), tensor) if tensor.requires_grad and tensor.numel() else None
            for tensor in every
        ]


def _weighted(outputs: Iterable[Any], weights: Sequence[Any]) -> Any:
    """The weighted sum of results; of complex ones, of both parts with the same weight."""
    total: Any = 0
    for output, weight in zip(outputs, weights, strict=True):
        if weight is not None:
            flat = torch.view_as_real(output).sum(-1) if output.is_complex() else output
            total = total + (flat.double() * torch.tensor(weight)).sum()
    return total


def _widened(tensor: Any) -> Any:
    """A tensor in double precision, if it has floats."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _moved(
    tensors: Sequence[Any], moves: Sequence[Any], chosen: Sequence[bool], size: float
) -> list[Any]:
    """The chosen tensors, each moved in its direction."""
    triples = zip(tensors, moves, chosen, strict=True)
    return [x + size * move if use else x for x, move, use in triples]


def _cotangent(grad: Any, tensor: Any) -> Any:
    """A gradient in the convention of JAX and Braces: the conjugate of PyTorch's."""
    return array(torch.zeros_like(tensor) if grad is None else grad.conj())


def _gradients(made: Imported, weights: Sequence[Any], chosen: Sequence[str]) -> list[Any]:
    """The gradients of the weighted sum of results, by the names of variables."""
    program = made.program
    with program:
        parts = list[Any]()
        for name, weight in zip(program.fetches, weights, strict=True):
            if weight is not None:
                out = program.var(name)
                flat = br.real(out) + br.imag(out) if out.dtype.kind == "c" else out
                exact = br.ensure_shape(br.cast(flat, "float64"), weight.shape)
                parts.append(br.sum(exact * weight))
        total = sum(parts[1:], parts[0])
    return made.gradients(total, chosen)


# ---- arrays ----------------------------------------------------------------------------------


def results(value: Any) -> Iterator[Any]:
    """The tensors and numbers of a nested result."""
    for leaf in tree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor | bool | int | float | complex):
            yield leaf


def array(value: Any) -> Any:
    """A tensor or a number as an array."""
    tensor = torch.as_tensor(value).detach().resolve_conj().resolve_neg()
    dense = tensor if tensor.layout == torch.strided else tensor.to_dense()
    if dense.dtype == torch.bfloat16:
        return dense.float().numpy(force=True).astype(ml_dtypes.bfloat16)
    return dense.numpy(force=True)


def near(arrays: Sequence[Any]) -> float:
    """An absolute tolerance, relative to the largest finite number."""
    sizes = [np.abs(a[np.isfinite(a)]) for a in arrays if a.dtype.kind in "fc"]
    return 2e-5 * max(1.0, *(float(s.max(initial=0)) for s in sizes), 0.0)


def kinds(made: Sequence[Any], wanted: Sequence[Any]) -> str:
    """The difference in the shapes and dtypes of results."""
    pairs = [[(np.shape(a), np.asarray(a).dtype) for a in arrays] for arrays in (made, wanted)]
    return "" if pairs[0] == pairs[1] else f"{pairs[0]} for {pairs[1]}"
