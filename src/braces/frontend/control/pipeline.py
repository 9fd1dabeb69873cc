"""Pipeline parallelism: stages that work on several microbatches at a time.

tick     stage 0   stage 1   stage 2        Each tick passes the output of a stage to the
0        part 0                             next one. If each stage has its own device,
1        part 1    part 0                   devices exchange nothing else.
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
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.public_names import zeros
from braces.frontend.core.pytree import tree_leaves, tree_unflatten


@transactional
def pipeline(
    stage: Callable[[Any], Any],
    parts: Any,
    stages: int,
    *,
    name: str = "stages",
    recompute: bool = False,
) -> Any:
    """Apply a stage several times in sequence, with separate parameters, as a pipeline.

        y[m] = stage_n(… stage_1(parts[m]))          for all parts m of a batch

    Parameters of `stage` get a leading axis of stages: `stages/up.w` is `f32[4,16,32]` for four
    stages. A layout that shards this axis along a mesh axis, `params={"stages/up.w": ("pipe",
    None, None)}`, gives each device its stages; devices pass on their outputs. With M parts and
    S stages, all stages are busy except in S - 1 of M + S - 1 ticks. Without a layout the
    program computes the same values. A stage that waits for its first part, or has finished its
    last one, computes on the first part, and that result is discarded.

    Source: Huang and others, GPipe, 2019.

    Args:
        stage: From a variable, or a nested tuple, list or dict of them, to the same types.
            Parameters that it makes by name are made once.
        parts: Input of the first stage, with a leading axis of parts (microbatches), as
            `[parts, rows, 16]`; with more parts, devices wait less.
        stages: The number of stages.
        name: The prefix of the names of parameters.
        recompute: Rematerialization: save only the outputs of stages for the gradient, and
            recompute the stages there.

    Returns:
        The output of the last stage for each part, of the same types as `parts`.

    Raises:
        ProgramError: If `stages` is not a positive integer.
        ShapeError: If the output of a stage differs in type from its input, or the axis of
            parts is missing.

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
        raise ProgramError(f"expected a function for a stage, got {stage!r:.60}.")
    if type(stages) is not int or stages < 1:
        raise ProgramError(f"expected a positive integer, got stages={stages!r:.40}.")
    part_vars = [as_var(part) for part in tree_leaves(parts)]
    firsts = [_first(part) for part in part_vars]
    waiting = [_repeat(first, stages) for first in firsts]
    after = [_repeat(first, stages - 1) for first in firsts]
    entering = [ops.concat(pair, axis=0) for pair in zip(part_vars, after, strict=True)]

    def tick(outputs: Any, enters: Any) -> tuple[Any, Any]:
        pairs = zip(tree_leaves(outputs), tree_leaves(enters), strict=True)
        inputs = tree_unflatten(
            parts, [_shift_stages(last, new, stages) for last, new in pairs]
        )
        with block(name, recompute=recompute):
            results = _run_stages(stage, inputs, stages)
        return results, tree_unflatten(parts, [result[-1] for result in tree_leaves(results)])

    _, last = scan(tick, tree_unflatten(parts, waiting), tree_unflatten(parts, entering))
    return tree_unflatten(parts, [result[stages - 1 :] for result in tree_leaves(last)])


def _run_stages(stage: Callable[[Any], Any], inputs: Any, stages: int) -> Any:
    """Run all stages, each on its own input."""

    def each(carry: None, own: Any) -> tuple[None, Any]:
        return carry, _run_stage(stage, own)

    return scan(each, None, inputs, length=stages, own_parameters=True)[1]


def _first(parts: Var) -> Var:
    """Return the first part; zeros if there is none."""
    shape = tensor_type(parts).shape
    if not shape:
        raise ShapeError(
            f"`{parts.name}` is a scalar; expected a leading axis of micro-batches.",
            given=f"{parts.name}: {parts.type}",
            fix="Pass [parts, rows, ...]: br.reshape(x, [8, 4, 16]) makes 8 parts of 32 rows.",
        )
    empty = zeros((1, *shape[1:]), dtype=parts.dtype)
    return ops.concat([parts[:1], empty], axis=0)[0]


def _repeat(first: Var, count: int) -> Var:
    return ops.broadcast_to(first, (count, *tensor_type(first).shape))


def _shift_stages(outputs: Any, enters: Any, stages: int) -> Var:
    """Return the input of each stage: the output of the previous one, or the entering part."""
    var = as_var(outputs)
    is_first = np.arange(stages).reshape(-1, *[1] * (var.ndim - 1)) == 0
    return ops.where(is_first, enters, ops.roll(var, 1, axis=0))


def _run_stage(stage: Callable[[Any], Any], carry: Any) -> Any:
    """Run a stage and check that its output has the types of its input."""
    result = stage(carry)
    wanted, actual = (
        [str(as_var(leaf).type) for leaf in tree_leaves(x)] for x in (carry, result)
    )
    if wanted != actual:
        raise ShapeError(
            "the output type of a stage differs from its input type.",
            given=f"input {', '.join(wanted)}; output {', '.join(actual)}",
            fix="Move operators that change shapes, such as embeddings, before or after the "
            "pipeline.",
        )
    return result
