"""Lists whose length is known only at run time: the history of loops.

A list is an immutable value with a top. `push` and `pop` are each other's gradient, so a
program that keeps history differentiates to any order. Interpreted, a list is a chain of links
that grows; compiled, it is a buffer with a capacity, chosen by the executor, and a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from braces.builder.append import apply
from braces.builder.var import Var
from braces.define.axes.axis_map import shaped
from braces.define.decorator import Capacity, History, Tensor, op
from braces.define.type_inference import Context
from braces.dims import Shape
from braces.dtypes import INT64, DType, ListType, TensorType
from braces.errors import DTypeError
from braces.lazy import jax, jnp, tracing
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import Backward, zeros_of

EMPTY, PUSH, POP = "list_empty", "list_push", "list_pop"


class Stack:
    """A list as the interpreter holds it: a chain of links, shared and never changed.

    A link also knows one far below it, as far as two equal leaps of the links below it reach,
    so that a value at any place is found in a number of steps that grows like a logarithm.

    Attributes:
        count: How many values there are.
        zero: A value of the element's type, for lists that have none.
    """

    __slots__ = ("count", "far", "rest", "value", "zero")

    def __init__(self, zero: Any, value: Any = None, rest: Stack | None = None) -> None:
        self.zero = zero
        self.value = value
        self.rest = rest
        self.count: int = 0 if rest is None else rest.count + 1
        self.far: Stack = self if rest is None else _leap(rest)

    @staticmethod
    def of(zero: Any, values: Iterable[Any]) -> Stack:
        """The list of these values, the last one on top."""
        return Stack(zero).with_values(values)

    def push(self, value: Any) -> Stack:
        """This list with one more value on top."""
        return Stack(self.zero, value, self)

    def pop(self) -> tuple[Any, Stack]:
        """The value on top, and the list below it."""
        assert self.rest is not None, "pop of an empty history"
        return self.value, self.rest

    def below(self, count: int) -> Stack:
        """The list of the first values, so many of them."""
        link = self
        while link.count > count:
            assert link.rest is not None
            link = link.far if link.far.count >= count else link.rest
        return link

    def with_values(self, values: Iterable[Any]) -> Stack:
        """This list with more values on top, the last one uppermost."""
        found = self
        for value in values:
            found = found.push(value)
        return found

    def get(self, index: Any) -> Any:
        """The value at a place; from the end where that is negative."""
        return self.below(_place(index, self.count) + 1).value

    def set(self, index: Any, value: Any) -> Stack:
        """This list with another value at a place."""
        return self._with(index, 1, value)

    def insert(self, index: Any, value: Any) -> Stack:
        """This list with one more value at a place, and what is there after it."""
        return self._with(index, 0, value)

    def erase(self, index: Any) -> Stack:
        """This list without the value at a place."""
        return self._with(index, 1)

    def _with(self, index: Any, fewer: int, *values: Any) -> Stack:
        at = _place(index, self.count)
        above = self.values()[at + fewer :]
        return self.below(at).with_values((*values, *above))

    def resized(self, length: Any) -> Stack:
        """The first values, so many of them; zeros beyond those that there are."""
        missing = int(length) - self.count
        return self.below(int(length)).with_values([self.zero] * missing)

    def values(self) -> list[Any]:
        """All values, the oldest first."""
        found, link = list[Any](), self
        while link.rest is not None:
            found.append(link.value)
            link = link.rest
        return found[::-1]

    def stacked(self) -> Any:
        """All values as one array."""
        return jnp.stack(self.values()) if self.count else self.zero[None][:0]

    def combine(self, change: Callable[..., Any], *others: Stack) -> Stack:
        """A list of the same length with `change` applied value by value."""
        rows = zip(self.values(), *(other.values() for other in others), strict=True)
        return Stack.of(self.zero, (change(*values) for values in rows))


def _leap(rest: Stack) -> Stack:
    """How far down the link on top of this one leaps."""
    once, twice = rest.far, rest.far.far
    return twice if rest.count - once.count == once.count - twice.count else rest


def _place(index: Any, count: int) -> int:
    return int(index) + (count if index < 0 else 0)


@dataclass(frozen=True)
class Buffer:
    """A list as compiled code holds it: the values up to `count`, with room for more.

    Pushing beyond the room counts on, and what is then on the list means nothing: the executor
    looks at `count` where loops end, and repeats the run with more room.

    Attributes:
        values: The values, and what lies beyond them.
        count: How many there are.
        most: How many there were at most, where values were taken out since: room was needed
            for them.
        history: The loop whose trips they record; lists of one history have one room.
    """

    values: Any
    count: Any
    most: Any
    history: str = ""

    def __post_init__(self) -> None:
        _known_to_jax()

    def push(self, value: Any) -> Buffer:
        """This list with one more value on top."""
        written = jax.lax.dynamic_update_index_in_dim(self.values, value, self.count, 0)
        return replace(self, values=written, count=self.count + 1)

    def pop(self) -> tuple[Any, Buffer]:
        """The value on top, and the list below it; nothing is erased."""
        below = self.count - 1
        value = jax.lax.dynamic_index_in_dim(self.values, below, 0, keepdims=False)
        return value, replace(self, count=below)

    @property
    def popped(self) -> Any:
        """What was popped off this list last, where nothing was pushed since."""
        return jax.lax.dynamic_index_in_dim(self.values, self.count, 0, keepdims=False)

    def combine(self, change: Callable[..., Any], *others: Buffer) -> Buffer:
        """A list of the same length with `change` applied value by value."""
        room = max(self.room, *(other.room for other in others), 0)
        rows = (resized(one.values, room) for one in (self, *others))
        return replace(self, values=change(*rows))

    def _position(self, index: Any) -> Any:
        """A place from the front; what is out of range ends up anywhere in the room."""
        index = index.astype(jnp.int64)
        index = jnp.where(index < 0, index + self.count, index)
        return jnp.clip(index, 0, max(self.room - 1, 0)).astype(jnp.int32)

    def _along(self, wanted: Any) -> Any:
        """Something for each place of the room, to choose values by."""
        return wanted.reshape(-1, *[1] * (self.values.ndim - 1))

    def get(self, index: Any) -> Any:
        """The value at a place; from the end where that is negative."""
        at = self._position(index)
        return jax.lax.dynamic_index_in_dim(self.values, at, 0, keepdims=False)

    def set(self, index: Any, value: Any) -> Buffer:
        """This list with another value at a place."""
        at = self._position(index)
        written = jax.lax.dynamic_update_index_in_dim(self.values, value, at, 0)
        return replace(self, values=written)

    def insert(self, index: Any, value: Any) -> Buffer:
        """This list with one more value at a place, and what is there after it."""
        at, places = self._position(index), jnp.arange(self.room, dtype=jnp.int32)
        moved = jnp.roll(self.values, 1, 0)
        kept = jnp.where(self._along(places < at), self.values, moved)
        written = jnp.where(self._along(places == at), value[None], kept)
        return replace(self, values=written, count=self.count + 1)

    def erase(self, index: Any) -> Buffer:
        """This list without the value at a place."""
        at, places = self._position(index), jnp.arange(self.room, dtype=jnp.int32)
        kept = jnp.where(self._along(places < at), self.values, jnp.roll(self.values, -1, 0))
        return replace(self, values=kept, count=self.count - 1, most=self.highest)

    def resized(self, length: Any) -> Buffer:
        """The first values, so many of them; zeros beyond those that there are."""
        length = length.astype(jnp.int32)
        real = jnp.arange(self.room, dtype=jnp.int32) < jnp.minimum(self.count, length)
        kept = jnp.where(self._along(real), self.values, jnp.zeros_like(self.values))
        return replace(self, values=kept, count=length, most=self.highest)

    def begun(self, room: int, history: str) -> Buffer:
        """The same values, with room for others."""
        return replace(self, values=resized(self.values, room), history=history)

    @property
    def highest(self) -> Any:
        """How many values there were at most."""
        return jnp.maximum(self.count, self.most)

    @property
    def room(self) -> int:
        """How many values fit."""
        return self.values.shape[0]

    @property
    def whole(self) -> Any:
        """Whether there was room for all values."""
        return self.highest <= self.room


@cache
def _known_to_jax() -> None:
    """Let JAX see into buffers; on first use, since JAX itself is imported on first use."""
    jax.tree_util.register_dataclass(Buffer, ["values", "count", "most"], ["history"])


def is_traced(x: Any) -> bool:
    """Whether an array is part of code that is being compiled."""
    return isinstance(x, tracing.Tracer)


def resized(values: Any, room: int) -> Any:
    """The first rows of a buffer, with zeros where there are fewer."""
    missing = room - values.shape[0]
    if missing <= 0:
        return values[:room]
    return jnp.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])


def zeros_listed(
    length: Any, dtype: DType, shape: Shape, history: str, capacity: int | None
) -> Stack | Buffer:
    """So many zeros: a chain, or a buffer where there is a capacity."""
    zero = jnp.zeros(shape, dtype)
    if capacity is None:
        return Stack.of(zero, [zero] * int(length))
    return buffer(jnp.zeros((capacity, *shape), dtype), length, history)


def buffer(values: Any, length: Any, history: str = "") -> Buffer:
    """A list that begins with so many of the values."""
    return Buffer(values, jnp.asarray(length, "int32"), jnp.asarray(0, "int32"), history)


def list_attrs(element: TensorType, history: str) -> dict[str, Any]:
    """The attributes of the operators that begin a list."""
    return {"dtype": element.dtype, "shape": element.shape, "history": history}


# ---- operators -------------------------------------------------------------------------------


@op(axes=shaped, differentiable=False, lists=True, operations=0)
def list_empty(
    *, dtype: DType, shape: Shape, history: History, capacity: Capacity | None = None
) -> Tensor:
    """A list with nothing in it, for values of one dtype and shape.

    Attributes:
        dtype: The dtype of its values.
        shape: The shape of its values.
        history: The loop whose trips it records.
        capacity: Room for this many values when compiled; the executor's affair.

    Outputs:
        out: list<dtype[shape]>.
    """
    return zeros_listed(0, dtype, shape, history, capacity)


@list_empty.infer
def infer_begun(
    context: Context, *inputs: TensorType, dtype: DType, shape: Shape, **attrs: Any
) -> ListType:
    """A list of that element."""
    del context, inputs, attrs
    return ListType(TensorType(dtype, shape))


@op(axes="..., ... -> ...", lists=True, operations=0)
def list_push(list: Tensor, value: Tensor, *, history: History) -> Tensor:
    """A list with one more value on top.

    Inputs:
        list: list<T>.
        value: T.

    Attributes:
        history: The loop whose trips the list records.

    Outputs:
        out: list<T>.
    """
    del history
    return list.push(value)


@list_push.infer
def infer_list_push(
    context: Context, list: ListType, value: TensorType, *, history: str
) -> ListType:
    """The type of the list."""
    del history
    if list.map_sizes(context.unifier.resolve).element != value:
        raise DTypeError(f"A {list} cannot take a {value}.")
    return list


@list_push.gradient
def list_push_gradient(g: Backward) -> dict[str, Var]:
    """Pop the cotangent of the list: the top belongs to the value."""
    value, rest = pop(g.out_grad, str(g.attrs["history"]))
    return {"list": rest, "value": value}


@op(outputs=("value", "rest"), axes="... -> ..., ...", lists=True, operations=0)
def list_pop(list: Tensor, *, history: History) -> tuple[Tensor, Tensor]:
    """The value on top of a list, and the list below it.

    Inputs:
        list: list<T>, not empty.

    Attributes:
        history: The loop whose trips the list records.

    Outputs:
        value: T.
        rest: list<T>.
    """
    del history
    return list.pop()


@list_pop.infer
def infer_list_pop(
    context: Context, list: ListType, *, history: str
) -> tuple[TensorType, ListType]:
    """The element, and the type of the list."""
    del context, history
    return list.element, list


@list_pop.gradient
def list_pop_gradient(g: Backward) -> dict[str, Var]:
    """Push the cotangent of the value on that of the rest."""
    value, rest = g.grads["value"][0], g.grads["rest"][0]
    element = g["list"].type
    assert isinstance(element, ListType)
    return {
        "list": push(
            g.zeros("rest") if rest is None else rest,
            zeros_of(element.element) if value is None else value,
            str(g.attrs["history"]),
        )
    }


@op(axes="... -> ...", lists=True, operations=0)
def list_zeros(list: Tensor) -> Tensor:
    """Zeros in the length of a list.

    Inputs:
        list: list<T>.

    Outputs:
        out: list<T>.
    """
    return list.combine(jnp.zeros_like)


@op(axes="..., ... -> ...", lists=True)
def list_add(x: Tensor, y: Tensor) -> Tensor:
    """The sum of two lists of one length, value by value.

    Inputs:
        x: list<T>.
        y: list<T>.

    Outputs:
        out: list<T>.
    """
    return x.combine(jnp.add, y)


@list_add.gradient
def list_add_gradient(g: Backward) -> dict[str, Var]:
    """Each list receives the cotangent."""
    return {"x": g.out_grad, "y": g.out_grad}


@list_push.jvp
def list_push_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """Push the tangent of the value on that of the list."""
    (rest,) = tangents.get("list") or (zero_list(values["list"][0]),)
    element = values["value"][0].type
    assert isinstance(element, TensorType)
    (value,) = tangents.get("value") or (zeros_of(element),)
    return {"out": (push(rest, value, str(attrs["history"])),)}


@list_pop.jvp
def list_pop_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """Pop the tangent of the list."""
    del values
    value, rest = pop(tangents["list"][0], str(attrs["history"]))
    return {"value": (value,), "rest": (rest,)}


@list_add.jvp
def list_add_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """The sum of the tangents."""
    del attrs
    x, y = (tangents.get(s) or (zero_list(values[s][0]),) for s in ("x", "y"))
    return {"out": (add_lists(x[0], y[0]),)}


def _same_list(context: Context, first: ListType, *others: ListType) -> ListType:
    del context, others
    return first


list_zeros.infer_rule = list_add.infer_rule = _same_list
list_zeros.differentiable = False


# ---- building --------------------------------------------------------------------------------


def push(list: Var, value: Var, history: str) -> Var:
    """Append a `list_push`."""
    return apply(PUSH, {"list": (list,), "value": (value,)}, {"history": history})["out"][0]


def pop(list: Var, history: str) -> tuple[Var, Var]:
    """Append a `list_pop`."""
    results = apply(POP, {"list": (list,)}, {"history": history})
    return results["value"][0], results["rest"][0]


def zero_list(like: Var) -> Var:
    """Append a `list_zeros`."""
    return apply("list_zeros", {"list": (like,)})["out"][0]


def add_lists(x: Var, y: Var) -> Var:
    """Append a `list_add`."""
    return apply("list_add", {"x": (x,), "y": (y,)})["out"][0]


INDEX_TYPE = TensorType(INT64, ())
