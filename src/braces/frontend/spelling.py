"""Names that people type: arrays from nothing, constants, dtypes, and hints.

What other libraries call otherwise is not repeated here; asking for it is an error that says
what to type: `br.elementwise_add` names `br.add`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import e as e, inf as inf, nan as nan, pi as pi
from types import ModuleType
from typing import Any, NoReturn, cast

import numpy as np

from braces import errors
from braces.dims import Dim
from braces.dtypes import SHORT_NAMES, dtype_of
from braces.errors import DTypeError, ProgramError, suggest
from braces.frontend import layers
from braces.frontend.functions import FUNCTIONS, UNLISTED
from braces.frontend.random import sizes_of
from braces.frontend.variables import constant
from braces.ops.build import Var, as_var, call, one
from braces.ops.scalars import as_array, literal, numbers
from braces.ops.source import says_where

__all__ = [
    "arange", "asarray", "bfloat16", "bool", "complex64", "complex128", "e", "einsum",
    "float16", "float32", "float64", "full", "inf", "int8", "int16", "int32", "int64", "nan",
    "newaxis", "ones", "pi", "uint8", "uint16", "uint32", "uint64", "zeros",
]  # fmt: skip

# ---- arrays from nothing ---------------------------------------------------------------------


@says_where
def full(shape: Sequence[Any] | int | Dim, value: Any, dtype: object = None) -> Var:
    """One number everywhere.

    Args:
        shape: Numbers or symbolic dimensions, as `[x.shape[0], 4]`.
        value: A number, or a scalar variable.
        dtype: That of the number where it is not said: float32, int64 or bool.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.full([2, 3], 7).type, br.full((2,), 0.5, "f64").type)
        i64[2,3] f64[2]
    """
    sizes = sizes_of(shape)
    if isinstance(value, Var):
        filled = value if dtype is None else one("cast", value, dtype=dtype)
        return one("broadcast_to", filled, shape=sizes)
    given: Any = numbers(value)
    if given.ndim:
        raise DTypeError(
            f"full repeats one number, not {value!r:.60}.", fix="Use br.constant for an array."
        )
    kept = as_array(value) if dtype is None else literal(value, dtype_of(dtype))
    if given.dtype.kind == "c" or float(given) != given.item() == given.item():
        # No float is this number, and the attribute is one.
        return one("broadcast_to", as_var(kept), shape=sizes)
    return one("full", shape=sizes, value=float(given), dtype=kept.dtype)


def zeros(shape: Sequence[Any] | int | Dim, dtype: object = "float32") -> Var:
    """Zeros; see `full`."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[Any] | int | Dim, dtype: object = "float32") -> Var:
    """Ones; see `full`."""
    return full(shape, 1, dtype)


@says_where
def arange(start: Any, stop: Any = None, step: int = 1, dtype: object = "int64") -> Var:
    """Evenly spaced integers: `arange(stop)`, or `arange(start, stop, step)`.

    Args:
        start: The first one; 0 where only one number is given, which is then `stop`.
        stop: The end, which is not part of it.
        step: The distance between two; negative to count down.
        dtype: The dtype of the result.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 4])
        ...     print(br.arange(x.shape[0]).type, br.arange(1, 10, 3).type)
        i64[batch] i64[3]
    """
    first, end = (0, start) if stop is None else (start, stop)
    for bound in (first, end, step):
        if isinstance(bound, Var):
            raise ProgramError(
                f"arange needs bounds that are known from shapes; `{bound.name}` is a value.",
                given=f"{bound.name}: {bound.type}",
                fix="Use x.shape[0], or count in a memory of a loop.",
            )
        if isinstance(bound, float | np.floating):
            raise DTypeError(
                f"arange counts in integers, not {bound}.",
                fix="Use br.linspace(start, stop, num), or br.arange(n, dtype='f32') * step.",
            )
    return one("arange", start=first, stop=end, step=step, dtype=dtype)


def asarray(value: Any, dtype: object = None) -> Var:
    """A number, nested list or array as a constant; a variable as it is."""
    if not isinstance(value, Var):
        return constant(value, dtype)
    return value if dtype is None else one("cast", value, dtype=dtype)


def einsum(equation: str, *xs: Any, name: str = "") -> Var:
    """Products and sums in Einstein's notation.

    Args:
        equation: As `"bij,bjk->bik"`; see the operator in the reference.
        xs: The operands.
        name: For the operator.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", 3, 4])
        ...     print(br.einsum("bij,bkj->bik", x, x).type)
        f32[b,3,3]
    """
    listed = len(xs) == 1 and isinstance(xs[0], list | tuple)
    given = cast("Sequence[Any]", xs[0]) if listed else xs
    return call("einsum", *given, equation=equation, name=name)


# ---- constants and dtypes --------------------------------------------------------------------

newaxis = None
bool = SHORT_NAMES["bool"]
int8, int16, int32, int64 = (SHORT_NAMES[name] for name in ("i8", "i16", "i32", "i64"))
uint8, uint16, uint32, uint64 = (SHORT_NAMES[name] for name in ("u8", "u16", "u32", "u64"))
bfloat16, float16 = SHORT_NAMES["bf16"], SHORT_NAMES["f16"]
float32, float64 = SHORT_NAMES["f32"], SHORT_NAMES["f64"]
complex64, complex128 = SHORT_NAMES["c64"], SHORT_NAMES["c128"]

# ---- hints -----------------------------------------------------------------------------------

_HINTS = """\
absolute br.abs(x)
add_decayed_weights br.optimizer.add_decayed_weights(weight_decay)
add_momentum br.optimizer.momentum(learning_rate)
allclose br.all(br.abs(x - y) < tolerance)
amax br.max(x, axis)
amin br.min(x, axis)
apply_updates br.optimizer.sgd(learning_rate).minimize(loss)
array br.constant(value), or br.data for what a run feeds
assign the value itself: a name is bound once
autograd br.gradients(targets, inputs)
backward br.append_backward(loss)
bitwise_and x & y
bitwise_not ~x
bitwise_or x | y
bitwise_xor x ^ y
bmm br.matmul(x, y)
broadcast br.broadcast_to(x, shape)
case br.create_switch()
case_of br.create_switch(index)
cat br.concat(xs, axis=0)
clamp br.clip(x, min, max)
clip_by_global_norm br.optimizer.clip_by_global_norm(max_norm)
clip_by_value br.optimizer.clip_by_value(max_delta)
clone the variable itself: values never change
compile br.Executor(): it compiles
concatenate br.concat(xs, axis=0)
conv br.conv2d(x, 16, 3), or br.conv2d(x, weight)
cosine_decay_schedule br.optimizer.cosine_decay_schedule
count_nonzero br.sum(x != 0)
create_parameter br.parameter(name, shape)
cross_entropy br.softmax_cross_entropy(logits, labels)
cumulative_prod br.cumprod(x, axis)
cumulative_sum br.cumsum(x, axis)
default_main_program br.default_program()
default_startup_program br.default_program().startup
dense br.fc(x, size)
detach br.stop_gradient(x)
device br.Executor(device="cpu:0")
diff x[1:] - x[:-1]
div br.divide(x, y)
dynamicrnn br.create_rnn()
elementwise_add br.add(x, y), or x + y
elementwise_div br.divide(x, y), or x / y
elementwise_max br.maximum(x, y)
elementwise_min br.minimum(x, y)
elementwise_mul br.multiply(x, y), or x * y
elementwise_pow br.pow(x, y), or x ** y
elementwise_sub br.subtract(x, y), or x - y
empty br.zeros(shape)
empty_like br.zeros_like(x)
eq br.equal(x, y), or x == y
expand br.broadcast_to(x, shape)
exponential_decay_schedule br.optimizer.exponential_decay
fill_constant br.full(shape, value, dtype)
fori_loop br.scan(step_fn, init, length=n), or br.while_loop
from_numpy br.constant(array), or br.data for what a run feeds
gather br.take(x, indices, axis=0), or br.take_along_axis
ge br.greater_equal(x, y), or x >= y
getitem x[index]
grad br.gradients(targets, inputs)
greater_than br.greater(x, y), or x > y
gt br.greater(x, y), or x > y
hstack br.concat(xs, axis=1)
if_else br.create_if_else(predicate)
ifelse br.create_if_else(predicate)
index_select br.take(x, indices, axis=0)
invert ~x
isclose br.abs(x - y) < tolerance
jit br.Executor(): it compiles
l1_loss br.mean(br.absolute_error(prediction, target))
le br.less_equal(x, y), or x <= y
less_than br.less(x, y), or x < y
linear br.fc(x, size)
lookup_table br.embedding(ids, table)
lt br.less(x, y), or x < y
manual_seed exe.init(prog, scope, seed=0)
masked_fill br.where(mask, value, x)
meshgrid br.expand_dims(x, axis): operators broadcast
mm br.matmul(x, y)
mod br.remainder(x, y), or x % y
mse_loss br.mean(br.squared_error(prediction, target))
mul br.multiply(x, y), or br.matmul for a product of matrices
ndim x.ndim
ne br.not_equal(x, y), or x != y
neg br.negative(x), or -x
next_count a memory of a loop, or br.state for what outlives a run
nn br.layers
no_grad br.stop_gradient(x)
nonzero br.where(condition, x, y): the size of a result follows from shapes
numpy exe.run(prog, scope, fetch=[x])
operatorfunction br.op, which makes them
optim br.optimizer
permute br.permute_dims(x, axes)
piecewise_constant_schedule br.optimizer.piecewise_constant_schedule
placeholder br.data(name, shape)
polynomial_schedule br.optimizer.polynomial_schedule
positive the variable itself
print a listener of exe.run, or fetch the variable
put_along_axis_add br.scatter_add(x, indices, updates, axis), or br.scatter_nd_add
rand br.random.uniform(shape)
rand_like br.random.uniform(x.shape)
randint br.random.randint(shape, low, high)
randn br.random.normal(shape)
randn_like br.random.normal(x.shape)
ravel br.reshape(x, [-1])
reduce_all br.all(x, axis)
reduce_any br.any(x, axis)
reduce_max br.max(x, axis)
reduce_mean br.mean(x, axis)
reduce_min br.min(x, axis)
reduce_prod br.prod(x, axis)
reduce_sum br.sum(x, axis)
result_type (x + y).dtype
rnn br.create_rnn()
scale_by_adadelta br.optimizer.adadelta(learning_rate)
scale_by_adam br.optimizer.adam(learning_rate)
scale_by_adamax br.optimizer.adamax(learning_rate)
scale_by_amsgrad br.optimizer.amsgrad(learning_rate)
scale_by_belief br.optimizer.adabelief(learning_rate)
scale_by_learning_rate br.optimizer.scale_by_learning_rate(learning_rate)
scale_by_lion br.optimizer.lion(learning_rate)
scale_by_radam br.optimizer.radam(learning_rate)
scale_by_rms br.optimizer.rmsprop(learning_rate)
scale_by_rss br.optimizer.adagrad(learning_rate)
scale_by_stddev br.optimizer.rmsprop(learning_rate, centered=True)
scale_by_trust_ratio br.optimizer.lamb(learning_rate)
scatter br.scatter_add(x, indices, updates)
seed exe.init(prog, scope, seed=0)
session br.Executor()
setitem_add br.scatter_add(x, indices, updates)
shape x.shape
sigmoid_cross_entropy br.sigmoid_binary_cross_entropy(logits, target)
softmax_with_cross_entropy br.softmax_cross_entropy(logits, labels)
staticrnn br.create_rnn()
sub br.subtract(x, y), or x - y
swish br.silu(x)
symboltable block.symbol_table
tensor br.constant(value), or br.data for what a run feeds
top_k br.topk(x, k)
true_divide br.divide(x, y), or x / y
uniform br.random.uniform(shape)
unsqueeze br.expand_dims(x, axis)
var_scope br.Scope()
vecdot br.sum(x * y, axis=-1)
view br.reshape(x, shape)
vmap a leading axis: operators broadcast
vstack br.concat(xs, axis=0)
warmup_cosine_schedule br.optimizer.warmup_cosine_decay_schedule
while br.create_while(), or br.while_loop
window x[start:stop]
window_add br.scatter_add(x, indices, updates)
"""
HINTS = {name: hint for name, _, hint in (x.partition(" ") for x in _HINTS.splitlines())}


# ---- what is there, and what is not ----------------------------------------------------------

MODULES = ("dtypes", "errors", "init", "layers", "optimizer", "passes", "random")
"""The modules that users see; the others are how it is done."""


def listed(names: Mapping[str, Any]) -> list[str]:
    """What `dir(br)` shows of all that is in the package: one spelling of all that users need.

    Errors work as `br.ShapeError` and are listed in `br.errors`; only their root is here.
    """
    hidden = {*UNLISTED, *dir(errors)} - {"BracesError"}
    return sorted(
        name
        for name, value in names.items()
        if not name.startswith("_")
        and name not in hidden
        and (name in MODULES or not isinstance(value, ModuleType))
    )


def missing(name: str) -> NoReturn:
    """Say what to type in place of `br.NAME`, which does not exist.

    Raises:
        AttributeError: Always.
    """
    hint = HINTS.get(name.lower()) if not name.startswith("_") else None
    known = [*dir(sys.modules["braces"]), *UNLISTED, *dir(errors)]
    near = suggest(name, known)
    fix = f"Use {hint}." if hint else near if near.startswith("Did") else "See dir(braces)."
    raise AttributeError(f"Braces has no `{name}`. {fix}", name=name)


METHODS = {
    "contiguous": "the variable itself: layout is XLA's affair",
    "cpu": "br.Executor(device='cpu'): a run chooses, not a variable",
    "cuda": "br.Executor(device='cuda:0'): a run chooses, not a variable",
    "data": "exe.run(prog, scope, fetch=x) for its value",
    "detach": "br.stop_gradient(x)",
    "device": "br.Executor(device=...): a run chooses, not a variable",
    "grad": "br.gradients(loss, x)",
    "item": "exe.run(prog, scope, fetch=x) for its value",
    "numpy": "exe.run(prog, scope, fetch=x) for its value",
    "requires_grad": "br.gradients(loss, x), or br.stop_gradient(x) where none shall flow",
    "size": "x.shape, or br.size(x.shape[0]) for a number in the program",
    "to": "x.astype(dtype); a device is chosen by br.Executor(device=...)",
    "tolist": "exe.run(prog, scope, fetch=x) for its value",
    "view": "x.reshape(...)",
}


def no_attribute(name: str) -> AttributeError:
    """The error for `x.NAME` of a variable, which says what to type."""
    near = suggest(name, [one for one in dir(Var) if not one.startswith("_")])
    hint = METHODS.get(name) or HINTS.get(name.lower())
    if name in {*FUNCTIONS, *layers.__all__}:
        hint = f"br.{name}(x)"
    fix = f"Use {hint}." if hint else near if near.startswith("Did") else "See dir(br.Var)."
    return AttributeError(f"A variable has no `{name}`. {fix}", name=name)
