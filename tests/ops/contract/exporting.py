"""ONNX export of operators, for tests and for the page of unsupported operators."""

from __future__ import annotations

import braces as br
from braces import gradients
from tests.ops.cases import Built, Case
from tests.ops.reference import is_float


def first_of_each(found: tuple[Case, ...]) -> list[Case]:
    """One example of each operator."""
    return list({case.op: case for case in reversed(found)}.values())[::-1]


def fetches(built: Built, differentiate: bool) -> list[br.Var]:
    """Return the results of an example, or their gradients."""
    fetch = list(built.fetch.values())
    if not differentiate:
        return fetch
    floats = [v for some in built.inputs.values() for v in some if is_float(v.dtype)]
    targets = [v for v in fetch if is_float(v.dtype)]
    with built.program:
        grads = gradients(targets, floats) if targets else []
    return list({g.name: g for g in grads if g is not None}.values())
