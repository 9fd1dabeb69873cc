"""The loss as a function of the parameters, for optimizers with a line search.

    loss: f32[] = ...                        loop(...) {
    w_grad: f32[3] = ...                       objective/loss: f32[], objective/w_grad: f32[3]
                                      ->           = block() captures [x, tried] as objective
                                             }

A line search evaluates the loss and its gradient at other parameters. Operators that depend on
the parameters are called again there, as a plain block. All others, on data alone for example,
are computed once per step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braces.builder.builder import Builder
from braces.builder.var import Var, tensor_type
from braces.errors import ProgramError
from braces.frontend.control.block_call import BlockCall
from braces.ir.records import Body, Op
from braces.ir.walk import all_ops
from braces.jaxpr.rules.callbacks import insertion_function
from braces.lazy import jax
from braces.ops.common.half_precision import widen_half
from braces.ops.control.construct.build import append_plain_block, free_block_name
from braces.passes.cleanup.prune import eliminate
from braces.passes.core.random_effects import is_in_inference_mode, is_random

NAME = "objective"


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss and its gradient as functions of parameters.

    Attributes:
        program: The program under construction.
        loss: The loss.
        params: The parameters by name, in the order of JAX trees.
        grads: Their gradients.
    """

    program: Builder
    loss: Var
    params: Mapping[str, Var]
    grads: Mapping[str, Var]

    @staticmethod
    def of(loss: Var, pairs: Mapping[Var, Var]) -> Objective:
        """Return the objective of a loss and the gradients of parameters."""
        ordered = sorted(pairs, key=lambda param: param.name)
        return Objective(
            loss.program,
            loss,
            {param.name: param for param in ordered},
            {param.name: pairs[param] for param in ordered},
        )

    def function(self) -> Any:
        """Return the loss as a JAX function of a dictionary of parameters, with gradient."""
        results = [self.loss, *self.grads.values()]
        insert = insertion_function(self._call, list(map(tensor_type, results)))

        def both(params: Any) -> Any:
            values = [params[name].astype(param.dtype) for name, param in self.params.items()]
            value, *grads = insert(*values)
            return widen_half(value), dict(
                zip(self.params, map(widen_half, grads), strict=True)
            )

        def pull(grads: Any, by: Any) -> Any:
            return ({name: grad * by for name, grad in grads.items()},)

        def loss(params: Any) -> Any:
            return both(params)[0]

        with_gradient: Any = jax.custom_vjp
        value = with_gradient(loss)
        value.defvjp(both, pull)
        return value

    def _call(self, arguments: Sequence[Var]) -> tuple[Var, ...]:
        """Compute the loss and its gradients at these parameters in the current block."""
        results = [self.loss.name, *(grad.name for grad in self.grads.values())]
        body = self._depending(results)
        call_name = free_block_name(self.program.current, NAME)
        recall = BlockCall(self.program, self.loss.table, body, NAME, call_name, own="")
        values = dict(zip(self.params, arguments, strict=True))
        append_plain_block(call_name, recall.body(values, {}), recompute=False)
        return recall.finish(results, {})

    def _depending(self, results: Sequence[str]) -> Body:
        """Return the operators that compute results from the parameters."""
        bodies = [table.freeze() for table in reversed(list(self.loss.table.chain()))]
        ops = [op for body in bodies for op in body.ops]
        infos = {name: info for body in bodies for name, info in body.vars.items()}
        needed = eliminate(Body((), (), infos, tuple(ops)), results)
        depends, dependent_ops = set(self.params), list[Op]()
        for op in needed.ops:
            if not depends.isdisjoint(op.reads()):
                dependent_ops.append(op)
                depends.update(op.binds())
        _refuse_random_ops(dependent_ops)
        local_infos = {name: infos[name] for op in dependent_ops for name in op.binds()}
        return Body((), (), local_infos, tuple(dependent_ops))


def _refuse_random_ops(ops: Sequence[Op]) -> None:
    for _, op in all_ops(Body((), (), {}, tuple(ops))):
        if is_random(op) and not is_in_inference_mode(op):
            raise ProgramError(
                f"a line search requires a deterministic loss, but `{op.name}` draws new "
                "random numbers in each evaluation.",
                given=f"{op.name}: {op.type}",
                fix="Draw independently of the parameters, as mask = br.random.bernoulli(...), "
                "which happens once in a step; or use another optimizer.",
            )
