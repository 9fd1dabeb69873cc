"""A function of JAX as a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from braces.builder.append import one
from braces.builder.source_line import says_where
from braces.builder.var import Var
from braces.define.jax_types import Translation
from braces.dims import Dim
from braces.dtypes import is_float
from braces.errors import ProgramError
from braces.exchange.common.model.names import cleaned, give
from braces.exchange.common.model.unsupported import Problem, unreadable
from braces.exchange.common.model.weights import LITTLE, persistable
from braces.exchange.jax.captured_arrays import Identity, identity, names_of_arrays
from braces.exchange.jax.pytree_arguments import (
    Leaf,
    argument_names,
    as_words,
    check_arguments,
    leaves_of,
    taken_apart,
)
from braces.frontend.core.variables import data
from braces.ir.records import DATA, PARAMETER, STATE
from braces.jaxpr.core.equation import Whole
from braces.jaxpr.registry import CALLS_BACK, WHY
from braces.jaxpr.trace import Traced, traced
from braces.lazy import jax
from braces.program import Program

Array = np.ndarray[Any, Any]
_jax: Any = jax


@says_where
def from_jax(
    function: Callable[..., Any],
    *examples: Any,
    sizes: Mapping[str, Sequence[Any]] | None = None,
    kinds: Mapping[str, str] | None = None,
    updates: Mapping[str, int] | None = None,
) -> tuple[Program, dict[str, Array]]:
    """A function of JAX as a program, and the values of its parameters.

    The function is traced once, as JAX is set, and all that it computes becomes operators:
    what it compiles by itself is a plain block of that name, `scan`, `while_loop`, `cond` and
    `switch` are loops and branches. A derivative that a function brings along
    (`jax.custom_jvp`, `jax.custom_vjp`) is its gradient in the program, too, as one of
    `br.create_custom_gradient`. Nothing of it is called again, so the program can be printed,
    differentiated, saved and run without it. `while_loop` has a gradient then.

    Arrays that are arguments become data, called as the function calls them. Arrays in a
    container (a dict, a list, a module) and those that the function brings along become
    parameters where they are floats, else states, under the path that leads there, as
    `params.layers.0.w`. A module that is called is such a container. What is no array is a
    part of the function. A key of random numbers is two words, `u32[2]`.

    What is refused: calls back to Python, arrays that are changed in their place, what several
    devices compute together, code for one machine, random bits of other generators than
    threefry, draws of gamma's distribution, routines of LAPACK that there is no operator for
    (eigenvalues of matrices that are not symmetric, Schur's form), matrices of complex numbers,
    Bessel's functions and incomplete gamma and beta functions. `docs/jax_functions.md` has all
    public functions of JAX that meet one of these.

    Args:
        function: Anything that JAX can trace: of Flax, Equinox, optax or by hand.
        *examples: Its arguments: arrays, `jax.ShapeDtypeStruct`, or containers of them.
        sizes: Names for sizes, as `{"x": ["batch", None]}`: one for each axis of an array,
            `None` where the example's own stays. Axes of one name have one size. What is
            known of it stands there too, as `"batch <= 10"` where a table of 10 rows is cut
            by it: JAX asks, and each run looks whether it is so.
        kinds: By argument what its arrays become in place of that: `"data"`, `"parameter"` or
            `"state"`.
        updates: By argument which of the function's results is its next value, as
            `{"params": 0}` for a step that returns `(params, loss)`: a run then moves it.

    Returns:
        The program, whose `feeds` are in the order of the arguments and whose `fetches` are
        `out`, or `out.0`, `out.loss` where the function gives several; and the values of its
        parameters and states by name, for `scope.update`.

    Raises:
        ProgramError: It cannot be traced, or does what no operator does; the message lists all
            of that, with the lines.
        ShapeError: `sizes` do not fit an example.
        UnknownNameError: Something is named that there is not.

    Example:
        >>> import braces as br, jax.numpy as jnp, numpy as np
        >>> params = {"w": jnp.ones((3, 1)), "b": jnp.zeros(1)}
        >>> def model(params, x):
        ...     return jnp.tanh(x @ params["w"] + params["b"])
        >>> x = np.zeros((1, 3), "f")
        >>> prog, values = br.from_jax(model, params, x, sizes={"x": ["batch", None]})
        >>> prog.feeds, prog.fetches, prog.var("out").type, list(values)
        (('x',), ('out',), f32[batch,1], ['params.b', 'params.w'])
        >>> scope = br.Scope()
        >>> scope.update(values)
        >>> br.Executor().run(prog, scope, feed={"x": x}, fetch=["out"])
        [array([[0.]], dtype=float32)]
    """
    if not callable(function):
        raise ProgramError(
            f"{function!r:.80} is no function.", fix="br.from_jax(function, *examples)."
        )
    for option, given in (("sizes", sizes), ("kinds", kinds), ("updates", updates)):
        if given is not None and not isinstance(cast("Any", given), Mapping):
            raise ProgramError(
                f"from_jax takes {option} by the names of arguments, not {given!r:.60}.",
                fix=f"Write {option}={{'x': …}}.",
            )
    moved = updates or {}
    check_arguments(moved, argument_names(function, len(examples)))
    arguments = taken_apart(function, examples, sizes or {}, kinds or {})
    limits = [pair for leaf in arguments.leaves for axis in leaf.axes for pair in axis.limits]
    translation = Translation([leaf.type for leaf in arguments.leaves], limits=limits)
    structs = [_struct(leaf, translation) for leaf in arguments.leaves]
    try:
        found = traced(_called(function), arguments.function, structs, translation)
    except ProgramError as error:
        raise _advised(error, arguments.leaves) from None
    reader = Reader(Program(), found, names_of_arrays(function))
    reader.read(arguments.leaves, moved)
    return reader.program, reader.values


def _advised(error: ProgramError, leaves: Sequence[Leaf]) -> ProgramError:
    """An error with what to do about a symbolic size, where it is about one."""
    said = set(re.findall(r"\w+", error.what))
    sizes = (size for leaf in leaves for size in leaf.type.shape if isinstance(size, Dim))
    for size in sizes:
        if "__index__" in said:
            error.fix = f"Of NumPy's arrays, no part is as long as `{size}`: use jnp.asarray."
        elif said & size.names():
            error.fix = (
                f"It has to hold for all `{size}`; where a table of 512 rows is cut by it, say "
                f"'{size} <= 512' in sizes=...."
            )
    return error


def _way_out(primitives: set[str]) -> str:
    """What to do about what has no operator."""
    others = "Compute it from other functions of jax.numpy."
    shown = "Return what callbacks show or send, and leave them out."
    calling = {name for name in primitives if WHY.get(name) == CALLS_BACK}
    return " ".join([shown] * bool(calling) + [others] * bool(primitives - calling))


def _called(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"The function `{name}`"


def _struct(leaf: Leaf, translation: Translation) -> Any:
    """What JAX is told of an array; keys stay keys."""
    rank = len(leaf.example.shape)
    shape = tuple(map(translation.size, leaf.type.shape[:rank]))
    whole = len(leaf.type.shape) == rank
    dtype = leaf.type.dtype if whole else leaf.example.dtype
    weak = bool(getattr(leaf.example, "weak_type", False))
    return _jax.ShapeDtypeStruct(shape, dtype, weak_type=weak)


def _held(leaf: Leaf, given: Var) -> Var:
    """An array whose sizes each run holds against what was said of them."""
    words = given.shape[len(leaf.axes) :]
    within = (*(axis.within for axis in leaf.axes), *words)
    if within == given.shape:
        return given
    return one("ensure_shape", one("ensure_shape", given, shape=within), shape=given.shape)


@dataclass(eq=False)
class Reader:
    """Writes a function that was traced as a program.

    Attributes:
        program: What is built.
        found: The function, traced.
        names: What arrays that it brings along are called, by identity.
        values: What parameters and states hold.
    """

    program: Program
    found: Traced
    names: Mapping[Identity, str]
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    _kept: dict[Identity, tuple[Any, Var]] = field(default_factory=dict[Any, Any])

    def read(self, leaves: Sequence[Leaf], moved: Mapping[str, int]) -> None:
        """Build the program.

        Raises:
            ProgramError: Something has no operator.
        """
        whole = Whole(self.program, self._keep)
        with self.program:
            given = [self._declared(leaf) for leaf in leaves]
            made = self.found.append(list(map(_held, leaves, given)), whole)
            if not whole.problems:
                self._give(leaves, given, made, moved)
        if whole.problems:
            raise unreadable(
                [Problem(f"`{p.primitive}`", f"at {p.line}", p.error) for p in whole.problems],
                self.found.what,
                of="equations",
                fix=_way_out({p.primitive for p in whole.problems}),
            )

    # ---- what it is given --------------------------------------------------------------------

    def _declared(self, leaf: Leaf) -> Var:
        if leaf.kind == DATA:
            return data(leaf.name, leaf.type.shape, dtype=leaf.type.dtype)
        value = leaf.value.astype(leaf.type.dtype)
        return persistable(self.program, self.values, leaf.name, value, leaf.kind)

    def _keep(self, array: Any) -> Var | None:
        """The variable that holds an array that the function brings along."""
        key = identity(array)
        name = self.names.get(key)
        if name is None and np.size(array) <= LITTLE:
            return None
        if key not in self._kept:
            value = as_words(array)
            trained = name is not None and is_float(value.dtype)
            kind, called = PARAMETER if trained else STATE, cleaned(name or "constant")
            var = persistable(self.program, self.values, called, value, kind)
            self._kept[key] = array, var
        return self._kept[key][1]

    # ---- what it gives -----------------------------------------------------------------------

    def _give(
        self,
        leaves: Sequence[Leaf],
        given: Sequence[Var],
        made: Sequence[Var],
        moved: Mapping[str, int],
    ) -> None:
        paths = [path for path, _ in leaves_of(self.found.shapes)]
        taken = set[int]()
        for argument, result in moved.items():
            places = [at for at, p in enumerate(paths) if p[:1] == (str(result),)]
            olds = [
                var
                for leaf, var in zip(leaves, given, strict=True)
                if leaf.argument == argument
            ]
            self._move(argument, result, olds, [made[at] for at in places])
            taken.update(places)
        for at, (path, var) in enumerate(zip(paths, made, strict=True)):
            if at not in taken:
                give(self.program, var, cleaned(".".join(("out", *path))))

    def _move(
        self, argument: str, result: int, olds: Sequence[Var], news: Sequence[Var]
    ) -> None:
        """Make results the next values of an argument."""
        fits = len(olds) == len(news) and all(
            (old.dtype, old.shape) == (new.dtype, new.shape)
            for old, new in zip(olds, news, strict=True)
        )
        kept = [self.program.table.get_var(old.name).persistable for old in olds]
        if not fits or not olds or not all(kept):
            raise ProgramError(
                f"Result {result} cannot be the next value of `{argument}`.",
                given=f"`{argument}` has {len(olds)} arrays, the result {len(news)}",
                fix="Both must be the same tree of arrays, and the example must have values; "
                "of an array by itself, say kinds={...: 'state'}.",
            )
        for old, new in zip(olds, news, strict=True):
            self.program.update(old, new)
