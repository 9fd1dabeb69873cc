"""Functions that are built once: later calls reuse the same block and parameters.

    @br.shared
    def enc(x):                          enc/h: f32[n,8] = block() captures [x, …] as enc
        return br.fc(x, 8, name="h")       body { … }
    y = enc(x)                           enc_1/h: f32[m,8] = block() captures [z, …] as enc_1
    w = enc(z)                             body { … }

The first call in a program builds a plain block. Each later call calls that block on other
variables. So a layer, or a composition of layers, is shared by calling it twice.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.builder.append import as_var, emit
from braces.builder.builder import current_program
from braces.builder.var import Var, expose
from braces.errors import ProgramError
from braces.frontend.control.block import PlainBlock, block, check_block_name
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.pytree import match_structure, tree_leaves, tree_unflatten

NAMED = ("__module__", "__name__", "__qualname__", "__doc__")
"""Attributes that a shared function has of the user's; its annotations convert no argument."""

__all__ = ["shared"]


@dataclass(frozen=True, eq=False)
class CachedBlock:
    """The block that the first call in a program built.

    Attributes:
        block: The block.
        arguments: The nested arguments of the call; a later call may change the variables.
        outputs: The nested results of the function.
    """

    block: PlainBlock
    arguments: Any
    outputs: Any

    def again(self, arguments: Any) -> Any:
        """Call the block on other variables and return its results."""
        vars = _match_variables(self.arguments, arguments, self.block.chosen)
        ends, inside = tree_leaves(self.outputs), self.block.table
        results = [end.name for end in ends if end.table is inside]
        changed = {name: vars[name] for name in self.block.inputs if name in vars}
        new = vars | dict(zip(results, self.block.call(changed, results), strict=True))
        return tree_unflatten(self.outputs, [new.get(end.name, end) for end in ends])


def _match_variables(before: Any, now: Any, name: str) -> dict[str, Var]:
    """Return the variables of a call by the names of the variables of the first call.

    Raises:
        ProgramError: If an argument that is not a variable differs.
    """
    try:
        new = match_structure(before, now, "", "", "")
    except ProgramError:
        raise _differ(name, _written(before), _written(now)) from None
    vars = dict[str, Var]()
    for old, var in zip(tree_leaves(before), new, strict=True):
        if isinstance(old, Var) and isinstance(var, Var):
            vars[old.name] = var
        elif isinstance(old, Var) or isinstance(var, Var) or not _same(old, var):
            raise _differ(name, _written(before), _written(now))
    return vars


def _written(arguments: Any) -> str:
    """Format arguments as in a call expression."""
    args, options = tree_unflatten(arguments, map(_describe_leaf, tree_leaves(arguments)))
    return f"({', '.join([*map(str, args), *(f'{k}={v}' for k, v in options.items())])})"


def _describe_leaf(leaf: Any) -> str:
    return leaf.name if isinstance(leaf, Var) else f"{leaf!r:.40}"


def _differ(name: str, first: str, now: str) -> ProgramError:
    return ProgramError(
        f"`{name}` was already built with other arguments.",
        given=f"{name}{first}, and now {name}{now}",
        fix="Only variables may change between calls; use another br.shared(…) for other sizes "
        "or options.",
    )


def _same(left: Any, right: Any) -> bool:
    return left is right or (type(left) is type(right) and bool(left == right))


def _first(
    function: Callable[..., Any], arguments: Any, name: str, recompute: bool
) -> CachedBlock:
    """Build the block of the first call."""
    args, options = arguments = tree_unflatten(
        arguments, _make_distinct(tree_leaves(arguments))
    )
    with block(name, recompute=recompute) as built:
        built.table.lent = getattr(function, "is_layer_block", False)
        outputs = function(*args, **options)
        ends = [expose(as_var(end)) for end in tree_leaves(outputs)]
        built.add_output(*(end for end in ends if end.table is built.table))
    return CachedBlock(built, arguments, tree_unflatten(outputs, ends))


def _make_distinct(arguments: list[Any]) -> list[Any]:
    """Give each variable among the arguments a unique name that can be a block input."""
    trips = {table.trip_index for table in current_program().current.chain()}
    counts = Counter(leaf.name for leaf in arguments if isinstance(leaf, Var))
    return [
        emit("identity", leaf)
        if isinstance(leaf, Var)
        and (leaf.persistable or counts[leaf.name] > 1 or leaf.name in trips)
        else leaf
        for leaf in arguments
    ]


def _with_variables(tree: Any) -> Any:
    """Convert the arrays among the arguments to variables."""
    converted = [
        as_var(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in tree_leaves(tree)
    ]
    return tree_unflatten(tree, converted)


def shared(
    function: Callable[..., Any], /, *, name: str | None = None, recompute: bool = False
) -> Callable[..., Any]:
    """Wrap a function so that its operators and parameters are built once and then shared.

        encode = br.shared(br.lstm, name="encode")        @br.shared
        a, b = encode(x, 64), encode(y, 64)               def encoder(x): …

    In each program the first call builds a plain block of the function. Later calls call that
    block on other variables: the same operators with the same parameters, as `enc(x2)` does
    after `with br.block(…) as enc`. Sizes of variables may differ from call to call if they are
    symbolic in the block; all other arguments must stay the same.

    Args:
        function: From variables, nested tuples, lists and dicts of them, and any other values,
            to variables, nested in the same ways. Arrays are variables; numbers are not. A
            layer that is a block itself, such as `br.lstm`, becomes this block: `encode/w`.
        name: The name of the block, and the prefix of the names inside; the function's name by
            default.
        recompute: Save no residuals of the block and recompute it in the gradient.

    Raises:
        ProgramError: If the argument is not a function, or the name is invalid; in a call,
            arguments other than variables differ from those of the first call.
        DTypeError: If the dtype of a variable in a call differs from that in the first call.
        ShapeError: If the shapes in a call are invalid for the block.

    Example:
        >>> import braces as br
        >>> @br.shared
        ... def score(x, y):
        ...     return br.fc(br.concat([x, y], axis=1), 1, name="s")
        >>> with br.Program() as prog:
        ...     x, good, bad = (br.data(name, ["n", 4]) for name in ("x", "good", "bad"))
        ...     loss = br.mean(br.softplus(score(x, bad) - score(x, good)))
        >>> [p.name for p in prog.parameters]
        ['score/s.w', 'score/s.b']
    """
    if not callable(function):
        raise ProgramError(
            f"br.shared: expected a function, got {cast('Any', function)!r:.80}.",
            fix="Write @br.shared above a function, or br.shared(br.fc, name='fc1').",
        )
    block_name = name if name is not None else _name_of(function)
    check_block_name(block_name)

    @transactional
    @functools.wraps(function, assigned=NAMED)
    def shares(*args: Any, **options: Any) -> Any:
        program = current_program()
        arguments = _with_variables((args, options))
        before = program.built.get(shares)
        if before is not None:
            return before.again(arguments)
        first = program.built[shares] = _first(function, arguments, block_name, recompute)
        program.table.journal.note(lambda: program.built.pop(shares))
        return first.outputs

    return shares


def _name_of(function: Callable[..., Any]) -> str:
    """Return the default block name of a function."""
    name = getattr(function, "__name__", "")
    return "block" if "<" in name or not name else re.sub(r"\W", "_", name, flags=re.ASCII)
