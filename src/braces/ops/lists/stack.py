"""Lists (stacks) of data-dependent length, such as the residual lists of loops.

A list is an immutable value with a top. Push and pop are each other's gradient, so programs
with lists differentiate to any order. Interpreted, a list is a linked list. Compiled, it is a
buffer with a count, and a capacity chosen by the executor (TensorList, TensorArray).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from braces.builder.append import apply
from braces.builder.var import Var
from braces.define.axes.axis_rules import constant_axes
from braces.define.decorator import Capacity, History, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape
from braces.dtypes import INT64, DType, ListType, TensorType
from braces.errors import DTypeError
from braces.ir.records import Op
from braces.lazy import jax, jnp, tracing
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import Backward, build_zeros

EMPTY, PUSH, POP = "list_empty", "list_push", "list_pop"


class Stack:
    """A list in the interpreter: an immutable linked list (skip list) with shared links.

    A link also refers to one far below it, as far as two equal leaps of the links below it.
    So a lookup by index takes logarithmic time.

    Attributes:
        count: The number of elements.
        zero: A zero of the element type, for empty lists.
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
        """Return the list of these values, the last one on top."""
        return Stack(zero).with_values(values)

    def push(self, value: Any) -> Stack:
        """Return this list with one more value on top."""
        return Stack(self.zero, value, self)

    def pop(self) -> tuple[Any, Stack]:
        """Return the top element, and the list below it."""
        assert self.rest is not None, "pop of an empty history"
        return self.value, self.rest

    def below(self, count: int) -> Stack:
        """Return the list of the first `count` elements."""
        link = self
        while link.count > count:
            assert link.rest is not None
            link = link.far if link.far.count >= count else link.rest
        return link

    def with_values(self, values: Iterable[Any]) -> Stack:
        """Return this list with more values on top, the last one uppermost."""
        result = self
        for value in values:
            result = result.push(value)
        return result

    def get(self, index: Any) -> Any:
        """Return the element at an index; a negative one counts from the end."""
        return self.below(_place(index, self.count) + 1).value

    def set(self, index: Any, value: Any) -> Stack:
        """Return this list with another value at an index."""
        return self._with(index, 1, value)

    def insert(self, index: Any, value: Any) -> Stack:
        """Return this list with a value inserted before an index."""
        return self._with(index, 0, value)

    def erase(self, index: Any) -> Stack:
        """Return this list without the element at an index."""
        return self._with(index, 1)

    def _with(self, index: Any, fewer: int, *values: Any) -> Stack:
        at = _place(index, self.count)
        above = self.values()[at + fewer :]
        return self.below(at).with_values((*values, *above))

    def resized(self, length: Any) -> Stack:
        """Return this list truncated to a length, or padded with zeros."""
        missing = int(length) - self.count
        return self.below(int(length)).with_values([self.zero] * missing)

    def values(self) -> list[Any]:
        """Return all elements, the oldest first."""
        elements, link = list[Any](), self
        while link.rest is not None:
            elements.append(link.value)
            link = link.rest
        return elements[::-1]

    def stacked(self) -> Any:
        """Return all elements as one array."""
        return jnp.stack(self.values()) if self.count else self.zero[None][:0]

    def combine(self, change: Callable[..., Any], *others: Stack) -> Stack:
        """Return a list of the same length, with `change` applied element by element."""
        rows = zip(self.values(), *(other.values() for other in others), strict=True)
        return Stack.of(self.zero, (change(*values) for values in rows))


def _leap(rest: Stack) -> Stack:
    """Return the far link for a new link on top of this one."""
    once, twice = rest.far, rest.far.far
    return twice if rest.count - once.count == once.count - twice.count else rest


def _place(index: Any, count: int) -> int:
    return int(index) + (count if index < 0 else 0)


@dataclass(frozen=True)
class ListBuffer:
    """A list in compiled code: the elements up to `count`, in a buffer of fixed capacity.

    A push beyond the capacity increments `count` and leaves the elements undefined. The
    executor checks `count` at the end of loops and repeats the run with a larger capacity.

    Attributes:
        values: The elements, followed by unused space.
        count: The number of elements.
        most: The highest count before elements were removed, which the capacity must hold.
        history: The loop whose iterations fill it; lists of one history share a capacity.
    """

    values: Any
    count: Any
    most: Any
    history: str = ""

    def __post_init__(self) -> None:
        _register_pytree()

    def push(self, value: Any) -> ListBuffer:
        """Return this list with one more value on top."""
        written = jax.lax.dynamic_update_index_in_dim(self.values, value, self.count, 0)
        return replace(self, values=written, count=self.count + 1)

    def pop(self) -> tuple[Any, ListBuffer]:
        """Return the top element, and the list below it; nothing is erased."""
        below = self.count - 1
        value = jax.lax.dynamic_index_in_dim(self.values, below, 0, keepdims=False)
        return value, replace(self, count=below)

    @property
    def popped(self) -> Any:
        """The element popped last, provided that nothing was pushed since."""
        return jax.lax.dynamic_index_in_dim(self.values, self.count, 0, keepdims=False)

    def combine(self, change: Callable[..., Any], *others: ListBuffer) -> ListBuffer:
        """Return a list of the same length, with `change` applied element by element."""
        room = max(self.room, *(other.room for other in others), 0)
        rows = (resize_buffer(buffer.values, room) for buffer in (self, *others))
        return replace(self, values=change(*rows))

    def _position(self, index: Any) -> Any:
        """Return a nonnegative index; one out of range is clipped to the capacity."""
        index = index.astype(jnp.int64)
        index = jnp.where(index < 0, index + self.count, index)
        return jnp.clip(index, 0, max(self.room - 1, 0)).astype(jnp.int32)

    def _along(self, wanted: Any) -> Any:
        """Reshape a mask of elements to broadcast against the elements."""
        return wanted.reshape(-1, *[1] * (self.values.ndim - 1))

    def get(self, index: Any) -> Any:
        """Return the element at an index; a negative one counts from the end."""
        at = self._position(index)
        return jax.lax.dynamic_index_in_dim(self.values, at, 0, keepdims=False)

    def set(self, index: Any, value: Any) -> ListBuffer:
        """Return this list with another value at an index."""
        at = self._position(index)
        written = jax.lax.dynamic_update_index_in_dim(self.values, value, at, 0)
        return replace(self, values=written)

    def insert(self, index: Any, value: Any) -> ListBuffer:
        """Return this list with a value inserted before an index."""
        at, places = self._position(index), jnp.arange(self.room, dtype=jnp.int32)
        moved = jnp.roll(self.values, 1, 0)
        elements = jnp.where(self._along(places < at), self.values, moved)
        written = jnp.where(self._along(places == at), value[None], elements)
        return replace(self, values=written, count=self.count + 1)

    def erase(self, index: Any) -> ListBuffer:
        """Return this list without the element at an index."""
        at, places = self._position(index), jnp.arange(self.room, dtype=jnp.int32)
        elements = jnp.where(
            self._along(places < at), self.values, jnp.roll(self.values, -1, 0)
        )
        return replace(self, values=elements, count=self.count - 1, most=self.highest)

    def resized(self, length: Any) -> ListBuffer:
        """Return this list truncated to a length, or padded with zeros."""
        length = length.astype(jnp.int32)
        real = jnp.arange(self.room, dtype=jnp.int32) < jnp.minimum(self.count, length)
        elements = jnp.where(self._along(real), self.values, jnp.zeros_like(self.values))
        return replace(self, values=elements, count=length, most=self.highest)

    def begun(self, room: int, history: str) -> ListBuffer:
        """Return the same elements with a capacity of `room`."""
        return replace(self, values=resize_buffer(self.values, room), history=history)

    @property
    def highest(self) -> Any:
        """The highest count so far."""
        return jnp.maximum(self.count, self.most)

    @property
    def room(self) -> int:
        """The capacity."""
        return self.values.shape[0]

    @property
    def is_sufficient(self) -> Any:
        """Return whether the capacity was sufficient."""
        return self.highest <= self.room


@cache
def _register_pytree() -> None:
    """Register buffers as a pytree of JAX, on first use, which imports JAX."""
    jax.tree_util.register_dataclass(ListBuffer, ["values", "count", "most"], ["history"])


def is_traced(x: Any) -> bool:
    """Return whether an array is a tracer, part of code under compilation."""
    return isinstance(x, tracing.Tracer)


def resize_buffer(values: Any, room: int) -> Any:
    """Truncate a buffer to a capacity, or pad it with zeros."""
    missing = room - values.shape[0]
    if missing <= 0:
        return values[:room]
    return jnp.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])


def make_zero_list(
    length: Any, dtype: DType, shape: Shape, history: str, capacity: int | None
) -> Stack | ListBuffer:
    """Return a list of `length` zeros: a `Stack`, or a `ListBuffer` if there is a capacity."""
    zero = jnp.zeros(shape, dtype)
    if capacity is None:
        return Stack.of(zero, [zero] * int(length))
    return make_buffer(jnp.zeros((capacity, *shape), dtype), length, history)


def make_buffer(values: Any, length: Any, history: str = "") -> ListBuffer:
    """Return a list of the first `length` values."""
    return ListBuffer(values, jnp.asarray(length, "int32"), jnp.asarray(0, "int32"), history)


def list_attrs(element: TensorType, history: str) -> dict[str, Any]:
    """Return the attributes of operators that create a list."""
    return {"dtype": element.dtype, "shape": element.shape, "history": history}


# ---- operators -------------------------------------------------------------------------------


@op(axes=constant_axes, differentiable=False, lists=True, operations=0)
def list_empty(
    *, dtype: DType, shape: Shape, history: History, capacity: Capacity | None = None
) -> Tensor:
    """Return an empty list for elements of one dtype and shape.

    Attributes:
        dtype: The dtype of its elements.
        shape: The shape of its elements.
        history: The loop whose iterations fill it.
        capacity: Capacity when compiled, set by the executor.

    Outputs:
        out: list<dtype[shape]>.
    """
    return make_zero_list(0, dtype, shape, history, capacity)


@list_empty.infer
def infer_begun(
    context: InferenceContext, *inputs: TensorType, dtype: DType, shape: Shape, **attrs: Any
) -> ListType:
    """Return the list type of that element."""
    del context, inputs, attrs
    return ListType(TensorType(dtype, shape))


@op(axes="..., ... -> ...", lists=True, operations=0)
def list_push(list: Tensor, value: Tensor, *, history: History) -> Tensor:
    """Return a list with one more value on top.

    Inputs:
        list: list<T>.
        value: T.

    Attributes:
        history: The loop whose iterations fill it.

    Outputs:
        out: list<T>.
    """
    del history
    return list.push(value)


@list_push.infer
def infer_list_push(
    context: InferenceContext, list: ListType, value: TensorType, *, history: str
) -> ListType:
    """Return the type of the list."""
    del history
    if list.map_sizes(context.unifier.resolve).element != value:
        raise DTypeError(f"expected an element of type {list.element} for {list}, got {value}.")
    return list


@list_push.gradient
def list_push_gradient(g: Backward) -> dict[str, Var]:
    """Pop the cotangent of the list: the top belongs to the value."""
    value, rest = append_pop(g.out_grad, str(g.attrs["history"]))
    return {"list": rest, "value": value}


@op(outputs=("value", "rest"), axes="... -> ..., ...", lists=True, operations=0)
def list_pop(list: Tensor, *, history: History) -> tuple[Tensor, Tensor]:
    """Return the top element of a list, and the list below it.

    Inputs:
        list: list<T>, not empty.

    Attributes:
        history: The loop whose iterations fill it.

    Outputs:
        value: T.
        rest: list<T>.
    """
    del history
    return list.pop()


@list_pop.infer
def infer_list_pop(
    context: InferenceContext, list: ListType, *, history: str
) -> tuple[TensorType, ListType]:
    """Return the element type, and the type of the list."""
    del context, history
    return list.element, list


@list_pop.gradient
def list_pop_gradient(g: Backward) -> dict[str, Var]:
    """Push the cotangent of the element on that of the rest."""
    value, rest = g.grads["value"][0], g.grads["rest"][0]
    element = g["list"].type
    assert isinstance(element, ListType)
    return {
        "list": append_push(
            g.zeros("rest") if rest is None else rest,
            build_zeros(element.element) if value is None else value,
            str(g.attrs["history"]),
        )
    }


@op(axes="... -> ...", lists=True, operations=0)
def list_zeros(list: Tensor) -> Tensor:
    """Return a list of zeros, as long as the given list.

    Inputs:
        list: list<T>.

    Outputs:
        out: list<T>.
    """
    return list.combine(jnp.zeros_like)


@op(axes="..., ... -> ...", lists=True)
def list_add(x: Tensor, y: Tensor) -> Tensor:
    """Return the elementwise sum of two lists of equal length.

    Inputs:
        x: list<T>.
        y: list<T>.

    Outputs:
        out: list<T>.
    """
    return x.combine(jnp.add, y)


@list_add.gradient
def list_add_gradient(g: Backward) -> dict[str, Var]:
    """Both lists get the cotangent."""
    return {"x": g.out_grad, "y": g.out_grad}


@list_push.jvp
def list_push_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """Push the tangent of the value on that of the list."""
    (rest,) = tangents.get("list") or (append_zeros(values["list"][0]),)
    element = values["value"][0].type
    assert isinstance(element, TensorType)
    (value,) = tangents.get("value") or (build_zeros(element),)
    return {"out": (append_push(rest, value, str(attrs["history"])),)}


@list_pop.jvp
def list_pop_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """Pop the tangent of the list."""
    del values
    value, rest = append_pop(tangents["list"][0], str(attrs["history"]))
    return {"value": (value,), "rest": (rest,)}


@list_add.jvp
def list_add_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """Return the sum of the tangents."""
    del attrs
    x, y = (tangents.get(s) or (append_zeros(values[s][0]),) for s in ("x", "y"))
    return {"out": (append_add(x[0], y[0]),)}


def _same_list(context: InferenceContext, first: ListType, *others: ListType) -> ListType:
    del context, others
    return first


list_zeros.infer_rule = list_add.infer_rule = _same_list
list_zeros.differentiable = False


# ---- building --------------------------------------------------------------------------------


def append_push(list: Var, value: Var, history: str) -> Var:
    """Append a `list_push`."""
    return apply(PUSH, {"list": (list,), "value": (value,)}, {"history": history})["out"][0]


def push_op(name: str, operands: tuple[str, str], out: str, history: str) -> Op:
    """Return a `list_push` of a list and a value, by their names."""
    list_, value = operands
    slots = {"list": (list_,), "value": (value,)}
    return Op(PUSH, name, slots, {"out": (out,)}, {"history": history})


def push_operands(op: Op) -> tuple[str, str] | None:
    """Return the names of the list and of the value of a `list_push`; `None` for others."""
    return (op.inputs["list"][0], op.inputs["value"][0]) if op.type == PUSH else None


def append_pop(list: Var, history: str) -> tuple[Var, Var]:
    """Append a `list_pop`."""
    results = apply(POP, {"list": (list,)}, {"history": history})
    return results["value"][0], results["rest"][0]


def append_zeros(like: Var) -> Var:
    """Append a `list_zeros`."""
    return apply("list_zeros", {"list": (like,)})["out"][0]


def append_add(x: Var, y: Var) -> Var:
    """Append a `list_add`."""
    return apply("list_add", {"x": (x,), "y": (y,)})["out"][0]


INDEX_TYPE = TensorType(INT64, ())
