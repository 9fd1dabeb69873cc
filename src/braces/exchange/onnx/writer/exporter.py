"""A program as a model of ONNX."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from braces.builder.source_line import says_where
from braces.builder.var import Var
from braces.dims import Size, substitute
from braces.dtypes import TensorType
from braces.errors import ProgramError, UninitializedError, UnknownNameError, suggest
from braces.exchange.common.model.weights import UPDATES
from braces.exchange.onnx.writer.constructs.functions import complete, imports
from braces.exchange.onnx.writer.graph.files import PRODUCER, write_model
from braces.exchange.onnx.writer.graph.graph import IR_VERSION, Graph, Model, declared, rename
from braces.exchange.onnx.writer.writer import Writer
from braces.ir.records import DATA, ProgramDef
from braces.ir.walk import resolve_body
from braces.lazy import onnx
from braces.passes.training.inference_mode import without_other_counts
from braces.program import Program
from braces.runtime.inputs.fetches import read_fetch
from braces.runtime.plan.plan import Plan
from braces.scope import Scope


@says_where
def to_onnx(
    program: Program,
    path: str | PathLike[str],
    *,
    scope: Scope | None = None,
    fetches: Sequence[Var | str] | Var | str | None = None,
    updates: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Write a program as a model of ONNX, which runs without Braces.

    Inputs are the data that the fetches need, outputs are the fetches, and persistable
    variables are initializers, all under their own names. Loops become `Loop` or `Scan`, what a
    gradient keeps of a loop becomes a sequence, branches become `If`, rows of a row-wise branch
    are gathered and scattered, symbolic sizes are computed from the shapes of inputs. What
    ONNX has no operator for is written by what its kernel is made of. Checks of values, as of
    indices out of range and of `max_trips`, are left out.

    Args:
        program: The program, which stays as it is.
        path: The file, which is replaced. Weights beyond 1 GiB go into a data file beside it,
            `path` with a digest of them and `.data` behind it. The data file of the model that
            is replaced is removed last.
        scope: Where persistable variables have their values.
        fetches: Variables or names; what the program gives where they are left out.
        updates: Whether the model also gives the next values of persistable variables, as
            outputs `NAME.next`. These variables are inputs then, with their values of now
            where they are not fed: the model is a whole training step.
        sizes: Numbers for symbolic sizes, as `{"batch": 1}`.

    Raises:
        ProgramError: ONNX does not have what the program needs; the message lists all of that.
        UnknownNameError: A fetch or a size does not exist.
        UninitializedError: A persistable variable has no value.
        OSError: The folder is missing, full, or must not be written to.

    Example:
        >>> import tempfile, braces as br, onnxruntime
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 2])
        ...     y = br.matmul(x, br.parameter("w", [2, 1], init=[[2.0], [3.0]]))
        >>> scope = br.Scope()
        >>> _ = br.Executor().init(prog, scope)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.to_onnx(prog, folder + "/m.onnx", scope=scope, fetches=[y])
        ...     model = onnxruntime.InferenceSession(folder + "/m.onnx")
        >>> model.run([y.name], {"x": [[1.0, 10.0]]})
        [array([[32.]], dtype=float32)]
    """
    plan, spare = _planned(program, fetches, updates, sizes or {})
    write_model(path, *_model(plan, spare, scope))


def _planned(
    program: Program, fetches: Any, updates: bool, sizes: Mapping[str, int]
) -> tuple[Plan, dict[str, TensorType]]:
    """What is to be computed, and the data that it does not need."""
    names, _ = read_fetch(program.fetches if fetches is None else fetches)
    whole = program.definition
    definition = without_other_counts(whole, names) if updates else whole.with_(updates={})
    if not names and not definition.updates:
        raise ProgramError(
            "A model has something that it gives.", fix="Name variables in `fetches`."
        )
    _check_sizes(definition, sizes)
    main = resolve_body(definition.main, lambda size: _fixed(size, sizes))
    plan = Plan.of(definition.with_(main=main), names, passes=())
    rest = {n: v.type for n, v in main.vars.items() if v.kind == DATA and n not in plan.feeds}
    return plan, {n: t for n, t in rest.items() if isinstance(t, TensorType)}


def _fixed(size: Size, sizes: Mapping[str, int]) -> Size:
    return substitute(size, sizes)


def _check_sizes(definition: ProgramDef, sizes: Mapping[str, int]) -> None:
    types = (info.type for info in definition.main.vars.values())
    shapes = [getattr(type_, "shape", ()) for type_ in types]
    known = {n for shape in shapes for size in shape for n in _names(size)}
    for name in sizes:
        if name not in known:
            raise UnknownNameError(
                f"The program has no size `{name}`.", fix=suggest(name, known)
            )


def _names(size: Size) -> set[str]:
    return set() if isinstance(size, int) else size.names()


def _model(
    plan: Plan, spare: dict[str, TensorType], scope: Scope | None
) -> tuple[Any, list[tuple[str, Any]]]:
    """The model without weights, and these."""
    body, moved = plan.interpreted, plan.updates
    states = {name: body.vars[name] for name in (*plan.states, *moved)}
    kept = frozenset((*body.vars, *spare))
    whole = Model(kept, spare=dict(spare), used=set(kept))
    g, writer = Graph(whole), Writer()
    whole.main = g
    for name, info in (plan.feeds | states).items():
        g.bind(name, name, info.type)
    writer.body(g, body.with_(params=()), ())
    outputs = [*_outputs(g, body.results), *_nexts(g, moved)]
    writer.problems.refuse()
    rename(g.nodes, whole.called)
    functions = [one.proto for one in whole.functions.values()]
    complete(g.nodes, functions)
    told = [name for name in spare if name not in whole.spare]
    given = [*plan.feeds, *told, *moved]
    made = onnx.helper.make_graph(
        [*g.model.constants, *g.nodes],
        "program",
        [declared(name, g.type(name)) for name in given],
        [declared(called, g.type(name)) for called, name in outputs],
    )
    model = onnx.helper.make_model(
        made,
        producer_name=PRODUCER,
        ir_version=IR_VERSION,
        functions=functions,
        opset_imports=imports([*g.nodes]),
    )
    if moved:
        nexts = {
            name: called
            for (called, _), name in zip(outputs[-len(moved) :], moved, strict=True)
        }
        onnx.helper.set_model_props(model, {UPDATES: json.dumps(nexts)})
    read = {*_read(g.nodes), *(entry.name for entry in made.output), *moved}
    return model, list(_values([name for name in states if name in read], scope))


def _outputs(g: Graph, fetches: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What outputs are called, each with its variable; one that is fetched again is copied."""
    for at, name in enumerate(fetches):
        made = g.name(name)
        if name in fetches[:at]:
            yield _output(g, made, name), name
        elif g.model.called.get(made) == name:
            yield name, name
        elif made == name:  # an input, or a weight
            yield _output(g, made, f"{name}.value"), name
        else:
            yield _output(g, made, name, kept=True), name


def _nexts(g: Graph, updates: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in updates.items():
        yield _output(g, g.name(value), f"{name}.next"), name


def _output(g: Graph, made: str, wanted: str, kept: bool = False) -> str:
    """A value under another name."""
    found = g.op("Identity", made)
    g.model.called[found] = wanted if kept else g.model.fresh(wanted)
    return g.model.called[found]


def _read(nodes: Iterable[Any]) -> Iterator[str]:
    """All names that nodes read, and those inside of them."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)
            yield from (entry.name for entry in attribute.g.output)


def _values(
    states: Iterable[str], scope: Scope | None
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The values of persistable variables."""
    for name in states:
        variable = None if scope is None else scope.find_var(name)
        if variable is None or variable.value is None:
            raise UninitializedError(
                f"`{name}` has no value.",
                fix="Run exe.init(prog, scope), or load it, and give the scope: scope=....",
            )
        yield name, np.asarray(variable.value)
