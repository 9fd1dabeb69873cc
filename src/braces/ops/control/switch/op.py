"""The switch operator (`lax.switch`), shared by IfElse, Switch and the indexed form.

    switch(index, captures) { cases, total } -> out

`index` selects a case, counted from 0. An index out of range is an error at run time; `total`
asserts that there is none. Only the selected block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import final

from braces.define.axes.axis_rules import axes_of_cases
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import InferenceContext
from braces.dtypes import ListType, TensorType, Type, is_integer, unifies
from braces.errors import BracesError, NoMatchError, ProgramError, ShapeError
from braces.ir.records import Body, Op
from braces.ir.views import SwitchView, cases_in
from braces.ir.walk import names_bound_by
from braces.lazy import jnp, lax
from braces.ops.control.construct.jvp import switch_jvp
from braces.ops.control.core.block_op import (
    BlockOp,
    DeadCodeElimination,
    ForwardDependence,
    Frame,
    Interface,
    Lowering,
    State,
    Value,
    result_types,
)
from braces.ops.control.core.dependence import find_dependent_case_outputs
from braces.ops.control.core.differentiation import JvpContext, VjpContext
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
        """Return whether the index may be out of range."""
        return not attrs["total"]

    def failure(self, attrs: Attrs, code: int) -> BracesError:
        """Return the error: no case has this index."""
        del attrs, code
        return NoMatchError(_NO_MATCH, fix=_NO_MATCH_FIX)

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """Cases have no parameters."""
        del types
        return dict.fromkeys(op.bodies(), Interface((), len(tuple(op.binds()))))

    def infer_blocks(
        self,
        context: InferenceContext,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """All cases return the same number of values, of the same types."""
        (index,) = types["index"]
        if not isinstance(index, TensorType) or index.shape or not is_integer(index.dtype):
            raise ShapeError("the index of a switch must be an integer scalar.")
        case_types = [result_types(body, outer, context) for body in cases_in(attrs)]
        if not case_types:
            raise ProgramError("a switch needs at least one case.")
        for number, types_of_case in enumerate(case_types[1:], 1):
            _check_same(context, case_types[0], types_of_case, number)
        return {"out": case_types[0]}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, Value]:
        """Run the selected case."""
        view = frame.once(SwitchView.of)
        cases, index = view.cases, int(frame.read(view.index))
        if not 0 <= index < len(cases):
            raise self.failure(frame.op.attrs, index)
        return view.bound(frame.run(f"cases[{index}]", cases[index], []))

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, Value]:
        """Lower to an XLA conditional, which runs one branch only."""
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

    def trim(self, op: Op, live: frozenset[str], eliminate: DeadCodeElimination) -> Op | None:
        """Drop unused outputs from every case."""
        if live.isdisjoint(op.binds()):
            return None
        view = SwitchView.of(op)
        cases = _trim_cases(view.only(live), eliminate)
        view = view.only(live | _unavoidable_lists(view, cases))
        return replace(view, contents=_trim_cases(view, eliminate)).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: ForwardDependence) -> set[str]:
        """Return the outputs that depend on active names in some case."""
        view = SwitchView.of(op)
        inside = {name for name in view.captures if name in active}
        return find_dependent_case_outputs(
            view.cases, [inside] * len(view.contents), view.outputs, follow
        )

    def build_gradient(self, d: VjpContext) -> None:
        """Build a switch on the same index; residuals of its cases are extra outputs."""
        switch_gradient(d)

    def build_jvp(self, d: JvpContext) -> None:
        """Build the same switch with a tangent beside each output."""
        switch_jvp(d)


SWITCH = OPS.add(SwitchOp())


def _trim_cases(view: SwitchView, eliminate: DeadCodeElimination) -> tuple[Body, ...]:
    return tuple(eliminate(case, case.results) for case in view.cases)


def _unavoidable_lists(view: SwitchView, trimmed: Sequence[Body]) -> set[str]:
    """Return the lists that cases bind even if they are not read: remainders.

    They stay outputs, because second-order gradients start from their lengths.
    """
    output_names: set[str] = set()
    for k, (full_case, trimmed_case) in enumerate(zip(view.contents, trimmed, strict=True)):
        bound = names_bound_by(trimmed_case.ops)
        lists = {n for n, info in full_case.vars.items() if isinstance(info.type, ListType)}
        output_names.update(out.name for out in view.outputs if out.results[k] in bound & lists)
    return output_names


def _check_same(
    context: InferenceContext, first: Sequence[Type], other: Sequence[Type], number: int
) -> None:
    if len(first) != len(other):
        raise ProgramError(
            f"case 0 has {len(first)} outputs, case {number} has {len(other)}.",
            fix="Add the same number of outputs in every branch.",
        )
    for position, (a, b) in enumerate(zip(first, other, strict=True)):
        if not unifies(a, b, context.unifier):
            raise ShapeError(
                f"output {position} differs between branches.",
                given=f"case 0: {a}   case {number}: {b}",
                fix="Use one dtype and shape in all branches; br.cast and br.reshape help.",
            )
