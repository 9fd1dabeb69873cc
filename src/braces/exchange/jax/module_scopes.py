"""Named scopes for the calls of modules, while a function is traced.

    model.layers[0](x)        with jax.named_scope("layers.0"): ...

A module is an object of a class with `__call__` that is found among the arguments of a
function, in its closure, or in the fields of another module. Its scope is the path from the
module that calls it. Modules of Equinox and Flax `nnx` are named so.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from braces.lazy import jax

_jax: Any = jax
DEEPEST = 24
"""The depth to which fields of modules are searched."""
_LIBRARIES = frozenset({"builtins", "functools", "jax", "jaxlib", "numpy", "types", "typing"})
_LOCK = threading.RLock()


@dataclass(eq=False)
class ModuleCalls:
    """The modules that may be called during a trace, and the open calls.

    Attributes:
        paths: The paths of modules, by identity.
        kept: The modules, which must outlive their identities.
        open: The paths of open calls, outermost first.
    """

    paths: dict[int, str] = field(default_factory=dict[int, str])
    kept: list[Any] = field(default_factory=list[Any])
    open: list[str] = field(default_factory=list[str])

    def collect(self, value: Any, path: str, depth: int = DEEPEST) -> None:
        """Add the modules among a value and its fields; the first path of a module counts."""
        if depth == 0 or id(value) in self.paths:
            return
        if isinstance(value, Mapping):
            parts = cast("Mapping[Any, Any]", value).items()
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            parts = enumerate(cast("Sequence[Any]", value))
        elif _is_module(value):
            self.paths[id(value)] = path
            self.kept.append(value)
            parts = _fields(value)
        else:
            return
        for name, part in parts:
            self.collect(part, f"{path}.{name}" if path else str(name), depth - 1)

    def enter(self, module: Any, call: Callable[[], Any]) -> Any:
        """Run a call of a module in its scope."""
        path = self.paths.get(id(module))
        around = self.open[-1] if self.open else ""
        if path is None or path == around:
            return call()
        inside = path.removeprefix(f"{around}.") if around else path
        self.open.append(path)
        try:
            if not inside:
                return call()
            with _jax.named_scope(inside):
                return call()
        finally:
            self.open.pop()


def _is_module(value: Any) -> bool:
    """Return whether a value is an object of a user's or library's class with `__call__`."""
    kind = _class_of(value)
    is_class = isinstance(value, type) or kind.__module__.partition(".")[0] in _LIBRARIES
    return not is_class and callable(value) and _owner_of_call(kind) is not None


def _class_of(value: object) -> type:
    return type(value)


def _owner_of_call(kind: type) -> type | None:
    """Return the class in which a class finds `__call__`, unless it is a builtin one."""
    owner = next((base for base in kind.__mro__ if "__call__" in vars(base)), None)
    is_python = owner is not None and owner.__module__.partition(".")[0] not in _LIBRARIES
    return owner if is_python else None


def _fields(module: Any) -> Iterable[tuple[str, Any]]:
    return [(n, v) for n, v in getattr(module, "__dict__", {}).items() if n[:1] != "_"]


@contextmanager
def scopes_of_calls(calls: ModuleCalls) -> Generator[None]:
    """Give each call of a known module its named scope."""
    owners = {_owner_of_call(_class_of(module)) for module in calls.kept}
    with _LOCK:
        originals = {owner: vars(owner)["__call__"] for owner in owners if owner is not None}
        try:
            for owner, original in originals.items():
                _set_call(owner, _scoped(calls, original))
            yield
        finally:
            for owner, original in originals.items():
                _set_call(owner, original)


def _set_call(owner: type, call: Any) -> None:
    with suppress(TypeError, AttributeError):  # a class that cannot be changed
        type.__setattr__(owner, "__call__", call)


def _scoped(calls: ModuleCalls, original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = original.__get__(self, type(self))
        return calls.enter(self, lambda: bound(*args, **kwargs))

    return call
