"""The loss as a function of the parameters, for transformations that search for a step.

    loss: f32[] = ...                        loop(...) {
    w_grad: f32[3] = ...                       objective/loss: f32[], objective/w_grad: f32[3]
                                      ->           = block() captures [x, tried] as objective
                                             }

A search along a line asks for the loss and its gradient at other parameters. What computes them
from the parameters is called again there, as a plain block is; what does not depend on them, on
data alone say, is computed once, and the same in all of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braces.builder.builder import Builder
from braces.builder.var import Var, tensor_type
from braces.errors import ProgramError
from braces.frontend.control.block_call import Recall
from braces.ir.records import Body, Op
from braces.ir.walk import all_ops
from braces.jaxpr.rules.callbacks import inserting
from braces.lazy import jax
from braces.ops.common.half_precision import widened
from braces.ops.control.construct.build import append_plain_block, free_block_name
from braces.passes.cleanup.prune import eliminate
from braces.passes.core.random_effects import is_calm, is_random

NAME = "objective"


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss, and its gradient, of parameters.

    Attributes:
        program: What is built.
        loss: The loss.
        params: The parameters by name, in the order in which trees have them.
        grads: Their gradients.
    """

    program: Builder
    loss: Var
    params: Mapping[str, Var]
    grads: Mapping[str, Var]

    @staticmethod
    def of(loss: Var, pairs: Mapping[Var, Var]) -> Objective:
        """That of a loss and the gradients of parameters."""
        ordered = sorted(pairs, key=lambda param: param.name)
        return Objective(
            loss.program,
            loss,
            {param.name: param for param in ordered},
            {param.name: pairs[param] for param in ordered},
        )

    def function(self) -> Any:
        """From a dictionary of parameters to the loss, as a function of JAX with a gradient."""
        results = [self.loss, *self.grads.values()]
        insert = inserting(self._call, list(map(tensor_type, results)))

        def both(params: Any) -> Any:
            given = [params[name].astype(param.dtype) for name, param in self.params.items()]
            value, *grads = insert(*given)
            return widened(value), dict(zip(self.params, map(widened, grads), strict=True))

        def pull(grads: Any, by: Any) -> Any:
            return ({name: grad * by for name, grad in grads.items()},)

        def loss(params: Any) -> Any:
            return both(params)[0]

        with_gradient: Any = jax.custom_vjp
        value = with_gradient(loss)
        value.defvjp(both, pull)
        return value

    def _call(self, given: Sequence[Var]) -> tuple[Var, ...]:
        """The loss and its gradients at these parameters, computed in the current block."""
        results = [self.loss.name, *(grad.name for grad in self.grads.values())]
        body = self._depending(results)
        here = free_block_name(self.program.current, NAME)
        recall = Recall(self.program, self.loss.table, body, NAME, here, own="")
        values = dict(zip(self.params, given, strict=True))
        append_plain_block(here, recall.body(values, {}), recompute=False)
        return recall.finish(results, {})

    def _depending(self, results: Sequence[str]) -> Body:
        """What computes results from the parameters."""
        frozen = [table.freeze() for table in reversed(list(self.loss.table.chain()))]
        ops = [op for body in frozen for op in body.ops]
        infos = {name: info for body in frozen for name, info in body.vars.items()}
        needed = eliminate(Body((), (), infos, tuple(ops)), results)
        depends, kept = set(self.params), list[Op]()
        for op in needed.ops:
            if not depends.isdisjoint(op.reads()):
                kept.append(op)
                depends.update(op.binds())
        _refuse_draws(kept)
        inside = {name: infos[name] for op in kept for name in op.binds()}
        return Body((), (), inside, tuple(kept))


def _refuse_draws(ops: Sequence[Op]) -> None:
    for _, op in all_ops(Body((), (), {}, tuple(ops))):
        if is_random(op) and not is_calm(op):
            raise ProgramError(
                f"The optimizer searches along a line, and the loss draws in `{op.name}`, anew "
                "wherever it is asked for.",
                given=f"{op.name}: {op.type}",
                fix="Draw apart from the parameters, as mask = br.random.bernoulli(...), which "
                "is the same in all of a step; or take another optimizer.",
            )
