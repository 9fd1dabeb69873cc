"""Types and sizes: dtypes, tensor and list types, symbolic sizes and their arithmetic.

`Dim` is a symbolic size such as `2*b + 1`, `Size` is a `Dim` or a number. `TensorType` is a
dtype with a shape. NumPy: `numpy.dtype`; JAX: `jax.ShapeDtypeStruct` and `jax.export` shapes.

    >>> from braces.extend.types import FLOAT32, TensorType, parse_size
    >>> print(TensorType(FLOAT32, (parse_size("2*b + 1"), 3)))
    f32[2*b + 1,3]
"""

from braces.define.core.attribute_kinds import Padding as Padding
from braces.define.jax_types import JaxTypeConverter as JaxTypeConverter
from braces.dims import (
    Call as Call,
    Dim as Dim,
    Shape as Shape,
    Size as Size,
    call as call,
    divide_exactly as divide_exactly,
    parse_size as parse_size,
    product as product,
    substitute as substitute,
)
from braces.dtypes import (
    BOOL as BOOL,
    FLOAT32 as FLOAT32,
    FLOAT64 as FLOAT64,
    HIGHEST_RANK as HIGHEST_RANK,
    INT32 as INT32,
    INT64 as INT64,
    ONE_BYTE as ONE_BYTE,
    SHORT_NAMES as SHORT_NAMES,
    STORED as STORED,
    DType as DType,
    ListType as ListType,
    TensorType as TensorType,
    Type as Type,
    dtype_of as dtype_of,
    is_float as is_float,
    is_integer as is_integer,
    is_narrow as is_narrow,
    is_stored as is_stored,
    unifies as unifies,
)
from braces.frontend.control.construct import new_dim as new_dim
from braces.ir.walk import dimensions as dimensions
from braces.lower.xla.concrete_attributes import SymbolicSizes as SymbolicSizes
