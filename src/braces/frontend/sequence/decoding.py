"""Autoregressive decoding with any step function that returns logits of the next id.

    def step(ids, state):                        ids: integer[rows], the last id of each
        logits, h = …                            logits: float[rows, vocabulary]
        return logits, h                         the next state, of the same type
    found = br.decoding.greedy(step, h0, start=1, end=2, max_length=20)
    found.ids, found.lengths, found.scores

A state is a variable, or a nested tuple, list or dict of variables with the batch axis first.
Scalars, as the position of a cache, are shared by all batch elements. All values of a step that
depend on the batch element belong into the state. Each decoder is a plain block with one
`While`, which ends as soon as all sequences have ended; an ended sequence is filled with end
ids.

To use the weights of a model in a step, call the result of `br.shared`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import module_getattr, transactional
from braces.frontend.sequence.beam_state import BeamSearch
from braces.frontend.sequence.generation import generation_loop
from braces.frontend.sequence.own_parameters import decoder_block
from braces.frontend.sequence.search_loop import Decoded, Search, Step

__all__ = ["Decoded", "beam_search", "generation_loop", "greedy", "sample"]

# ---- one sequence per batch element ----------------------------------------------------------


@transactional
def greedy(
    step: Step, init: Any, *, start: Any, end: int, max_length: int, name: str = "greedy"
) -> Decoded:
    """Greedy decoding: the most likely id at each step.

        ids[t] = argmax(logits[t])

    Args:
        step: Maps ids, integer[rows], and a state to logits, [rows, vocabulary], and the next
            state.
        init: The initial state: a variable, or a nested tuple, list or dict of variables with
            the batch axis first; scalars are shared by all batch elements. Values of each batch
            element, as the output of an encoder, belong into it.
        start: The first id of all sequences, or an integer for each of them. Ids have its
            dtype; a Python integer is int64.
        end: The id that ends a sequence.
        max_length: Maximum number of ids.
        name: The name of the block.

    Returns:
        The ids, [rows, max_length], their lengths, and their scores.

    Raises:
        ProgramError: If the step does not return a pair, or the type of a next state differs
            from that of the first.
        ShapeError: If logits or states have a different batch size.
        IndexRangeError: If `end` is out of range of the vocabulary.

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
    return decoder_block(
        name, lambda: _decode_one_each(search, init, lambda x: ops.argmax(x, axis=-1))
    )


@transactional
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
    """Sampling: random ids with the probabilities of the step.

        ids[t] ~ softmax(logits[t] / temperature), of which top_k and top_p keep the likeliest

    Args:
        step: Maps ids, integer[rows], and a state to logits, [rows, vocabulary], and the next
            state.
        init: The initial state: a variable, or a nested tuple, list or dict of variables with
            the batch axis first; scalars are shared by all batch elements. Values of each batch
            element, as the output of an encoder, belong into it.
        start: The first id of all sequences, or an integer for each of them. Ids have its
            dtype; a Python integer is int64.
        end: The id that ends a sequence.
        max_length: Maximum number of ids.
        temperature: The divisor of logits; below 1 it sharpens the distribution. A number above
            0, or a scalar variable.
        top_k: Number of most likely ids to draw from; among equal ones the lower ids come
            first.
        top_p: Nucleus sampling: draw from the most likely ids up to the one whose cumulative
            probability reaches this (Holtzman et al., 2019). Applied after `temperature` and
            `top_k`. A number above 0, or a variable.
        name: The name of the block.

    Returns:
        The ids, [rows, max_length], their lengths, and their scores: log probabilities under
        the step's own distribution, regardless of the options.

    Raises:
        ProgramError: As for `greedy`; or an option is out of range.
        ShapeError: As for `greedy`.
        IndexRangeError: As for `greedy`.
    """
    for option, value in (("temperature", temperature), ("top_p", top_p), ("top_k", top_k)):
        if isinstance(value, int | float) and not value > 0:
            raise ProgramError(f"sample: expected a positive {option}=, got {value!r}.")
    search = Search.of("sample", step, init, start, end, max_length)
    return decoder_block(
        name,
        lambda: _decode_one_each(
            search, init, lambda x: _draw_ids(x / temperature, top_k, top_p)
        ),
    )


def _draw_ids(logits: Var, top_k: int | None, top_p: Any) -> Var:
    """Draw an id for each batch element from the allowed ones."""
    if top_k is None and top_p is None:
        return random.categorical(logits)
    order = ops.argsort(logits, axis=-1, descending=True)
    ranked = ops.take_along_axis(logits, order, axis=-1)
    if top_k is not None:
        ranks = emit("arange", stop=ranked.shape[-1])
        ranked = ops.where(ranks < top_k, ranked, -float("inf"))
    if top_p is not None:
        likely = ops.softmax(ranked, axis=-1)
        cumulative = ops.cumsum(likely, axis=-1) - likely
        ranked = ops.where(cumulative < top_p, ranked, -float("inf"))
    place = ops.expand_dims(random.categorical(ranked), axis=-1)
    return ops.squeeze(ops.take_along_axis(order, place, axis=-1), axis=-1)


def _decode_one_each(search: Search, init: Any, choose: Callable[[Var], Var]) -> Decoded:
    """Run the loop that appends one id per batch element."""

    def body(carry: dict[str, Any]) -> dict[str, Any]:
        logits, state = search.next(carry["last"], carry["state"])
        ended = carry["ended"]
        new_ids = ops.where(ended, search.end, ops.cast(choose(logits), search.dtype))
        likely = ops.take_along_axis(
            ops.log_softmax(logits, axis=-1), ops.expand_dims(new_ids, axis=-1), axis=-1
        )
        gained = ops.where(ended, 0.0, ops.squeeze(likely, axis=-1))
        ended = ops.logical_or(ended, ops.equal(new_ids, search.end))
        return {
            "step": carry["step"] + 1,
            "last": new_ids,
            "ids": search.written(carry["ids"], new_ids, carry["step"]),
            "ended": ended,
            "taken": carry["taken"] + ops.cast(ops.logical_not(ended), "int64"),
            "scores": carry["scores"] + gained,
            "state": state,
        }

    last = search.loop(body, search.carry((search.rows,), init))
    return Decoded(last["ids"], last["taken"], last["scores"])


# ---- beams -----------------------------------------------------------------------------------


@transactional
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
    """Beam search: the best hypotheses so far are extended at each step.

        score = log(probability of the ids) / count(ids, the end id included) ** length_penalty

    At each step every hypothesis is extended by every id, and the best `beams` per batch
    element stay. An ended hypothesis keeps its ids and score while it is among them.

    Args:
        step: Maps ids, integer[rows * beams], and a state to logits, [rows * beams,
            vocabulary], and the next state.
        init: The initial state, as for `greedy`; it is repeated for the beams and gathered for
            surviving hypotheses. A value of each batch element that is captured in place of it
            has rows / beams entries, which do not fit.
        beams: Number of hypotheses per batch element.
        start: The first id of all sequences, or an integer for each of them. Ids have its
            dtype; a Python integer is int64.
        end: The id that ends a sequence.
        max_length: Maximum number of ids.
        length_penalty: The preference for longer sequences; 0 takes the sum of logarithms, 1
            their mean.
        name: The name of the block.

    Returns:
        The ids, [rows, beams, max_length], their lengths and their scores, the best first.
        If there are fewer sequences than beams, the other scores are -inf.

    Raises:
        ProgramError: As for `greedy`; or `beams` is below 1.
        ShapeError: As for `greedy`.
        IndexRangeError: As for `greedy`.

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
        raise ProgramError(f"beam_search: expected at least one beam, got {beams}.")
    search = Search.of("beam_search", step, init, start, end, max_length)
    beam = BeamSearch(search, beams, float(length_penalty))
    return decoder_block(name, lambda: beam.decode(init))


if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.decoding", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
