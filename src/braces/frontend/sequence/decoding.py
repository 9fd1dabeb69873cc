"""Sequences, one id after the other, of any step that tells what may come next.

    def step(ids, state):                        ids: integer[rows], the last id of each
        logits, h = …                            logits: float[rows, vocabulary]
        return logits, h                         the next state, like the one that was given
    found = br.decoding.greedy(step, h0, start=1, end=2, max_length=20)
    found.ids, found.lengths, found.scores

A state is a variable, or a nested tuple, list or dict of variables, each of which leads with
rows; what has no axes, as the position of a cache, is the same for all rows. What a step reads
of each row belongs into the state. Each way to decode is a plain block with one `While`, which
ends as soon as all rows have; a row that ended gives end ids from then on.

To use the weights of a model in a step, call what `br.shared` made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend import random
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, missing_from
from braces.frontend.sequence.beam_state import Beams
from braces.frontend.sequence.search_loop import Decoded, Search, Step

__all__ = ["Decoded", "beam_search", "greedy", "sample"]

# ---- one sequence for each row ---------------------------------------------------------------


@building
def greedy(
    step: Step, init: Any, *, start: Any, end: int, max_length: int, name: str = "greedy"
) -> Decoded:
    """The likeliest id at each step.

        ids[t] = argmax(logits[t])

    Args:
        step: From ids, integer[rows], and a state to logits, [rows, vocabulary], and the next
            state.
        init: The first state; see the beginning of `br.decoding`.
        start: The id that sequences begin with, or an integer for each row.
        end: The id that ends a sequence.
        max_length: How many ids there are at most.
        name: That of the block.

    Returns:
        The ids, [rows, max_length], their lengths, and their scores.

    Raises:
        ProgramError: The step does not return a pair, or a next state is not like the first.
        ShapeError: Logits are not of each row, or states do not lead with rows.
        IndexRangeError: The end is no id of the vocabulary.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     follows = br.parameter("w", [10, 10])
        ...     found = br.decoding.greedy(
        ...         lambda ids, state: (br.embedding(ids, follows), state), None,
        ...         start=br.data("first", ["rows"], dtype="int64"), end=0, max_length=5)
        >>> print(found.ids.type, found.lengths.type)
        i64[rows,5] i64[rows]
    """
    search = Search.of("greedy", step, init, start, end, max_length)
    return composed(name, lambda: _one_each(search, init, lambda x: ops.argmax(x, axis=-1)))


@building
def sample(
    step: Step,
    init: Any,
    *,
    start: Any,
    end: int,
    max_length: int,
    temperature: Any = 1.0,
    top_k: int | None = None,
    top_p: Any = None,
    name: str = "sample",
) -> Decoded:
    """Ids at random, each with the probability that its step gives it.

        ids[t] ~ softmax(logits[t] / temperature), of which top_k and top_p keep the likeliest

    Args:
        step: From ids, integer[rows], and a state to logits, [rows, vocabulary], and the next
            state.
        init: The first state; see the beginning of `br.decoding`.
        start: The id that sequences begin with, or an integer for each row.
        end: The id that ends a sequence.
        max_length: How many ids there are at most.
        temperature: What logits are divided by; below 1 likely ids are likelier. A number above
            0, or a variable without axes.
        top_k: How many ids may be drawn, the likeliest; of equal ones the lower come first.
        top_p: Of the likeliest ids, in order, those are drawn from that come before their
            probabilities reach this sum, and the one that reaches it (Holtzman et al., 2019).
            It counts after `temperature` and `top_k`. A number above 0, or a variable.
        name: That of the block.

    Returns:
        The ids, [rows, max_length], their lengths, and their scores: logarithms of the
        probabilities that the step gives them, whatever the options.

    Raises:
        ProgramError: As `greedy`; or an option has no such value.
        ShapeError: As `greedy`.
        IndexRangeError: As `greedy`.
    """
    for option, value in (("temperature", temperature), ("top_p", top_p), ("top_k", top_k)):
        if isinstance(value, int | float) and not value > 0:
            raise ProgramError(f"sample takes {option}= above 0, not {value!r}.")
    search = Search.of("sample", step, init, start, end, max_length)
    return composed(
        name,
        lambda: _one_each(search, init, lambda x: _drawn(x / temperature, top_k, top_p)),
    )


def _drawn(logits: Var, top_k: int | None, top_p: Any) -> Var:
    """An id for each row, of those that may be drawn."""
    if top_k is None and top_p is None:
        return random.categorical(logits)
    order = ops.argsort(logits, axis=-1, descending=True)
    ranked = ops.take_along_axis(logits, order, axis=-1)
    if top_k is not None:
        at = one("arange", stop=ranked.shape[-1])
        ranked = ops.where(at < top_k, ranked, -float("inf"))
    if top_p is not None:
        likely = ops.softmax(ranked, axis=-1)
        before = ops.cumsum(likely, axis=-1) - likely
        ranked = ops.where(before < top_p, ranked, -float("inf"))
    place = ops.expand_dims(random.categorical(ranked), axis=-1)
    return ops.squeeze(ops.take_along_axis(order, place, axis=-1), axis=-1)


def _one_each(search: Search, init: Any, choose: Callable[[Var], Var]) -> Decoded:
    """A loop that goes on with one id for each row."""

    def body(carry: dict[str, Any]) -> dict[str, Any]:
        logits, state = search.next(carry["last"], carry["state"])
        ended = carry["ended"]
        chosen = ops.where(ended, search.end, ops.cast(choose(logits), search.dtype))
        likely = ops.take_along_axis(
            ops.log_softmax(logits, axis=-1), ops.expand_dims(chosen, axis=-1), axis=-1
        )
        gained = ops.where(ended, 0.0, ops.squeeze(likely, axis=-1))
        ended = ops.logical_or(ended, ops.equal(chosen, search.end))
        return {
            "step": carry["step"] + 1,
            "last": chosen,
            "ids": search.written(carry["ids"], chosen, carry["step"]),
            "ended": ended,
            "taken": carry["taken"] + ops.cast(ops.logical_not(ended), "int64"),
            "scores": carry["scores"] + gained,
            "state": state,
        }

    last = search.loop(body, search.carry((search.rows,), init))
    return Decoded(last["ids"], last["taken"], last["scores"])


# ---- beams -----------------------------------------------------------------------------------


@building
def beam_search(
    step: Step,
    init: Any,
    beams: int,
    *,
    start: Any,
    end: int,
    max_length: int,
    length_penalty: float = 0.0,
    name: str = "beam_search",
) -> Decoded:
    """The best of the sequences that grow of the best ones so far.

        score = log(probability of the ids) / count(ids, the end id included) ** length_penalty

    At each step every sequence is continued by every id, and the best `beams` of all of a row
    stay. One that ended stays as it is, with its score, as long as it is among them.

    Args:
        step: From ids, integer[rows * beams], and a state to logits,
            [rows * beams, vocabulary], and the next state.
        init: The first state, of rows; it is repeated for the beams, and follows the sequences
            that stay. See the beginning of `br.decoding`.
        beams: How many sequences of each row are kept.
        start: The id that sequences begin with, or an integer for each row.
        end: The id that ends a sequence.
        max_length: How many ids there are at most.
        length_penalty: How much longer sequences are favoured; 0 adds up logarithms, 1 takes
            their mean.
        name: That of the block.

    Returns:
        The ids, [rows, beams, max_length], their lengths and their scores, the best first.
        Where there are fewer sequences than beams, the scores of the rest are -inf.

    Raises:
        ProgramError: As `greedy`; or the number of beams is none.
        ShapeError: As `greedy`.
        IndexRangeError: As `greedy`.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     follows = br.parameter("w", [10, 10])
        ...     found = br.decoding.beam_search(
        ...         lambda ids, state: (br.embedding(ids, follows), state), None, 3,
        ...         start=br.data("first", ["rows"], dtype="int64"), end=0, max_length=5)
        >>> print(found.ids.type, found.scores.type)
        i64[rows,3,5] f32[rows,3]
    """
    if beams < 1:
        raise ProgramError(f"beam_search takes a number of beams, not {beams}.")
    search = Search.of("beam_search", step, init, start, end, max_length)
    beam = Beams(search, beams, float(length_penalty))
    return composed(name, lambda: beam.found(init))


if not TYPE_CHECKING:
    __getattr__ = missing_from("br.decoding", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
