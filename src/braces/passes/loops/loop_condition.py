"""Loop condition, extracted from the body that it was written in.

    body (t: i64[], p: f32[]) {            body (t: i64[], p: f32[]) {
      s: f32[] = multiply(x=p, y=p)          r: f32[] = add(x=p, y=y)
      more: bool[] = less(x=s, y=y)          return r
      r: f32[] = add(x=p, y=y)        ->   }
      return r                             cond (p: f32[]) {
    }                                        s: f32[] = multiply(x=p, y=p)
                                             more: bool[] = less(x=s, y=y)
                                             return more
                                           }

The condition is evaluated before each iteration, the first one included. It reads memories and
captures, and no values of the iteration. Operators that both blocks need are duplicated.
"""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.errors import ProgramError
from braces.ir.records import Body
from braces.ir.views import fit_interface
from braces.ir.walk import all_ops, free_names
from braces.passes.cleanup.dead_code import eliminate


def extract_condition(body: Body, name: str) -> tuple[Body, Body]:
    """Split a loop's body into the body and the condition, whose parameters are the memories.

    Args:
        body: The body, with the iteration index as its first parameter.
        name: The variable of it that determines whether the loop continues.

    Raises:
        ProgramError: If the condition draws random numbers or reads the iteration index.
    """
    index, *memories = body.params
    needed = eliminate(body, [name])
    for _, op in all_ops(needed):
        if OPS.get(op.type).random:
            raise ProgramError(
                "the loop condition draws random numbers.",
                given=op.describe(),
                fix="Draw in the body, and pass the result in a memory.",
            )
    if index in free_names(needed.with_(vars={})):
        raise ProgramError(
            "the loop condition reads the iteration index.",
            fix="Count iterations in a memory.",
        )
    return eliminate(body, body.results), fit_interface(needed, memories, [name])
