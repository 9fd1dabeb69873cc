"""Samples of the entries of `op_db`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import torch

from suites.case import Check
from suites.runner import RESULTS
from suites.torch.exported import Call, Comparison

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
"""The dtypes of samples: the first that an entry supports."""


@cache
def entries() -> dict[str, Any]:
    """The entries by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    named = {}
    for entry in op_db:
        if any(dtype in entry.supported_dtypes("cpu") for dtype in DTYPES):
            variant = entry.variant_test_name
            named[f"{entry.name}.{variant}" if variant else entry.name] = entry
    return named


@lru_cache(maxsize=2)
def samples(name: str) -> list[Any]:
    """The sample inputs of an entry."""
    entry = entries()[name]
    dtype = next(dtype for dtype in DTYPES if dtype in entry.supported_dtypes("cpu"))
    torch.manual_seed(0)
    try:
        return list(entry.sample_inputs("cpu", dtype, requires_grad=False))
    except (NotImplementedError, RuntimeError):  # as entries of other devices
        return []


@cache
def counts() -> dict[str, int]:
    """The number of samples of each entry, which a file keeps: counting takes a minute."""
    path = RESULTS / f"op_db-{torch.__version__}.json"
    if path.exists():
        return json.loads(path.read_text("utf-8"))
    counted = {name: len(samples(name)) for name in entries()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(counted), "utf-8")
    return counted


@cache
def names(differentiable: bool = False) -> tuple[str, ...]:
    """The cases: each sample of each entry, the first samples of all entries first."""
    counted = {
        name: count
        for name, count in counts().items()
        if not differentiable or entries()[name].supports_autograd
    }
    most = max(counted.values(), default=0)
    return tuple(f"{name} {at}" for at in range(most) for name in counted if at < counted[name])


def comparison(case: str, *, gradient: bool = False) -> Comparison:
    """The comparison of a sample: of its results as PyTorch's own gradient tests see them.

    For gradients, inputs are as in those tests, too, such as symmetric matrices.
    """
    name, _, at = case.rpartition(" ")
    entry, sample = entries()[name], samples(name)[int(at)]

    def function(*args: Any, **kwargs: Any) -> Any:
        if gradient:
            made = entry.gradcheck_wrapper(entry.op, *args, **kwargs)
        else:
            made = entry.op(*args, **kwargs)
        return sample.output_process_fn_grad(made)

    return Comparison(Call(function, ((sample.input, *sample.args), sample.kwargs)))


def values(case: str) -> Iterator[Check]:
    """Compare the values of a sample."""
    return comparison(case).values()


def gradients(case: str) -> Iterator[Check]:
    """Compare the gradients of a sample."""
    return comparison(case, gradient=True).gradients()
