"""Rules of LSTM, GRU and RNN, before their decomposition into steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from braces.exchange.common.rules.recurrent_cells import (
    Cell,
    Function,
    Step,
    build_cells,
    gru_step,
    lstm_step,
    rnn_step,
    run_cell,
)
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.layers import dropout


def layers(
    step: Step, order: str, functions: Sequence[Function],
    x: Var, start: Sequence[Var] | Var, weights: Sequence[Var], biased: bool, count: int,
    rate: float, training: bool, both_ways: bool, batch_first: bool,
) -> tuple[Var, ...]:  # fmt: skip
    """Stacked recurrent layers: the outputs of the last, and the final memories of all."""
    single = x.ndim == 2  # a single example without a batch axis
    memories = [start] if isinstance(start, Var) else list(start)
    if single:
        x = ops.expand_dims(x, axis=1)
        memories = [ops.expand_dims(memory, axis=1) for memory in memories]
    elif batch_first:
        x = ops.swapaxes(x, 0, 1)
    cells = build_cells(order, functions, weights, biased, count * (2 if both_ways else 1))
    ends = list[list[Var]]()
    for layer in range(count):
        x, last = _layer(step, cells, x, memories, layer, both_ways)
        ends.extend(last)
        if rate and training and layer < count - 1:
            x = dropout(x, rate)
    lasts = [ops.stack(list(end)) for end in zip(*ends, strict=True)]
    if single:
        return (ops.squeeze(x, axis=1), *(ops.squeeze(last, axis=1) for last in lasts))
    return (ops.swapaxes(x, 0, 1) if batch_first else x, *lasts)


def _layer(
    step: Step, cells: Sequence[Cell], x: Var, memories: Sequence[Var], layer: int, both: bool
) -> tuple[Var, list[list[Var]]]:
    """Run one layer, in one direction or both."""
    outputs, ends = list[Var](), list[list[Var]]()
    for back in (False, True) if both else (False,):
        at = layer * (2 if both else 1) + back
        first = [memory[at] for memory in memories]
        out, last = run_cell(cells[at], step, x, first, back=back)
        outputs.append(out)
        ends.append(last)
    return (ops.concat(outputs, axis=-1) if both else outputs[0]), ends


RECURRENT: Mapping[str, Callable[..., Any]] = {
    "gru.input": partial(layers, gru_step, "rzn", (ops.sigmoid, ops.tanh)),
    "lstm.input": partial(layers, lstm_step, "ifgo", (ops.sigmoid, ops.tanh, ops.tanh)),
    "rnn_relu.input": partial(layers, rnn_step, "h", (ops.relu,)),
    "rnn_tanh.input": partial(layers, rnn_step, "h", (ops.tanh,)),
}
