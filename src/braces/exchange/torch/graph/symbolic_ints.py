"""The symbols of an export as sizes of a program.

s77            the size `batch`, where the user called the axis so
u0             what a run finds: the size of what `nonzero` gave, or of `x.item()`
s77*u0 + 1     a polynomial over both
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from braces import dims
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.errors import ShapeError
from braces.exchange.common.model.names import dimension_name
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.frontend.array_api import data_dependent as found
from braces.frontend.core import functions as ops

JOINED: Mapping[str, Callable[[Size, Size], Size]] = {
    "Add": sizes.plus, "Mul": sizes.times, "Max": sizes.largest, "Min": sizes.smallest,
    "FloorDiv": sizes.over, "Mod": sizes.rest, "PythonMod": sizes.rest,
    "CleanDiv": sizes.over,
}  # fmt: skip
"""What sizes are computed with, by torch's own names."""


@dataclass(frozen=True)
class Asked:
    """A comparison of sizes whose answer only a run knows.

    Attributes:
        op_type: The operator that compares.
        given: Numbers and sizes.
    """

    op_type: str
    given: tuple[Any, ...]

    def var(self) -> Var:
        """The answer, as the run has it."""
        numbers = [v.var() if isinstance(v, Asked) else number_of(v) for v in self.given]
        return ops.function_of(self.op_type)(*numbers)


@dataclass(eq=False)
class Symbols:
    """Which sizes the symbols of an export are.

    Attributes:
        known: By the name of the symbol.
    """

    known: dict[str, Size] = field(default_factory=dict)

    def size(self, said: Any) -> Size:
        """A size of torch: a number, or a polynomial over named ones.

        Raises:
            ShapeError: It is computed in a way that sizes are not, or nothing says what a
                symbol in it is.
        """
        return said if isinstance(said, int) else self._from(said.node.expr, said)

    def told(self, said: Any, number: Var) -> Size:
        """The size that a number of the program tells: one that is known, or a new one."""
        try:
            return self.size(said)
        except ShapeError:
            size = self.known[str(said.node.expr)] = found.as_size(ops.reshape(number, ()))
            return size

    def agreed(self, own: Size, said: Any) -> Size:
        """The size of an axis, where an export says which it is, too.

        A symbol that is new there is this size from here on.
        """
        if isinstance(said, int):
            return said
        if not isinstance(own, Dim) or not is_symbol(said.node.expr):
            return own
        return self.known.setdefault(str(said.node.expr), own)

    def _from(self, expression: Any, said: Any) -> Size:
        kind = type(expression).__name__
        if str(expression) in self.known:
            return self.known[str(expression)]
        if is_symbol(expression):
            return self._named(expression, said)
        if expression.is_Integer:
            return int(expression)
        if kind == "Pow" and expression.exp.is_Integer and expression.exp > 0:
            return dims.product([self._from(expression.base, said)] * int(expression.exp))
        joined = JOINED.get(kind)
        if joined is None:
            raise ShapeError(f"The size {expression} is not one that programs compute.")
        first, *rest = (self._from(part, said) for part in expression.args)
        for part in rest:
            first = joined(first, part)
        return first

    def _named(self, symbol: Any, said: Any) -> Size:
        env, called = said.node.shape_env, str(symbol)
        name = dimension_name(_user_names(env).get(called, called))
        if name is None or env.is_unbacked_symint(symbol):
            raise ShapeError(f"Nothing says what the size {symbol} is.")
        size = self.known[called] = Dim.named(name)
        return size


def is_symbol(expression: Any) -> bool:
    """Whether this is a name, and nothing is computed."""
    return type(expression).__name__ == "Symbol"


def _user_names(env: Any) -> Mapping[str, str]:
    """What users called the symbols of an export, where they did."""
    called = env.source_name_to_debug_name
    names = dict[str, str]()
    for symbol, sources in env.var_to_sources.items():
        for source in sources:
            name = source.name() if callable(source.name) else source.name
            if name in called:
                names[str(symbol)] = called[name]
    return names
