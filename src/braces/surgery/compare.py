"""`br.compare_values`: the first operator whose value differs between two runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias, cast

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_call, checked_name
from braces.builder.program_argument import ProgramHolder, program_of
from braces.builder.user_functions import calling
from braces.errors import FeedError, ProgramError
from braces.ir.records import DATA
from braces.runtime.executor import Executor
from braces.runtime.inputs.fetches import read_fetch
from braces.scope import Scope
from braces.surgery.comparison.trace_comparison import compare_traces
from braces.surgery.comparison.value_comparison import ValueComparison
from braces.surgery.comparison.value_trace import Trace, trace_program

ForeignTracer: TypeAlias = Callable[[Any, Any, Mapping[str, Any], Any], Trace | None]
FOREIGN_TRACERS: list[ForeignTracer] = []
"""Each returns the trace of a model of its system, or `None` for other values."""


@checked_call
def compare_values(
    a: Builder | ProgramHolder,
    b: Any,
    scopes: Any = None,
    feed: Any = None,
    *,
    fetch: Any = None,
    args: Sequence[Any] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    seed: int | None = None,
) -> ValueComparison:
    """Find the first operator whose value differs between two runs with the same feeds.

    Both run once, operator by operator; scopes do not change. Values are compared by content,
    in loops for each iteration and in row-wise branches for the rows of each case. So `b` may
    be the result of a rewrite or a pass, or the model that `a` was imported from:

    - a path of an ONNX file or an `onnx.ModelProto`, run by ONNX Runtime with all values of its
      graph, and of the bodies of `Loop`, `Scan` and `If`, as outputs. In the loop of an
      imported LSTM, values are compared with those of a fresh import;
    - a PyTorch module or an `ExportedProgram`, run in PyTorch with a record of each operator;
      its parameters, buffers and random state do not change;
    - a JAX function, of which each equation is evaluated.

    Loops with `lengths` compute ended batch elements too; these numbers are not compared.

    Args:
        a: A program, or a model of `br.load_model`.
        b: The program, model, ONNX model, PyTorch module or JAX function to compare with it.
        scopes: The scope of both, or a pair of scopes; by default that of a loaded model, or
            `exe.init` of each. A mapping
            of values, as an importer returns it, is a scope if `feed` is given too.
        feed: The feed of both runs, or a pair of feeds. Programs ignore data that they lack.
            ONNX inputs of other names are fed in the order of `a.feeds`.
        fetch: The results to compare; by default those of each program. Results of one name
            are compared, and then the remaining ones by position.
        args: The arguments of a JAX function or PyTorch module; by default the feeds, by the
            names of a module's arguments or in the order of `a.feeds`.
        rtol: The relative tolerance of floats.
        atol: The absolute tolerance of floats.
        seed: The seed of random draws, as for `exe.run`.

    Returns:
        A value that is falsy if the results agree, with the operators of `a` and of `b` at
        which the runs part, the results that differ, and the inputs without an equal value.
        It prints.

    Raises:
        ProgramError: If `b` is of another kind, or the runs have no results in common.
        FeedError: If a feed is missing or unknown, or of a different type.
        UninitializedError: If a variable has no value.
        OSError: If the ONNX file is missing or not readable.

    Example:
        >>> import braces as br
        >>> text = '''program { data x: f32[3]  a: f32[3] = sin(x=x)  b: f32[3] = exp(x=a)
        ...   y: f32[3] = tanh(x=b)  return y }'''
        >>> a, b = br.parse(text), br.parse(text.replace("exp", "cosh"))
        >>> difference = br.compare_values(a, b, feed={"x": [0.1, 0.2, 0.3]})
        >>> difference.first.path, difference.first.type, difference.other.type
        ('b', 'exp', 'cosh')
        >>> bool(br.compare_values(a, a, feed={"x": [0.1, 0.2, 0.3]}))
        False
    """
    _check_tolerances(rtol, atol)
    if feed is None and isinstance(scopes, Mapping):
        scopes, feed = None, cast("Any", scopes)
    own_scopes = [
        _scope_of(*each) for each in zip((a, b), _pair("scopes", scopes), strict=True)
    ]
    program, b = program_of(a), program_of(b) if isinstance(b, ProgramHolder) else b
    feeds = _feeds(program, b, feed)
    left = _trace(program, own_scopes[0], feeds[0], fetch, seed)
    if isinstance(b, Builder):
        right = _trace(b, own_scopes[1], feeds[1], fetch, seed)
    else:
        right = _foreign_trace(b, program, feeds[1], args)
    if right is None:
        raise ProgramError(
            f"expected a program, an ONNX model, a PyTorch module or a JAX function for `b`, "
            f"got {b!r:.80}.",
            fix="Import the model, and compare the two programs.",
        )
    return compare_traces(left, right, rtol, atol)


def _check_tolerances(rtol: float, atol: float) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise ProgramError(f"expected a tolerance `{name}` of at least 0, got {value}.")


def _scope_of(program: Any, scope: Any) -> Any:
    """Return the given scope, or that of a model."""
    return program.scope if scope is None and isinstance(program, ProgramHolder) else scope


def _pair(name: str, values: Any) -> tuple[Any, Any]:
    """Return an argument for each run, from one for both or a pair.

    Raises:
        ProgramError: If a tuple does not have two elements.
    """
    if not isinstance(values, tuple):
        return values, values
    pair = cast("tuple[Any, ...]", values)
    if len(pair) != 2:
        raise ProgramError(f"expected a pair for `{name}`, got a tuple of {len(pair)}.")
    return pair[0], pair[1]


def _feeds(a: Builder, b: Any, feed: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the feed of each run by name.

    Raises:
        ProgramError: If a feed is not a mapping.
        FeedError: If neither of two programs has data of a fed name.
    """
    feeds = list[dict[str, Any]]()
    for values in _pair("feed", {} if feed is None else feed):
        if not isinstance(values, Mapping):
            raise ProgramError(f"expected a mapping for `feed`, got {values!r:.80}.")
        fed = cast("Mapping[Any, Any]", values)
        feeds.append({checked_name(key, "`feed`"): value for key, value in fed.items()})
    if isinstance(b, Builder):
        known = {*a.infos, *b.infos}
        unknown = [name for name in {**feeds[0], **feeds[1]} if name not in known]
        if unknown:
            raise FeedError(
                f"unknown feeds: {', '.join(unknown)}: neither program has such data.",
                given=f"data of a: {_data(a)}; data of b: {_data(b)}",
            )
    return feeds[0], feeds[1]


def _data(program: Builder) -> str:
    names = (info.name for info in program.infos.values() if info.kind == DATA)
    return ", ".join(names) or "none"


def _trace(
    program: Builder, scope: Any, feed: Mapping[str, Any], fetch: Any, seed: Any
) -> Trace:
    fetches, _ = read_fetch(fetch, program)
    if not fetches and not program.updates:
        raise ProgramError("the program has no results to compare.", fix="Pass fetch=[y].")
    scope = _with_values(program, scope)
    infos = program.infos
    own_feed = {name: value for name, value in feed.items() if name in infos}
    return trace_program(program, scope, own_feed, fetches, seed)


def _foreign_trace(b: Any, a: Builder, feed: Mapping[str, Any], args: Any) -> Trace | None:
    """Return the trace of a model of another system; `None` if no system knows it."""
    with calling(b, "the run of `b`") if callable(b) else nullcontext():
        traces = (tracer(b, a, feed, args) for tracer in FOREIGN_TRACERS)
        return next((trace for trace in traces if trace is not None), None)


def _with_values(program: Builder, scope: Any) -> Scope:
    """Return the scope of a run: initial values by default, or those of a mapping."""
    if scope is None:
        return Executor(mode="interpret").init(program)
    if isinstance(scope, Mapping):
        values, scope = cast("Mapping[str, Any]", scope), Scope()
        scope.update(values)
    if not isinstance(scope, Scope):
        raise ProgramError(f"expected a scope or a mapping of values, got {scope!r:.80}.")
    return scope
