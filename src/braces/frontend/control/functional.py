"""Loops and branches as higher-order functions: `while_loop`, `scan`, `cond`, `switch`.

Carries and results are pytrees: variables, or nested tuples, lists and dicts of variables and
numbers. Each function builds the same operators as its `with` form.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from braces.builder.append import as_var
from braces.builder.var import Var, tensor_type
from braces.dtypes import ListType
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.construct import (
    LoopBlock,
    Memory,
    carry_mismatch,
    literal_dtype,
    types_agree,
)
from braces.frontend.control.if_else import Branch, create_if_else
from braces.frontend.control.rnn import create_rnn
from braces.frontend.control.switch import create_switch
from braces.frontend.control.while_loop import create_while
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.pytree import (
    leaves_with_paths,
    match_structure,
    tree_leaves,
    tree_unflatten,
)

__all__ = ["cond", "scan", "switch", "while_loop"]

Function = Callable[..., Any]


# ---- shared ----------------------------------------------------------------------------------


_CARRY = "A carry is one argument; unpack it inside: `i, total = carry`."


def _call(function: Any, what: str, *arguments: Any, fix: str = _CARRY) -> Any:
    """Call a user's function; raise an error if the number of arguments does not match."""
    if not callable(function):
        raise ProgramError(f"expected a function for {what}, got {function!r:.60}.")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        count = len(arguments)
        shown = (
            "no arguments"
            if not count
            else "1 argument"
            if count == 1
            else f"{count} arguments"
        )
        raise ProgramError(
            f"{what} cannot be called with {shown}: {error}.",
            fix=fix,
        ) from None
    except ValueError:
        pass  # a builtin without a signature
    return function(*arguments)


def _memories(block: LoopBlock, init: Any) -> list[Memory]:
    return [
        block.add_memory(init=_initial(path, leaf))
        for path, leaf in leaves_with_paths(init, "carry")
    ]


def _initial(path: str, leaf: Any) -> Any:
    if isinstance(leaf, str | bytes | set) or callable(leaf):
        raise ProgramError(
            f"`{path}` of init has an unsupported type: {leaf!r:.60}.",
            fix="Carry variables, numbers and arrays, in tuples, lists and dicts.",
        )
    return leaf


def _update(memories: Sequence[Memory], init: Any, after: Any, giver: str) -> None:
    """Set the next carry, which must have the structure and types of the current one."""
    leaves = match_structure(init, after, "carry", "init", giver)
    for (path, _), memory, value in zip(
        leaves_with_paths(init, "carry"), memories, leaves, strict=True
    ):
        new = as_var(value, literal_dtype(memory.type))
        if not types_agree(memory.block, memory.type, new.type):
            problem = f"type mismatch: an iteration changes the type of `{path}`."
            raise carry_mismatch(problem, memory.type, new.type, giver)
        memory.update(new)


# ---- loops -----------------------------------------------------------------------------------


@transactional
def while_loop(
    cond_fn: Callable[[Any], Any],
    body_fn: Callable[[Any], Any],
    init: Any,
    *,
    max_trips: int | None = None,
    checkpoint_every: int | None = None,
) -> Any:
    """Run `body_fn` while `cond_fn` holds.

        carry = init
        while cond_fn(carry):
            carry = body_fn(carry)
        return carry

    Args:
        cond_fn: From the carry to a bool scalar; evaluated before each iteration.
        body_fn: From the carry to the next carry, of the same structure and types.
        init: The first carry: a variable, or a nested tuple, list or dict.
        max_trips: A limit on the trip count; a run that exceeds it raises an error.
        checkpoint_every: See `create_while`.

    Returns:
        The last carry.

    Raises:
        ProgramError: If the structure of the next carry differs; the message names the
            position.
        ShapeError, DTypeError: If the type of a leaf of the carry differs.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     def more(carry):
        ...         return carry["x"] < 100.0
        ...     def double(carry):
        ...         return {"n": carry["n"] + 1, "x": carry["x"] * 2.0}
        ...     end = br.while_loop(more, double, {"n": 0, "x": 1.0})
        ...     print(end["n"].type, end["x"].type)
        i64[] f32[]
    """
    options = {"max_trips": max_trips, "checkpoint_every": checkpoint_every}
    loop = create_while(**{k: v for k, v in options.items() if v is not None})
    with loop.block() as body:
        memories = _memories(body, init)
        carry = tree_unflatten(init, (memory.pre() for memory in memories))
        body.set_condition(_call(cond_fn, "cond_fn", carry))
        _update(memories, init, _call(body_fn, "body_fn", carry), "body_fn")
    return tree_unflatten(init, [loop.final(memory) for memory in memories])


@transactional
def scan(
    step_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Any = None,
    *,
    reverse: bool = False,
    own_parameters: bool = False,
) -> tuple[Any, Any]:
    """Run `step_fn` for each step of `xs`.

        carry = init
        for t in 0 … T-1:                       # T-1 … 0 under `reverse`
            carry, ys[t] = step_fn(carry, xs[t])
        return carry, ys

    Args:
        step_fn: From the carry and a step's slices to the next carry and a step's results.
        init: The first carry: a variable, or a nested tuple, list or dict; `None` for none.
        xs: The scanned inputs, sliced along axis 0: a variable, or nested variables.
        length: The number of steps; required if there are no `xs`.
        reverse: Iterate from the last step to the first; results keep their positions.
        own_parameters: Each step has its own parameters in `step_fn`, stacked along a leading
            axis; `length` must be a number. Twelve layers that compile as one:
            `h, _ = br.scan(lambda h, _: (layer(h), None), h, length=12, own_parameters=True)`.

    Returns:
        The last carry, and the results, stacked along axis 0.

    Raises:
        ProgramError: If the structure of the next carry differs, or `step_fn` does not return a
            pair.
        ShapeError, DTypeError: If the type of a leaf of the carry differs, or the numbers of
            steps differ.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["t", 4])
        ...     total, sums = br.scan(lambda c, row: (c + row, c + row), br.zeros([4]), x)
        ...     print(total.type, sums.type)
        f32[4] f32[t,4]
    """
    if length is None and not tree_leaves(xs):
        raise ProgramError(
            "the number of steps of scan is unknown.", fix="Pass xs, or length=10."
        )
    rnn = create_rnn(reverse=reverse, steps=length, own_parameters=own_parameters)
    with rnn.stepnet() as net:
        memories = _memories(net, init)
        before = [memory.pre() for memory in memories]
        slices = tree_unflatten(xs, [net.add_input(x) for x in tree_leaves(xs)])
        with _batch_first_advice(xs, init):
            result = _call(step_fn, "step_fn", tree_unflatten(init, before), slices)
        if not _is_pair(result):
            raise ProgramError(
                "step_fn must return a pair (carry, y).",
                given=f"{result!r:.80}",
                fix="Return (carry, y), with y=None for a step without output.",
            )
        after, ys = result
        _update(memories, init, after, "step_fn")
        rows = [as_var(row) for row in tree_leaves(ys)]
        net.add_output(*rows)
    last = tree_unflatten(init, [rnn.final(memory) for memory in memories])
    return last, tree_unflatten(ys, rnn.stacked)


@contextmanager
def _batch_first_advice(xs: Any, init: Any) -> Generator[None]:
    """Add advice to a shape error of a step whose inputs may have the batch axis first.

    The advice needs a carry with as many elements as there are steps, and an error that has
    this size and the one of the next axis.
    """
    try:
        yield
    except ShapeError as error:
        text = f"{error.what} {error.given or ''}"
        words, carries = set(re.findall(r"\w+", text)), [as_var(c) for c in tree_leaves(init)]
        batches = {str(c.shape[0]) for c in carries if _has_axes(c, 1)}
        for x in map(as_var, tree_leaves(xs)):
            sizes = [str(size) for size in x.shape[:2]] if _has_axes(x, 2) else []
            if sizes and sizes[0] in batches and sizes[0] != sizes[1] and words >= {*sizes}:
                error.advise(
                    f"scan iterates over axis 0 of `xs`, here of size {sizes[0]}: pass "
                    "br.swapaxes(xs, 0, 1) if the batch axis is first."
                )
                break
        raise


def _has_axes(var: Var, rank: int) -> bool:
    return not isinstance(var.type, ListType) and var.ndim >= rank


def _is_pair(result: Any) -> bool:
    return isinstance(result, tuple) and len(cast("tuple[Any, ...]", result)) == 2


# ---- branches --------------------------------------------------------------------------------


def _branch(
    block: Branch, function: Any, what: str, operands: Sequence[Any], first: Any
) -> Any:
    """Build one branch and return its result, in the structure of the first branch's."""
    args = [
        tree_unflatten(operand, [block.add_input(x) for x in tree_leaves(operand)])
        for operand in operands
    ]
    fix = "The functions have one parameter for each operand; a tuple is one operand."
    result = _call(function, what, *args, fix=fix)
    if first is None:
        outputs = tree_unflatten(result, [as_var(value) for value in tree_leaves(result)])
        block.add_output(*tree_leaves(outputs))
        return outputs
    source, wanted = first
    leaves = match_structure(wanted, result, "result", source, what)
    for (path, like), value in zip(leaves_with_paths(wanted, "result"), leaves, strict=True):
        new = as_var(value, literal_dtype(like.type))
        _check_alike(path, {source: like, what: new})
        block.add_output(new)
    return result


def _check_alike(path: str, results: dict[str, Var]) -> None:
    """Refuse results whose dtypes, ranks or fixed sizes differ between branches."""
    if any(isinstance(var.type, ListType) for var in results.values()):
        return  # lists have no batch axis
    left, right = (tensor_type(var) for var in results.values())
    differ = left.rank != right.rank or any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(left.shape, right.shape, strict=False)
    )
    if differ or left.dtype != right.dtype:
        raise (ShapeError if differ else DTypeError)(
            f"type mismatch of `{path}` between the branches.",
            given="   ".join(f"{name}: {var.type}" for name, var in results.items()),
            fix="All branches return the same dtype and shape; use br.cast or br.reshape.",
        )


def _results(outputs: Any, like: Any) -> Any:
    several = isinstance(outputs, tuple)
    return tree_unflatten(like, cast("tuple[Any, ...]", outputs) if several else (outputs,))


@transactional
def cond(pred: Any, true_fn: Function, false_fn: Function, *operands: Any) -> Any:
    """Run one of two functions.

        return true_fn(*operands) if pred else false_fn(*operands)

    Only the selected function runs. If `pred` is a vector over the batch axis, each function
    gets the batch elements of the operands that select it, and the results are returned in the
    original order.

    Args:
        pred: A bool scalar, or bool[rows].
        true_fn: The function for elements where `pred` holds.
        false_fn: The function for all others; its result has the structure and types of the
            result of `true_fn`.
        operands: Arguments of both functions: variables, or nested tuples, lists and dicts.

    Returns:
        The result of the function that ran.

    Raises:
        ProgramError: If the results differ in structure; the message names the position.
        ShapeError: If the results differ in type.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", [])
        ...     print(br.cond(x > 0.0, lambda: br.sqrt(x), lambda: -x).type)
        f32[]
    """
    choice = create_if_else(pred)
    with choice.true_block() as block:
        like = _branch(block, true_fn, "true_fn", operands, None)
    with choice.false_block() as block:
        _branch(block, false_fn, "false_fn", operands, ("true_fn", like))
    return _results(choice(), like)


@transactional
def switch(
    index: Any,
    fns: Sequence[Function] | Mapping[int, Function],
    *operands: Any,
    default: Function | None = None,
) -> Any:
    """Run the function selected by an index.

        return fns[index](*operands)

    If the index is a vector over the batch axis, each function gets the batch elements of the
    operands that select it, and the results are returned in the original order.

    Args:
        index: An integer scalar, or an integer vector with one entry per batch element.
        fns: The functions, numbered from 0, or a dict from index to function. All results have
            the structure and types of the first function's result.
        operands: Arguments of the functions: variables, or nested tuples, lists and dicts.
        default: The function for any other index; without it, another index is an error of the
            run.

    Returns:
        The result of the function that ran.

    Raises:
        ProgramError: If `fns` is empty, or the results differ in structure.
        ShapeError: If the results differ in type.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     i, x = br.data("i", [], dtype="int32"), br.data("x", [3])
        ...     print(br.switch(i, [lambda: x, lambda: x * 2.0, lambda: br.exp(x)]).type)
        f32[3]

        A mixture of experts; each expert runs on the rows that score it highest:

        >>> with br.Program() as prog:
        ...     x = br.data("x", ["rows", 4])
        ...     scores = br.softmax(br.fc(x, 3, name="router"))
        ...     def expert(number):
        ...         return lambda own: br.fc(own, 4, act="relu", name=f"expert_{number}")
        ...     made = br.switch(br.argmax(scores, axis=1), [expert(k) for k in range(3)], x)
        ...     out = made * br.max(scores, axis=1, keepdims=True)
        >>> out.type
        f32[rows,4]
    """
    functions: Any = fns
    if callable(fns) or not isinstance(functions, Iterable):
        raise ProgramError(
            f"switch: expected a list or a dict of functions, got {fns!r:.80}.",
            fix="Write br.switch(index, [first, second]).",
        )
    cases = dict(fns.items() if isinstance(fns, Mapping) else enumerate(fns))
    if not cases:
        raise ProgramError("switch: expected at least one function.")
    chooser = create_switch(index)
    first: tuple[str, Any] | None = None
    for key, function in cases.items():
        what = f"fns[{key}]"
        with chooser.case(key) as block:
            result = _branch(block, function, what, operands, first)
        first = first or (what, result)
    assert first is not None
    if default is not None:
        with chooser.default() as block:
            _branch(block, default, "default", operands, first)
    return _results(chooser(), first[1])
