"""Record of the operators of a run in PyTorch, with the values that they read and write.

A dispatch mode of PyTorch receives every operator of ATen that runs, in modules and in graphs.
A tensor object identifies a value. An operator that changes a tensor writes a new value; other
tensors of its storage get new values at their next use.
"""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from braces.errors import BracesError
from braces.exchange.torch.graph.convert import array_from, is_torch, source_of
from braces.extend.comparing import Event, Key, Trace
from braces.extend.programs import Source

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_LABELS = {"cond": ("pred", "true", "false"), "while_loop": ("cond", "body")}
"""The names of the functions of control flow, by their positions; `body` for others."""
_LOOPS = ("while_loop", "scan", "map_impl", "associative_scan")


@dataclass
class CallSite:
    """A call of a module, of a node of a graph, or of a function of control flow.

    Attributes:
        path: Its path, without iterations.
        calls: The number of each call around it and of its own, by path.
        source: The line of the node; empty for modules.
        is_node: Whether it is a node of a graph.
        counts: The number of operators so far, by name; of calls inside, by path.
    """

    path: str
    calls: tuple[tuple[str, int], ...] = ()
    source: str = ""
    is_node: bool = False
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def next(self, name: str) -> int:
        """Return the number of operators or calls of this name before."""
        return self.counts.get(name, 0)

    def number(self, name: str) -> int:
        """Return the number of operators or calls of this name before, and count one more."""
        before = self.next(name)
        self.counts[name] = before + 1
        return before


@dataclass(frozen=True)
class _Recorded:
    """A tensor with its value.

    Attributes:
        tensor: Returns the tensor; `None` if it exists no longer.
        version: The number of its changes in place, at the time of recording.
        key: The value.
    """

    tensor: Callable[[], Any]
    version: int
    key: Key


class ValueRecorder:
    """Records the operators of a run.

    Attributes:
        torch: The module `torch`.
        trace: The values and operators so far.
        mode: The dispatch mode, a context manager.
    """

    def __init__(self, torch: Any) -> None:
        self.torch, self.trace = torch, Trace("PyTorch")
        self._package = os.path.dirname(torch.__file__) + os.sep
        self._numbers = count()
        self._recorded: dict[int, _Recorded] = {}
        self._writers: dict[int, Key] = {}
        self._places = [CallSite("")]
        self._calls: list[tuple[tuple[str, int], ...]] = []
        self._repeated = set[str]()

        def dispatch(
            _mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return self._dispatch(func, args, kwargs or {})

        self.mode: Any = _subclass(
            torch.utils._python_dispatch.TorchDispatchMode,
            supports_higher_order_operators=True,
            __torch_dispatch__=dispatch,
        )()

    # ---- places ------------------------------------------------------------------------------

    def enter(self, path: str, *, loop: bool = False) -> None:
        """Enter a call of a module, or of a function of control flow."""
        around = self._places[-1]
        number = around.number(f"call {path}")
        if number or loop:
            self._repeated.add(path)
        self._places.append(CallSite(path, (*around.calls, (path, number))))

    def leave(self) -> None:
        """Leave the innermost call."""
        self._places.pop()

    @contextmanager
    def node(self, node: Any) -> Generator[None]:
        """Record the operators of a node of a graph under its name."""
        around = self._places[-1]
        path = f"{around.path}/{node.name}".lstrip("/")
        start = len(self.trace.events)
        source = str(source_of(node) or "")
        self._places.append(CallSite(path, around.calls, source, is_node=True))
        try:
            yield
        finally:
            self._places.pop()
        own = [at for at in range(start, len(self.trace.events)) if self._is_own(at, path)]
        if len(own) == 1:
            self.trace.events[own[0]] = replace(self.trace.events[own[0]], path=path)

    def _is_own(self, at: int, path: str) -> bool:
        return self.trace.events[at].path.rpartition("/")[0] == path

    def finish(self) -> Trace:
        """Return the trace, in which iterations are those of calls that were repeated."""
        for at, calls in enumerate(self._calls):
            iteration = tuple(number for path, number in calls if path in self._repeated)
            self.trace.events[at] = replace(self.trace.events[at], iteration=iteration)
        return self.trace

    # ---- operators ---------------------------------------------------------------------------

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        reads = [self.key(tensor) for tensor in self.tensors((args, kwargs))]
        name = _name_of(func)
        start = len(self.trace.events)
        control_flow = is_torch(func, "HigherOrderOperator")
        called = [self._function(name, *pair) for pair in enumerate(args)]
        result = func(*(called if control_flow else args), **kwargs)
        inner = [key for event in self.trace.events[start:] for key in event.writes]
        uninitialized = "empty" in name
        changed = [] if control_flow else _written(func, args, kwargs)
        written = {id(t): t for t in (*self.tensors(result), *self.tensors(changed))}
        writes = [self.record(t, known=not uninitialized) for t in written.values()]
        for tensor, key in zip(written.values(), writes, strict=True):
            self._writers[_storage(tensor)] = key
        self._event(name, reads, writes, inner)
        return result

    def _event(
        self, name: str, reads: Sequence[Key], writes: Sequence[Key], inner: Sequence[Key] = ()
    ) -> None:
        place = self._places[-1]
        event = Event(
            f"{place.path}/{_numbered(name, place.number(name))}".lstrip("/"),
            (),
            name,
            place.source or str(self._user_line() or ""),
            tuple(reads),
            tuple(writes),
            tuple(inner),
            bool(inner),
        )
        self.trace.events.append(event)
        self._calls.append(place.calls)

    def _user_line(self) -> Source | None:
        """Return the innermost line outside of PyTorch and Braces that is running."""
        frame, packages = inspect.currentframe(), (_PACKAGE, self._package)
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith(("<", *packages)):
                return Source(name, frame.f_lineno)
            frame = frame.f_back
        return None

    def _function(self, name: str, at: int, argument: Any) -> Any:
        """Return a function of control flow with a record of its operators."""
        if is_torch(argument, "Tensor") or not callable(argument):
            return argument
        labels = _LABELS.get(name, ())
        label = labels[at] if at < len(labels) else "body"
        place = self._places[-1]
        parts = [place.path, *([] if place.is_node else [_numbered(name, place.next(name))])]
        path = "/".join((*filter(None, parts), label))

        def run(*operands: Any) -> Any:
            self.enter(path, loop=name in _LOOPS)
            try:
                with self.mode:
                    return self.run_graph(argument, *operands)
            finally:
                self.leave()

        return run

    def run_graph(self, function: Any, *operands: Any) -> Any:
        """Run a function; the nodes of a graph under their names."""
        if not is_torch(function, "GraphModule"):
            return function(*operands)
        base = self.torch.fx.Interpreter

        def run_node(interpreter: Any, node: Any) -> Any:
            with self.node(node):
                return base.run_node(interpreter, node)

        interpreter = _subclass(base, run_node=run_node)(function)
        return interpreter.run(*operands, enable_io_processing=False)

    # ---- values ------------------------------------------------------------------------------

    def tensors(self, tree: Any) -> list[Any]:
        """Return the tensors of a nested structure."""
        leaves = self.torch.utils._pytree.tree_leaves(tree)
        return [leaf for leaf in leaves if isinstance(leaf, self.torch.Tensor)]

    def record(self, tensor: Any, name: str = "", *, known: bool = True) -> Key:
        """Record a new value of a tensor."""
        key = ("", name or f"v{next(self._numbers)}")
        array = _array(tensor) if known else None
        if array is not None:
            self.trace.values[key] = array
        self._recorded[id(tensor)] = _Recorded(weakref.ref(tensor), _version(tensor), key)
        return key

    def key(self, tensor: Any) -> Key:
        """Return the value of a tensor; a new one if it has changed since the last use."""
        recorded = self._recorded.get(id(tensor))
        if recorded is None or recorded.tensor() is not tensor:
            return self.record(tensor)
        if recorded.version == _version(tensor):
            return recorded.key
        before, now = self.trace.values.get(recorded.key), _array(tensor)
        if before is not None and now is not None and _same(before, now):
            self._recorded[id(tensor)] = replace(recorded, version=_version(tensor))
            return recorded.key
        writer = self._writers.get(_storage(tensor), recorded.key)
        key = self.record(tensor)
        self._event("alias", [writer], [key])
        return key


def _subclass(base: Any, **members: Any) -> Any:
    return type(f"Recording{base.__name__}", (base,), members)


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


def _name_of(func: Any) -> str:
    """Return the name of an operator, without its namespace and overload."""
    name = func.name() if callable(getattr(func, "name", None)) else func.__name__
    return str(name).rpartition("::")[2].partition(".")[0]


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that an operator changes; batch norm changes some undeclared."""
    arguments = func._schema.arguments
    by_name = dict(zip((argument.name for argument in arguments), args, strict=False))
    by_name |= kwargs
    hidden = ("running_mean", "running_var") if by_name.get("training") else ()
    written_names = [a.name for a in arguments if a.alias_info and a.alias_info.is_write]
    return [by_name.get(name) for name in (*written_names, *hidden)]


def _array(tensor: Any) -> Any:
    """Return the array of a tensor; `None` for sparse ones, and dtypes that Braces lacks."""
    try:
        return array_from(tensor.resolve_conj().resolve_neg())
    except (BracesError, NotImplementedError, RuntimeError, TypeError):
        return None


def _same(left: Any, right: Any) -> bool:
    return left.shape == right.shape and left.tobytes() == np.ascontiguousarray(right).tobytes()


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _storage(tensor: Any) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return id(tensor)
