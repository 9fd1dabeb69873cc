"""Wrong arguments of the surgery API: each call works, or raises an error of Braces.

The callables and their parameters are found by reflection, so new ones are tested, too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import braces as br

ROOMS = ("braces.surgery", "braces.passes.probing")
"""Rooms of the functions."""
METHODS = re.compile(r"braces\.program\.(?!program$|block$|variables$|reports$)")
"""Modules of the methods of programs that search, change and observe them."""
FEED = {"x": np.ones((3, 2, 4), "float32")}
ACT = "loop_0/body/act"


def build() -> br.Program:
    """A program with a loop, a plain block, parameters and a loss."""
    with br.Program() as prog:
        x = br.data("x", ["t", "n", 4])
        with br.block("layer"):
            z = br.fc(x, 4, name="cell")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[4], batch_like=z, batch_axis=1)
            h.update(br.tanh(net.add_input(z) + h.pre(1), name="act"))
        prog.give(br.mean(br.multiply(rnn.final(h), 2.0, name="twice"), name="loss").name)
    return prog


def other() -> br.Program:
    with br.Program() as prog:
        prog.give(br.sin(br.data("v", ["n", 4]), name="out").name)
    return prog


PROG, OTHER = build(), other()
WRONG: tuple[Any, ...] = (
    3, -1, 2.5, None, True, object(), b"x", [3], [None], (), {"a": 3}, {3: "a"}, {"x": None},
    "no/such/path", "", "*", lambda: 1, lambda a, b, c, d: 1, len, int, np.ones(3),
    np.array("x"),
    OTHER, OTHER.vars["out"], OTHER["out"], OTHER.find(), br.Scope(), float("nan"), 10**30,
)  # fmt: skip


def identity(x: Any) -> Any:
    return br.identity(x)


def tanh(x: Any) -> Any:
    return br.tanh(x)


EXE, SCOPE = br.Executor(mode="interpret"), br.Scope()
EXE.init(PROG, SCOPE)
VALID: dict[str, Mapping[str, Any]] = {
    "any_of": {"0": br.tanh, "1": br.sigmoid},
    "cast": {"at": "layer/cell.w", "dtype": "bfloat16", "exact": True},
    "compare_values": {
        "a": PROG, "b": PROG, "scopes": SCOPE, "feed": FEED, "fetch": ["loss"], "args": None,
        "rtol": 1e-4, "atol": 1e-5, "seed": 0,
    },
    "cut": {"program": PROG, "at": ["twice"], "fetch": ["loss"], "kind": "data"},
    "debug": {
        "scope": SCOPE, "feed": FEED, "fetch": ["loss"], "seed": 0,
        "breakpoints": ["loop_0/body/act if max > 10"], "commit": False, "memory_bytes": 10**6,
        "paused": True, "serve": False, "port": 0,
    },
    "diff": {"a": PROG, "b": PROG},
    "edit": {},
    "find": {
        "type": "tanh", "name": "act", "inside": "loop_0", "reads": "add_0", "writes": "act",
        "kind": "operators", "where": lambda h: h.path,
    },
    "freeze": {"at": "layer/cell.*"},
    "grad_of": {"loss": "loss", "path": ACT},
    "inline": {"at": "layer"},
    "insert_after": {"at": ACT, "function": identity, "retype": False, "exact": False},
    "insert_before": {
        "at": ACT, "function": identity, "operand": "x", "retype": False, "exact": False,
    },
    "patch": {"patches": {ACT: 0.0}},
    "br.patch": {"value": 0.0, "trips": 1},
    "pattern": {"function": tanh, "where": lambda match: match.path},
    "probe": {"path": ACT, "gradient": "loss"},
    "remove": {"at": ACT, "by": "x", "exact": False},
    "rename": {"names": {"x": "features"}},
    "replace": {"at": ACT, "function": identity, "retype": False, "exact": False},
    "replace_block": {
        "at": "layer/body", "function": lambda x: x * 2.0, "retype": False, "exact": False,
    },
    "retype": {"types": {"x": "f32[t,n,4]"}},
    "rewrite": {"before": tanh, "after": identity, "exact": False},
    "set_attrs": {"at": "loop_0", "recompute": True, "exact": True},
    "set_constant": {"at": "constant_0", "value": 1.0, "retype": False, "exact": False},
    "splice": {
        "other": OTHER, "inputs": {"v": "loop_0.final"}, "name": "spliced",
        "outputs": {"out": "loop_0.final"}, "at": "twice", "retype": False, "exact": False,
    },
    "unfreeze": {"at": "layer/cell.*"},
    "wrap": {"at": ACT, "name": "wrapped", "recompute": False},
}  # fmt: skip
"""Valid arguments, by function or method."""
USUAL: Mapping[str, Any] = {
    "at": ACT, "function": identity, "name": "new", "path": ACT, "program": PROG, "a": PROG,
    "b": PROG, "value": 1.0,
}  # fmt: skip
"""Arguments of functions and methods that `VALID` lacks, by parameter."""


def valid(name: str, function: Callable[..., Any]) -> Mapping[str, Any]:
    """Arguments of a function or method: valid ones, or the usual ones of its parameters."""
    known = inspect.signature(function).parameters.values()
    needed = (p.name for p in known if p.default is p.empty and p.kind is not p.VAR_POSITIONAL)
    return VALID[name] if name in VALID else {key: USUAL[key] for key in needed}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of surgery."""
    for name in dir(br):
        function = getattr(br, name)
        if inspect.isfunction(function) and function.__module__.startswith(ROOMS):
            yield f"br.{name}" if name == "patch" else name, function


def methods(cls: type) -> Iterator[str]:
    """The public methods of programs or transactions that edit, search and observe."""
    for base in cls.__mro__:
        if METHODS.match(base.__module__):
            names = (name for name, member in vars(base).items() if inspect.isfunction(member))
            yield from (name for name in names if not name.startswith("_"))


METHOD_NAMES = [*dict.fromkeys((*methods(br.Program), "rewrite"))]
EDITS = [*dict.fromkeys(methods(type(PROG.edit())))]


def parameters(name: str, function: Callable[..., Any]) -> list[str]:
    """The parameters of a function, and the attributes and alternatives that are tested."""
    known = inspect.signature(function).parameters.values()
    named = [p.name for p in known if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return [*dict.fromkeys((*named, *VALID.get(name, ())))]


CASES: list[tuple[str, str, str]] = [
    *(("function", name, at) for name, each in functions() for at in parameters(name, each)),
    *(
        (kind, name, at)
        for kind, names in (("method", METHOD_NAMES), ("edit", EDITS))
        for name in names
        for at in parameters(name, getattr(PROG, name))
    ),
]


def call(kind: str, name: str, arguments: Mapping[str, Any]) -> Any:
    """Call a function or a method with arguments by name, or by position for `*args`."""
    if kind == "edit":
        with PROG.edit() as transaction:
            getattr(transaction, name)(**arguments)
        return transaction.program
    function = dict(functions())[name] if kind == "function" else getattr(PROG, name)
    listed = [value for key, value in arguments.items() if key.isdigit()]
    return function(*listed, **{k: v for k, v in arguments.items() if not k.isdigit()})


def close(result: Any) -> None:
    if hasattr(result, "close"):
        result.close()


def test_the_callables_are_found() -> None:
    names = {name for name, _ in functions()} | {*METHOD_NAMES, *EDITS}
    assert names >= VALID.keys()


@pytest.mark.parametrize("kind", ["function", "method", "edit"])
def test_the_valid_arguments_are_valid(kind: str) -> None:
    for name in dict.fromkeys(name for each, name, _ in CASES if each == kind):
        if name in VALID:
            close(call(kind, name, VALID[name]))


def test_a_new_method_has_the_usual_arguments() -> None:
    def polish(at: str, function: Any, *, exact: bool = False) -> None: ...

    assert valid("polish", polish).keys() == {"at", "function"}


@pytest.mark.parametrize(("kind", "name", "parameter"), CASES)
def test_a_wrong_argument_works_or_is_refused(kind: str, name: str, parameter: str) -> None:
    function = dict(functions())[name] if kind == "function" else getattr(PROG, name)
    arguments = valid(name, function)
    check(lambda value: call(kind, name, {**arguments, parameter: value}))


def keyed(key: Any, value: Any) -> dict[Any, Any]:
    """A dict with this key; one of its text for keys that no dict can have."""
    return {key if isinstance(key, Hashable) else str(key): value}


def debug(use: Callable[[Any], Any]) -> Any:
    """A use of a finished session of the debugger."""
    with PROG.debug(SCOPE, FEED, serve=False, paused=False) as run:
        return use(run.finish())


RUNS: dict[str, Callable[[Any], Any]] = {
    "prog[path]": lambda value: PROG[value],
    "in": lambda value: value in PROG,
    "selection[index]": lambda value: PROG.find()[value],
    "|": lambda value: PROG.find() | value,
    "&": lambda value: PROG.find() & value,
    "-": lambda value: PROG.find() - value,
    "fetch": lambda value: EXE.run(PROG, SCOPE, FEED, fetch=value),
    "fetches": lambda value: EXE.run(PROG, SCOPE, FEED, fetch=[value]),
    "patch": lambda value: EXE.run(PROG, SCOPE, FEED, "loss", patch=value),
    "patched path": lambda value: EXE.run(PROG, SCOPE, FEED, "loss", patch=keyed(value, 0.0)),
    "patch of a path": lambda value: EXE.run(PROG, SCOPE, FEED, "loss", patch={ACT: value}),
    "value of prog.patch": lambda value: PROG.patch({ACT: value}),
    "patched iterations": lambda value: PROG.patch({ACT: br.patch(0.0, trips=value)}),
    "gradient of a loss": lambda value: EXE.run(PROG, SCOPE, FEED, br.grad_of(value, ACT)),
    "gradient by a path": lambda value: EXE.run(PROG, SCOPE, FEED, br.grad_of("loss", value)),
    "names of rename": lambda value: PROG.rename(keyed(value, "a")),
    "new names of rename": lambda value: PROG.rename({"x": value}),
    "types of retype": lambda value: PROG.retype({"x": value}),
    "names of retype": lambda value: PROG.retype(keyed(value, "f32[3]")),
    "attributes": lambda value: PROG.set_attrs("loss", axis=value),
    "inputs of splice": lambda value: PROG.splice(OTHER, {"v": value}, name="s"),
    "outputs of splice": lambda value: PROG.splice(
        OTHER, {"v": ACT}, name="s", outputs={"out": value}
    ),
    "results of a pattern": lambda value: PROG.rewrite(lambda x: value, identity),
    "results of a replacement": lambda value: PROG.rewrite(tanh, lambda x: value),
    "results of a rule": lambda value: PROG.rewrite(lambda op, place: value),
    "results of an edit": lambda value: PROG.replace(ACT, lambda x: value),
    "results of a block": lambda value: PROG.replace_block("layer", lambda x: value),
    "results of a patch": lambda value: PROG.patch({ACT: lambda v: value}),
    "alternative": lambda value: PROG.rewrite(lambda x: br.any_of(br.tanh, value)(x), identity),
    "command of the debugger": lambda value: debug(lambda run: run.go(value)),
    "path of the debugger": lambda value: debug(lambda run: run.go("run_to", value)),
    "restart of the debugger": lambda value: debug(lambda run: run.restart(value)),
    "breakpoint of the debugger": lambda value: debug(lambda run: run.stop_at(value)),
    "value of the debugger": lambda value: debug(lambda run: run.recording.value(value)),
    "number of a value of the debugger": lambda value: debug(
        lambda run: run.recording.value(ACT, value)
    ),
    "sizes of summary": lambda value: PROG.summary(sizes=value),
    "depth of summary": lambda value: PROG.summary(depth=value),
    "place of an edit": lambda value: PROG.replace(ACT, lambda x, *, place: place[value]),
    "part of a match": lambda value: PROG.rewrite(tanh, lambda x, *, match: match[value]),
    "breakpoint": lambda value: PROG.debug(SCOPE, FEED, breakpoints=[value], serve=False),
}
"""Other uses of a value."""


@pytest.mark.parametrize("use", RUNS)
def test_a_wrong_value_works_or_is_refused(use: str) -> None:
    check(RUNS[use], located="debugger" not in use)


def check(use: Callable[[Any], Any], *, located: bool = True) -> None:
    """Each wrong value works, or raises an error of Braces; the program stays as it is."""
    before = str(PROG), PROG.to_bytes(), str(OTHER), sorted(SCOPE)
    failed = list[str]()
    for value in WRONG:
        try:
            close(use(value))
        except Exception as error:
            if not is_clear(error, value, located):
                failed.append(f"{value!r:.60}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)
    assert (str(PROG), PROG.to_bytes(), str(OTHER), sorted(SCOPE)) == before


def is_clear(error: Exception, value: Any, located: bool) -> bool:
    """Whether an error states the problem; one inside a user's function names the function."""
    if isinstance(error, br.BracesError):
        text = str(error)
        return not re.search("jax|Traceback", text) and (not located or bool(error.at))
    if isinstance(error, FileNotFoundError):
        return isinstance(value, str)
    return callable(value) and any("Raised in" in n for n in getattr(error, "__notes__", ()))
