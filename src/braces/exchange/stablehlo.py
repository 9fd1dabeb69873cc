"""Export programs to StableHLO, which other systems run without Braces or Python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.errors import BracesError, ProgramError, UnknownNameError, suggest
from braces.extend.building import ProgramHolder, program_of, with_user_line
from braces.extend.operators import PureFunction, braces_jax_settings
from braces.extend.programs import Program, Scope, check_metadata, serde
from braces.extend.types import (
    JaxTypeConverter,
    SymbolicSizes,
    TensorType,
    dimensions,
    substitute,
)
from braces.lazy import jax

_jax: Any = jax
MLIR = ".mlir"


@with_user_line
def to_stablehlo(
    program: Program | ProgramHolder,
    path: str | os.PathLike[str],
    *,
    fetches: Sequence[Any] = (),
    scope: Scope | None = None,
    sizes: Mapping[str, int] | None = None,
    platforms: Sequence[str] = ("cpu",),
    room: int = 0,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a program as StableHLO.

    The exported function is called as `results, after, status = call(values, feeds)`, with
    dicts by name. Its inputs are the values of persistable variables and the feeds. Its outputs
    are the fetches in order, the next values of updated variables by name, and a status: for
    each operator that may fail 0, or its failure code. If a scope is given, `values` is an
    empty dict: the values of the scope are part of the file, nothing is updated, and the
    program has its inference form, as of `Program.for_test`.

    A file called `.mlir` holds the module as text. Its arguments and results are flat, dicts in
    the order of their sorted keys. Any other file is the output of `jax.export`:
    `jax.export.deserialize(bytes).call(values, feeds)` runs it. Symbolic sizes of the program
    stay symbolic, so one file serves all batch sizes from 1 on; a size of 0 is refused. A
    row-wise branch then computes its cases for all batch elements and selects the results. An
    operator that needs a number at compile time is refused unless `sizes` gives it: windows
    that slide over padding along a symbolic axis, regions of pictures, and windows that begin
    at a size and count from the end.

    Args:
        program: The program; or a model of `br.load_model`, with its scope, fetches and
            metadata.
        path: The file.
        fetches: Variables or their names; by default the fetches of the program.
        scope: The scope with the values of persistable variables, if these go into the file.
        sizes: Numbers for symbolic sizes, as `{"batch": 1}`.
        platforms: The target platforms: `"cpu"`, `"cuda"`, `"tpu"`.
        room: The capacity of lists, in iterations; see `Program.to_jax`.
        metadata: JSON data by key, as of `br.save_model`. A file called `.mlir` begins with it,
            as a comment `// metadata: {…}` in one line; the output of `jax.export` has no
            place for it.

    Raises:
        ProgramError: If a symbolic size must be a number, the program cannot be converted to a
            JAX function, or the metadata is not JSON data.
        UnknownNameError: If a variable or size does not exist.

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
    if isinstance(program, ProgramHolder):
        scope = program.scope if scope is None else scope
        fetches = fetches or list(program.fetched().values())
        metadata = program.metadata if metadata is None else metadata
    notes = check_metadata(metadata)
    whole = program_of(program)
    exported_program = whole if scope is None else whole.for_test()
    function = exported_program.to_jax(fetches, room=room)
    exported = _export(function, sizes or {}, scope, platforms)
    is_text = os.fspath(path).endswith(MLIR)
    data = _module_text(exported, notes) if is_text else bytes(exported.serialize())
    serde.write_atomically(path, data)


def _module_text(exported: Any, metadata: Mapping[str, Any]) -> bytes:
    """Return the module as text; JSON in ASCII cannot end the line of the comment."""
    comment = f"// metadata: {json.dumps(metadata)}\n" if metadata else ""
    return f"{comment}{exported.mlir_module()}".encode()


def _export(
    function: PureFunction,
    sizes: Mapping[str, int],
    scope: Scope | None,
    platforms: Sequence[str],
) -> Any:
    """Export the function; its symbolic sizes are those of its feeds."""
    types = {name: info.type for name, info in {**function.states, **function.feeds}.items()}
    arrays = {name: t for name, t in types.items() if isinstance(t, TensorType)}
    _check_sizes(sizes, arrays.values())
    fixed = {
        name: t.map_sizes(lambda size: substitute(size, sizes)) for name, t in arrays.items()
    }
    translation = JaxTypeConverter(fixed.values())
    symbolic = sorted(dimensions(tuple(t.shape for t in fixed.values())))
    numbers = SymbolicSizes(sizes, translation.size, lambda size: translation.shape([size])[0])
    structs = {name: translation.struct(t) for name, t in fixed.items()}
    constants = _scope_values(function, scope)

    def exported_function(values: Mapping[str, Any], feeds: Mapping[str, Any]) -> Any:
        results, after, status = function.run_flat({**constants, **values, **feeds}, numbers)
        return results, {} if scope is not None else after, status

    values = {name: structs[name] for name in function.states if scope is None}
    feeds = {name: structs[name] for name in function.feeds}
    try:
        with braces_jax_settings():
            return _jax.export.export(_jax.jit(exported_function), platforms=platforms)(
                values, feeds
            )
    except Exception as error:
        if isinstance(error, BracesError) and not symbolic:
            raise
        raise _export_error(error, symbolic) from None


def _scope_values(function: PureFunction, scope: Scope | None) -> dict[str, Any]:
    """Return the values of a scope that become part of the file."""
    if scope is None:
        return {}
    variables = {name: scope.find_var(name) for name in function.states}
    for name, variable in variables.items():
        if variable is None:
            raise UnknownNameError(
                f"unknown variable `{name}` in the scope.", fix=suggest(name, scope.names())
            )
    return {
        name: np.asarray(variable.value) for name, variable in variables.items() if variable
    }


def _check_sizes(sizes: Mapping[str, int], types: Iterable[TensorType]) -> None:
    size_names = dimensions(tuple(type_.shape for type_ in types))
    for name in sizes:
        if name not in size_names:
            raise UnknownNameError(f"unknown size `{name}`.", fix=suggest(name, size_names))


def _export_error(error: Exception, symbolic: Sequence[str]) -> ProgramError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    names = ", ".join(f"{name!r}: 8" for name in symbolic)
    return ProgramError(
        f"cannot export the program to StableHLO: {reason:.200}",
        fix=f"Pass static sizes: sizes={{{names}}}."
        if symbolic
        else "Run it with an executor.",
    )
