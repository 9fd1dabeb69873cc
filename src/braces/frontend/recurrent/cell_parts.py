"""What cells of recurrent nets are made of: weights, the arithmetic of a step, and its loop.

Products with the input stay in the step as they are written: they are moved out of the loop
where programs are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.builder.append import as_var, one
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Shape
from braces.dtypes import DType
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.rnn import create_rnn
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import (
    Activation,
    Parameters,
    Weight,
    activated,
    fixed_size,
    is_given,
)

Memories = Sequence[Var]
Step = Callable[[Var, Memories], Memories]
"""From a slice of the input and the memories to the next memories, the output first."""


# ---- loops -----------------------------------------------------------------------------------


def run_cell(
    step: Step,
    x: Var,
    start: Memories,
    *,
    back: bool = False,
    lengths: Var | None = None,
    collected: int = 1,
) -> tuple[list[Var], list[Var]]:
    """A loop over the first axis of the input: of the first memories all, and the last ones.

    Args:
        step: The cell.
        x: [steps, ...].
        start: The memories before the first step.
        back: Whether the last step comes first.
        lengths: How many steps each row has.
        collected: Of how many memories the values of all steps are wanted.
    """
    rnn = create_rnn(reverse=back, lengths=lengths)
    with rnn.stepnet() as net:
        given = net.add_input(x)
        memories = [net.add_memory(init=value) for value in start]
        after = step(given, [memory.pre() for memory in memories])
        for memory, value in zip(memories, after, strict=True):
            memory.update(value)
        net.add_output(*after[:collected])
    return list(rnn.stacked), [rnn.final(memory) for memory in memories]


# ---- weights ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What one kind of cell needs.

    Attributes:
        name: As users write it, without what says whether it is a cell or a layer.
        gates: How many there are.
        memories: What the state is made of.
        forgets: The gate whose bias begins with 1, so that a net remembers at first.
    """

    name: str
    gates: int
    memories: Sequence[str] = ("h",)
    forgets: int | None = None

    def first_bias(self, size: int) -> Any:
        """The first value of the bias."""
        value = np.zeros([self.gates, size], "float32")
        if self.forgets is not None:
            value[self.forgets] = 1.0
        return value.reshape(-1)


LSTM = Kind("lstm", 4, ("h", "c"), forgets=1)
GRU = Kind("gru", 3)
SIMPLE = Kind("simple_rnn", 1)


@dataclass(frozen=True)
class Inits:
    """The first values of the parameters of a cell, where they are said."""

    w: Initializer | Any = None
    u: Initializer | Any = None
    b: Initializer | Any = None


def check_memory(what: str, role: str, value: Any, shape: Shape, dtype: DType) -> Var:
    """A memory, or a part of a state, that has this type.

    Raises:
        ShapeError: It has another shape.
        DTypeError: It has another dtype.
    """
    var, unify = as_var(value, dtype), current_program().current.unifier.unify
    sizes = var.shape
    fits = len(sizes) == len(shape) and all(
        unify(size, wanted) is not None for size, wanted in zip(sizes, shape, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"{what} needs {role} of [{','.join(map(str, shape))}].",
            given=f"{role}={var.name}: {var.type}",
            fix="A state has the rows of the input, and the size of the layer last.",
        )
    if var.dtype != dtype:
        raise DTypeError(
            f"{what} computes in {dtype}, and {role} is {var.dtype}.",
            given=f"{role}={var.name}: {var.type}",
            fix=f"Write br.cast({role}, '{dtype}').",
        )
    return var


def as_list(state: Any) -> list[Any]:
    """The parts of a state; none where it is no tuple."""
    return list(cast("Sequence[Any]", state)) if isinstance(state, tuple | list) else []


def check_state(what: str, kind: Kind, state: Any, shape: Shape, dtype: DType) -> list[Var]:
    """The memories of a state as users write it: one, or as many as there are in a tuple.

    Raises:
        ProgramError: They are too many or too few.
    """
    count = len(kind.memories)
    given = [state] if count == 1 else as_list(state)
    if len(given) != count:
        raise ProgramError(
            f"{what} has a state of {count}: ({', '.join(kind.memories)}).",
            given=f"state={state!r:.80}",
        )
    return [
        check_memory(what, role, value, shape, dtype)
        for role, value in zip(kind.memories, given, strict=True)
    ]


def made_weights(
    kind: Kind, made: Parameters, said: dict[str, Weight], x: Var, size: int, inits: Inits
) -> list[Var | None]:
    """The weights of a cell as given or made: [taken, gates * size] and so on.

    Raises:
        ShapeError: One has another shape.
    """
    what, width = made.layer, kind.gates * size
    taken = fixed_size(x, -1, what)
    first = inits.b if inits.b is not None else kind.first_bias(size)
    recurrent = inits.u if inits.u is not None else initializers.orthogonal()
    wanted: dict[str, tuple[list[int], Any]] = {
        "w": ([taken, width], inits.w),
        "u": ([size, width], recurrent),
        "b": ([width], first),
        "b_reset": ([size], 0.0),
    }

    def weight(role: str, value: Any) -> Var | None:
        shape, init = wanted[role]
        if is_given(value):
            return check_memory(what, role, value, tuple(shape), x.dtype)
        return made.get(role, shape, x.dtype, init)

    return [weight(role, value) for role, value in said.items()]


# ---- arithmetic ------------------------------------------------------------------------------


def _product(x: Var, w: Var, bias: Var | None) -> Var:
    return ops.matmul(x, w) if bias is None else ops.matmul(x, w) + bias


def lstm_step(
    x: Var, memories: Memories, weights: Sequence[Var | None], name: str = ""
) -> list[Var]:
    """Input, forget, new and output gates, in this order."""
    (h, c), (w, u, b) = memories, weights
    assert w is not None
    assert u is not None
    return lstm_memories(_product(x, w, b) + ops.matmul(h, u), c, name)


def lstm_memories(gates: Var, c: Var, name: str = "", axis: int = -1) -> list[Var]:
    """The next memories of an LSTM from its gates, which lie one after the other."""
    i, f, g, o = ops.split(gates, 4, axis=axis)
    after = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return [one("multiply", ops.sigmoid(o), ops.tanh(after), name=name), after]


def gru_step(
    x: Var,
    memories: Memories,
    weights: Sequence[Var | None],
    name: str = "",
    *,
    reset_after: bool = True,
) -> list[Var]:
    """Reset, update and new gates, in this order."""
    (h,), (w, u, b, b_reset) = memories, weights
    assert w is not None
    assert u is not None
    xr, xz, xn = ops.split(_product(x, w, b), 3, axis=-1)
    if reset_after:
        hr, hz, hn = ops.split(ops.matmul(h, u), 3, axis=-1)
        remembered = hn if b_reset is None else hn + b_reset
        new = ops.tanh(xn + ops.sigmoid(xr + hr) * remembered)
    else:
        both = 2 * fixed_size(h, -1, "gru")
        hr, hz = ops.split(ops.matmul(h, u[:, :both]), 2, axis=-1)
        new = ops.tanh(xn + ops.matmul(ops.sigmoid(xr + hr) * h, u[:, both:]))
    return [one("add", new, ops.sigmoid(xz + hz) * (h - new), name=name)]


def simple_step(
    x: Var,
    memories: Memories,
    weights: Sequence[Var | None],
    name: str = "",
    *,
    act: Activation = "tanh",
) -> list[Var]:
    """One gate, which is the memory."""
    (h,), (w, u, b) = memories, weights
    assert w is not None
    assert u is not None
    return [activated(_product(x, w, b) + ops.matmul(h, u), act, name)]
