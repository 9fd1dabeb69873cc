"""Model files: programs and their parameters in one safetensors file.

    file   := safetensors (see `tensor_file`): every variable by its name, and per program the
              bytes of its `ProgramDesc`, as u8, under "__braces__/" and the program's name
    record := {"format": "braces.model", "version": 1, "programs": {name: program, …},
               "metadata": {key: value, …}}
    program := {"feeds": [data variable, …], "fetches": {name: variable, …}, "dict": bool}

`dict` means that a run returns a dict even for one fetch; the default is false. `metadata` is
absent if it is empty; see `ir/metadata.py`.

`predict` is the inference program: pruned to its fetches, without updates except that of the
random state. For a trainable model, `train` is the whole program, which fetches its own
results, such as the loss of `minimize`. Its startup program is inside its bytes, and is
`startup` once loaded. Neither running nor training a model needs the code that built it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from braces.builder.program_argument import check_program
from braces.builder.var import Var
from braces.dtypes import TensorType
from braces.errors import (
    FeedError,
    FileFormatError,
    ProgramError,
    UnknownNameError,
    VerifyError,
    suggest,
)
from braces.ir.limits import readable_name
from braces.ir.metadata import check_metadata, read_metadata
from braces.ir.names import check_name
from braces.ir.records import DATA, VarInfo
from braces.keywords import hint_keywords
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.passes.cleanup.prune import prune
from braces.passes.training.inference_mode import without_unfed_counts
from braces.program import Program
from braces.runtime.executor import Executor
from braces.runtime.inputs.fetches import read_fetch
from braces.runtime.inputs.persistables import check_states, read_states
from braces.runtime.plan.plan import Plan
from braces.scope import Scope
from braces.storage.model import PREDICT, STARTUP, TRAIN, Model, NamedProgram
from braces.storage.parameters import check_scope, check_variable_name, put_arrays
from braces.storage.tensor_file import (
    RESERVED,
    Array,
    TensorFile,
    is_list,
    is_object,
    open_tensors,
    write_tensors,
)

FORMAT = "braces.model"

Path: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "tuple[Program, Sequence[Any], Any]"


# ---- saving ----------------------------------------------------------------------------------


@hint_keywords
def save_model(
    path: Path,
    program: Program,
    scope: Scope,
    feeds: Sequence[Any],
    fetches: Any,
    *,
    programs: Mapping[str, Given] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a model to one file atomically.

    The file holds `predict`, the inference form of the program with the given fetches, and its
    parameters. It includes a metric if the feeds suffice. If the program has more updates, the
    file also holds the whole program as `train`, its startup program, and all its persistable
    variables: training can continue from the file. `train` returns the losses that were given
    to `minimize`; without any, as with hand-written updates, it returns the fetches of
    `predict`.

    Args:
        path: The file; an existing one is replaced.
        program: The program, with or without updates.
        scope: The scope of persistable variables.
        feeds: The feeds of `predict`: variables or their names.
        fetches: The fetches of `predict`: variables, names or paths of inner values, or a dict
            that names them; with a dict, a run returns a dict, also for one entry.
        programs: More programs by name, each with its feeds and fetches. A metric that needs
            other data than its feeds is left out. An entry `train` sets the feeds and fetches
            of training, as `{"train": (program, ["x", "y"], [loss])}`.
        metadata: JSON data by key that readers find in `Model.metadata`, at most 8 MiB: names
            of classes, a vocabulary, a licence. It has no effect on runs. The page of
            `br.serve` reads `classes`, `vocabulary`, `ranges`, `description` and `license`.

    Raises:
        UnknownNameError: If a feed or fetch does not exist.
        FeedError: If the fetches require data that is not among the feeds.
        UninitializedError: If a persistable variable has no value.
        ProgramError: If there are no fetches, a name cannot be stored, or the metadata is not
            JSON data.
        OSError: If the folder is missing, full, or not writable.

    Example:
        >>> import tempfile
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 2])
        ...     y = br.matmul(x, br.parameter("w", [2, 1], init=[[2.0], [3.0]]))
        >>> scope = br.Scope()
        >>> _ = br.Executor().init(prog, scope)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(folder + "/m.safetensors", prog, scope, feeds=["x"], fetches=[y])
        ...     model = load_model(folder + "/m.safetensors")
        >>> model.run(x=[[1.0, 10.0]])
        array([[32.]], dtype=float32)
    """
    call = "save_model(path, program, scope, feeds, fetches)"
    check_program(call, program)
    check_scope(call, scope)
    notes = check_metadata(metadata)
    entries = {PREDICT: _inference_entry(program, feeds, fetches)}
    if program.updates.keys() - entries[PREDICT].program.updates.keys():
        entries[TRAIN] = _training_entry(program, entries[PREDICT])
    for name, (other, its_feeds, its_fetches) in (programs or {}).items():
        _check_program_name(name)
        entries[name] = _checked_entry(other, its_feeds, its_fetches)
    arrays = _state_values(entries.values(), scope)
    for name, entry in entries.items():
        arrays[_program_key(name)] = np.frombuffer(entry.program.to_bytes(), np.uint8)
    signatures = {name: entry.signature() for name, entry in entries.items()}
    record = {"metadata": notes} if notes else {}
    write_tensors(path, arrays, FORMAT, programs=signatures, **record)


def _inference_entry(program: Program, feeds: Sequence[Any], fetches: Any) -> NamedProgram:
    """Return the inference form; unused feeds stay declared, so that they may be fed."""
    entry = _checked_entry(program.for_test(), feeds, fetches)
    small = prune(entry.program, list(entry.fetches.values())).definition
    fed = {name: program.infos[name] for name in entry.feeds}
    main = small.main.with_(vars={**fed, **small.main.vars})
    return replace(entry, program=Program(small.with_(main=main)))


def _training_entry(program: Program, predict: NamedProgram) -> NamedProgram:
    """Return the program with its own results as fetches, or else those of `predict`."""
    own = {name: name for name in program.results}
    needed = Plan.of(program.definition, (own or predict.fetches).values()).feeds
    return NamedProgram(
        program, tuple(needed), own or predict.fetches, predict.as_dict and not own
    )


def _checked_entry(program: Program, feeds: Sequence[Any], fetches: Any) -> NamedProgram:
    """Return a program with feeds and fetches that were checked against it."""
    named = _fetch_names(fetches)
    feeds = [feeds] if isinstance(feeds, str | Var | VarInfo) else feeds
    fed = tuple(feed_.name if isinstance(feed_, Var | VarInfo) else feed_ for feed_ in feeds)
    whole = without_unfed_counts(program.definition, fed)
    plan = Plan.of(whole, named.values())
    named = dict(zip(named, plan.wanted, strict=True))  # inner values become those of block 0
    _check_feeds(fed, plan)
    has_new_vars = (
        not plan.definition.main.vars.keys() <= program.infos.keys()
    )  # as with closed blocks
    if has_new_vars or whole is not program.definition:
        program, startup = program.like(plan.definition), program.startup
        program.startup = startup
    return NamedProgram(program, fed, named, isinstance(fetches, Mapping))


def _fetch_names(fetches: Any) -> dict[str, str]:
    named: Mapping[Any, Any] | None = fetches if isinstance(fetches, Mapping) else None
    variables, _ = read_fetch(list(named.values()) if named else fetches)
    if not variables:
        raise ProgramError("the model has no outputs.", fix="Pass variables as `fetches`.")
    names = map(check_name, named or variables)
    return dict(zip(names, variables, strict=True))


def _check_feeds(feeds: Sequence[str], plan: Plan) -> None:
    for name in feeds:
        if name not in plan.data:
            raise UnknownNameError(
                f"unknown data `{name}` among the feeds.", fix=suggest(name, plan.data)
            )
    missing = [
        f"`{name}`: {info.type}" for name, info in plan.feeds.items() if name not in feeds
    ]
    if missing:
        raise FeedError(
            f"the fetches need data that is not among the feeds: {', '.join(missing)}.",
            given=f"feeds: {', '.join(feeds) or 'none'}   fetches: {', '.join(plan.fetches)}",
            fix="Add it to `feeds`, or use other fetches.",
        )


def _check_program_name(name: str) -> None:
    if name == STARTUP:
        raise ProgramError(
            f"reserved program name `{name}`.",
            fix="Use another name: the startup program of `train` has this one.",
        )
    check_name(name)


def _program_key(name: str) -> str:
    return f"{RESERVED}/{name}"


def _state_values(entries: Iterable[NamedProgram], scope: Scope) -> dict[str, Array]:
    """Return the values of all persistable variables of programs."""
    arrays: dict[str, Array] = {}
    for entry in entries:
        infos = {
            check_variable_name(info.name): info for info in entry.program.persistable_infos
        }
        values = read_states(infos, scope)
        check_states(infos, values, Sizes())
        arrays.update({name: np.asarray(value) for name, value in values.items()})
    return arrays


# ---- loading ---------------------------------------------------------------------------------


@hint_keywords
def load_model(
    path: Path, *, mode: str = "compile", device: str | None = None, frozen: bool = True
) -> Model:
    """Read a model that `save_model` wrote.

    Loading runs nothing, and needs none of the code that built the model: a file from an
    untrusted source is safe to load.

    Args:
        path: The file.
        mode: The mode of the model's executor: `"compile"` or `"interpret"`.
        device: The device: `"cpu:0"`, `"gpu:0"`, …
        frozen: Whether parameters are constants of compiled code, as in `Executor`: faster code
            that compiles again if a parameter changes.

    Raises:
        FileFormatError: If the file is damaged, truncated, of a newer format, or not a model.
        VerifyError: If a stored program is not well formed.
        OSError: If the file does not exist, or it cannot be read.

    Example:
        >>> import braces as br, tempfile
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["n"]) + 1.0
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.save_model(folder + "/m.model", prog, br.Scope(), ["x"], {"y": y})
        ...     model = br.load_model(folder + "/m.model")
        >>> model.run(x=[1.0, 2.0])
        {'y': array([2., 3.], dtype=float32)}
    """
    executor, scope = Executor(mode, device, frozen=frozen), Scope()
    with open_tensors(path) as file:
        entries = _read_programs(file)
        notes = read_metadata(file.record.get("metadata", {}))
        put_arrays(scope, {name: file.read(name) for name in file.variables})
    return Model(entries, scope, executor, notes)


def read_programs(path: Path) -> dict[str, NamedProgram]:
    """Read the programs of a model by name, without its parameters.

    Raises:
        FileFormatError: If the file is damaged, truncated, of a newer format, or not a model.
        VerifyError: If a stored program is not well formed.
        OSError: If the file does not exist, or it cannot be read.
    """
    with open_tensors(path) as file:
        read_metadata(file.record.get("metadata", {}))
        return _read_programs(file)


def _read_programs(file: TensorFile) -> dict[str, NamedProgram]:
    file.expect(
        FORMAT, "Save models with br.save_model; load parameters with br.load_parameters."
    )
    signatures = file.record.get("programs")
    if not is_object(signatures):
        raise FileFormatError("missing list of programs in the model.")
    entries = {
        readable_name(name): _read_program(file, name, signature)
        for name, signature in signatures.items()
    }
    for name, entry in entries.items():
        _check_variables(name, entry.program, file.variables)
    return entries


def _read_program(file: TensorFile, name: str, signature: Any) -> NamedProgram:
    stored = file.types.get(_program_key(name))
    if stored is None or stored.dtype != np.uint8:
        raise FileFormatError(f"missing program `{name}`, which the model lists.")
    try:
        program = Program.from_bytes(file.read(_program_key(name)).tobytes())
    except (FileFormatError, VerifyError) as error:
        raise error.located(f"program `{name}` of {file.path}") from None
    signature_dict = signature if is_object(signature) else {}
    feeds, fetches, as_dict = (
        signature_dict.get("feeds"),
        signature_dict.get("fetches"),
        signature_dict.get("dict", False),
    )
    if not is_list(feeds) or not is_object(fetches) or not isinstance(as_dict, bool):
        raise FileFormatError(f"missing or invalid feeds and fetches of the program `{name}`.")
    data = {data_name for data_name, info in program.infos.items() if info.kind == DATA}
    _check_known(feeds, data, f"feed of `{name}`")
    for data_name in fetches:
        readable_name(data_name)
    _check_known(fetches.values(), program.infos, f"fetch of `{name}`")
    named = {readable_name(key): variable for key, variable in fetches.items()}
    return NamedProgram(program, tuple(feeds), named, as_dict)


def _check_known(names: Iterable[Any], declared: Iterable[str], what: str) -> None:
    for name in names:
        if not isinstance(name, str) or name not in declared:
            raise FileFormatError(f"unknown {what}: {name!r:.80}.")


def _check_variables(name: str, program: Program, stored: Mapping[str, TensorType]) -> None:
    """Check that the file has every persistable variable of a program, in the declared type."""
    missing = [info for info in program.persistable_infos if info.name not in stored]
    if missing:
        raise FileFormatError(
            f"missing {len(missing)} variables of the program `{name}` in the model.",
            given=", ".join(f"{info.name}: {info.type}" for info in missing[:8]),
        )
    sizes = Sizes()
    for info in program.persistable_infos:
        if not _fits(info, stored[info.name], sizes):
            raise FileFormatError(
                f"type mismatch of `{info.name}` between the program `{name}` and the file.",
                given=f"declared {info.type}, in the file {stored[info.name]}",
            )


def _fits(info: VarInfo, stored_type: TensorType, sizes: Sizes) -> bool:
    shape: Any = stored_type.shape
    return (
        isinstance(info.type, TensorType)
        and info.type.dtype == stored_type.dtype
        and bind_sizes(info.type, shape, sizes) is None
    )
