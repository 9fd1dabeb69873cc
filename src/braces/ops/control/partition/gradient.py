"""Derivatives of the partitioned branch.

    y = partition(masks=[q, p], rows=x) captures [w]
        cases [ (v, r) { return r }, (v, r) { z = exp(r)  e = multiply(z, w)  return e } ]

The gradient with respect to `x` and `w`, where `y_grad` is the cotangent of `y`:

    x_grad, w_grad = partition(masks=[q, p], rows=[x, y_grad]) {linear=[1]} captures [w]
        cases [
            (v, r, e_grad) { zero = full()  return e_grad, zero },
            (v, r, e_grad) {
                z = exp(r)                                     # the forward case, run again
                z_grad = multiply(e_grad, w)
                r_grad = multiply(z_grad, z)
                m = multiply(e_grad, z)
                w_sum = sum(m)
                return r_grad, w_sum
            },
        ]

Cotangents of row inputs are rows, `out`; cotangents of captures are summed over the cases,
`sums`. The backward case recomputes the forward case, so residual lists of inner loops stay
inside. Only expensive rows are saved, see `partition/residuals.py`. For that, plain blocks are
inlined, which exposes the expensive operators in them.

Padding must not count in a sum. Sums are linear in the cotangents. So cotangents of rows are
marked as `linear`, and are zero for padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.dtypes import ListType, TensorType, Type
from braces.errors import GradientError
from braces.ir.plain_blocks.inlining import inline_plain_blocks
from braces.ir.records import Body
from braces.ir.views import Operand, Output, PartitionView
from braces.ir.walk import map_bodies
from braces.ops.common.rules import build_zeros
from braces.ops.control.batch_axis.masking import masked_branch
from braces.ops.control.construct.build import append_construct
from braces.ops.control.construct.jvp import captured_tangents, tangent_outputs
from braces.ops.control.core.differentiation import AutodiffContext, JvpContext, VjpContext
from braces.ops.control.partition.residuals import save_row_residuals
from braces.ops.lists.cotangents import accumulate_cotangent


@dataclass(frozen=True)
class _CaseGradient:
    """One case, recomputed and differentiated.

    Attributes:
        table: The block.
        seeds: The parameters for the cotangents of its row results.
        grads: The cotangents computed in it, by name.
    """

    table: SymbolTable
    seeds: Sequence[str]
    grads: Mapping[str, Var]


def partition_gradient(d: VjpContext) -> None:
    """Build the backward branch and report cotangents."""
    unique, masked = d.host.names.unique, masked_branch(d.program, d.host, d.op)
    view = PartitionView.of(map_bodies(masked, lambda body: inline_plain_blocks(body, unique)))
    outs = [out for out in view.outs if out.name in d.grads]
    gradients = [_differentiate_case(d, view, k, outs) for k in range(len(view.cases))]
    rows = [
        row
        for row in view.rows
        if d.needs_grad(row.source)
        and any(name in case.grads for name, case in zip(row.params, gradients, strict=True))
    ]
    sums = [
        c
        for c in view.captures
        if d.needs_grad(c) and any(c in case.grads for case in gradients)
    ]
    if not rows and not sums:
        return
    for name in sums:
        _refuse_list(name, d.host.type_of(name))
    bodies = [
        _return_cotangents(d, case, [*(row.params[k] for row in rows), *sums])
        for k, case in enumerate(gradients)
    ]
    residuals, contents = save_row_residuals(d, view, bodies)
    seeds = [
        Operand(d.grads[out.name].name, tuple(case.seeds[i] for case in gradients), linear=True)
        for i, out in enumerate(outs)
    ]
    results = [Output("", names) for names in zip(*(b.results for b in bodies), strict=True)]
    backward = replace(
        view.containing(contents),
        rows=(*view.rows, *seeds, *residuals),
        outs=tuple(results[: len(rows)]),
        sums=tuple(results[len(rows) :]),
        origin=view.origin.with_(inputs={}, outputs={}),
    )
    backward_op, out_vars = append_construct(d.program, backward.to_op())
    origins = (*(row.source for row in rows), *sums)
    for origin, out in zip(origins, PartitionView.of(backward_op).outputs, strict=True):
        d.accumulate(origin, out_vars[out.name])


def _differentiate_case(
    d: VjpContext, view: PartitionView, k: int, outs: Sequence[Output]
) -> _CaseGradient:
    """Recompute and differentiate a case: cotangents of its rows and of its captures."""
    table = SymbolTable(parent=d.program.current).thaw(view.bodies[k])
    seeds, params = dict[str, Var](), list[str]()
    with d.program.building(table):
        for out in outs:
            grad = _param(d, table, f"{out.name}_grad", out.results[k])
            params.append(grad.name)
            accumulate_cotangent(seeds, out.results[k], grad)
        for out in view.sums:
            if out.name in d.grads:
                accumulate_cotangent(seeds, out.results[k], d.grads[out.name])
        wanted = {row.params[k] for row in view.rows if d.needs_grad(row.source)}
        wanted |= {name for name in view.captures if d.needs_grad(name)}
        return _CaseGradient(table, params, d.backprop(table, seeds, wanted))


def _param(d: AutodiffContext, table: SymbolTable, stem: str, like: str) -> Var:
    """Add a parameter to a case, with the type of one of its variables."""
    name = table.add_param(table.names.unique(stem), table.type_of(like)).name
    return var_of(d.program, table, name)


def _return_cotangents(d: VjpContext, case: _CaseGradient, names: Sequence[str]) -> Body:
    """Let the backward case return a cotangent for each of these names, zeros included."""
    with d.program.building(case.table):
        grads = [
            case.grads[name] if name in case.grads else _zeros(case.table, name)
            for name in names
        ]
    results = [grad.name for grad in grads]
    return d.eliminate(case.table.freeze(results), results)


def _refuse_list(name: str, type_: Type) -> None:
    if isinstance(type_, ListType):
        raise GradientError(
            "a row-wise branch is not differentiable with respect to a list that it reads.",
            given=f"{name}: {type_}",
            fix="Read the elements before the branch, and use them in it.",
        )


def _zeros(table: SymbolTable, name: str) -> Var:
    type_ = table.type_of(name)
    assert isinstance(type_, TensorType)
    return build_zeros(type_)


def partition_jvp(d: JvpContext) -> None:
    """Let every case also return the tangents of its results."""
    view = PartitionView.of(masked_branch(d.program, d.host, d.op))
    moving_rows = [row for row in view.rows if row.source in d.tangents]
    captured = captured_tangents(d)
    tables, pushed, params = list[SymbolTable](), list[Mapping[str, Var]](), list[list[str]]()
    for k, body in enumerate(view.bodies):
        table = SymbolTable(parent=d.program.current).thaw(body)
        tangents = dict(captured)
        for row in moving_rows:
            name = row.params[k]
            tangents[name] = _param(d, table, f"{name}_tangent", name)
        params.append([tangents[row.params[k]].name for row in moving_rows])
        with d.program.building(table):
            pushed.append(d.jvp(table, tangents))
        tables.append(table)
    output_tangents = tangent_outputs(d, tables, pushed, view.outputs)
    operands = [
        Operand(d.tangents[row.source].name, names_in_cases, row.linear)
        for row, names_in_cases in zip(moving_rows, zip(*params, strict=True), strict=False)
    ]
    wider = replace(
        view.containing(table.freeze() for table in tables),
        rows=(*view.rows, *operands),
        outs=(*view.outs, *(output_tangents[o] for o in view.outs if o in output_tangents)),
        sums=(*view.sums, *(output_tangents[o] for o in view.sums if o in output_tangents)),
    )
    d.widen(wider.to_op())
