"""Inputs of the modules of `module_db`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from suites.case import Check
from suites.torch.exported import Call, Comparison


@cache
def entries() -> dict[str, Any]:
    """The entries by name."""
    from torch.testing._internal.common_modules import module_db

    return {entry.name.removeprefix("nn."): entry for entry in module_db}


@cache
def inputs(name: str, training: bool) -> list[Any]:
    """The inputs of a module."""
    entry = entries()[name]
    torch.manual_seed(0)
    try:
        return list(
            entry.module_inputs_func(
                entry, device="cpu", dtype=torch.float32, requires_grad=False, training=training
            )
        )
    except (NotImplementedError, RuntimeError):
        return []


@cache
def names() -> tuple[str, ...]:
    """The cases: each input of each module, in training and evaluation."""
    return tuple(
        f"{name} {how} {at}"
        for name, entry in entries().items()
        for how in ("train", "eval")
        if how == "train" or entry.train_and_eval_differ
        for at, item in enumerate(inputs(name, how == "train"))
        if item.forward_input is not None
    )


def module_and_comparison(case: str) -> tuple[Any, Comparison]:
    """The module of a case, and its comparison."""
    name, how, at = case.rsplit(" ", 2)
    item = inputs(name, how == "train")[int(at)]
    torch.manual_seed(0)
    given = item.constructor_input
    module = entries()[name].module_cls(*given.args, **given.kwargs).train(how == "train")
    forward = item.forward_input
    call = Call(module, (tuple(forward.args), dict(forward.kwargs)))
    return module, Comparison(call)


def values(case: str) -> Iterator[Check]:
    """Compare the values of a module."""
    module, comparison = module_and_comparison(case)
    return comparison.values(training=module.training)


def gradients(case: str) -> Iterator[Check]:
    """Compare the gradients of a module's inputs and parameters."""
    module, comparison = module_and_comparison(case)
    parameters = [(f"function.{name}", value) for name, value in module.named_parameters()]
    return comparison.gradients(parameters)
