"""Products in 16 bits, and all else in float32: parameters, norms, losses and sums among it.

    parameter w: f32[3,4]                  parameter w: f32[3,4]
    data x: f32[n,3]                       data x: f32[n,3]
    y: f32[n,4] = matmul(x=x, y=w)         cast_0: bf16[n,3] = cast(x=x) {dtype=bf16}
    z: f32[n,4] = tanh(x=y)          ->    cast_1: bf16[3,4] = cast(x=w) {dtype=bf16}
                                           matmul_0: bf16[n,4] = matmul(x=cast_0, y=cast_1)
                                           cast_2: f32[n,4] = cast(x=matmul_0) {dtype=f32}
                                           z: f32[n,4] = tanh(x=cast_2)

Matrix products and convolutions, those of gradients among them, take most of the time of a
step, and machines that have units for 16 bits do them several times as fast; the units add in
float32. A result is narrow for as long as it takes to make it wide again, so that a parameter
moves by steps that 16 bits would lose. The program stays as it is; who runs it says so:

    exe = br.Executor(passes=(*br.passes.default, br.passes.mixed_precision("bfloat16")))

It comes last, because the others take products out of loops as they are, and not copies.
"""

from __future__ import annotations

from braces.builder.append import apply, one
from braces.builder.source_line import says_where
from braces.builder.var import Var
from braces.dtypes import FLOAT32, DType, TensorType, dtype_of, is_float
from braces.errors import DTypeError
from braces.ir.records import Op, ProgramDef
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite

PRODUCTS = {
    "conv1d", "conv2d", "conv3d", "conv_to_input", "conv_to_weight", "conv_transpose1d",
    "conv_transpose1d.vjp", "conv_transpose2d", "conv_transpose2d.vjp", "conv_transpose3d",
    "conv_transpose3d.vjp", "einsum", "matmul", "tensordot",
}  # fmt: skip
"""What multiplies and adds up, for which machines have units of 16 bits."""


@says_where
def mixed_precision(dtype: str = "bfloat16") -> Pass:
    """A pass that has products computed in 16 bits, and all else as it was.

    Matrix products, `br.einsum` and convolutions of float32, in all blocks and in gradients,
    take 16-bit copies of what they multiply, and what they give is float32 again. Parameters,
    norms, softmax, losses and optimizers stay in float32. Where numbers have other dtypes, a
    product stays as it is.

    It belongs behind the passes that an executor has by itself.

    Args:
        dtype: "bfloat16", which has the range of float32; or "float16", which has more digits
            and ends at 65504, so that losses may need a scale.

    Raises:
        DTypeError: It is another dtype.

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
            f"mixed_precision takes a 16-bit float, not {dtype!r:.60}.",
            fix='Write br.passes.mixed_precision("bfloat16"), or "float16".',
        )

    def rule(op: Op, place: Place) -> Change:
        if op.type not in PRODUCTS or not _is_wide(op, place):
            return op
        note(place.where(op), f"multiplies in {narrow.name}")
        with place.building():
            return _narrowed(op, place, narrow)

    def run(program: ProgramDef) -> ProgramDef:
        return rewrite(program, rule)

    return Pass("mixed_precision", run, "Multiply in 16 bits, and compute all else as it was.")


def _is_wide(op: Op, place: Place) -> bool:
    """Whether several arrays are multiplied, in float32."""
    read, made = ([_dtype(n, place) for n in names] for names in (op.reads(), op.binds()))
    return len(read) > 1 and {*made} == {FLOAT32} and all(map(is_float, read))


def _dtype(name: str, place: Place) -> DType:
    type_ = place.info(name).type
    assert isinstance(type_, TensorType), "products are of arrays"
    return type_.dtype


def _narrowed(op: Op, place: Place, dtype: DType) -> dict[str, str]:
    """The product in 16 bits, and what stands for its result."""
    given: dict[str, list[Var]] = {
        slot: [_as(place.var(name), dtype) for name in names]
        for slot, names in op.inputs.items()
    }
    made = apply(op.type, given, op.attrs, wanted=op.outputs)
    return {
        name: _as(narrow, FLOAT32).name
        for slot, names in op.outputs.items()
        for name, narrow in zip(names, made[slot], strict=True)
    }


def _as(x: Var, dtype: DType) -> Var:
    return x if x.dtype == dtype else one("cast", x, dtype=dtype)
