"""Functions that are built once: called again, they are the same block.

    @br.shared
    def enc(x):                          enc/h: f32[n,8] = block() captures [x, …] as enc
        return br.fc(x, 8, name="h")       body { … }
    y = enc(x)                           enc_1/h: f32[m,8] = block() captures [z, …] as enc_1
    w = enc(z)                             body { … }

The first call in a program builds a plain block, and each later one calls that block on other
variables. So a layer, or what is made of layers, is shared by calling it twice.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.builder.append import as_var, one
from braces.builder.builder import current_program
from braces.builder.var import Var, shown
from braces.errors import ProgramError
from braces.frontend.control.block import PlainBlock, block, check_block_name
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.pytree import match, rebuild, values

__all__ = ["shared"]


@dataclass(frozen=True, eq=False)
class Built:
    """What the first call in a program built.

    Attributes:
        block: The block.
        arguments: Those of the call, nested; a variable is one that a later call may change.
        outputs: What the function gave, nested.
    """

    block: PlainBlock
    arguments: Any
    outputs: Any

    def again(self, arguments: Any) -> Any:
        """What the block gives for other variables."""
        given = _changed(self.arguments, arguments, self.block.chosen)
        ends, inside = values(self.outputs), self.block.table
        results = [end.name for end in ends if end.table is inside]
        values_of = {name: given[name] for name in self.block.inputs if name in given}
        made = given | dict(zip(results, self.block.call(values_of, results), strict=True))
        return rebuild(self.outputs, [made.get(end.name, end) for end in ends])


def _changed(before: Any, now: Any, name: str) -> dict[str, Var]:
    """The variables of a call by the names of those in their places in the first one.

    Raises:
        ProgramError: What is no variable differs.
    """
    try:
        new = match(before, now, "", "", "")
    except ProgramError:
        raise _differ(name, _written(before), _written(now)) from None
    found = dict[str, Var]()
    for old, var in zip(values(before), new, strict=True):
        if isinstance(old, Var) and isinstance(var, Var):
            found[old.name] = var
        elif isinstance(old, Var) or isinstance(var, Var) or not _same(old, var):
            raise _differ(name, _written(before), _written(now))
    return found


def _written(arguments: Any) -> str:
    """Arguments as a call has them."""
    args, options = rebuild(arguments, map(_shown, values(arguments)))
    return f"({', '.join([*map(str, args), *(f'{k}={v}' for k, v in options.items())])})"


def _shown(leaf: Any) -> str:
    return leaf.name if isinstance(leaf, Var) else f"{leaf!r:.40}"


def _differ(name: str, first: str, now: str) -> ProgramError:
    return ProgramError(
        f"`{name}` is built already, with other arguments.",
        given=f"{name}{first}, and now {name}{now}",
        fix="Only variables may change from call to call; what has other sizes or options is "
        "another br.shared(…).",
    )


def _same(left: Any, right: Any) -> bool:
    return left is right or (type(left) is type(right) and bool(left == right))


def _first(function: Callable[..., Any], arguments: Any, name: str, recompute: bool) -> Built:
    """The block of the first call."""
    args, options = arguments = rebuild(arguments, _apart(values(arguments)))
    with block(name, recompute=recompute) as made:
        made.table.lent = getattr(function, "is_layer_block", False)
        given = function(*args, **options)
        ends = [shown(as_var(end)) for end in values(given)]
        made.add_output(*(end for end in ends if end.table is made.table))
    return Built(made, arguments, rebuild(given, ends))


def _apart(given: list[Any]) -> list[Any]:
    """Arguments of which each variable has a name of its own that is an input of a block."""
    trips = {table.trip_index for table in current_program().current.chain()}
    counts = Counter(leaf.name for leaf in given if isinstance(leaf, Var))
    return [
        one("identity", leaf)
        if isinstance(leaf, Var)
        and (leaf.persistable or counts[leaf.name] > 1 or leaf.name in trips)
        else leaf
        for leaf in given
    ]


def _with_variables(tree: Any) -> Any:
    """Arguments of which arrays are variables."""
    made = [as_var(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in values(tree)]
    return rebuild(tree, made)


def shared(
    function: Callable[..., Any], /, *, name: str | None = None, recompute: bool = False
) -> Callable[..., Any]:
    """A function whose operators and parameters are built once: a layer to be called again.

        encode = br.shared(br.lstm, name="encode")        @br.shared
        a, b = encode(x, 64), encode(y, 64)               def encoder(x): …

    In each program the first call builds a plain block of what the function builds, and later
    calls call that block on other variables: the same operators, with the same parameters, as
    `enc(x2)` does after `with br.block(…) as enc`. Sizes of variables may differ from call to
    call where those of the block are symbolic; all other arguments must stay.

    Args:
        function: From variables, nested tuples, lists and dicts of them, and whatever else, to
            variables, nested in the same ways. Arrays are variables; numbers are not. A layer
            that is a block, as `br.lstm`, is this block: `encode/w`.
        name: That of the block, and what names inside begin with; that of the function where
            nothing is said.
        recompute: Keep nothing of it for the gradient, and run it again there.

    Raises:
        ProgramError: It is no function, or the name is none; in a call, arguments that are no
            variables differ from those of the first call.
        DTypeError: In a call, a variable has another dtype than in the first call.
        ShapeError: In a call, the block cannot be run on these shapes.

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
            f"br.shared takes a function, not {cast('Any', function)!r:.80}.",
            fix="Write @br.shared above a function, or br.shared(br.fc, name='fc1').",
        )
    called = name if name is not None else _name_of(function)
    check_block_name(called)

    @building
    @functools.wraps(function)
    def shares(*args: Any, **options: Any) -> Any:
        program = current_program()
        arguments = _with_variables((args, options))
        before = program.built.get(shares)
        if before is not None:
            return before.again(arguments)
        made = program.built[shares] = _first(function, arguments, called, recompute)
        program.table.journal.note(lambda: program.built.pop(shares))
        return made.outputs

    return shares


def _name_of(function: Callable[..., Any]) -> str:
    """What the block of a function is called."""
    name = getattr(function, "__name__", "")
    return "block" if "<" in name or not name else re.sub(r"\W", "_", name, flags=re.ASCII)
