"""Custom gradients (`jax.custom_vjp`): values with a gradient written by the user.

    custom_gradient(values, sources, captures) { backward } -> out

    h = round(x=x)
    y = custom_gradient(values=h, sources=x)
        backward (out, g) { return g }
    z = multiply(x=y, y=y)

`out` are the values, unchanged. Their cotangents do not flow back to `values`. The block
`backward` gets all values, then all of their cotangents, and returns a cotangent for each of
`sources`. All else that it reads are captures. So residuals of the computation are saved as for
any gradient, and can be differentiated.

The gradient consists of the block's operators, inlined:

    y_grad = multiply(x=z_grad, y=y)  ...      x_grad is computed from `y_grad` by the block

Higher orders differentiate these operators, and use this gradient for the values that they read
as `out`. Forward mode uses the transpose of the block. A gradient that is not linear in the
cotangents has no transpose and is rejected.

After differentiation, a pass removes the operator and all that only its gradient needs
(`braces.passes.autodiff.drop_custom_gradients`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, final

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.define.axes.axis_rules import axes_of_cases
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import InferenceContext
from braces.dtypes import TensorType, Type, unifies
from braces.errors import DTypeError, GradientError, ProgramError, ShapeError
from braces.ir.records import CUSTOM_GRADIENT, VALUE, Body, Op
from braces.ir.views import CustomGradientView, PassedValue, names_read
from braces.ir.walk import free_names
from braces.lazy import jax
from braces.ops.control.construct.build import inline_block
from braces.ops.control.construct.jvp import tangent_for
from braces.ops.control.core.block_op import (
    BlockOp,
    DeadCodeElimination,
    ForwardDependence,
    Frame,
    Interface,
    Lowering,
    Value,
    result_types,
)
from braces.ops.control.core.differentiation import JvpContext, VjpContext
from braces.ops.control.core.residuals import plan_residuals, prepend_recomputed
from braces.ops.lists.cotangents import accumulate_cotangent, has_cotangent, zeros_like


@final
class CustomGradientOp(BlockOp):
    """Values with a custom gradient; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__(
            type=CUSTOM_GRADIENT,
            inputs=(
                Slot("values", many=True),
                Slot("sources", many=True, optional=True),
                Slot("captures", many=True, optional=True),
            ),
            attrs=(AttrSpec("backward", "Body"),),
            outputs=(Slot("out", many=True),),
            kernel=lambda: None,
            axes_rule=axes_of_cases,
            doc=__doc__ or "",
            passes_on="values",
        )

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """The gradient gets values and cotangents of the same types."""
        del op
        values = types.get("values", ())
        return {"backward": Interface((*values, *values), len(types.get("sources", ())))}

    def infer_blocks(
        self,
        context: InferenceContext,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Outputs have the values' types; the gradient returns the types of the inputs."""
        body, inputs = attrs["backward"], types.get("sources", ())
        assert isinstance(body, Body)
        for type_ in (*types["values"], *inputs):
            _check_differentiable(type_)
        cotangent_types = result_types(body, outer, context)
        if len(cotangent_types) != len(inputs):
            raise ProgramError(
                "a custom gradient must return one cotangent for each input.",
                given=f"cotangents: {len(cotangent_types)}   inputs: {len(inputs)}",
                fix="Return the cotangents in the order of the inputs.",
            )
        pairs = zip(cotangent_types, inputs, strict=True)
        for number, (cotangent_type, type_) in enumerate(pairs):
            if not unifies(cotangent_type, type_, context.unifier):
                raise ShapeError(
                    f"type mismatch of input {number} and its cotangent.",
                    given=f"cotangent: {cotangent_type}   input: {type_}",
                    fix="Return a cotangent with the dtype and shape of the input.",
                )
        return {"out": types["values"]}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> Mapping[str, Value]:
        """Return the values unchanged."""
        view = frame.once(CustomGradientView.of)
        return view.bound(frame.read(passed_value.value) for passed_value in view.passed)

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> Mapping[str, Value]:
        """Return the values unchanged, with a `jax.custom_vjp` for this gradient."""
        op = lowering.op
        view = CustomGradientView.of(op)
        values = tuple(lowering.read(passed_value.value) for passed_value in view.passed)
        inputs = tuple(lowering.read(way.source) for way in view.ways)
        captured = {name: lowering.read(name) for name in op.captures()}
        return view.bound(_build_custom_vjp(lowering, view)(values, inputs, captured))

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: DeadCodeElimination) -> Op | None:
        """Drop unused values that the gradient does not read; their cotangents are zero."""
        if live.isdisjoint(op.binds()):
            return None
        view = CustomGradientView.of(op)
        names = names_read(view.body)
        live_values = [
            value for value in view.passed if value.name in live or value.param in names
        ]
        dead_values = [value for value in view.passed if value not in live_values]
        view = replace(
            view,
            content=_with_zero_cotangents(view.content, dead_values),
            passed=tuple(live_values),
        )
        return replace(view, content=eliminate(view.body, view.body.results)).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: ForwardDependence) -> set[str]:
        """Return all outputs if one of the inputs is active."""
        del follow
        ways = CustomGradientView.of(op).ways
        return set(op.binds()) if any(way.source in active for way in ways) else set()

    def build_gradient(self, d: VjpContext) -> None:
        """Inline the operators of the gradient for the available cotangents."""
        view = CustomGradientView.of(d.op)
        ways = tuple(way for way in view.ways if d.needs_grad(way.source))
        body = replace(view, ways=ways).body
        body = d.eliminate(body, body.results)
        names, arguments = names_read(body), dict[str, Var]()
        for passed_value in view.passed:
            arguments[passed_value.param] = d.var(passed_value.name)
            if passed_value.cotangent in names:
                arguments[passed_value.cotangent] = _cotangent(d, passed_value.name)
        for way, grad in zip(ways, inline_block(body, arguments), strict=True):
            d.accumulate(way.source, grad)

    def build_jvp(self, d: JvpContext) -> None:
        """Inline the transpose of the gradient for the available tangents."""
        view = CustomGradientView.of(d.op)
        if not any(way.source in d.tangents for way in view.ways):
            return
        moving, body = _transpose(d, view)
        arguments = {
            passed_value.param: d.var(passed_value.name) for passed_value in view.passed
        }
        for passed_value, tangent in zip(moving, inline_block(body, arguments), strict=True):
            d.set_tangent(passed_value.name, tangent)


CUSTOM = OPS.add(CustomGradientOp())


def _cotangent(d: VjpContext, name: str) -> Var:
    return d.grads[name] if name in d.grads else zeros_like(d.var(name))


def _check_differentiable(type_: Type) -> None:
    if not isinstance(type_, TensorType) or not has_cotangent(type_):
        raise DTypeError(
            "a custom gradient requires floating-point arrays.",
            given=str(type_),
            fix="Pass other values through unchanged.",
        )


def _with_zero_cotangents(content: Body, dead_values: list[PassedValue]) -> Body:
    """Return the gradient with zeros for some cotangents."""
    full, infos, ops = OPS.get("full"), dict(content.vars), list[Op]()
    for value in dead_values:
        type_ = infos[value.cotangent].type
        assert isinstance(type_, TensorType)
        attrs = {"shape": type_.shape, "value": 0.0, "dtype": type_.dtype}
        infos[value.cotangent] = infos[value.cotangent].with_(kind=VALUE)
        outputs = {"out": (value.cotangent,)}
        ops.append(Op(full.type, value.cotangent, {}, outputs, full.bind_attrs(attrs)))
    return content.with_(vars=infos, ops=(*ops, *content.ops))


def _build_custom_vjp(lowering: Lowering, view: CustomGradientView) -> Any:
    """Return a JAX function from values, inputs and captures to the values."""

    def passed(values: Value, inputs: Value, captured: Value) -> Value:
        del inputs, captured
        return values

    def forward(values: Value, inputs: Value, captured: Value) -> Value:
        del inputs
        return values, (values, captured)

    def backward(residuals: Value, cotangents: Value) -> Value:
        values, captured = residuals
        arguments = dict(captured)
        for passed_value, value, cotangent in zip(view.passed, values, cotangents, strict=True):
            arguments |= {passed_value.param: value, passed_value.cotangent: cotangent}
        return None, tuple(lowering.lower_isolated("backward", view.body, arguments)), None

    own = jax.custom_vjp(passed)
    own.defvjp(forward, backward)
    return own


def _transpose(d: JvpContext, view: CustomGradientView) -> tuple[list[PassedValue], Body]:
    """Return the active values, and a block that computes their tangents.

    The gradient of a block that is linear in its cotangents, with respect to these, is its
    transpose and does not read them.

    Raises:
        GradientError: If the transpose reads the cotangents: the block is not linear, or
            contains derivatives of operators not known to be linear.
    """
    cotangents = {value.cotangent for value in view.passed}
    forward = d.program.current.within(d.op).thaw(view.body)
    table, seeds = SymbolTable(parent=forward), dict[str, Var]()
    with d.program.building(table):
        for way in view.ways:
            if way.source in d.tangents and way.result in forward.vars:
                accumulate_cotangent(seeds, way.result, tangent_for(d, way.source))
        transposed = d.vjp(forward, seeds, cotangents)
    moving = [value for value in view.passed if value.cotangent in transposed]
    results = [transposed[value.cotangent].name for value in moving]
    body = d.eliminate(table.freeze(results), results)
    plan = plan_residuals(forward, free_names(body), set(forward.params), lambda op: True)
    body = d.eliminate(prepend_recomputed(body, forward, plan), results)
    if not cotangents.isdisjoint(free_names(body)):
        raise GradientError(
            "forward mode requires a gradient that is linear in its cotangents; this gradient "
            "is not known to be linear.",
            at=d.op.describe(),
            fix="Use br.gradients, or write the gradient as a product with each cotangent.",
        )
    return moving, body
