"""Linear-chain conditional random fields: a score for each pair of adjacent tags.

An additional last tag represents the position before the first step; the transition from it to
the first tag has the score of `start`. So empty batch elements and empty sequences need no
special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.frontend.control.block import compose_block
from braces.frontend.control.rnn import create_rnn
from braces.frontend.control.sequence_lengths import (
    LOG_ZERO,
    check_row_labels,
    check_row_lengths,
    check_scores,
    take_per_row,
    widen_half,
    zero_padded_labels,
)
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import (
    LayerParameters,
    Weight,
    fixed_size,
    is_given,
    roles_to_create,
)
from braces.frontend.losses.reduction import Reduction, check_reduction, reduce_losses
from braces.frontend.recurrent.cell_parts import Memories, check_memory, run_cell


class CrfField:
    """Emissions and weights of a conditional random field.

    Attributes:
        x: The emission scores, [rows, steps, tags].
        at: The axis of steps.
        rows: The batch size.
        tags: Number of tags.
        lengths: The number of steps of each batch element.
        weights: The transition, start and end scores.
    """

    def __init__(
        self,
        what: str,
        emissions: Any,
        said: dict[str, Weight],
        lengths: Any,
        axis: int,
        name: str | None,
        params: Sequence[str] | None,
        init: Initializer | Any,
    ) -> None:
        self.x, self.at = check_scores(what, emissions, axis, "tags")
        self.rows, self.tags = self.x.shape[1 - self.at], fixed_size(self.x, -1, what)
        self.lengths = (
            None if lengths is None else check_row_lengths(what, self.x, (self.rows,), lengths)
        )
        parameters = LayerParameters(what, name, params, roles_to_create(said))
        self.name = what if name is None else name
        initializer = initializers.uniform(-0.1, 0.1) if init is None else init
        self.weights = [
            self._weight(parameters, role, weight, initializer) for role, weight in said.items()
        ]

    def _weight(
        self, parameters: LayerParameters, role: str, value: Weight, init: Any
    ) -> Var | None:
        shape = [self.tags] * (2 if role == "transitions" else 1)
        if is_given(value):
            return check_memory(parameters.layer, role, value, tuple(shape), self.x.dtype)
        return parameters.get(role, shape, self.x.dtype, init)

    def steps(self) -> Var:
        """Return the emission scores with steps first."""
        return emit("moveaxis", self.x, source=self.at, destination=0) if self.at else self.x

    def moves(self) -> Var:
        """Return the transition scores, with a row for the start: [tags + 1, tags]."""
        transitions, start, _ = self.weights
        start_scores = self._or_zeros(start, [1, self.tags])
        pair_scores = self._or_zeros(transitions, [self.tags, self.tags])
        return ops.concat([pair_scores, start_scores], axis=0)

    def ends(self) -> Var:
        """Return the scores of ending in each tag, or at the start: [tags + 1]."""
        last = self._or_zeros(self.weights[2], [self.tags])
        return ops.concat([last, ops.full_like(last[:1], 0.0)], axis=0)

    def _or_zeros(self, weight: Var | None, shape: list[int]) -> Var:
        if weight is None:
            return emit("full", shape=shape, value=0.0, dtype=widen_half(self.x).dtype)
        return ops.maximum(ops.reshape(widen_half(weight), shape), LOG_ZERO)

    def start(self) -> Var:
        """Return the initial scores: only the additional tag is possible."""
        dtype = widen_half(self.x).dtype
        impossible = emit("full", shape=(self.rows, self.tags), value=LOG_ZERO, dtype=dtype)
        certain = emit("full", shape=(self.rows, 1), value=0.0, dtype=dtype)
        return ops.concat([impossible, certain], axis=1)


def _append_impossible(scored: Var) -> Var:
    """Append an impossible score for the additional tag."""
    return ops.concat([scored, ops.full_like(scored[:, :1], LOG_ZERO)], axis=1)


def _transition_scores(scores_before: Var, moves: Var) -> Var:
    """Return scores of all transitions of each batch element: [rows, tags + 1, tags]."""
    return ops.expand_dims(scores_before, axis=2) + moves


def _sum_step(x: Var, memories: Memories, moves: Var) -> list[Var]:
    """Forward algorithm: the log-sum over all paths that end in each tag."""
    log_sums = ops.logsumexp(_transition_scores(memories[0], moves), axis=1)
    return [_append_impossible(log_sums + widen_half(x))]


def _log_partition(field: CrfField) -> Var:
    """Return the log partition function."""
    step = partial(_sum_step, moves=field.moves())
    _, (last,) = run_cell(step, field.steps(), [field.start()], lengths=field.lengths)
    return ops.logsumexp(last + field.ends(), axis=1)


def _path_score(field: CrfField, labels: Var) -> Var:
    """Return the score of the labelled path; labels have steps first."""
    moves = field.moves()
    zeros = field.start()[:, 0] * 0.0
    rnn = create_rnn(lengths=field.lengths)
    with rnn.stepnet() as net:
        x, label = widen_half(net.add_input(field.steps())), net.add_input(labels)
        score = net.add_memory(init=zeros)
        previous = net.add_memory(init=ops.full_like(zeros, field.tags, dtype="int32"))
        score.update(score + take_per_row(x + ops.take(moves, previous, axis=0), label))
        previous.update(label)
    ends = ops.take(field.ends(), rnn.final(previous), axis=0)
    return rnn.final(score) + ends


@transactional
def conditional_random_field(
    emissions: Any,
    labels: Any,
    transitions: Weight = None,
    start: Weight = None,
    end: Weight = None,
    *,
    lengths: Any = None,
    reduction: Reduction = "mean",
    axis: int = 1,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
) -> Var:
    """The loss of a linear-chain CRF; Lafferty, McCallum and Pereira, 2001.

        score(y) = start[y[0]] + sum_t emissions[t, y[t]] + sum_t transitions[y[t-1], y[t]]
                   + end[y[T-1]]
        loss[row] = log(sum of exp(score(y)) over all paths y) - score(labels)

    `br.layers.viterbi` finds the best path under the same parameters.

    Args:
        emissions: [rows, steps, tags]: a score of each tag; see `axis`.
        labels: integer[rows, steps], in the order of the axes of emissions. Labels after
            `lengths` are ignored.
        transitions: The transition scores, [tags, tags], from one tag to the next; or whether
            to create them. By default all three parameters are created.
        start: The scores of first tags, [tags].
        end: The scores of last tags, [tags].
        lengths: integer[rows], the number of steps of each batch element; all by default. An
            empty sequence has the loss 0.
        reduction: `"mean"`, `"sum"`, or `"none"` for the loss of each batch element.
        axis: The axis of steps; the tags are on the last one.
        name: The layer's name; its parameters are `name.transitions`, `name.start` and
            `name.end`.
        params: Names of the created parameters, `[transitions, start, end]`; existing ones are
            shared.
        init: Initializer of all parameters; by default uniform between -0.1 and 0.1.

    Returns:
        [rows], or a scalar.

    Raises:
        ShapeError: If batch sizes, numbers of steps or of tags differ.
        DTypeError: If emissions are not floats, or labels are not integers.
        ProgramError: If the reduction is unknown.
        IndexRangeError: If a label is out of range.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", "t", 9])
        ...     y = br.data("y", ["batch", "t"], dtype="int32")
        ...     loss = br.layers.conditional_random_field(x, y, name="crf")
        ...     names = [p.name for p in prog.parameters]
        ...     path, score = br.layers.viterbi(x, params=names)
        >>> names, path.type, score.type
        (['crf.transitions', 'crf.start', 'crf.end'], i32[batch,t], f32[batch])
    """
    what = "conditional_random_field"
    weights: dict[str, Weight] = {"transitions": transitions, "start": start, "end": end}
    check_reduction(what, reduction)
    field = CrfField(what, emissions, weights, lengths, axis, name, params, init)
    targets = check_row_labels(what, field.x, labels, field.x.shape[:2])

    def build() -> Var:
        rows = targets if field.at else ops.swapaxes(targets, 0, 1)
        labels_by_step = ops.swapaxes(zero_padded_labels(rows, field.lengths), 0, 1)
        loss = _log_partition(field) - _path_score(field, labels_by_step)
        return ops.cast(reduce_losses(loss, reduction), dtype=field.x.dtype)

    return compose_block(field.name, build)


# ---- Viterbi algorithm -----------------------------------------------------------------------


def _best_step(x: Var, memories: Memories, moves: Var) -> list[Var]:
    """Return the best score of a path that ends in each tag, and the tag before it."""
    candidates = _transition_scores(memories[1], moves)
    best = ops.cast(ops.argmax(candidates, axis=1), dtype="int32")
    return [best, _append_impossible(ops.max(candidates, axis=1) + widen_half(x))]


def _follow_back_pointers(field: CrfField, back_pointers: Var, last: Var) -> Var:
    """Follow the back pointers from the last tag to the first: [steps, rows]."""
    rnn = create_rnn(reverse=True, lengths=field.lengths)
    with rnn.stepnet() as net:
        previous = net.add_input(back_pointers)
        tag = net.add_memory(init=last)
        tag.update(take_per_row(previous, ops.minimum(tag, field.tags - 1)))
        net.add_output(tag.pre(1))
    return rnn()


@transactional
def viterbi(
    emissions: Any,
    transitions: Weight = None,
    start: Weight = None,
    end: Weight = None,
    *,
    lengths: Any = None,
    axis: int = 1,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
) -> tuple[Var, Var]:
    """The best path of a linear-chain CRF, and its score; Viterbi, 1967.

        path = argmax over all y of score(y)        as br.layers.conditional_random_field scores

    Args:
        emissions: [rows, steps, tags]: a score of each tag; see `axis`.
        transitions: The transition scores, [tags, tags], from one tag to the next; or whether
            to create them. By default all three parameters are created.
        start: The scores of first tags, [tags].
        end: The scores of last tags, [tags].
        lengths: integer[rows], the number of steps of each batch element; all by default.
        axis: The axis of steps; the tags are on the last one.
        name: The layer's name; its parameters are `name.transitions`, `name.start` and
            `name.end`.
        params: Names of the parameters, `[transitions, start, end]`; existing ones, as those of
            a `br.layers.conditional_random_field`, are shared.
        init: Initializer of all parameters; by default uniform between -0.1 and 0.1.

    Returns:
        (path, score): int32[rows, steps], with the axes of emissions and 0 after the end of a
        sequence, and [rows].

    Raises:
        ShapeError: If batch sizes or numbers of tags differ.
        DTypeError: If emissions are not floats.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", "t", 3])
        ...     path, score = br.layers.viterbi(x, br.parameter("pairs", [3, 3]))
        ...     print(path.type, score.type)
        i32[batch,t] f32[batch]
    """
    weights: dict[str, Weight] = {"transitions": transitions, "start": start, "end": end}
    field = CrfField("viterbi", emissions, weights, lengths, axis, name, params, init)

    def build() -> tuple[Var, Var]:
        first, step = field.start(), partial(_best_step, moves=field.moves())
        starts = [ops.cast(first[:, 1:] * 0.0, dtype="int32"), first]
        (back_pointers,), (_, last) = run_cell(
            step, field.steps(), starts, lengths=field.lengths
        )
        ended = last + field.ends()
        tag = ops.cast(ops.argmax(ended, axis=1), dtype="int32")
        path = _follow_back_pointers(field, back_pointers, tag)
        score = ops.cast(ops.max(ended, axis=1), dtype=field.x.dtype)
        return (ops.swapaxes(path, 0, 1) if field.at else path), score

    return compose_block(field.name, build)
