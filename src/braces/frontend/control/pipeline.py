"""Stages of a pipeline: layers that work on several parts of a batch at a time.

tick     stage 0   stage 1   stage 2        Each tick hands what a stage made on to the
0        part 0                             next one. Where stages lie on devices of their
1        part 1    part 0                   own, that is all that these tell each other.
2        part 2    part 1    part 0  ->
3                  part 2    part 1  ->
4                            part 2  ->
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from braces.builder.append import as_var
from braces.builder.var import Var, tensor_type
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import block
from braces.frontend.control.functional import scan
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.public_names import zeros
from braces.frontend.core.pytree import rebuild, values


@building
def pipeline(
    stage: Callable[[Any], Any],
    parts: Any,
    stages: int,
    *,
    name: str = "stages",
    recompute: bool = False,
) -> Any:
    """A stage several times in a row, each time with parameters of its own, at work together.

        y[m] = stage_n(… stage_1(parts[m]))          for all parts m of a batch

    Parameters that `stage` makes get a first axis, of stages: `stages/up.w` is `f32[4,16,32]`
    for four. A layout that cuts this axis along one of its mesh, `params={"stages/up.w":
    ("pipe", None, None)}`, gives each device its stages, and devices hand on what they made.
    With M parts and S stages all are busy but for S - 1 of M + S - 1 ticks. Without a layout
    the same program computes the same. A stage that waits for its first part, or is done with
    its last one, computes on the first part, and nothing of that is kept.

    Source: Huang and others, GPipe, 2019.

    Args:
        stage: From a variable, or a nested tuple, list or dict of them, to the same types. What
            it makes by name is made once.
        parts: What the first stage takes, with a first axis of parts (microbatches), as
            `[parts, rows, 16]`; the more, the less devices wait.
        stages: How many.
        name: Names of parameters begin with it.
        recompute: Keep for the gradient only what stages hand on, and run them again there.

    Returns:
        What the last stage makes of each part, of the same types as `parts`.

    Raises:
        ProgramError: `stages` is no number from 1.
        ShapeError: A stage makes something else than it takes, or there is no axis of parts.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["parts", "rows", 8])
        ...     y = br.pipeline(lambda h: h + br.fc(h, 8, act="tanh", name="mix"), x, stages=4)
        ...     print(y.type)
        f32[parts,rows,8]
        >>> [(p.name, p.shape) for p in prog.parameters]
        [('stages/mix.w', (4, 8, 8)), ('stages/mix.b', (4, 8))]
    """
    if not callable(cast("Any", stage)):
        raise ProgramError(f"A stage is a function, not {stage!r:.60}.")
    if type(stages) is not int or stages < 1:
        raise ProgramError(f"stages={stages!r:.40} is no number of stages.", fix="Use 4, say.")
    taken = [as_var(part) for part in values(parts)]
    firsts = [_first(part) for part in taken]
    waiting = [_repeated(first, stages) for first in firsts]
    after = [_repeated(first, stages - 1) for first in firsts]
    entering = [ops.concat(pair, axis=0) for pair in zip(taken, after, strict=True)]

    def tick(held: Any, enters: Any) -> tuple[Any, Any]:
        pairs = zip(values(held), values(enters), strict=True)
        moved = rebuild(parts, [_handed_on(was, new, stages) for was, new in pairs])
        with block(name, recompute=recompute):
            made = _at_once(stage, moved, stages)
        return made, rebuild(parts, [one[-1] for one in values(made)])

    _, found = scan(tick, rebuild(parts, waiting), rebuild(parts, entering))
    return rebuild(parts, [one[stages - 1 :] for one in values(found)])


def _at_once(stage: Callable[[Any], Any], given: Any, stages: int) -> Any:
    """What each stage makes of its own."""

    def each(carry: None, own: Any) -> tuple[None, Any]:
        return carry, _checked(stage, own)

    return scan(each, None, given, length=stages, own_parameters=True)[1]


def _first(parts: Var) -> Var:
    """The first part; zeros where there is none."""
    shape = tensor_type(parts).shape
    if not shape:
        raise ShapeError(
            f"`{parts.name}` has no axis of parts.",
            given=f"{parts.name}: {parts.type}",
            fix="Give [parts, rows, ...], as br.reshape(x, [8, 4, 16]) makes of 32 rows.",
        )
    empty = zeros((1, *shape[1:]), dtype=parts.dtype)
    return ops.concat([parts[:1], empty], axis=0)[0]


def _repeated(first: Var, count: int) -> Var:
    return ops.broadcast_to(first, (count, *tensor_type(first).shape))


def _handed_on(held: Any, enters: Any, stages: int) -> Var:
    """What each stage takes: what the one before it made, and the first what comes in."""
    var = as_var(held)
    is_first = np.arange(stages).reshape(-1, *[1] * (var.ndim - 1)) == 0
    return ops.where(is_first, enters, ops.roll(var, 1, axis=0))


def _checked(stage: Callable[[Any], Any], given: Any) -> Any:
    """What a stage makes, which the next one can take."""
    made = stage(given)
    wanted, found = ([str(as_var(one).type) for one in values(x)] for x in (given, made))
    if wanted != found:
        raise ShapeError(
            "A stage makes something else than the next one takes.",
            given=f"takes {', '.join(wanted)}; makes {', '.join(found)}",
            fix="Put what changes shapes, as embeddings and scores, before and after.",
        )
    return made
