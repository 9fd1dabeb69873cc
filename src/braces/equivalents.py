"""Operators of Braces by their names in ONNX, PyTorch, Paddle and JAX.

A row lists the names of one operator: operator types of ONNX and Paddle, `aten` operators of
PyTorch, primitives of JAX. With default attributes, all of them have the meaning of the
operator. Importers and exporters derive the rules of a kind from its rows. Rules that they
write replace derived ones: those of attributes, of dtypes, and of kinds without a common form.

    >>> names_in("onnx", "comparison")["LessOrEqual"]
    'less_equal'
    >>> translated("jax", "onnx")["logistic"]
    'Sigmoid'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
UNARY = ("float", "rounding", "number")
"""The kinds of elementwise functions of one array of numbers."""
ELEMENTWISE = (*UNARY, "binary", "comparison")
"""The kinds of elementwise functions of numbers."""
SYSTEMS = ("braces", "onnx", "torch", "paddle", "jax")
"""The columns of the table."""
TABLE = {
    # functions of one array of floats
    "float": """\
arccos        Acos        acos                    acos        acos
arccosh       Acosh       acosh                   acosh       acosh
arcsin        Asin        asin                    asin        asin
arcsinh       Asinh       asinh                   asinh       asinh
arctan        Atan        atan                    atan        atan
arctanh       Atanh       atanh                   atanh       atanh
cbrt          -           -                       -           cbrt
cos           Cos         cos                     cos         cos
cosh          Cosh        cosh                    cosh        cosh
digamma       -           digamma                 digamma     digamma
entr          -           special_entr            -           -
erf           Erf         erf                     erf         erf
erfc          -           erfc                    -           erfc
erfinv        -           erfinv,special_erfinv   erfinv      erf_inv
exp           Exp         exp                     exp         exp
exp2          -           exp2                    -           exp2
expm1         -           expm1                   expm1       expm1
i0            -           i0                      i0          -
i0e           -           special_i0e             i0e         bessel_i0e
i1            -           special_i1              i1          -
i1e           -           special_i1e             i1e         bessel_i1e
lgamma        -           lgamma                  lgamma      lgamma
log           Log         log                     log         log
log1p         -           log1p                   log1p       log1p
log2          -           log2                    log2        log2
mish          Mish        mish                    mish        -
reciprocal    Reciprocal  reciprocal              reciprocal  -
rsqrt         -           rsqrt                   rsqrt       rsqrt
sigmoid       Sigmoid     sigmoid,special_expit   sigmoid     logistic
silu          Swish       silu                    silu,swish  -
sin           Sin         sin                     sin         sin
sinh          Sinh        sinh                    sinh        sinh
softplus      Softplus    -                       -           -
softsign      Softsign    -                       softsign    -
sqrt          Sqrt        sqrt                    sqrt        sqrt
tan           Tan         tan                     tan         tan
tanh          Tanh        tanh                    tanh        tanh""",
    # functions of floats that are the identity of integers
    "rounding": """\
ceil          Ceil        ceil                    ceil        ceil
floor         Floor       floor                   floor       floor
round         Round       round                   round       -
trunc         -           trunc                   trunc       -""",
    # functions of one array
    "number": """\
abs           Abs         abs                     abs         abs
conj          -           conj,_conj,_conj_physical conj      conj
hard_sigmoid  -           hardsigmoid             -           -
hard_swish    HardSwish   hardswish               hard_swish  -
imag          -           imag                    imag        imag
isfinite      -           isfinite                isfinite_v2 is_finite
isinf         IsInf       isinf                   isinf_v2    -
isnan         IsNaN       isnan                   isnan_v2    -
log_sigmoid   -           log_sigmoid             logsigmoid  -
negative      Neg         neg                     -           neg
real          -           real                    real        real
relu          Relu        relu                    relu        -
relu6         -           relu6                   relu6       -
selu          Selu        selu                    selu        -
sign          Sign        -                       sign        sign
square        -           square                  square      square
stop_gradient -           detach                  -           stop_gradient
tanhshrink    -           -                       tanh_shrink -""",
    # functions of two arrays of one dtype
    "binary": """\
add           Add         add                     elementwise_add         add,add_any
arctan2       -           atan2                   atan2                   atan2
complex       -           complex                 complex                 complex
divide        Div         div                     elementwise_div         div
floor_divide  -           floor_divide            elementwise_floordiv    -
gammainc      -           igamma                  gammainc                igamma
gammaincc     -           igammac                 gammaincc               igammac
hypot         -           hypot                   -                       -
logaddexp     -           logaddexp               -                       -
maximum       Max         maximum                 elementwise_max,maximum max
minimum       Min         minimum                 elementwise_min,minimum min
multiply      Mul         mul                     elementwise_mul         mul
pow           Pow         pow                     elementwise_pow         pow
remainder     Mod         remainder               elementwise_mod         -
subtract      Sub         sub                     elementwise_sub         sub
xlog1py       -           special_xlog1py         -                       -
xlogy         -           xlogy,special_xlogy     -                       -
zeta          -           special_zeta            -                       zeta
bitwise_left_shift  -  bitwise_left_shift,__lshift__    bitwise_left_shift shift_left
bitwise_right_shift - bitwise_right_shift,__rshift__ bitwise_right_shift shift_right_arithmetic
""",
    "comparison": """\
equal         Equal          eq equal         eq
greater       Greater        gt greater_than  gt
greater_equal GreaterOrEqual ge greater_equal ge
less          Less           lt less_than     lt
less_equal    LessOrEqual    le less_equal    le
not_equal     -              ne not_equal     ne""",
    # functions of truth values; JAX has those of bits for both
    "logical": """\
logical_and   And logical_and logical_and -
logical_not   Not logical_not logical_not -
logical_or    Or  logical_or  logical_or  -
logical_xor   Xor logical_xor logical_xor -""",
    "bitwise": """\
bitwise_and    BitwiseAnd bitwise_and,__and__ bitwise_and and
bitwise_invert BitwiseNot bitwise_not         bitwise_not not
bitwise_or     BitwiseOr  bitwise_or,__or__   bitwise_or  or
bitwise_xor    BitwiseXor bitwise_xor,__xor__ bitwise_xor xor""",
    # reductions over axes: of numbers, to one of the numbers, of truth values
    "reduction": """\
logsumexp     ReduceLogSumExp logsumexp     logsumexp      -
mean          ReduceMean      mean          reduce_mean    -
norm          ReduceL2        -             frobenius_norm -
prod          ReduceProd      prod          reduce_prod    reduce_prod
sum           ReduceSum       sum           reduce_sum     reduce_sum""",
    "extreme": """\
max           ReduceMax       amax,max      reduce_max,max,reduce_amax reduce_max
min           ReduceMin       amin,min      reduce_min,min,reduce_amin reduce_min""",
    "truth": """\
all           -               all           reduce_all     -
any           -               any           reduce_any     -""",
    # functions along one axis
    "softmax": """\
log_softmax   LogSoftmax log_softmax,_log_softmax       log_softmax -
softmax       Softmax    softmax,_softmax                softmax     -""",
    "position": """\
argmax        ArgMax     argmax                         arg_max     argmax
argmin        ArgMin     argmin                         arg_min     argmin""",
    "cumulative": """\
cumlogsumexp  -          -                              -           cumlogsumexp
cummax        -          -                              -           cummax
cummin        -          -                              -           cummin
cumprod       CumProd    cumprod                        -           cumprod
cumsum        CumSum     cumsum                         cumsum      cumsum""",
    # operators with other operands or attributes
    "other": """\
betainc       -          -                              -           regularized_incomplete_beta
celu          Celu       celu                           celu        -
det           Det        -                              -           -
elu           Elu        elu                            elu         -
gelu          Gelu       gelu                           gelu        -
glu           -          glu                            -           -
leaky_relu    LeakyRelu  -                              leaky_relu  -
where         Where      where                          where       -""",
    "product": """\
matmul        MatMul     matmul,mm,bmm,mv,dot,vdot      -           -
outer         -          outer                          -           -""",
}
"""The names of each operator in the order of `SYSTEMS`, by kind; `-` where there is none."""


def _rows(kinds: tuple[str, ...]) -> Iterator[dict[str, tuple[str, ...]]]:
    for kind in kinds or TABLE:
        for line in TABLE[kind].splitlines():
            cells = [() if cell == "-" else tuple(cell.split(",")) for cell in line.split()]
            yield dict(zip(SYSTEMS, cells, strict=True))


def translated(source: str, target: str, *kinds: str) -> dict[str, str]:
    """Return the names in one system by the names in another, of some kinds or of all."""
    return {name: row[target][0] for row in _rows(kinds) if row[target] for name in row[source]}


def names_in(system: str, *kinds: str) -> dict[str, str]:
    """Return the operators of Braces by their names in a system, of some kinds or of all."""
    return translated(system, "braces", *kinds)


def derived(system: str, rule_of: Callable[[str], T], *kinds: str) -> dict[str, T]:
    """Return a rule for each name in a system, made from the operator of Braces."""
    return {name: rule_of(op_type) for name, op_type in names_in(system, *kinds).items()}
