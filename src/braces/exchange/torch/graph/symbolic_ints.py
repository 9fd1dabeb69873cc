"""Convert the symbolic integers of an export to sizes of a program.

s77            the size `batch`, if the user named the axis so
u0             a data-dependent size, as of `nonzero` or `x.item()`
s77*u0 + 1     a polynomial over both
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from braces.errors import ShapeError
from braces.exchange.common.model.names import dimension_name
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.extend import data_dependent, dims, functions as ops
from braces.extend.building import Var
from braces.extend.types import Dim, Size

SIZE_ARITHMETIC: Mapping[str, Callable[[Size, Size], Size]] = {
    "Add": sizes.plus, "Mul": sizes.times, "Max": sizes.largest, "Min": sizes.smallest,
    "FloorDiv": sizes.truncated_quotient, "Mod": sizes.modulo, "PythonMod": sizes.modulo,
    "CleanDiv": sizes.truncated_quotient,
}  # fmt: skip
"""The arithmetic of sizes, by class names of SymPy and torch."""


@dataclass(frozen=True)
class SymbolicBool:
    """A comparison of sizes with a run-time result (a `SymBool`).

    Attributes:
        op_type: The comparison operator.
        given: Its operands: numbers and sizes.
    """

    op_type: str
    given: tuple[Any, ...]

    def var(self) -> Var:
        """Return the result as a variable."""
        numbers = [v.var() if isinstance(v, SymbolicBool) else number_of(v) for v in self.given]
        return ops.function_of(self.op_type)(*numbers)


@dataclass(eq=False)
class Symbols:
    """The sizes of an export's symbols.

    Attributes:
        known: The sizes by symbol name.
    """

    known: dict[str, Size] = field(default_factory=dict)

    def size(self, said: Any) -> Size:
        """Convert a size of torch: a number, or a polynomial over symbols.

        Raises:
            ShapeError: If the size uses unsupported arithmetic, or a symbol of unknown size.
        """
        return said if isinstance(said, int) else self._from(said.node.expr, said)

    def size_of_number(self, said: Any, number: Var) -> Size:
        """Return the size that a run-time number determines: a known one, or a new one."""
        try:
            return self.size(said)
        except ShapeError:
            size = self.known[str(said.node.expr)] = data_dependent.as_size(
                ops.reshape(number, ())
            )
            return size

    def agreed(self, own: Size, said: Any) -> Size:
        """Return the size of an axis whose symbol an export declares.

        A new symbol is bound to this size.
        """
        if isinstance(said, int):
            return said
        if not isinstance(own, Dim) or not is_symbol(said.node.expr):
            return own
        return self.known.setdefault(str(said.node.expr), own)

    def _from(self, expression: Any, sym_int: Any) -> Size:
        kind = type(expression).__name__
        if str(expression) in self.known:
            return self.known[str(expression)]
        if is_symbol(expression):
            return self._named(expression, sym_int)
        if expression.is_Integer:
            return int(expression)
        if kind == "Pow" and expression.exp.is_Integer and expression.exp > 0:
            return dims.product([self._from(expression.base, sym_int)] * int(expression.exp))
        combine = SIZE_ARITHMETIC.get(kind)
        if combine is None:
            raise ShapeError(f"unsupported symbolic size expression {expression}.")
        first, *operands = (self._from(part, sym_int) for part in expression.args)
        for part in operands:
            first = combine(first, part)
        return first

    def _named(self, symbol: Any, sym_int: Any) -> Size:
        env, symbol_name = sym_int.node.shape_env, str(symbol)
        name = dimension_name(_user_names(env).get(symbol_name, symbol_name))
        if name is None or env.is_unbacked_symint(symbol):
            raise ShapeError(f"size {symbol} is not determined by the inputs.")
        size = self.known[symbol_name] = Dim.named(name)
        return size


def is_symbol(expression: Any) -> bool:
    """Return whether an expression is a plain symbol."""
    return type(expression).__name__ == "Symbol"


def _user_names(env: Any) -> Mapping[str, str]:
    """Return the user's names of the symbols of an export."""
    debug_names = env.source_name_to_debug_name
    names = dict[str, str]()
    for symbol, sources in env.var_to_sources.items():
        for source in sources:
            name = source.name() if callable(source.name) else source.name
            if name in debug_names:
                names[str(symbol)] = debug_names[name]
    return names
