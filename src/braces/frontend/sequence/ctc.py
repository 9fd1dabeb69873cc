"""Connectionist temporal classification: labels of sequences without an alignment.

A loop over the steps carries two memories with the log probabilities of all paths so far: paths
that end in a blank after some number of labels, and paths that end in a label.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import (
    LOG_ZERO,
    check_row_labels,
    check_row_lengths,
    check_scores,
    take_per_row,
    widen_half,
    zero_padded_labels,
)
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.public_names import arange
from braces.frontend.losses.reduction import Reduction, check_reduction, reduce_losses
from braces.frontend.recurrent.cell_parts import Memories, run_cell


def _step(logits: Var, memories: Memories, labels: Var, differs: Var, blank: int) -> list[Var]:
    """One step of the recursion: stay, go on to a blank, or to the next label if different."""
    blanks, ends = memories
    log_probs = ops.maximum(ops.log_softmax(widen_half(logits), axis=-1), LOG_ZERO)
    previous_ends = ops.concat([ops.full_like(blanks[:, :1], LOG_ZERO), ends], axis=1)
    skipped = ops.where(differs, previous_ends[:, :-1], LOG_ZERO)
    reached = ops.logaddexp(ops.logaddexp(ends, blanks[:, :-1]), skipped)
    return [
        log_probs[:, blank : blank + 1] + ops.logaddexp(blanks, previous_ends),
        ops.take_along_axis(log_probs, labels, axis=1) + reached,
    ]


def _sums(x: Var) -> Var:
    """Return the sum over the second axis, int32."""
    return ops.cast(ops.sum(ops.cast(x, dtype="int32"), axis=1), dtype="int32")


def _log_likelihood(
    logits: Var, labels: Var, lengths: Var | None, counts: Var, blank: int
) -> Var:
    """Return the log probability of the labels; logits have steps first."""
    impossible = ops.full_like(labels, LOG_ZERO, dtype=widen_half(logits).dtype)
    first = ops.full_like(ops.expand_dims(counts, axis=1), 0.0, dtype=impossible.dtype)
    start = [ops.concat([first, impossible], axis=1), impossible]
    shifted = ops.concat([ops.full_like(first, -1, dtype="int32"), labels], axis=1)
    differs = ops.not_equal(labels, shifted[:, :-1])
    step = partial(_step, labels=labels, differs=differs, blank=blank)
    _, (blanks, ends) = run_cell(step, logits, start, lengths=lengths)
    ends = ops.concat([ops.full_like(blanks[:, :1], LOG_ZERO), ends], axis=1)
    return ops.logaddexp(take_per_row(blanks, counts), take_per_row(ends, counts))


def _check_blank(what: str, logits: Var, blank: int) -> None:
    classes = logits.shape[-1]
    if not isinstance(classes, int):
        raise ShapeError(
            f"{what}: expected a constant number of classes.",
            given=f"{logits.name}: {logits.type}",
            fix="Declare the last axis with an integer, or use br.reshape.",
        )
    if not 0 <= blank < classes:
        raise ProgramError(
            f"blank={blank} is out of range of the classes of {what}.",
            given=f"{logits.name}: {logits.type}",
        )


@transactional
def ctc_loss(
    logits: Any,
    labels: Any,
    logit_lengths: Any = None,
    label_lengths: Any = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: Reduction = "mean",
    axis: int = 1,
    name: str | None = None,
) -> Var:
    """Connectionist temporal classification loss; Graves et al., 2006.

        loss[row] = -log(sum of the probabilities of all paths that spell the row's labels)

    A path has a class for each step; repetitions, then blanks, are dropped from it.
    `log_softmax` is applied first; it does not change normalised log probabilities.

    Args:
        logits: [rows, steps, classes]; see `axis`.
        labels: integer[rows, most labels], without blanks. Labels after `label_lengths` are
            ignored.
        logit_lengths: integer[rows], the number of steps of each batch element; all by default.
        label_lengths: integer[rows], the number of labels of each batch element; all by
            default.
        blank: The class of the blank.
        zero_infinity: Whether labels without a path (too long for their steps) have the loss 0
            instead of infinity. Their gradient is 0 in both cases.
        reduction: `"mean"` of the losses divided by their numbers of labels, `"sum"`, or
            `"none"` for the loss of each batch element.
        axis: The axis of the steps of logits; the classes are on the last one.
        name: The name of the block.

    Returns:
        [rows], or a scalar.

    Raises:
        ShapeError: If the batch sizes differ.
        DTypeError: If logits are not floats, or labels are not integers.
        ProgramError: If `blank` is out of range, or the reduction is unknown.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", "t", 28])
        ...     y = br.data("y", ["batch", "most"], dtype="int32")
        ...     n, m = (br.data(name, ["batch"], dtype="int32") for name in "nm")
        ...     print(br.losses.ctc_loss(x, y, n, m, reduction="none").type)
        f32[batch]
    """
    what = "ctc_loss"
    x, at = check_scores(what, logits, axis, "classes")
    _check_blank(what, x, blank)
    check_reduction(what, reduction)
    rows = (x.shape[1 - at],)
    targets = check_row_labels(what, x, labels, rows)
    steps = None if logit_lengths is None else check_row_lengths(what, x, rows, logit_lengths)
    label_counts = (
        None if label_lengths is None else check_row_lengths(what, x, rows, label_lengths)
    )

    def build() -> Var:
        counts = _sums(ops.full_like(targets, 1)) if label_counts is None else label_counts
        first = emit("moveaxis", x, source=at, destination=0) if at else x
        total = _log_likelihood(
            first, zero_padded_labels(targets, label_counts), steps, counts, blank
        )
        infinite = 0.0 if zero_infinity else float("inf")
        loss = ops.where(total > LOG_ZERO / 2, -total, infinite)
        if reduction == "mean":
            loss = loss / ops.cast(ops.maximum(counts, 1), dtype=loss.dtype)
        return ops.cast(reduce_losses(loss, reduction), dtype=x.dtype)

    return compose_block(what if name is None else name, build)


@transactional
def ctc_greedy_decode(
    logits: Any,
    logit_lengths: Any = None,
    *,
    blank: int = 0,
    padding: int = -1,
    axis: int = 1,
    name: str | None = None,
) -> tuple[Var, Var]:
    """Greedy CTC decoding: the best class of each step, without repetitions and blanks.

    Args:
        logits: [rows, steps, classes]; see `axis`.
        logit_lengths: integer[rows], the number of steps of each batch element; all by default.
        blank: The class of the blank.
        padding: The value after the labels of a batch element.
        axis: The axis of the steps of logits; the classes are on the last one.
        name: The name of the block.

    Returns:
        (labels, lengths): int32[rows, steps], and the numbers of labels, int32[rows].

    Raises:
        ShapeError: If the batch sizes differ.
        DTypeError: If logits are not floats.
        ProgramError: If `blank` is out of range.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     labels, n = br.layers.ctc_greedy_decode(br.data("x", ["batch", "t", 28]))
        ...     print(labels.type, n.type)
        i32[batch,t] i32[batch]
    """
    what = "ctc_greedy_decode"
    x, at = check_scores(what, logits, axis, "classes")
    _check_blank(what, x, blank)
    rows = (x.shape[1 - at],)
    steps = None if logit_lengths is None else check_row_lengths(what, x, rows, logit_lengths)

    def build() -> tuple[Var, Var]:
        best = ops.cast(ops.argmax(x, axis=-1), dtype="int32")
        best = best if at == 1 else ops.swapaxes(best, 0, 1)
        positions = arange(best.shape[1], dtype="int32")
        previous = ops.concat(
            [ops.expand_dims(ops.full_like(_sums(best), -1), axis=1), best], axis=1
        )[:, :-1]
        is_kept = ops.logical_and(ops.not_equal(best, blank), ops.not_equal(best, previous))
        if steps is not None:
            is_kept = ops.logical_and(is_kept, positions < ops.expand_dims(steps, axis=1))
        count = _sums(is_kept)
        order = ops.argsort(ops.where(is_kept, positions, positions + 2**30), axis=1)
        front = ops.take_along_axis(best, order, axis=1)
        return ops.where(positions < ops.expand_dims(count, axis=1), front, padding), count

    return compose_block(what if name is None else name, build)
