"""Values with a gradient that a user wrote, in place of the one that follows from operators.

    custom_gradient(values, sources, captures) { backward } -> out

    h = round(x=x)
    y = custom_gradient(values=h, sources=x)
        backward (out, g) { return g }
    z = multiply(x=y, y=y)

`out` are the values as they are. A cotangent goes no further to them: the gradient gets the
values and their cotangents, all of them and then all of these, and gives a cotangent for each
of `sources`. What else it reads are captures, as in any block: so what it needs of the
computation is kept as for any gradient, and has a gradient in its turn.

The gradient that is built is the block's own operators, in place of the operator:

    y_grad = multiply(x=z_grad, y=y)  ...      x_grad is what the gradient makes of `y_grad`

So it is differentiated as it stands there, and where it reads the values, as `out`, by this
gradient again. Forward mode takes the transpose of the block, as a product with the cotangents
has one; a gradient that is not linear in them has none, and is refused.

Where nothing is differentiated any more, a pass of each run takes the operator away, and with
it all that only its gradient needs (`braces.passes.autodiff.drop_custom_gradients`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, final

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.define.axes.axis_map import axes_of_cases
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import Context
from braces.dtypes import TensorType, Type, unifies
from braces.errors import DTypeError, GradientError, ProgramError, ShapeError
from braces.ir.records import CUSTOM_GRADIENT, VALUE, Body, Op
from braces.ir.views import CustomGradientView, Passed, names_read
from braces.ir.walk import free_names
from braces.lazy import jax
from braces.ops.control.construct.build import put_again
from braces.ops.control.construct.jvp import tangent_for
from braces.ops.control.core.block_op import (
    BlockOp,
    Eliminate,
    Follow,
    Frame,
    Interface,
    Lowering,
    Value,
    result_types,
)
from braces.ops.control.core.differentiation import Differentiation, Pushing
from braces.ops.control.core.residuals import plan_keeping, with_recomputed
from braces.ops.lists.cotangents import collect, differentiable, zeros_like


@final
class CustomGradient(BlockOp):
    """Values with another gradient; see the module's docstring."""

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
        """The gradient gets values and cotangents, of the same types."""
        del op
        values = types.get("values", ())
        return {"backward": Interface((*values, *values), len(types.get("sources", ())))}

    def infer_blocks(
        self,
        context: Context,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """The types of the values; the gradient gives the types of the inputs."""
        body, inputs = attrs["backward"], types.get("sources", ())
        assert isinstance(body, Body)
        for type_ in (*types["values"], *inputs):
            _check_differentiable(type_)
        given = result_types(body, outer, context)
        if len(given) != len(inputs):
            raise ProgramError(
                "The gradient does not give a cotangent for each input.",
                given=f"cotangents: {len(given)}   inputs: {len(inputs)}",
                fix="Give one for each input, in their order.",
            )
        for number, (found, wanted) in enumerate(zip(given, inputs, strict=True)):
            if not unifies(found, wanted, context.unifier):
                raise ShapeError(
                    f"The gradient gives input {number} a cotangent of another type.",
                    given=f"cotangent: {found}   input: {wanted}",
                    fix="A cotangent has the dtype and shape of what it belongs to.",
                )
        return {"out": types["values"]}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> Mapping[str, Value]:
        """The values as they are."""
        view = frame.once(CustomGradientView.of)
        return view.bound(frame.read(one.value) for one in view.passed)

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> Mapping[str, Value]:
        """The values as they are, for which JAX has this gradient, too."""
        op = lowering.op
        view = CustomGradientView.of(op)
        values = tuple(lowering.read(one.value) for one in view.passed)
        inputs = tuple(lowering.read(way.source) for way in view.ways)
        captured = {name: lowering.read(name) for name in op.captures()}
        return view.bound(_in_jax(lowering, view)(values, inputs, captured))

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: Eliminate) -> Op | None:
        """Drop values that nobody reads, the gradient neither; they have no cotangents then."""
        if live.isdisjoint(op.binds()):
            return None
        view = CustomGradientView.of(op)
        read = names_read(view.body)
        kept = [one for one in view.passed if one.name in live or one.param in read]
        gone = [one for one in view.passed if one not in kept]
        view = replace(view, content=_without(view.content, gone), passed=tuple(kept))
        return replace(view, content=eliminate(view.body, view.body.results)).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: Follow) -> set[str]:
        """All outputs, where one of the inputs is active."""
        del follow
        ways = CustomGradientView.of(op).ways
        return set(op.binds()) if any(way.source in active for way in ways) else set()

    def build_gradient(self, d: Differentiation) -> None:
        """The operators of the gradient, for the cotangents that there are."""
        view = CustomGradientView.of(d.op)
        ways = tuple(way for way in view.ways if d.wants(way.source))
        body = replace(view, ways=ways).body
        body = d.eliminate(body, body.results)
        read, given = names_read(body), dict[str, Var]()
        for one in view.passed:
            given[one.param] = d.var(one.name)
            if one.cotangent in read:
                given[one.cotangent] = _cotangent(d, one.name)
        for way, grad in zip(ways, put_again(body, given), strict=True):
            d.give(way.source, grad)

    def build_jvp(self, d: Pushing) -> None:
        """The transpose of the gradient, for the tangents that there are."""
        view = CustomGradientView.of(d.op)
        if not any(way.source in d.tangents for way in view.ways):
            return
        moving, body = _transposed(d, view)
        given = {one.param: d.var(one.name) for one in view.passed}
        for one, tangent in zip(moving, put_again(body, given), strict=True):
            d.give(one.name, tangent)


CUSTOM = OPS.add(CustomGradient())


def _cotangent(d: Differentiation, name: str) -> Var:
    return d.grads[name] if name in d.grads else zeros_like(d.var(name))


def _check_differentiable(type_: Type) -> None:
    if not isinstance(type_, TensorType) or not differentiable(type_):
        raise DTypeError(
            "Only arrays of floats have gradients, so only they have one of their own.",
            given=str(type_),
            fix="Hand on what else there is as it is.",
        )


def _without(content: Body, gone: list[Passed]) -> Body:
    """The gradient where some cotangents are zeros."""
    full, infos, ops = OPS.get("full"), dict(content.vars), list[Op]()
    for one in gone:
        type_ = infos[one.cotangent].type
        assert isinstance(type_, TensorType)
        attrs = {"shape": type_.shape, "value": 0.0, "dtype": type_.dtype}
        infos[one.cotangent] = infos[one.cotangent].with_(kind=VALUE)
        outputs = {"out": (one.cotangent,)}
        ops.append(Op(full.type, one.cotangent, {}, outputs, full.bind_attrs(attrs)))
    return content.with_(vars=infos, ops=(*ops, *content.ops))


def _in_jax(lowering: Lowering, view: CustomGradientView) -> Any:
    """A function of JAX from values, inputs and captures to the values."""

    def passed(values: Value, inputs: Value, captured: Value) -> Value:
        del inputs, captured
        return values

    def forward(values: Value, inputs: Value, captured: Value) -> Value:
        del inputs
        return values, (values, captured)

    def backward(kept: Value, cotangents: Value) -> Value:
        values, captured = kept
        given = dict(captured)
        for one, value, cotangent in zip(view.passed, values, cotangents, strict=True):
            given |= {one.param: value, one.cotangent: cotangent}
        return None, tuple(lowering.apart("backward", view.body, given)), None

    own = jax.custom_vjp(passed)
    own.defvjp(forward, backward)
    return own


def _transposed(d: Pushing, view: CustomGradientView) -> tuple[list[Passed], Body]:
    """The values that move, and a block with their tangents.

    A block that is linear in its cotangents has the transpose as its gradient with respect to
    them, which does not read them.

    Raises:
        GradientError: It reads them, as that of a block which is not, or which has derivatives
            of operators in it that are not known to be.
    """
    cotangents = {one.cotangent for one in view.passed}
    forward = d.program.current.within(d.op).thaw(view.body)
    table, seeds = SymbolTable(parent=forward), dict[str, Var]()
    with d.program.building(table):
        for way in view.ways:
            if way.source in d.tangents and way.result in forward.vars:
                collect(seeds, way.result, tangent_for(d, way.source))
        found = d.pull(forward, seeds, cotangents)
    moving = [one for one in view.passed if one.cotangent in found]
    results = [found[one.cotangent].name for one in moving]
    body = d.eliminate(table.freeze(results), results)
    plan = plan_keeping(forward, free_names(body), set(forward.params), lambda op: True)
    body = d.eliminate(with_recomputed(body, forward, plan), results)
    if not cotangents.isdisjoint(free_names(body)):
        raise GradientError(
            "Forward mode needs a gradient that is linear in its cotangents, and cannot see "
            "that this one is.",
            at=d.op.describe(),
            fix="Use br.gradients, or write the gradient as a product with each cotangent.",
        )
    return moving, body
