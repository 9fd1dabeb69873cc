"""The one branch: IfElse, Switch and the indexed form choose one block by a number.

    switch(index, captures) { cases, total } -> out

`index` counts the cases from 0; anything else is an error at run time, and `total` says that
there is nothing else. The block that is chosen runs, the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import final

from braces.define.axes.axis_map import axes_of_cases
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import Context
from braces.dtypes import ListType, TensorType, Type, is_integer, unifies
from braces.errors import BracesError, NoMatchError, ProgramError, ShapeError
from braces.ir.records import Body, Op
from braces.ir.views import SwitchView, cases_in
from braces.lazy import jnp, lax
from braces.ops.control.construct.jvp import switch_jvp
from braces.ops.control.core.block_op import (
    BlockOp,
    Eliminate,
    Follow,
    Frame,
    Interface,
    Lowering,
    State,
    Value,
    result_types,
)
from braces.ops.control.core.dependence import cases_reached
from braces.ops.control.core.differentiation import Differentiation, Pushing
from braces.ops.control.switch.gradient import switch_gradient

_NO_MATCH = "No case of the switch matched, and there is no default."
_NO_MATCH_FIX = "Add a default, or make sure that one case holds."


@final
class SwitchOp(BlockOp):
    """Run one of several blocks; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__(
            type="switch",
            inputs=(Slot("index"), Slot("captures", many=True, optional=True)),
            attrs=(AttrSpec("cases", "Bodies"), AttrSpec("total", "bool", False)),
            outputs=(Slot("out", many=True),),
            kernel=lambda: None,
            axes_rule=axes_of_cases,
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
        return dict.fromkeys(op.bodies(), Interface((), len(tuple(op.binds()))))

    def infer_blocks(
        self,
        context: Context,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """All cases return the same number of values, of the same types."""
        (index,) = types["index"]
        if not isinstance(index, TensorType) or index.shape or not is_integer(index.dtype):
            raise ShapeError("The index of a switch must be an integer scalar.")
        found = [result_types(body, outer, context) for body in cases_in(attrs)]
        if not found:
            raise ProgramError("A switch needs at least one case.")
        for number, these in enumerate(found[1:], 1):
            _check_same(context, found[0], these, number)
        return {"out": found[0]}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, Value]:
        """Run the case that the index names."""
        view = frame.once(SwitchView.of)
        cases, index = view.cases, int(frame.read(view.index))
        if not 0 <= index < len(cases):
            raise self.failure(frame.op.attrs, index)
        return view.bound(frame.run(f"cases[{index}]", cases[index], []))

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, Value]:
        """A conditional of XLA, which runs just one branch."""
        view = SwitchView.of(lowering.op)
        cases, index = view.cases, lowering.read(view.index)
        labels = [f"cases[{i}]" for i in range(len(cases))]

        def branch(label: str, body: Body) -> Callable[[State], tuple[list[Value], State]]:
            return lambda state: lowering.run(label, body, [], state)

        state = lowering.state(*labels)
        if not view.total:
            state = lowering.flag(state, (index < 0) | (index >= len(cases)))
        branches = [branch(*pair) for pair in zip(labels, cases, strict=True)]
        chosen = jnp.clip(index, 0, len(cases) - 1)
        results, state = lax.switch(chosen, branches, state)
        lowering.leave(state)
        return view.bound(results)

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: Eliminate) -> Op | None:
        """Drop outputs that nobody reads, from every case."""
        if live.isdisjoint(op.binds()):
            return None
        view = SwitchView.of(op)
        cases = _trimmed(view.only(live), eliminate)
        view = view.only(live | _made_anyway(view, cases))
        return replace(view, contents=_trimmed(view, eliminate)).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: Follow) -> set[str]:
        """The outputs that depend on active names in some case."""
        view = SwitchView.of(op)
        inside = {name for name in view.captures if name in active}
        return cases_reached(view.cases, [inside] * len(view.contents), view.outputs, follow)

    def build_gradient(self, d: Differentiation) -> None:
        """A switch on the same index; what its cases read is kept as extra outputs."""
        switch_gradient(d)

    def build_jvp(self, d: Pushing) -> None:
        """The same switch with a tangent beside each output."""
        switch_jvp(d)


SWITCH = OPS.add(SwitchOp())


def _trimmed(view: SwitchView, eliminate: Eliminate) -> tuple[Body, ...]:
    return tuple(eliminate(case, case.results) for case in view.cases)


def _made_anyway(view: SwitchView, trimmed: Sequence[Body]) -> set[str]:
    """The lists that cases make whether somebody reads them or not: what is left of a history.

    They stay outputs, for the gradient of a gradient starts from their length.
    """
    found: set[str] = set()
    for k, (whole, rest) in enumerate(zip(view.contents, trimmed, strict=True)):
        bound = {name for inner in rest.ops for name in inner.binds()}
        lists = {n for n, info in whole.vars.items() if isinstance(info.type, ListType)}
        found.update(out.name for out in view.outputs if out.results[k] in bound & lists)
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
