"""Models of one node, run by ONNX Runtime and by us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

import braces as br
from braces.exchange.onnx.runtime import session

VERSIONS = {"": 18, "com.microsoft": 1}


def model(
    op_type: str,
    inputs: Sequence[Any],
    outputs: int = 1,
    domain: str = "com.microsoft",
    weights: Sequence[int] = (),
    wanted: Sequence[int] | None = None,
    named: Mapping[int, str] = MappingProxyType({}),
    **attrs: Any,
) -> Any:
    """A model of one node.

    Args:
        op_type: Its operator.
        inputs: Its inputs; `None` for one that is left out.
        outputs: How many outputs it has.
        domain: Whose operator it is.
        weights: Which inputs the model brings along.
        named: Names that the model has for sizes.
        wanted: Which outputs are there, where some are left out.
        attrs: Its attributes.
    """
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    places = range(outputs) if wanted is None else wanted
    made = [f"y{i}" if i in places else "" for i in range(max(places) + 1)]
    node = helper.make_node(op_type, names, made, domain=domain, **attrs)
    entries = [
        helper.make_tensor_value_info(
            f"x{i}",
            helper.np_dtype_to_tensor_dtype(value.dtype),
            [named.get(size, size) for size in value.shape],
        )
        for i, value in enumerate(inputs)
        if value is not None and i not in weights
    ]
    brought = [onnx.numpy_helper.from_array(inputs[i], f"x{i}") for i in weights]
    results = [helper.make_empty_tensor_value_info(name) for name in made if name]
    graph = helper.make_graph([node], "one_node", entries, results, brought)
    versions = [helper.make_opsetid(k, v) for k, v in VERSIONS.items()]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def by_onnxruntime(found: Any, fed: Mapping[str, Any]) -> list[Any]:
    """Return the results of ONNX Runtime for a model."""
    return session(found.SerializeToString(), optimized=False).run(None, dict(fed))


def by_us(found: Any, fed: Mapping[str, Any], mode: str) -> list[Any]:
    """Return our results for the model."""
    prog, values = br.from_onnx(found, inputs=fed)
    scope = br.Scope()
    scope.update(values)
    feed = {name: value for name, value in fed.items() if name in prog.feeds}
    return br.Executor(mode=mode).run(prog, scope, feed=feed, fetch=list(prog.fetches))


def agree(
    mode: str, op_type: str, inputs: Sequence[Any], *, atol: float = 1e-5, **options: Any
) -> None:
    """Hold a node against ONNX Runtime."""
    found = model(op_type, inputs, **options)
    weights = options.get("weights", ())
    fed = {
        f"x{i}": value
        for i, value in enumerate(inputs)
        if value is not None and i not in weights
    }
    wanted = by_onnxruntime(found, fed)
    for got, want in zip(by_us(found, fed, mode), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=1e-4, atol=atol)
