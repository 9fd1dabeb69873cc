"""Optimizers as pure operators: how a transformation of optax becomes one.

    updates, next_state = transformation(grads, params, state; numbers)

A transformation takes one gradient for each parameter, some numbers as attributes, and its
state; it gives one update for each parameter and the next state. The state's slots have names
of our own, as `count`, `mu` and `nu`, so that files and scopes do not depend on the layout of
optax. A file names the operator and its numbers, nothing else: which code runs is decided here.

    @transformation("count", "mu*", "nu*")
    def scale_by_adam(*, b1: float = 0.9, b2: float = 0.999) -> Any:
        \"\"\"...\"\"\"
        return optax.scale_by_adam(b1, b2)

The function gives the transformation of optax. `*` marks what is kept for each parameter; in
optax's state the fields must be called the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.dtypes import TensorType, is_float, is_integer
from braces.errors import DTypeError, ShapeError
from braces.lazy import jax
from braces.ops.define import OPS, OpDef, Slot, read_signature
from braces.ops.inference import Context
from braces.ops.precision import widened

Tensors: TypeAlias = "list[Any]"
"""The arrays of one slot that holds many, as a kernel sees them."""
Given: TypeAlias = "TensorType | list[TensorType]"

GRADS = Slot("grads", many=True)
PARAMS = Slot("params", many=True)
UPDATES = Slot("updates", many=True)

_GRADS_DOC = "grads: f[*shape]. For each parameter its gradient, or the update so far."
_PARAMS_DOC = "params: f[*shape]. The parameters, in the order of `grads`."
_STEPS_DOC = "i[]. The steps done before."
_MANY_DOC = "f[*shape]. What is kept for each parameter."
_UPDATES_DOC = "updates: f[*shape]. For each parameter its update, of the gradient's type."
_NEXT_DOC = "The state after this step."


@dataclass(eq=False)
class Grouped(OpDef):
    """An operator with several slots that hold many: its kernel takes a list for each."""

    def arrange(self, values: Mapping[str, tuple[Any, ...]]) -> list[Any]:
        """Values by slot as positional arguments, a list for each slot that holds many."""
        return [
            list(values.get(slot.name, ())) if slot.many else values[slot.name][0]
            for slot in self.inputs
        ]


@dataclass(eq=False)
class Transformation(Grouped):
    """A transformation of gradients.

    Attributes:
        state: The slots of its state; its next values are `next_NAME` among the outputs.
    """

    state: tuple[Slot, ...] = ()


def transformation(
    *state: str,
    params: bool = False,
    separable: bool = True,
    examples: Sequence[str] = (),
    differentiable: bool = True,
) -> Callable[[Callable[..., Any]], Transformation]:
    """Define a transformation by a function from its numbers to what optax has for it.

    Args:
        *state: The names of its state in optax; `NAME*` is kept for each parameter.
        params: Whether it reads the parameters too.
        separable: Whether each parameter's update follows from its own gradient and state.
        examples: Types of gradients, and attributes: `"f32[2] f32[b,4] b1=0.5"`.
        differentiable: Whether its derivative makes sense.
    """
    slots = tuple(Slot(name.removesuffix("*"), many=name.endswith("*")) for name in state)

    def decorate(build: Callable[..., Any]) -> Transformation:
        inputs = (GRADS, *(PARAMS,) * params, *slots)
        outputs = (UPDATES, *(Slot(f"next_{s.name}", s.many) for s in slots))
        definition = Transformation(
            build.__name__, inputs, read_signature(build)[1], outputs,
            _kernel(build, inputs), _document(build, inputs, outputs),
            infer_rule=_inference(inputs), differentiable=differentiable, separable=separable,
            examples=tuple(_spread(e, inputs) for e in (*EXAMPLES, *examples)), state=slots,
            function=False,
        )  # fmt: skip
        OPS.add(definition)
        return definition

    return decorate


EXAMPLES = ("f32[2,3] f32[]", "f32[b,4]")


def _spread(example: str, inputs: Sequence[Slot]) -> str:
    """An example with its types given to every slot that holds many."""
    tokens = example.split()
    types = [token for token in tokens if "=" not in token]
    slots = [f"{s.name}={t}" for s in inputs if s.many for t in types]
    numbers = [f"{s.name}=i32[]" for s in inputs if not s.many]
    return " ".join([*slots, *numbers, *(token for token in tokens if "=" in token)])


# ---- computing -------------------------------------------------------------------------------


def _kernel(build: Callable[..., Any], inputs: Sequence[Slot]) -> Callable[..., Any]:
    names = [slot.name for slot in inputs]

    def kernel(*given: Any, **attrs: Any) -> Any:
        state = dict(zip(names, map(widened, given), strict=True))
        grads, params = state.pop("grads"), state.pop("params", None)
        # optax mixes dtypes with Python numbers; what it gives is brought back to ours.
        with jax.numpy_dtype_promotion("standard"):
            chosen = build(**attrs)
            before = chosen.init(grads)._replace(**state)
            updates, after = chosen.update(grads, before, params)
        wanted = dict(zip(names, given, strict=True))
        updates = like(updates, wanted["grads"])
        moved = [like(getattr(after, name), wanted[name]) for name in state]
        return (updates, *moved) if state else updates

    return kernel


def like(results: Any, wanted: Any) -> Any:
    """For kernels: arrays, or a list of them, in the dtypes of others."""
    if isinstance(wanted, list):
        return [like(one, other) for one, other in zip(results, wanted, strict=True)]
    return results.astype(wanted.dtype)


# ---- types -----------------------------------------------------------------------------------


def _inference(inputs: Sequence[Slot]) -> Callable[..., Any]:
    names = [slot.name for slot in inputs]

    def infer(context: Context, *given: Given, **attrs: Any) -> Any:
        del attrs
        types = dict(zip(names, given, strict=True))
        check_grouped(context, types)
        types.pop("params", None)
        return tuple(types.values()) if len(types) > 1 else types["grads"]

    return infer


def check_grouped(context: Context, types: Mapping[str, Given]) -> None:
    """Refuse slots that do not go together.

    Raises:
        ShapeError: They hold different numbers of variables, or variables of different shapes,
            or a count is not one number.
        DTypeError: A gradient is not a float, dtypes differ, or a count is no integer.
    """
    first, leader = next(iter(types.items()))
    assert isinstance(leader, list)
    for one in leader:
        if not is_float(one.dtype):
            raise DTypeError(f"{context.type} takes floats for `{first}`, not {one}.")
    for slot, given in types.items():
        if isinstance(given, list):
            _check_like(context, (first, leader), (slot, given))
        elif not is_integer(given.dtype) or given.rank:
            error = ShapeError if given.rank else DTypeError
            raise error(f"`{slot}` of {context.type} is one integer, not {given}.")


def _check_like(
    context: Context, leader: tuple[str, list[TensorType]], other: tuple[str, list[TensorType]]
) -> None:
    (first, wanted), (slot, given) = leader, other
    if len(wanted) != len(given):
        raise ShapeError(
            f"{context.type} is given {len(wanted)} `{first}` and {len(given)} `{slot}`.",
            fix="There is one of each for every parameter.",
        )
    for number, (want, got) in enumerate(zip(wanted, given, strict=True)):
        if want != got:
            error = ShapeError if want.dtype == got.dtype else DTypeError
            raise error(
                f"{context.type} is given {want} in `{first}` and {got} in `{slot}`.",
                given=f"both at place {number}",
                fix="They belong to one parameter, and have its type.",
            )


# ---- documentation ---------------------------------------------------------------------------


def _document(
    build: Callable[..., Any], inputs: Sequence[Slot], outputs: Sequence[Slot]
) -> str:
    head, mark, attributes = (inspect.getdoc(build) or "").partition("Attributes:")
    kept = [slot for slot in inputs if slot not in (GRADS, PARAMS)]
    lines = [_GRADS_DOC, *[_PARAMS_DOC] * (PARAMS in inputs)]
    lines += [f"{slot.name}: {_MANY_DOC if slot.many else _STEPS_DOC}" for slot in kept]
    results = [_UPDATES_DOC, *(f"{slot.name}: {_NEXT_DOC}" for slot in outputs[1:])]
    sections = [head.rstrip(), _section("Inputs", lines)]
    sections += [mark + attributes.rstrip()] if mark else []
    return "\n\n".join([*sections, _section("Outputs", results)])


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"    {line}" for line in lines)])
