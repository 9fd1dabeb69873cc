"""Building blocks of recurrent cells: weights, the arithmetic of a step, and the loop.

Products with the input stay in the step; loop passes move them out of the loop when programs
are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.builder.append import as_var, emit
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
    LayerParameters,
    Weight,
    apply_activation,
    fixed_size,
    is_given,
)

Memories = Sequence[Var]
Step = Callable[[Var, Memories], Memories]
"""Maps a slice of the input and the memories to the next memories, the output first."""


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
    """Run a cell over the first axis of the input; return stacked outputs and final memories.

    Args:
        step: The cell.
        x: [steps, ...].
        start: The memories before the first step.
        back: Whether to run from the last step to the first.
        lengths: The number of steps of each batch element.
        collected: Number of memories to stack over all steps.
    """
    rnn = create_rnn(reverse=back, lengths=lengths)
    with rnn.stepnet() as net:
        scanned = net.add_input(x)
        memories = [net.add_memory(init=value) for value in start]
        next_memories = step(scanned, [memory.pre() for memory in memories])
        for memory, value in zip(memories, next_memories, strict=True):
            memory.update(value)
        net.add_output(*next_memories[:collected])
    return list(rnn.stacked), [rnn.final(memory) for memory in memories]


# ---- weights ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellKind:
    """Properties of one kind of cell.

    Attributes:
        name: The public name, without the suffix of cells.
        gates: Number of gates.
        memories: The parts of the state.
        forgets: The gate whose bias is initialized with 1, so that the initial net remembers.
    """

    name: str
    gates: int
    memories: Sequence[str] = ("h",)
    forgets: int | None = None

    def first_bias(self, size: int) -> Any:
        """Return the initial value of the bias."""
        value = np.zeros([self.gates, size], "float32")
        if self.forgets is not None:
            value[self.forgets] = 1.0
        return value.reshape(-1)


LSTM = CellKind("lstm", 4, ("h", "c"), forgets=1)
GRU = CellKind("gru", 3)
SIMPLE = CellKind("simple_rnn", 1)


@dataclass(frozen=True)
class CellInitializers:
    """Initializers of the parameters of a cell, if given."""

    w: Initializer | Any = None
    u: Initializer | Any = None
    b: Initializer | Any = None


def check_memory(what: str, role: str, value: Any, shape: Shape, dtype: DType) -> Var:
    """Check the shape and dtype of a memory, or of a part of a state.

    Raises:
        ShapeError: If the shape differs.
        DTypeError: If the dtype differs.
    """
    var, unify = as_var(value, dtype), current_program().current.unifier.unify
    sizes = var.shape
    is_match = len(sizes) == len(shape) and all(
        unify(size, expected) is not None for size, expected in zip(sizes, shape, strict=True)
    )
    if not is_match:
        raise ShapeError(
            f"{what}: expected {role} of shape [{','.join(map(str, shape))}].",
            given=f"{role}={var.name}: {var.type}",
            fix="A state has the batch axis of the input, and the size of the layer last.",
        )
    if var.dtype != dtype:
        raise DTypeError(
            f"{what}: expected {role} of dtype {dtype}, got {var.dtype}.",
            given=f"{role}={var.name}: {var.type}",
            fix=f"Write br.cast({role}, '{dtype}').",
        )
    return var


def as_list(state: Any) -> list[Any]:
    """Return the parts of a state; empty if it is not a tuple or list."""
    return list(cast("Sequence[Any]", state)) if isinstance(state, tuple | list) else []


def check_state(what: str, kind: CellKind, state: Any, shape: Shape, dtype: DType) -> list[Var]:
    """Return the memories of a user's state: one value, or a tuple of as many.

    Raises:
        ProgramError: If the number of memories is wrong.
    """
    count = len(kind.memories)
    values = [state] if count == 1 else as_list(state)
    if len(values) != count:
        raise ProgramError(
            f"{what}: expected a state of {count}: ({', '.join(kind.memories)}).",
            given=f"state={state!r:.80}",
        )
    return [
        check_memory(what, role, value, shape, dtype)
        for role, value in zip(kind.memories, values, strict=True)
    ]


def make_weights(
    kind: CellKind,
    parameters: LayerParameters,
    weights: dict[str, Weight],
    x: Var,
    size: int,
    inits: CellInitializers,
) -> list[Var | None]:
    """Return the weights of a cell, given or created: [taken, gates * size] and so on.

    Raises:
        ShapeError: If the shape of a weight is wrong.
    """
    what, width = parameters.layer, kind.gates * size
    in_size = fixed_size(x, -1, what)
    bias_init = inits.b if inits.b is not None else kind.first_bias(size)
    recurrent = inits.u if inits.u is not None else initializers.orthogonal()
    specs: dict[str, tuple[list[int], Any]] = {
        "w": ([in_size, width], inits.w),
        "u": ([size, width], recurrent),
        "b": ([width], bias_init),
        "b_reset": ([size], 0.0),
    }

    def weight(role: str, value: Any) -> Var | None:
        shape, init = specs[role]
        if is_given(value):
            return check_memory(what, role, value, tuple(shape), x.dtype)
        return parameters.get(role, shape, x.dtype, init)

    return [weight(role, value) for role, value in weights.items()]


# ---- arithmetic ------------------------------------------------------------------------------


def _product(x: Var, w: Var, bias: Var | None) -> Var:
    return ops.matmul(x, w) if bias is None else ops.matmul(x, w) + bias


def lstm_step(
    x: Var, memories: Memories, weights: Sequence[Var | None], name: str = ""
) -> list[Var]:
    """LSTM arithmetic: input, forget, new and output gates, in this order."""
    (h, c), (w, u, b) = memories, weights
    assert w is not None
    assert u is not None
    return lstm_memories(_product(x, w, b) + ops.matmul(h, u), c, name)


def lstm_memories(gates: Var, c: Var, name: str = "", axis: int = -1) -> list[Var]:
    """Return the next memories of an LSTM from its concatenated gates."""
    i, f, g, o = ops.split(gates, 4, axis=axis)
    next_c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return [emit("multiply", ops.sigmoid(o), ops.tanh(next_c), name=name), next_c]


def gru_step(
    x: Var,
    memories: Memories,
    weights: Sequence[Var | None],
    name: str = "",
    *,
    reset_after: bool = True,
) -> list[Var]:
    """GRU arithmetic: reset, update and new gates, in this order."""
    (h,), (w, u, b, b_reset) = memories, weights
    assert w is not None
    assert u is not None
    xr, xz, xn = ops.split(_product(x, w, b), 3, axis=-1)
    if reset_after:
        hr, hz, hn = ops.split(ops.matmul(h, u), 3, axis=-1)
        recurrent = hn if b_reset is None else hn + b_reset
        new = ops.tanh(xn + ops.sigmoid(xr + hr) * recurrent)
    else:
        two_gates = 2 * fixed_size(h, -1, "gru")
        hr, hz = ops.split(ops.matmul(h, u[:, :two_gates]), 2, axis=-1)
        new = ops.tanh(xn + ops.matmul(ops.sigmoid(xr + hr) * h, u[:, two_gates:]))
    return [emit("add", new, ops.sigmoid(xz + hz) * (h - new), name=name)]


def simple_step(
    x: Var,
    memories: Memories,
    weights: Sequence[Var | None],
    name: str = "",
    *,
    act: Activation = "tanh",
) -> list[Var]:
    """Elman arithmetic: one gate, which is the memory."""
    (h,), (w, u, b) = memories, weights
    assert w is not None
    assert u is not None
    return [apply_activation(_product(x, w, b) + ops.matmul(h, u), act, name)]
