"""Generation in parts: a loop that a server runs a few iterations at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from braces.builder.source_line import with_user_line
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.control.while_loop import create_while
from braces.frontend.core.functions import permute_dims
from braces.frontend.core.variables import constant, data

STEPS, CONTINUES = "steps", "continues"
"""The feed with the number of iterations of a run, and the fetch that is false at the end."""

Step = Callable[..., Any]


@with_user_line
def generation_loop(step: Step, state: Mapping[str, Any]) -> dict[str, Var]:
    """Generate in parts: a While of at most `steps` iterations, which are a feed of each run.

    A run computes the outputs of its iterations and the state after them; the next run is fed
    with that state. The results do not depend on the lengths of the parts, and one compiled
    program serves all of them. A model file of this form is streamed by `br.serve`
    (`generate_stream`).

    Args:
        step: Called once, with the state by name as keyword arguments. It returns the outputs
            of an iteration and the next state, both as dicts, and optionally a bool scalar
            that is false after the last iteration.
        state: The state by the names of data: the initial value of each memory.

    Returns:
        The fetches of the model: outputs `[batch, iterations, ...]` (or `[iterations]` if they
        are scalars), and the state after the run under the names of `state`; with a condition
        also `continues`, which is false after the last iteration.

    Raises:
        ProgramError: If `step` returns anything else, or an output has the name of a state.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     number = br.data("number", ["n"], dtype="int32")
        ...     def step(number):
        ...         return {"tokens": number * number}, {"number": number + 1}
        ...     fetches = br.decoding.generation_loop(step, {"number": number})
        >>> exe, scope = br.Executor(), br.Scope()
        >>> exe.run(prog, scope, {"number": [2, 5], "steps": 3}, fetches)
        {'tokens': array([[ 4,  9, 16],
               [25, 36, 49]], dtype=int32), 'number': array([5, 8], dtype=int32)}
    """
    steps, loop = data(STEPS, [], dtype="int32"), create_while()
    with loop.block() as body:
        count = body.add_memory(init=constant(0))
        goes_on = body.add_memory(init=constant(True))
        memories = {name: body.add_memory(init=value) for name, value in state.items()}
        body.set_condition((count < steps) & goes_on)
        outputs, following, continues = _parts(step(**memories), memories)
        for output in outputs.values():
            body.add_output(output)
        for name, memory in memories.items():
            memory.update(following[name])
        goes_on.update(True if continues is None else continues)
        count.update(count + 1)
    stacked = loop() if len(outputs) > 1 else (loop(),)
    results = {name: _batch_first(rows) for name, rows in zip(outputs, stacked, strict=True)}
    if continues is not None:
        results[CONTINUES] = loop.final(goes_on)
    return results | {name: loop.final(memory) for name, memory in memories.items()}


def _parts(
    returned: Any, memories: Mapping[str, Any]
) -> tuple[dict[str, Var], dict[str, Any], Any]:
    """Return the outputs, the next state, and the condition to continue."""
    parts = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple) else ()
    if len(parts) not in (2, 3) or not all(isinstance(part, dict) for part in parts[:2]):
        raise ProgramError(
            "expected the outputs and the next state of a step, two dicts.",
            fix='Return {"tokens": token}, {"token": token, "hidden": hidden}.',
        )
    outputs, following = cast("tuple[dict[str, Any], dict[str, Any]]", parts[:2])
    if following.keys() != memories.keys() or not outputs:
        raise ProgramError(
            "the next state has other names than the state, or the outputs are empty.",
            given=f"state: {', '.join(memories)}   next: {', '.join(map(str, following))}",
        )
    if both := outputs.keys() & {*memories, STEPS, CONTINUES}:
        raise ProgramError(
            f"the output `{min(both)}` has the name of a state, or is `{STEPS}`."
        )
    return outputs, following, parts[2] if len(parts) == 3 else None


def _batch_first(rows: Var) -> Var:
    """Move the axis of iterations behind the batch axis."""
    rank = len(rows.shape)
    return rows if rank < 2 else permute_dims(rows, [1, 0, *range(2, rank)])
