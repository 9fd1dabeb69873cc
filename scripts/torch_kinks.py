"""Values and gradients of PyTorch's operators at kinks, ties and extremes.

python scripts/torch_kinks.py    write tests/exchange/common/torch_kinks.npz; needs torch
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WRITTEN = Path(__file__).resolve().parents[1] / "tests/exchange/common/torch_kinks.npz"
inf, nan = np.inf, np.nan

POINTS = np.array([
    0.0, -0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, 10.0, 20.0, 20.5, -20.0,
    1e-8, -1e-8, 1e-20, -1e-20, 1e20, -1e20, 88.0, -88.0, inf, -inf, nan,
])  # fmt: skip
"""The argument of functions of one number."""
_SIDE = (0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 2.0, 1e-20, 1e20, -1e20)
PAIRS = np.stack([grid.ravel() for grid in np.meshgrid(_SIDE, _SIDE)])
"""The arguments of functions of two numbers."""
ROWS = np.array([[1, 2, 2, -1], [3, 3, 3, 3], [0, 0, -0.0, 0], [-1, -2, 5, 4.0]])
"""The argument of functions along an axis: ties, and a row of zeros."""
SHARES = np.array([[0, 0, 1, 1, 0.5, 0.25, 1e-20], [0, 1, 0, 1, 1, 0.5, 1]])
"""Probabilities, and what they should be."""

OF_ONE: dict[str, tuple[tuple[Any, ...], ...]] = {
    **dict.fromkeys((
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf",
        "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "gelu", "hardsigmoid", "hardswish",
        "log", "log10", "log1p", "log2", "log_sigmoid", "mish", "nan_to_num", "neg",
        "reciprocal", "relu", "relu6", "round", "rsqrt", "selu", "sigmoid", "sign", "signbit",
        "silu", "sin", "sinh", "special_entr", "special_logit", "sqrt", "square",
        "tan", "tanh", "trunc",
    ), ((),)),
    "celu": ((), (0.5,), (2.0,)),
    "clamp": ((-1.0, 1.0), (0.0, None), (None, 0.5), (2.0, 1.0)),
    "clamp_max": ((0.5,),),
    "clamp_min": ((0.0,),),
    "elu": ((), (2.0,), (1.5, 2.0, 0.5), (1.6732632423543772, 1.0507009873554805)),
    "fmod": ((2.0,), (-2.0,)),
    "hardtanh": ((), (-0.5, 2.0), (0.0, 6.0)),
    "leaky_relu": ((), (0.2,), (-0.2,)),
    "logit": ((), (0.25,)),
    "pow": ((0,), (0.5,), (1,), (2,), (3,), (-1,)),
    "rrelu": ((),),
    "softplus": ((), (2.0,), (2.0, 3.0)),
    "threshold": ((0.5, 2.0), (0.0, 0.0)),
}  # fmt: skip
"""Operators of one number, and what else they are given, for each case."""
OF_TWO = (
    "atan2", "clamp.Tensor", "copysign", "fmax", "fmin", "fmod", "lerp.Tensor", "logaddexp",
    "maximum", "minimum", "mul", "_prelu_kernel", "special_xlog1py", "xlogy",
)  # fmt: skip
ALONG: dict[str, tuple[Any, ...]] = {
    "amax": ([1],), "amin": ([1],), "cummax": (1,), "cummin": (1,), "median.dim": (1,),
    "linalg_vector_norm": (2, [1]), "max.dim": (1,), "min.dim": (1,), "prod.dim_int": (1,),
    "std.dim": ([1],),
}  # fmt: skip
"""Operators along the last axis, and what else they are given."""

PADDED: dict[str, tuple[tuple[int, int], ...]] = {
    "replicate": ((-5, 2), (3, -6), (-7, 9), (-2, 1), (2, -5), (-4, 3), (4, -2)),
    "reflect": ((-5, 2), (3, -6), (-2, 1), (2, -5), (-4, 3), (4, -2), (-2, 4)),
    "circular": ((-2, 1), (1, -2), (-1, 3)),
    "constant": ((-5, 2), (-2, 1), (2, -5)),
}
"""Widths of margins of which one takes numbers away."""
LINE, ONE, OTHER, FIRST = np.arange(1.0, 6.0).reshape(1, 1, 5), *map(np.array, (2.0, 3.0, 0))
OF_SCALARS: dict[str, tuple[list[np.ndarray], tuple[Any, ...]]] = {
    **{
        f"index_reduce {way}": ([ONE, FIRST, OTHER], (way,)) for way in ("prod", "amax", "mean")
    },
    "index_add": ([ONE, FIRST, OTHER], ()),
    "index_select": ([ONE, FIRST], ()),
    "gather": ([ONE, FIRST], ()),
    "scatter_add": ([ONE, FIRST, OTHER], ()),
    "logsumexp": ([ONE], ([0],)),
    "max.dim": ([ONE], (0,)),
    "argmax": ([ONE], (0,)),
}
"""Operators along the axis 0 of arrays without axes: the arrays, the axis after the first."""


def margins() -> dict[str, tuple[tuple[int, int], str]]:
    """Widths and mode of each margin, by a name for it."""
    each = ((mode, widths) for mode, several in PADDED.items() for widths in several)
    return {f"{mode} {widths}": (widths, mode) for mode, widths in each}


def of_scalar(name: str, convert: Any) -> tuple[str, list[Any]]:
    """An operator of `OF_SCALARS`, and its arguments."""
    arrays, last = OF_SCALARS[name]
    first, *others = map(convert, arrays)
    axis = [0] if others else []
    return name.partition(" ")[0], [first, *axis, *others, *last]


def cases() -> dict[str, tuple[str, list[np.ndarray], tuple[Any, ...]]]:
    """The operator, its arrays and its other arguments, by a name for the case."""
    found: dict[str, tuple[str, list[np.ndarray], tuple[Any, ...]]] = {}
    for name, several in OF_ONE.items():
        for given in several:
            found[" ".join(map(str, (name, *given)))] = name, [POINTS], given
    for name in OF_TWO:
        last = (0.25,) if name == "lerp.Tensor" else ()
        found[name] = name, list(PAIRS), last
    found |= {name: (name, [ROWS], given) for name, given in ALONG.items()}
    found["binary_cross_entropy"] = "binary_cross_entropy", list(SHARES), (None, 0)
    return found


def answer(torch: Any, name: str, arrays: list[np.ndarray], given: tuple[Any, ...]) -> Any:
    """The value and the gradients in sequence; a missing gradient is zero."""
    packet, _, overload = name.partition(".")
    last = map(torch.tensor, given) if overload == "Tensor" else given
    xs = [torch.tensor(x, requires_grad=True) for x in arrays]
    out = getattr(torch.ops.aten, packet)(*xs, *last)
    out = out[0] if isinstance(out, tuple) else out
    if not out.requires_grad:
        return [out.numpy().astype(float), *map(np.zeros_like, arrays)]
    grads = torch.autograd.grad(out.sum(), xs, allow_unused=True)
    pairs = zip(xs, grads, strict=True)
    made = [out.detach(), *(torch.zeros_like(x) if g is None else g for x, g in pairs)]
    return [part.numpy() for part in made]


def main() -> None:
    """Write the file."""
    import torch

    written = {}
    for case, (name, arrays, given) in cases().items():
        for at, part in enumerate(answer(torch, name, arrays, given)):
            written[f"{case}|{at}"] = part
    for name, (widths, mode) in margins().items():
        written[name] = torch.nn.functional.pad(torch.tensor(LINE), widths, mode).numpy()
    for name in OF_SCALARS:
        operator, given = of_scalar(name, torch.tensor)
        out = getattr(torch.ops.aten, operator.partition(".")[0])(*given)
        written[f"scalar {name}"] = (out[0] if isinstance(out, tuple) else out).numpy()
    np.savez_compressed(WRITTEN, **written)


if __name__ == "__main__":
    main()
