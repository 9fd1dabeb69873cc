"""Programs as StableHLO, which other systems run without Braces and without Python's source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.builder.source_line import says_where
from braces.define.core.jax_settings import own_settings
from braces.define.jax_types import Translation
from braces.dims import substitute
from braces.dtypes import TensorType
from braces.errors import BracesError, ProgramError, UnknownNameError, suggest
from braces.ir import serde
from braces.ir.walk import dimensions
from braces.lazy import jax
from braces.lower.xla.concrete_attributes import SymbolicSizes
from braces.program import Program
from braces.runtime.pure_function import PureFunction
from braces.scope import Scope

_jax: Any = jax
MLIR = ".mlir"


@says_where
def to_stablehlo(
    program: Program,
    path: str | os.PathLike[str],
    *,
    fetches: Sequence[Any] = (),
    scope: Scope | None = None,
    sizes: Mapping[str, int] | None = None,
    platforms: Sequence[str] = ("cpu",),
    room: int = 0,
) -> None:
    """Write a program as StableHLO.

    What is written is called as `results, after, status = call(values, feeds)`, with dicts by
    name: the values of persistable variables and the feeds in; what is fetched in order, the
    next values of what the program updates by name, and a status out: for each operator that
    may fail 0, or what went wrong. `values` is an empty dict where a scope is given, whose
    values are then part of the file, and nothing is updated.

    A file called `.mlir` is the module as text, with these arguments and results one by one,
    dicts in the order of their sorted keys. Any other one is what `jax.export` writes:
    `jax.export.deserialize(bytes).call(values, feeds)` runs it. Symbolic sizes of the program
    stay symbolic, so one file serves all batches, each of one or more: a file refuses a size
    that is 0. A row-wise branch computes its cases on all rows then, of which each keeps its
    own. Where an operator must know a number to be compiled, that is refused, and `sizes`
    gives it: windows that slide over padding along a symbolic axis, regions of pictures, and
    windows that begin at a size and count from the end.

    Args:
        program: What is written.
        path: The file.
        fetches: Variables or their names; what the program gives where none are said.
        scope: Where the values of persistable variables are, if they are to be in the file.
        sizes: Numbers for symbolic sizes, as `{"batch": 1}`.
        platforms: The machines that it is for: `"cpu"`, `"cuda"`, `"tpu"`.
        room: For how many trips there is room; see `Program.to_jax`.

    Raises:
        ProgramError: A symbolic size has to be a number, or what is wanted cannot be a function
            of JAX.
        UnknownNameError: There is no such variable, or no such size.

    Example:
        >>> import jax, numpy as np, tempfile, braces as br
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["batch", 3]) @ br.parameter("w", [3])
        >>> path = tempfile.mkdtemp() + "/model.stablehlo"
        >>> br.to_stablehlo(prog, path, fetches=[y])
        >>> with open(path, "rb") as file:
        ...     model = jax.export.deserialize(bytearray(file.read()))
        >>> rows = np.eye(3, dtype="f")
        >>> results, after, status = model.call({"w": np.ones(3, "f")}, {"x": rows})
        >>> results[0].tolist()
        [1.0, 1.0, 1.0]
    """
    function = program.to_jax(fetches, room=room)
    exported = _exported(function, sizes or {}, scope, platforms)
    text = os.fspath(path).endswith(MLIR)
    data = str(exported.mlir_module()).encode() if text else bytes(exported.serialize())
    serde.write_atomically(path, data)


def _exported(
    function: PureFunction,
    sizes: Mapping[str, int],
    scope: Scope | None,
    platforms: Sequence[str],
) -> Any:
    """The function, exported; its symbolic sizes are those of its feeds."""
    types = {name: info.type for name, info in {**function.states, **function.feeds}.items()}
    arrays = {name: t for name, t in types.items() if isinstance(t, TensorType)}
    _check_sizes(sizes, arrays.values())
    fixed = {
        name: t.map_sizes(lambda size: substitute(size, sizes)) for name, t in arrays.items()
    }
    translation = Translation(fixed.values())
    symbolic = sorted(dimensions(tuple(t.shape for t in fixed.values())))
    numbers = SymbolicSizes(sizes, translation.size, lambda size: translation.shape([size])[0])
    structs = {name: translation.struct(t) for name, t in fixed.items()}
    kept = _kept(function, scope)

    def called(values: Mapping[str, Any], feeds: Mapping[str, Any]) -> Any:
        results, after, status = function.computed({**kept, **values, **feeds}, numbers)
        return results, {} if scope is not None else after, status

    values = {name: structs[name] for name in function.states if scope is None}
    feeds = {name: structs[name] for name in function.feeds}
    try:
        with own_settings():
            return _jax.export.export(_jax.jit(called), platforms=platforms)(values, feeds)
    except Exception as error:
        if isinstance(error, BracesError) and not symbolic:
            raise
        raise _refused(error, symbolic) from None


def _kept(function: PureFunction, scope: Scope | None) -> dict[str, Any]:
    """The values of a scope that become part of the file."""
    if scope is None:
        return {}
    found = {name: scope.find_var(name) for name in function.states}
    for name, variable in found.items():
        if variable is None:
            raise UnknownNameError(
                f"The scope has no `{name}`.", fix=suggest(name, scope.names())
            )
    return {name: np.asarray(variable.value) for name, variable in found.items() if variable}


def _check_sizes(sizes: Mapping[str, int], types: Iterable[TensorType]) -> None:
    known = dimensions(tuple(type_.shape for type_ in types))
    for name in sizes:
        if name not in known:
            raise UnknownNameError(
                f"The program has no size `{name}`.", fix=suggest(name, known)
            )


def _refused(error: Exception, symbolic: Sequence[str]) -> ProgramError:
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    names = ", ".join(f"{name!r}: 8" for name in symbolic)
    return ProgramError(
        f"The program cannot be written as StableHLO: {said:.200}",
        fix=f"An operator must know a size; give numbers: sizes={{{names}}}."
        if symbolic
        else "Run it with an executor.",
    )
