"""Conditional random fields over the steps of a sequence: a score for each pair of neighbours.

A further tag, the last one, stands before the first step: a path goes from it to its first tag
with the score of `start`. So rows without steps, and sequences without any, need no other form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.frontend.control.block import composed
from braces.frontend.control.rnn import create_rnn
from braces.frontend.control.sequence_lengths import (
    NEVER,
    inside,
    row_labels,
    row_lengths,
    scores,
    taken,
    wide,
)
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Parameters, Weight, fixed_size, is_given, to_make
from braces.frontend.losses.reduction import Reduction, check_reduction, reduced
from braces.frontend.recurrent.cell_parts import Memories, check_memory, run_cell


class Field:
    """The weights of a field and what it scores.

    Attributes:
        x: The scores of tags, [rows, steps, tags].
        at: Which axis has the steps.
        rows: How many rows there are.
        tags: How many tags.
        lengths: How many steps each row has.
        weights: Transitions, start and end.
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
        self.x, self.at = scores(what, emissions, axis, "tags")
        self.rows, self.tags = self.x.shape[1 - self.at], fixed_size(self.x, -1, what)
        self.lengths = (
            None if lengths is None else row_lengths(what, self.x, (self.rows,), lengths)
        )
        made = Parameters(what, name, params, to_make(said))
        self.name = what if name is None else name
        first = initializers.uniform(-0.1, 0.1) if init is None else init
        self.weights = [self._weight(made, role, one, first) for role, one in said.items()]

    def _weight(self, made: Parameters, role: str, given: Weight, init: Any) -> Var | None:
        shape = [self.tags] * (2 if role == "transitions" else 1)
        if is_given(given):
            return check_memory(made.layer, role, given, tuple(shape), self.x.dtype)
        return made.get(role, shape, self.x.dtype, init)

    def steps(self) -> Var:
        """The scores of tags, step by step."""
        return one("moveaxis", self.x, source=self.at, destination=0) if self.at else self.x

    def moves(self) -> Var:
        """From each tag, and from before the first step, to each tag: [tags + 1, tags]."""
        transitions, start, _ = self.weights
        first = self._or_zeros(start, [1, self.tags])
        rest = self._or_zeros(transitions, [self.tags, self.tags])
        return ops.concat([rest, first], axis=0)

    def ends(self) -> Var:
        """What it takes to end in each tag, or before the first step: [tags + 1]."""
        last = self._or_zeros(self.weights[2], [self.tags])
        return ops.concat([last, ops.full_like(last[:1], 0.0)], axis=0)

    def _or_zeros(self, weight: Var | None, shape: list[int]) -> Var:
        if weight is None:
            return one("full", shape=shape, value=0.0, dtype=wide(self.x).dtype)
        return ops.maximum(ops.reshape(wide(weight), shape), NEVER)

    def start(self) -> Var:
        """The score of each tag before the first step, of which one is possible."""
        dtype = wide(self.x).dtype
        never = one("full", shape=(self.rows, self.tags), value=NEVER, dtype=dtype)
        certain = one("full", shape=(self.rows, 1), value=0.0, dtype=dtype)
        return ops.concat([never, certain], axis=1)


def _further(scored: Var) -> Var:
    """Scores of tags, and that nothing leads back to before the first step."""
    return ops.concat([scored, ops.full_like(scored[:, :1], NEVER)], axis=1)


def _through(before: Var, moves: Var) -> Var:
    """From each tag of each row to each other: [rows, tags + 1, tags]."""
    return ops.expand_dims(before, axis=2) + moves


def _sum_step(x: Var, memories: Memories, moves: Var) -> list[Var]:
    """The sum over all paths that end in each tag."""
    summed = ops.logsumexp(_through(memories[0], moves), axis=1)
    return [_further(summed + wide(x))]


def _log_partition(field: Field) -> Var:
    """The logarithm of the sum over all paths."""
    step = partial(_sum_step, moves=field.moves())
    _, (last,) = run_cell(step, field.steps(), [field.start()], lengths=field.lengths)
    return ops.logsumexp(last + field.ends(), axis=1)


def _path_score(field: Field, labels: Var) -> Var:
    """The score of the path that labels say; they lead with steps."""
    moves = field.moves()
    zeros = field.start()[:, 0] * 0.0
    rnn = create_rnn(lengths=field.lengths)
    with rnn.stepnet() as net:
        x, label = wide(net.add_input(field.steps())), net.add_input(labels)
        score = net.add_memory(init=zeros)
        before = net.add_memory(init=ops.full_like(zeros, field.tags, dtype="int32"))
        score.update(score + taken(x + ops.take(moves, before, axis=0), label))
        before.update(label)
    ends = ops.take(field.ends(), rnn.final(before), axis=0)
    return rnn.final(score) + ends


@building
def conditional_random_field(
    emissions: Any,
    labels: Any,
    transitions: Weight = None,
    start: Weight = None,
    end: Weight = None,
    *,
    lengths: Any = None,
    reduction: Reduction = "none",
    axis: int = 1,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
) -> Var:
    """The loss of a linear chain of tags; Lafferty, McCallum and Pereira, 2001.

        score(y) = start[y[0]] + sum_t emissions[t, y[t]] + sum_t transitions[y[t-1], y[t]]
                   + end[y[T-1]]
        loss[row] = log(sum of exp(score(y)) over all paths y) - score(labels)

    `br.viterbi` finds the best path under the same parameters.

    Args:
        emissions: [rows, steps, tags]: a score of each tag; see `axis`.
        labels: integer[rows, steps], in the order of the axes of emissions. What stands after
            `lengths` is not looked at.
        transitions: The scores of pairs themselves, [tags, tags], from the one to the other; or
            whether they are made. Where none of the three is given, all are made.
        start: Those of first tags, [tags].
        end: Those of last tags, [tags].
        lengths: integer[rows], how many steps each row has; all where nothing is said. A row
            without steps has the loss 0.
        reduction: "none" for the loss of each row, "mean" or "sum".
        axis: That of the steps; the tags are the last one.
        name: The layer's name; its parameters are `name.transitions`, `name.start` and
            `name.end`.
        params: Names for the parameters that are made, `[transitions, start, end]`; those that
            exist are shared.
        init: The first value of all; uniform between -0.1 and 0.1 where nothing is said.

    Returns:
        [rows], or a scalar.

    Raises:
        ShapeError: Rows, steps or tags differ.
        DTypeError: Emissions are no floats, or labels no integers.
        ProgramError: There is no such reduction.
        IndexRangeError: A label is not the number of a tag.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", "t", 9])
        ...     y = br.data("y", ["batch", "t"], dtype="int32")
        ...     loss = br.conditional_random_field(x, y, reduction="mean", name="crf")
        ...     names = [p.name for p in prog.parameters]
        ...     path, score = br.viterbi(x, params=names)
        >>> names, path.type, score.type
        (['crf.transitions', 'crf.start', 'crf.end'], i32[batch,t], f32[batch])
    """
    what = "conditional_random_field"
    said: dict[str, Weight] = {"transitions": transitions, "start": start, "end": end}
    check_reduction(what, reduction)
    field = Field(what, emissions, said, lengths, axis, name, params, init)
    given = row_labels(what, field.x, labels, field.x.shape[:2])

    def build() -> Var:
        rows = given if field.at else ops.swapaxes(given, 0, 1)
        known = ops.swapaxes(inside(rows, field.lengths), 0, 1)
        loss = _log_partition(field) - _path_score(field, known)
        return ops.cast(reduced(loss, reduction), dtype=field.x.dtype)

    return composed(field.name, build)


# ---- the best path ---------------------------------------------------------------------------


def _best_step(x: Var, memories: Memories, moves: Var) -> list[Var]:
    """The best path that ends in each tag, and the tag before it."""
    through = _through(memories[1], moves)
    best = ops.cast(ops.argmax(through, axis=1), dtype="int32")
    return [best, _further(ops.max(through, axis=1) + wide(x))]


def _back(field: Field, before: Var, last: Var) -> Var:
    """From the last tag of each row to its first: [steps, rows]."""
    rnn = create_rnn(reverse=True, lengths=field.lengths)
    with rnn.stepnet() as net:
        earlier = net.add_input(before)
        tag = net.add_memory(init=last)
        tag.update(taken(earlier, ops.minimum(tag, field.tags - 1)))
        net.add_output(tag.pre(1))
    return rnn()


@building
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
    """The best path of a linear chain of tags, and its score; Viterbi, 1967.

        path = argmax over all y of score(y)        as br.conditional_random_field scores

    Args:
        emissions: [rows, steps, tags]: a score of each tag; see `axis`.
        transitions: The scores of pairs themselves, [tags, tags], from the one to the other; or
            whether they are made. Where none of the three is given, all are made.
        start: Those of first tags, [tags].
        end: Those of last tags, [tags].
        lengths: integer[rows], how many steps each row has; all where nothing is said.
        axis: That of the steps; the tags are the last one.
        name: The layer's name; its parameters are `name.transitions`, `name.start` and
            `name.end`.
        params: Names for the parameters, `[transitions, start, end]`; those that exist, as
            those of a `br.conditional_random_field`, are shared.
        init: The first value of all; uniform between -0.1 and 0.1 where nothing is said.

    Returns:
        (path, score): int32[rows, steps], with the axes of emissions and 0 after the end of a
        row, and [rows].

    Raises:
        ShapeError: Rows or tags differ.
        DTypeError: Emissions are no floats.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", "t", 3])
        ...     path, score = br.viterbi(x, br.parameter("pairs", [3, 3]))
        ...     print(path.type, score.type)
        i32[batch,t] f32[batch]
    """
    said: dict[str, Weight] = {"transitions": transitions, "start": start, "end": end}
    field = Field("viterbi", emissions, said, lengths, axis, name, params, init)

    def build() -> tuple[Var, Var]:
        first, step = field.start(), partial(_best_step, moves=field.moves())
        starts = [ops.cast(first[:, 1:] * 0.0, dtype="int32"), first]
        (before,), (_, last) = run_cell(step, field.steps(), starts, lengths=field.lengths)
        ended = last + field.ends()
        tag = ops.cast(ops.argmax(ended, axis=1), dtype="int32")
        path = _back(field, before, tag)
        score = ops.cast(ops.max(ended, axis=1), dtype=field.x.dtype)
        return (ops.swapaxes(path, 0, 1) if field.at else path), score

    return composed(field.name, build)
