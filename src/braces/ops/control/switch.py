"""The one branch: IfElse, Switch and the indexed form choose one block by a number.

    switch(index, captures) { cases, total } -> out

`index` counts the cases from 0; anything else is an error at run time, and `total` says that
there is nothing else. The block that is chosen runs, the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, final

from braces.dtypes import ListType, TensorType, Type, is_integer, unifies
from braces.errors import BracesError, NoMatchError, ProgramError, ShapeError
from braces.ir.records import Body, Op
from braces.ir.walk import with_captures
from braces.lazy import jnp, lax
from braces.ops.control.base import BlockOp, Follow, Frame, Interface, Lowering, result_types
from braces.ops.control.reached import cases_reached
from braces.ops.control.switch_gradient import cases_of, switch_gradient
from braces.ops.control.tangents import switch_jvp
from braces.ops.define import OPS, Attrs, AttrSpec, Slot, Types
from braces.ops.inference import Context
from braces.ops.row_rules import each

_NO_MATCH = "No case of the switch matched, and there is no default."
_NO_MATCH_FIX = "Add a default, or make sure that one case holds."


@final
class Switch(BlockOp):
    """Run one of several blocks; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__(
            type="switch",
            inputs=(Slot("index"), Slot("captures", many=True, optional=True)),
            attrs=(AttrSpec("cases", "Bodies"), AttrSpec("total", "bool", False)),
            outputs=(Slot("out", many=True),),
            kernel=lambda: None,
            rows_rule=each,
            doc=__doc__ or "",
        )

    def may_fail(self, attrs: Attrs) -> bool:
        """Unless the index is known to name a case."""
        return not attrs["total"]

    def failure(self, attrs: Attrs, found: int) -> BracesError:
        """The index names no case."""
        del attrs, found
        return NoMatchError(_NO_MATCH, fix=_NO_MATCH_FIX)

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """Cases have no parameters."""
        del types
        results = len(op.outputs.get("out", ()))
        return {f"cases[{i}]": Interface((), results) for i in range(len(cases_of(op)))}

    def infer_blocks(
        self,
        context: Context,
        types: Types,
        attrs: Mapping[str, Any],
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """All cases return the same number of values, of the same types."""
        (index,) = types["index"]
        if not isinstance(index, TensorType) or index.shape or not is_integer(index.dtype):
            raise ShapeError("The index of a switch must be an integer scalar.")
        cases: tuple[Body, ...] = attrs["cases"]
        if not cases:
            raise ProgramError("A switch needs at least one case.")
        found = [result_types(body, outer, context) for body in cases]
        for number, these in enumerate(found[1:], 1):
            _check_same(context, found[0], these, number)
        return {"out": found[0]}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, tuple[Any, ...]]:
        """Run the case that the index names."""
        cases, index = cases_of(frame.op), int(frame.values("index")[0])
        if not 0 <= index < len(cases):
            raise self.failure(frame.op.attrs, index)
        return {"out": tuple(frame.run(f"cases[{index}]", cases[index], []))}

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, tuple[Any, ...]]:
        """A conditional of XLA, which runs just one branch."""
        cases, (index,) = cases_of(lowering.op), lowering.values("index")
        labels = [f"cases[{i}]" for i in range(len(cases))]

        def branch(label: str, body: Body) -> Callable[[Any], Any]:
            return lambda state: lowering.run(label, body, [], state)

        state = lowering.state(*labels)
        if not lowering.op.attrs["total"]:
            state = lowering.flag(state, (index < 0) | (index >= len(cases)))
        branches = [branch(*pair) for pair in zip(labels, cases, strict=True)]
        chosen = jnp.clip(index, 0, len(cases) - 1)
        results, state = lax.switch(chosen, branches, state)
        lowering.leave(state)
        return {"out": tuple(results)}

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: Callable[..., Body]) -> Op | None:
        """Drop outputs that nobody reads, from every case."""
        kept = [i for i, name in enumerate(op.outputs["out"]) if name in live]
        if not kept:
            return None
        cases = _only(op, kept, eliminate)
        kept = sorted({*kept, *_made_anyway(op, cases)})
        cases = _only(op, kept, eliminate)
        outputs = {"out": tuple(op.outputs["out"][i] for i in kept)}
        return with_captures(op.with_(outputs=outputs, attrs=dict(op.attrs) | {"cases": cases}))

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: Follow) -> set[str]:
        """The outputs that depend on active names in some case."""
        return cases_reached(op, active, follow, (), op.outputs["out"])

    def build_gradient(self, differentiation: Any) -> None:
        """A switch on the same index; what its cases read is kept as extra outputs."""
        switch_gradient(differentiation)

    def build_jvp(self, differentiation: Any) -> None:
        """The same switch with a tangent beside each output."""
        switch_jvp(differentiation)


SWITCH = OPS.add(Switch())


def _only(op: Op, kept: Sequence[int], eliminate: Callable[..., Body]) -> tuple[Body, ...]:
    return tuple(eliminate(b, [b.results[i] for i in kept]) for b in cases_of(op))


def _made_anyway(op: Op, trimmed: Sequence[Body]) -> set[int]:
    """The lists that cases make whether somebody reads them or not: what is left of a history.

    They stay outputs, for the gradient of a gradient starts from their length.
    """
    found: set[int] = set()
    for whole, rest in zip(cases_of(op), trimmed, strict=True):
        bound = {name for inner in rest.ops for name in inner.binds()}
        lists = {n for n, info in whole.vars.items() if isinstance(info.type, ListType)}
        found.update(i for i, name in enumerate(whole.results) if name in bound & lists)
    return found


def _check_same(
    context: Context, first: Sequence[Type], other: Sequence[Type], number: int
) -> None:
    if len(first) != len(other):
        raise ProgramError(
            f"Case 0 has {len(first)} outputs, case {number} has {len(other)}.",
            fix="Every branch adds the same number of outputs.",
        )
    for position, (left, right) in enumerate(zip(first, other, strict=True)):
        if not unifies(left, right, context.unifier):
            raise ShapeError(
                f"Output {position} differs between branches.",
                given=f"case 0: {left}   case {number}: {right}",
                fix="All branches give the same dtype and shape; br.cast and br.reshape help.",
            )
