"""Python's operators on variables, each of which appends an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

from braces.keywords import hint_keywords


class Arithmetic:
    """Mixin of operators and methods that append: `x + y`, `x @ w`, `a < b`, `x.sum()`."""

    __slots__ = ()

    op: ClassVar[Callable[..., Any]]
    """Append an operator with one output; set by the class of variables."""

    @property
    def T(self) -> Self:
        """The transpose of a matrix."""
        return self.op("transpose", self, axes=None)

    def astype(self, dtype: object) -> Self:
        """Cast to another dtype."""
        return self.op("cast", self, dtype=dtype)

    def reshape(self, *shape: Any) -> Self:
        """Reshape to another shape."""
        is_sequence = len(shape) == 1 and isinstance(shape[0], tuple | list)
        sizes = cast("Any", shape[0] if is_sequence else shape)
        return self.op("reshape", self, shape=sizes)

    @hint_keywords
    def sum(self, axis: Any = None, keepdims: bool = False) -> Self:
        """Sum along axes."""
        return self.op("sum", self, axis=axis, keepdims=keepdims)

    @hint_keywords
    def mean(self, axis: Any = None, keepdims: bool = False) -> Self:
        """Return the mean along axes."""
        return self.op("mean", self, axis=axis, keepdims=keepdims)

    @hint_keywords
    def max(self, axis: Any = None, keepdims: bool = False) -> Self:
        """Return the maximum along axes."""
        return self.op("max", self, axis=axis, keepdims=keepdims)

    @hint_keywords
    def min(self, axis: Any = None, keepdims: bool = False) -> Self:
        """Return the minimum along axes."""
        return self.op("min", self, axis=axis, keepdims=keepdims)

    # ---- arithmetic --------------------------------------------------------------------------

    def __add__(self, other: Any) -> Self:
        return self.op("add", self, other)

    def __radd__(self, other: Any) -> Self:
        return self.op("add", other, self)

    def __sub__(self, other: Any) -> Self:
        return self.op("subtract", self, other)

    def __rsub__(self, other: Any) -> Self:
        return self.op("subtract", other, self)

    def __mul__(self, other: Any) -> Self:
        return self.op("multiply", self, other)

    def __rmul__(self, other: Any) -> Self:
        return self.op("multiply", other, self)

    def __truediv__(self, other: Any) -> Self:
        return self.op("divide", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self.op("divide", other, self)

    def __floordiv__(self, other: Any) -> Self:
        return self.op("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self.op("floor_divide", other, self)

    def __mod__(self, other: Any) -> Self:
        return self.op("remainder", self, other)

    def __rmod__(self, other: Any) -> Self:
        return self.op("remainder", other, self)

    def __pow__(self, other: Any) -> Self:
        return self.op("pow", self, other)

    def __rpow__(self, other: Any) -> Self:
        return self.op("pow", other, self)

    def __matmul__(self, other: Any) -> Self:
        return self.op("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return self.op("matmul", other, self)

    def __neg__(self) -> Self:
        return self.op("negative", self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.op("abs", self)

    # ---- comparison and logic ----------------------------------------------------------------

    # Elementwise, as in the array API; Python's convention is to return a bool.
    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self.op("equal", self, other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self.op("not_equal", self, other)

    def __lt__(self, other: Any) -> Self:
        return self.op("less", self, other)

    def __le__(self, other: Any) -> Self:
        return self.op("less_equal", self, other)

    def __gt__(self, other: Any) -> Self:
        return self.op("greater", self, other)

    def __ge__(self, other: Any) -> Self:
        return self.op("greater_equal", self, other)

    def __and__(self, other: Any) -> Self:
        return self.op("logical_and", self, other)

    def __rand__(self, other: Any) -> Self:
        return self.op("logical_and", other, self)

    def __or__(self, other: Any) -> Self:
        return self.op("logical_or", self, other)

    def __ror__(self, other: Any) -> Self:
        return self.op("logical_or", other, self)

    def __xor__(self, other: Any) -> Self:
        return self.op("logical_xor", self, other)

    def __invert__(self) -> Self:
        return self.op("logical_not", self)

    def __hash__(self) -> int:
        return id(self)
