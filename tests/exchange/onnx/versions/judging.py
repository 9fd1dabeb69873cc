"""Reference values of models: ONNX Runtime, or ONNX's reference without a kernel there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from braces.exchange.onnx.runtime import session
from tests.exchange.onnx.versions.cases import Model, code_of

WIDER = {np.dtype("f2"): np.dtype("f4")} | {
    np.dtype(getattr(ml_dtypes, name)): np.dtype(wide)
    for wide, names in {
        "f4": (
            "bfloat16", "float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
            "float8_e5m2fnuz", "float8_e8m0fnu",
        ),
        "i4": ("int2", "int4", "uint2", "uint4"),
    }.items()
    for name in names
}  # fmt: skip
"""Dtypes with all numbers of others, that more has kernels for."""
OTHERS = WIDER | {np.dtype("f8"): np.dtype("f4")}
"""Dtypes in place of others that ONNX Runtime has no kernel for."""
FLOATS = OTHERS | {np.dtype(one): np.dtype("f4") for one in ("?", "i2", "i8", "u2", "u4", "u8")}
"""The same, integers among them, of which few kernels have all."""
PRECISION = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 1e-4, "float64": 1e-4}
"""How far numbers may be apart, by dtype; all other floats are apart by a step of theirs."""


def judged(model: Model, opset: int) -> list[Any] | None:
    """What a model gives, from the first that runs it; `None` where nothing does."""
    if model.case.want is not None:
        return [np.asarray(one) for one in model.case.want(*model.case.inputs)]
    for judge in (by_onnxruntime, by_wider, by_older, by_reference, by_floats):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = judge(model, opset)
        except Exception:  # whatever they raise of what they cannot run, the next one is asked
            continue
        if found is not None:
            return _in_dtypes(found, model.alone(opset))
    return None


def _in_dtypes(found: list[Any], model: Any) -> list[Any]:
    """Results in the dtypes that ONNX infers, which its evaluator does not always keep."""
    return [
        np.asarray(one).astype(helper.tensor_dtype_to_np_dtype(code))
        if code
        else np.asarray(one)
        for one, code in zip(found, dtypes_of(model), strict=True)
    ]


def by_onnxruntime(model: Model, opset: int) -> list[Any]:
    """What ONNX Runtime makes of it; only what NumPy itself has is fed."""
    whole, fed = model.alone(opset), dict(model.fed)
    for name in [
        name for name, value in fed.items() if value.dtype in WIDER and value.dtype != "f2"
    ]:
        whole.graph.initializer.append(
            onnx.numpy_helper.from_array(np.asarray(fed.pop(name)), name)
        )
        (entry,) = (one for one in whole.graph.input if one.name == name)
        whole.graph.input.remove(entry)
    dtypes = [_widened(whole.graph, *place) for place in enumerate(dtypes_of(whole))]
    made = session_of(whole).run(None, fed)
    return [
        one if dtype is None else one.astype(dtype)
        for one, dtype in zip(made, dtypes, strict=True)
    ]


def _widened(graph: Any, at: int, code: int) -> Any:
    """Give an output in a dtype that NumPy has; return its own."""
    entry = graph.output[at]
    dtype = None if not code else np.dtype(helper.tensor_dtype_to_np_dtype(code))
    if dtype is None or dtype not in WIDER or dtype == "f2":
        return None
    name = f"{entry.name}_wide"
    graph.node.append(helper.make_node("Cast", [entry.name], [name], to=code_of(WIDER[dtype])))
    entry.CopyFrom(helper.make_empty_tensor_value_info(name))
    return dtype


def session_of(model: Any) -> Any:
    model.ir_version = 10
    return session(model.SerializeToString(), optimized=False)


def by_reference(model: Model, opset: int) -> list[Any]:
    """Return the results of ONNX's reference evaluator."""
    found = ReferenceEvaluator(model.alone(opset)).run(None, dict(model.fed))
    return found if isinstance(found, list) else [found]


def by_wider(model: Model, opset: int) -> list[Any] | None:
    """What ONNX Runtime makes of the same in dtypes that it has kernels for, rounded."""
    return _in_others(model, opset, OTHERS)


def by_floats(model: Model, opset: int) -> list[Any] | None:
    """Return the results of ONNX Runtime in float32."""
    return _in_others(model, opset, FLOATS)


def _in_others(model: Model, opset: int, others: Mapping[Any, Any]) -> list[Any] | None:
    whole = model.alone(opset)
    codes = dtypes_of(whole)
    narrow = {code_of(dtype): code_of(wide) for dtype, wide in others.items()}
    if 0 in codes or not any(code in narrow for code in _codes(whole.graph)):
        return None
    for entry in whole.graph.input:
        tensor = entry.type.tensor_type
        tensor.elem_type = narrow.get(tensor.elem_type, tensor.elem_type)
    for tensor in whole.graph.initializer:
        array = _wide(onnx.numpy_helper.to_array(tensor), others)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    fed = {name: _wide(value, others) for name, value in model.fed.items()}
    made = session_of(whole).run(None, fed)
    return [
        one.astype(helper.tensor_dtype_to_np_dtype(code))
        for one, code in zip(made, codes, strict=True)
    ]


def by_older(model: Model, opset: int) -> list[Any] | None:
    """What ONNX Runtime makes of it in the version before, where this brought only dtypes."""
    del opset
    if model.version.before is None or any(model.version.news()):
        return None
    older = model.version.since - 1
    return by_wider(model, older) or by_onnxruntime(model, older)


def _codes(graph: Any) -> list[int]:
    return [
        *(entry.type.tensor_type.elem_type for entry in graph.input),
        *(tensor.data_type for tensor in graph.initializer),
    ]


def _wide(given: Any, others: Mapping[Any, Any]) -> Any:
    array = np.asarray(given)
    return array.astype(others.get(array.dtype, array.dtype))


def dtypes_of(model: Any) -> list[int]:
    """The dtypes that ONNX infers of outputs; 0 where it does not."""
    inferred = onnx.shape_inference.infer_shapes(model)
    return [entry.type.tensor_type.elem_type for entry in inferred.graph.output]


# ---- comparing -------------------------------------------------------------------------------


def difference(got: Sequence[Any], want: Sequence[Any], *, drawn: bool) -> str:
    """Return the difference of results; empty if there is none."""
    if len(got) != len(want):
        return f"{len(got)} outputs in place of {len(want)}"
    for at, (one, other) in enumerate(zip(got, want, strict=True)):
        left, right = np.asarray(one), np.asarray(other)
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            return (
                f"output {at}: {left.dtype}{left.shape} in place of {right.dtype}{right.shape}"
            )
        if not drawn and not _near(left, right):
            return f"output {at}: {left.tolist()} in place of {right.tolist()}"
    return ""


def _near(left: Any, right: Any) -> bool:
    if left.dtype.kind in "biu" or left.dtype.name in ("int2", "int4", "uint2", "uint4"):
        return np.array_equal(left, right)
    slack = PRECISION.get(left.dtype.name, 0.3)
    wide = [one.astype("f8") for one in (left, right)]
    return np.allclose(*wide, rtol=slack, atol=slack / 10, equal_nan=True)
