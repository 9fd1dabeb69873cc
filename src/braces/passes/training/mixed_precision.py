"""Mixed precision: products in 16 bits, and parameters, norms, losses and sums in float32.

    parameter w: f32[3,4]                  parameter w: f32[3,4]
    data x: f32[n,3]                       data x: f32[n,3]
    y: f32[n,4] = matmul(x=x, y=w)         cast_0: bf16[n,3] = cast(x=x) {dtype=bf16}
    z: f32[n,4] = tanh(x=y)          ->    cast_1: bf16[3,4] = cast(x=w) {dtype=bf16}
                                           matmul_0: bf16[n,4] = matmul(x=cast_0, y=cast_1)
                                           cast_2: f32[n,4] = cast(x=matmul_0) {dtype=f32}
                                           z: f32[n,4] = tanh(x=cast_2)

Matrix products and convolutions, including those of gradients, take most of the time of a step.
Machines with 16-bit units compute them several times faster; the units accumulate in float32.
Results are cast back at once, so that parameters can change by steps that 16 bits would lose.
The program itself is not changed; the executor applies the pass:

    exe = br.Executor(passes=(*br.passes.default, br.passes.mixed_precision("bfloat16")))

It comes last, because the other passes move products out of loops, and not the casts.
"""

from __future__ import annotations

from braces.builder.append import apply, emit
from braces.builder.source_line import with_user_line
from braces.builder.var import Var
from braces.dtypes import FLOAT32, DType, TensorType, dtype_of, is_float
from braces.errors import DTypeError
from braces.ir.records import Op, ProgramDef
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite

PRODUCTS = {
    "conv1d", "conv2d", "conv3d", "conv_to_input", "conv_to_weight", "conv_transpose1d",
    "conv_transpose1d.vjp", "conv_transpose2d", "conv_transpose2d.vjp", "conv_transpose3d",
    "conv_transpose3d.vjp", "einsum", "matmul", "tensordot",
}  # fmt: skip
"""Contractions for which machines have 16-bit units."""


@with_user_line
def mixed_precision(dtype: str = "bfloat16") -> Pass:
    """Return a pass that computes products in 16 bits, and everything else as before.

    Matrix products, `br.einsum` and convolutions of float32, in all blocks and in gradients,
    read 16-bit copies of their operands, and their results are cast to float32. Parameters,
    norms, softmax, losses and optimizers stay in float32. Products of other dtypes are not
    changed.

    Append it to the default passes of an executor.

    Args:
        dtype: "bfloat16", with the range of float32; or "float16", with more digits and a
            maximum of 65504, so that losses may need scaling.

    Raises:
        DTypeError: If the dtype is not a 16-bit float dtype.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.fc(br.data("x", ["b", 4]), 2)
        >>> half = br.passes.mixed_precision("bfloat16")
        >>> [op.type for op in half(prog).block(0).ops]
        ['cast', 'cast', 'matmul', 'cast', 'add']
        >>> exe = br.Executor(passes=(*br.passes.default, half))
    """
    narrow = dtype_of(dtype)
    if not is_float(narrow) or narrow.itemsize != 2:
        raise DTypeError(
            f"expected a 16-bit float dtype, got {dtype!r:.60}.",
            fix='Write br.passes.mixed_precision("bfloat16"), or "float16".',
        )

    def rule(op: Op, place: InsertionPoint) -> Replacement:
        if op.type not in PRODUCTS or not _is_wide(op, place):
            return op
        note(place.where(op), f"computed in {narrow.name}")
        with place.building():
            return _build_narrow(op, place, narrow)

    def run(program: ProgramDef) -> ProgramDef:
        return rewrite(program, rule)

    return Pass("mixed_precision", run, "Compute matrix products in 16 bits.")


def _is_wide(op: Op, place: InsertionPoint) -> bool:
    """Return whether an operator multiplies several float32 arrays."""
    input_dtypes, output_dtypes = (
        [_dtype(n, place) for n in names] for names in (op.reads(), op.binds())
    )
    return (
        len(input_dtypes) > 1
        and {*output_dtypes} == {FLOAT32}
        and all(map(is_float, input_dtypes))
    )


def _dtype(name: str, place: InsertionPoint) -> DType:
    type_ = place.info(name).type
    assert isinstance(type_, TensorType), "operands of products are arrays"
    return type_.dtype


def _build_narrow(op: Op, place: InsertionPoint, dtype: DType) -> dict[str, str]:
    """Build the product in 16 bits; return the new names of its results."""
    operands: dict[str, list[Var]] = {
        slot: [_cast_to(place.var(name), dtype) for name in names]
        for slot, names in op.inputs.items()
    }
    results = apply(op.type, operands, op.attrs, wanted=op.outputs)
    return {
        name: _cast_to(narrow, FLOAT32).name
        for slot, names in op.outputs.items()
        for name, narrow in zip(names, results[slot], strict=True)
    }


def _cast_to(x: Var, dtype: DType) -> Var:
    return x if x.dtype == dtype else emit("cast", x, dtype=dtype)
