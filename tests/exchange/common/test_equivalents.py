"""The table of operators in other systems: an import builds the operator, not a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from jax import lax
from jax.extend.core import primitives
from onnx import helper

import braces as br
from braces.equivalents import SYSTEMS, TABLE
from braces.exchange.torch.rules import RULES as TORCH
from braces.extend.operators import OPS, names_in
from paddle_writing import Written

pytestmark = pytest.mark.unoptimized

COUNTS = {
    "binary": 2, "comparison": 2, "logical": 2, "bitwise": 2, "product": 2,
    "logical_not": 1, "bitwise_invert": 1, "betainc": 3, "where": 3,
}  # fmt: skip
"""The number of operands of a kind, or of an operator that differs; 1 for the others."""
DTYPES = {
    "logical": "bool", "bitwise": "int32", "truth": "bool", "remainder": "int32",
    "floor_divide": "int32", "bitwise_left_shift": "int32", "bitwise_right_shift": "int32",
    "conj": "complex64", "real": "complex64", "imag": "complex64",
}  # fmt: skip
"""The dtype of the operands of a kind, or of an operator that differs; float32 for others."""
BESIDE = frozenset({"cast", "constant", "identity", "reshape"})
"""Operators that an import may build beside: dtypes, known operands, names of results."""
LARGER, SMALLER = ["greater", "where"], ["less", "where"]
FORMS: dict[str, list[str]] = {
    "jax abs": ["abs", "greater_equal", "custom_gradient"],
    "paddle elementwise_max": LARGER, "paddle maximum": LARGER,
    "paddle elementwise_min": SMALLER, "paddle minimum": SMALLER,
    **{f"paddle {name}": ["block"] for name in ("max", "reduce_max", "min", "reduce_min")},
}  # fmt: skip
"""Operators of names whose derivative differs from ours: that of JAX is 0 at 0, and those of
Paddle at ties are 0 for one operand, or that of each of the extremes.
"""


def cases(system: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Each name of a system: its kind, our operator, and the dtypes of the operands."""
    for kind in TABLE:
        for name, op_type in names_in(system, kind).items():
            if system == "jax" and not (name in LAX or hasattr(lax, name)):
                continue  # of later versions: tests/jaxpr/test_trace_rules.py has these
            dtype = DTYPES.get(op_type) or DTYPES.get(kind) or "float32"
            dtypes = [dtype] * (COUNTS.get(op_type) or COUNTS.get(kind) or 1)
            yield kind, name, op_type, ["bool", *dtypes[1:]] if op_type == "where" else dtypes


# ---- one operator of each system -------------------------------------------------------------


def of_onnx(_: Path, kind: str, name: str, dtypes: list[str]) -> br.Program:
    names = [f"x{at}" for at in range(len(dtypes))]
    inputs = [
        helper.make_tensor_value_info(
            x, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [4, 4]
        )
        for x, dtype in zip(names, dtypes, strict=True)
    ]
    axis = onnx.numpy_helper.from_array(np.array(0), "axis")
    extra = [axis.name] if kind == "cumulative" else []
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(
        [helper.make_node(name, [*names, *extra], ["y"])], "one", inputs, [output], [axis]
    )
    return br.from_onnx(helper.make_model(graph))[0]


def of_torch(_: Path, kind: str, name: str, dtypes: list[str]) -> br.Program:
    along = kind in ("cumulative", "softmax") or name == "logsumexp"
    with br.Program() as program:
        shape = [4] if name == "outer" else [4, 4]
        xs = [br.data(f"x{at}", shape, dtype) for at, dtype in enumerate(dtypes)]
        TORCH[name](*xs, *[0] * along)
    return program


def of_paddle(folder: Path, kind: str, name: str, dtypes: list[str]) -> br.Program:
    written = Written()
    slots = ("Condition", "X", "Y") if name == "where" else ("X", "Y")
    given = {
        slot: written.feed(slot.lower(), 4, 4, dtype=dtype)
        for slot, dtype in zip(slots, dtypes, strict=False)
    }
    attrs = {"axis": 0} if kind in ("position", "cumulative") else {}
    written.fetch(written.op(name, given, {"Out": "out"}, **attrs))
    return br.from_paddle(written.save(folder / name))[0]


LAX: Mapping[str, Callable[..., Any]] = {
    "add_any": primitives.add_jaxvals_p.bind,
    "argmax": lambda x: lax.argmax(x, 0, np.int32),
    "argmin": lambda x: lax.argmin(x, 0, np.int32),
    "regularized_incomplete_beta": lax.betainc,
    "stop_gradient": primitives.stop_gradient_p.bind,
    **{name: getattr(lax, f"bitwise_{name}") for name in ("and", "not", "or", "xor")},
    **{
        f"reduce_{name}": partial(getattr(lax, f"reduce_{name}"), axes=(0,))
        for name in ("max", "min", "prod", "sum")
    },
}
"""Functions that bind one primitive; the others have its name."""


def of_jax(_: Path, kind: str, name: str, dtypes: list[str]) -> br.Program:
    function = LAX.get(name) or getattr(lax, name)
    return br.from_jax(
        lambda *xs: function(*xs), *(np.ones((4, 4), dtype) for dtype in dtypes)
    )[0]


IMPORTS: Mapping[str, Callable[[Path, str, str, list[str]], br.Program]] = {
    "onnx": of_onnx, "torch": of_torch, "paddle": of_paddle, "jax": of_jax,
}  # fmt: skip


@pytest.mark.parametrize("system", IMPORTS)
def test_an_operator_with_an_equivalent_becomes_that_operator_and_no_formula(
    system: str, tmp_path: Path
) -> None:
    found, wanted = dict[str, list[str]](), dict[str, list[str]]()
    for kind, name, op_type, dtypes in cases(system):
        program = IMPORTS[system](tmp_path, kind, name, dtypes)
        types = [op.type for op in program.definition.main.ops]
        found[name] = [type_ for type_ in types if type_ not in BESIDE]
        wanted[name] = FORMS.get(f"{system} {name}", [op_type])
    assert found == wanted


def test_a_name_stands_for_one_operator() -> None:
    rows = [line.split() for lines in TABLE.values() for line in lines.splitlines()]
    for system, cells in zip(SYSTEMS, zip(*rows, strict=True), strict=True):
        names = [name for cell in cells if cell != "-" for name in cell.split(",")]
        assert sorted(names) == sorted(set(names)), system
    assert {row[0] for row in rows} <= OPS.definitions.keys()
