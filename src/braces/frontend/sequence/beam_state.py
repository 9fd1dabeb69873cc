"""Beam search: several hypotheses per batch element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.var import Var
from braces.frontend.core import functions as ops
from braces.frontend.core.parameters import fixed_size
from braces.frontend.core.pytree import tree_leaves, tree_unflatten
from braces.frontend.sequence.search_loop import Decoded, Search


@dataclass(frozen=True)
class BeamSearch:
    """A beam search.

    Attributes:
        search: The common arguments of decoders.
        beams: Number of hypotheses per batch element.
        penalty: The exponent of the length in the denominator of scores.
    """

    search: Search
    beams: int
    penalty: float

    def decode(self, init: Any) -> Decoded:
        """Return the decoded sequences."""
        shape = (self.search.rows, self.beams)
        carry = self.search.carry(
            shape, tree_unflatten(init, map(self._repeated, tree_leaves(init)))
        )
        carry["last"] = self._repeated(self.search.first)
        is_other = emit("arange", stop=self.beams) > 0
        carry["scores"] = carry["ranks"] = ops.where(is_other, -float("inf"), carry["scores"])
        last = self.search.loop(self._body, carry)
        ended = ops.cast(last["ended"], "int64")
        return Decoded(last["ids"], last["taken"] - ended, last["ranks"])

    def _repeated(self, leaf: Any) -> Var:
        var = as_var(leaf)
        return ops.repeat(var, self.beams, axis=0) if var.ndim else var

    def _body(self, carry: dict[str, Any]) -> dict[str, Any]:
        logits, state = self.search.next(carry["last"], carry["state"])
        scores, ranks, taken = self._continued(carry, logits)
        flat = (self.search.rows, -1)
        best_ranks, places = ops.topk(ops.reshape(ranks, flat), self.beams, axis=-1)
        vocabulary = fixed_size(logits, 1, self.search.what)
        parents, new_ids = (
            places // vocabulary,
            ops.cast(places % vocabulary, self.search.dtype),
        )
        taken = ops.take_along_axis(taken, parents, axis=1)
        was_ended = ops.take_along_axis(carry["ended"], parents, axis=1)
        offsets = emit("arange", stop=self.search.rows) * self.beams
        sources = ops.reshape(parents + ops.expand_dims(offsets, axis=1), (-1,))
        ids_shape = carry["ids"].shape
        ids_by_beam = ops.reshape(carry["ids"], (*carry["last"].shape, ids_shape[-1]))
        ids = ops.reshape(ops.take(ids_by_beam, sources, axis=0), ids_shape)
        return {
            "step": carry["step"] + 1,
            "last": ops.reshape(new_ids, carry["last"].shape),
            "ids": self.search.written(ids, new_ids, carry["step"]),
            "ended": ops.logical_or(was_ended, ops.equal(new_ids, self.search.end)),
            "taken": taken,
            "scores": ops.take_along_axis(ops.reshape(scores, flat), places, axis=-1),
            "ranks": best_ranks,
            "state": tree_unflatten(
                state, [_gather_parents(leaf, sources) for leaf in tree_leaves(state)]
            ),
        }

    def _continued(self, carry: dict[str, Any], logits: Var) -> tuple[Var, Var, Var]:
        """Return the scores of all continuations, their ranks, and their lengths."""
        ended = ops.expand_dims(carry["ended"], axis=-1)
        shape = (self.search.rows, self.beams, logits.shape[-1])
        gained = ops.reshape(ops.log_softmax(logits, axis=-1), shape)
        is_end = ops.equal(emit("arange", stop=logits.shape[-1]), self.search.end)
        gained = ops.where(ended, ops.where(is_end, 0.0, -float("inf")), gained)
        scores = ops.expand_dims(carry["scores"], axis=-1) + gained
        taken = carry["taken"] + ops.cast(ops.logical_not(carry["ended"]), "int64")
        length = ops.expand_dims(ops.cast(taken, "float32"), axis=-1)
        return scores, scores / length**self.penalty if self.penalty else scores, taken


def _gather_parents(leaf: Any, sources: Var) -> Any:
    """Gather a part of a state for the surviving hypotheses; scalars are shared."""
    return ops.take(leaf, sources, axis=0) if as_var(leaf).ndim else leaf
