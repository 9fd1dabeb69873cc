"""Import a function of JAX as a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from braces.errors import ProgramError
from braces.exchange.common.model.names import clean_name, fetch_as
from braces.exchange.common.model.unsupported import UnsupportedNode, unsupported_error
from braces.exchange.common.model.weights import LARGEST_LITERAL, add_persistable
from braces.exchange.jax.captured_arrays import (
    Identity,
    array_identity,
    captured_variables,
    names_of_arrays,
)
from braces.exchange.jax.pytree_arguments import (
    Leaf,
    argument_names,
    as_words,
    canonical,
    check_arguments,
    flatten_arguments,
    leaves_of,
)
from braces.extend.building import Var, data, emit, with_user_line
from braces.extend.operators import (
    IS_CALLBACK,
    REFUSAL_REASONS,
    ProgramImport,
    TracedFunction,
    trace_structs,
)
from braces.extend.programs import DATA, PARAMETER, STATE, Program
from braces.extend.types import Dim, JaxTypeConverter, is_float
from braces.lazy import jax

Array = np.ndarray[Any, Any]
_jax: Any = jax


@with_user_line
def from_jax(
    function: Callable[..., Any],
    *examples: Any,
    sizes: Mapping[str, Sequence[Any]] | None = None,
    kinds: Mapping[str, str] | None = None,
    updates: Mapping[str, int] | None = None,
) -> tuple[Program, dict[str, Array]]:
    """Convert a function of JAX to a program, and return the values of its parameters.

    The function is traced once, under the current settings of JAX, and every equation becomes
    operators. Functions under `jit`, modules and named scopes become plain blocks of that name;
    `scan`, `while_loop`, `cond` and `switch` become loops and branches. Custom derivatives
    (`jax.custom_jvp`, `jax.custom_vjp`) become custom gradients, as those of
    `br.create_custom_gradient`. The program does not call the function again: it can be
    printed, differentiated, saved and run without it. A `while_loop` becomes differentiable.

    Arrays that are arguments become data, under the names of the arguments. Arrays in a
    container (a dict, a list, a module) and captured arrays become parameters if they are
    floats, else states. They are named by their paths, as `params.layers.0.w`. A module that is
    called is such a container. Arguments that are not arrays are static. A key of random
    numbers is two words, `u32[2]`, and a random draw is one operator with the bits of JAX.

    Prints of `jax.debug` are left out, with a `BracesWarning`. Constraints of shardings are the
    identity: a program is laid out by `br.Layout`. A result or an argument of dtype `float0` (a
    tangent of integers) is an array of `False`.

    Not supported are callbacks to Python, mutable arrays, collectives over several devices,
    kernels for one platform, `lax.rng_uniform`, and a few options of LAPACK routines.
    `docs/tables/jax_functions.md` lists the public functions of JAX that meet one of these.

    Args:
        function: A function that JAX can trace: of Flax, Equinox, optax or by hand.
        *examples: Its arguments: arrays, `jax.ShapeDtypeStruct`, or containers of them.
        sizes: Names for sizes, as `{"x": ["batch", None]}`: one for each axis of an array,
            `None` for the size of the example. Axes of one name have one size. Limits may be
            included, as in `"batch <= 10"` if a table of 10 rows is sliced by it: JAX relies on
            them, and each run checks them.
        kinds: The kind of an argument's arrays, in place of the default: `"data"`,
            `"parameter"` or `"state"`. A number with a kind becomes an input, too.
        updates: By argument the index of the result that is its next value, as `{"params": 0}`
            for a step that returns `(params, loss)`; each run then updates it.

    Returns:
        The program, whose `feeds` are in the order of the arguments and whose `fetches` are
        `out`, or `out.0`, `out.loss` where the function gives several; and the values of its
        parameters and states by name, for `scope.update`.

    Raises:
        ProgramError: If the function cannot be traced, or has unsupported equations; the
            message lists all of them, with their lines.
        ShapeError: If `sizes` do not match an example.
        UnknownNameError: If a name is unknown.

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
            f"expected a function, got {function!r:.80}.",
            fix="Call br.from_jax(function, *examples).",
        )
    for option, value in (("sizes", sizes), ("kinds", kinds), ("updates", updates)):
        if value is not None and not isinstance(cast("Any", value), Mapping):
            raise ProgramError(
                f"expected a mapping from argument names for `{option}`, got {value!r:.60}.",
                fix=f"Pass {option}={{'x': …}}.",
            )
    next_results = updates or {}
    check_arguments(next_results, argument_names(function, len(examples)))
    captured = list(captured_variables(function))
    arguments = flatten_arguments(function, examples, sizes or {}, kinds or {}, captured)
    limits = [pair for leaf in arguments.leaves for axis in leaf.axes for pair in axis.limits]
    translation = JaxTypeConverter([leaf.type for leaf in arguments.leaves], limits=limits)
    structs = [_struct(leaf, translation) for leaf in arguments.leaves]
    try:
        trace = trace_structs(
            _function_label(function), arguments.function, structs, translation
        )
    except ProgramError as error:
        raise _add_advice(error, arguments.leaves) from None
    reader = JaxImporter(Program(), trace, names_of_arrays(function))
    reader.read(arguments.leaves, next_results)
    return reader.program, reader.values


def _add_advice(error: ProgramError, leaves: Sequence[Leaf]) -> ProgramError:
    """Add advice about a symbolic size to an error, if the error is about one."""
    words = set(re.findall(r"\w+", error.what))
    sizes = (size for leaf in leaves for size in leaf.type.shape if isinstance(size, Dim))
    for size in sizes:
        if "__index__" in words:
            error.fix = f"Convert NumPy arrays by jnp.asarray before slicing them by `{size}`."
        elif words & size.names():
            error.fix = (
                f"The function must be valid for every `{size}`. To slice a table of 512 rows "
                f"by it, declare '{size} <= 512' in `sizes`."
            )
    return error


def _unsupported_advice(primitives: set[str]) -> str:
    """Return the advice for primitives without an operator."""
    other_advice = "Use other functions of jax.numpy."
    callback_advice = "Remove the callbacks, and return the values that they receive."
    callbacks = {name for name in primitives if REFUSAL_REASONS.get(name) == IS_CALLBACK}
    return " ".join(
        [callback_advice] * bool(callbacks) + [other_advice] * bool(primitives - callbacks)
    )


def _function_label(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"The function `{name}`"


def _struct(leaf: Leaf, translation: JaxTypeConverter) -> Any:
    """Return the abstract array that JAX traces; keys and `float0` keep their dtypes."""
    rank = len(leaf.example.shape)
    shape = tuple(map(translation.size, leaf.type.shape[:rank]))
    weak = bool(getattr(leaf.example, "weak_type", False))
    return _jax.ShapeDtypeStruct(shape, canonical(leaf.example.dtype), weak_type=weak)


def _check_limits(leaf: Leaf, array: Var) -> Var:
    """Check the sizes of an array against their declared limits in each run."""
    words = array.shape[len(leaf.axes) :]
    within = (*(axis.within for axis in leaf.axes), *words)
    if within == array.shape:
        return array
    return emit("ensure_shape", emit("ensure_shape", array, shape=within), shape=array.shape)


@dataclass(eq=False)
class JaxImporter:
    """Writes a traced function as a program.

    Attributes:
        program: The program that is built.
        found: The traced function.
        names: The names of captured arrays, by identity.
        values: The values of parameters and states.
    """

    program: Program
    found: TracedFunction
    names: Mapping[Identity, str]
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    _kept: dict[Identity, tuple[Any, Var]] = field(default_factory=dict[Any, Any])

    def read(self, leaves: Sequence[Leaf], moved: Mapping[str, int]) -> None:
        """Build the program.

        Raises:
            ProgramError: If an equation is not supported.
        """
        conversion = ProgramImport(self.program, self._keep)
        with self.program:
            inputs = [self._declared(leaf) for leaf in leaves]
            self.program.table.names.reserve(self._fetch_names())
            results = self.found.append(list(map(_check_limits, leaves, inputs)), conversion)
            if not conversion.problems:
                self._give(leaves, inputs, results, moved)
        if conversion.problems:
            raise unsupported_error(
                [
                    UnsupportedNode(f"`{p.primitive}`", "", p.error, p.line)
                    for p in conversion.problems
                ],
                self.found.what,
                of="equations",
                fix=_unsupported_advice({p.primitive for p in conversion.problems}),
            )

    # ---- inputs ------------------------------------------------------------------------------

    def _declared(self, leaf: Leaf) -> Var:
        if leaf.kind == DATA:
            return data(leaf.name, leaf.type.shape, dtype=leaf.type.dtype)
        value = leaf.value.astype(leaf.type.dtype)
        return add_persistable(self.program, self.values, leaf.name, value, leaf.kind)

    def _keep(self, array: Any) -> Var | None:
        """Return the variable of a captured array."""
        key = array_identity(array)
        name = self.names.get(key)
        if name is None and np.size(array) <= LARGEST_LITERAL:
            return None
        if key not in self._kept:
            value = as_words(array)
            trained = name is not None and is_float(value.dtype)
            kind, name_in_program = (
                PARAMETER if trained else STATE,
                clean_name(name or "constant"),
            )
            var = add_persistable(self.program, self.values, name_in_program, value, kind)
            self._kept[key] = array, var
        return self._kept[key][1]

    # ---- results -----------------------------------------------------------------------------

    def _give(
        self,
        leaves: Sequence[Leaf],
        arguments: Sequence[Var],
        results: Sequence[Var],
        moved: Mapping[str, int],
    ) -> None:
        paths = [path for path, _ in leaves_of(self.found.shapes)]
        taken = set[int]()
        for argument, result in moved.items():
            result_indices = [at for at, p in enumerate(paths) if p[:1] == (str(result),)]
            olds = [
                var
                for leaf, var in zip(leaves, arguments, strict=True)
                if leaf.argument == argument
            ]
            self._move(argument, result, olds, [results[at] for at in result_indices])
            taken.update(result_indices)
        for at, (name, var) in enumerate(zip(self._fetch_names(), results, strict=True)):
            if at not in taken:
                fetch_as(self.program, var, name, reserved=True)

    def _fetch_names(self) -> list[str]:
        """Return the names of fetches, in the order of the results."""
        paths = (path for path, _ in leaves_of(self.found.shapes))
        return [clean_name(".".join(("out", *path))) for path in paths]

    def _move(
        self, argument: str, result: int, olds: Sequence[Var], news: Sequence[Var]
    ) -> None:
        """Make results the next values of an argument."""
        fits = len(olds) == len(news) and all(
            (old.dtype, old.shape) == (new.dtype, new.shape)
            for old, new in zip(olds, news, strict=True)
        )
        are_persistable = [self.program.table.get_var(old.name).persistable for old in olds]
        if not fits or not olds or not all(are_persistable):
            raise ProgramError(
                f"result {result} does not match the state `{argument}`.",
                given=f"`{argument}` has {len(olds)} arrays, the result {len(news)}",
                fix="Return the same tree of arrays, and pass an example with values. "
                "For a single array, pass kinds={...: 'state'}.",
            )
        for old, new in zip(olds, news, strict=True):
            self.program.update(old, new)
