"""Scopes: variables by name, their lives and owners."""

# A scope sees the private names of its variables; nothing else does.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
import weakref
from collections.abc import (
    Collection,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from operator import attrgetter
from typing import Any, NoReturn, final

from braces.hints import Hinted
from braces.notebook import row, whole
from braces.scope.html_view import lines, pieces
from braces.scope.names import check_name, closed, duplicate, text_of, unknown
from braces.scope.state_matching import Loaded, array_in, fitting
from braces.scope.values import copied, stored
from braces.scope.variable import OwnershipError, Variable

# How the life of a variable ended, and what to do about it.
_CLOSED = ("its scope was closed", "Read `value` before; fetch what has to outlive a scope.")
_DROPPED = ("nobody holds its scope any more", "Keep the scope while you use its variables.")
_ERASED = ("it was erased", "Look the name up again: `scope.find_var(name)`.")
_raw_of = attrgetter("_raw")


@final
class Scope(Hinted):
    """Names and their variables, with a parent to look further in.

    As a mapping it has a copy of each value by name: `scope["w"]`, `in`, `len`, iteration,
    `keys`, `values`, `items` and `get` see what a look-up finds, so that of ancestors too.
    `scope["w"] = array` sets as `update` does, `del` erases here. To change a part, put the
    value back, as `scope["w"] *= 2.0` does. A scope is true though it be empty.

    Threads may share a scope: look-ups, inserts and runs. Runs that update anything take turns,
    in all scopes of one tree; where they shall not, give each thread a tree of its own.

    Attributes:
        turn: The executor's door: held by a run that updates; one for all scopes of a tree.

    Raises:
        ScopeClosedError: Any use of a closed scope; closing it again is fine.

    Example:
        >>> from braces.scope import Scope
        >>> with Scope() as scope:
        ...     scope.var("w").set([1.0, 2.0])
        ...     step = scope.new_scope()
        ...     step.var("h").set(3)
        ...     print(scope)
        ...     step.find_var("w") is scope.var("w")
        scope root: 1 variable, 8 B
          w: f32[2]  8 B
          scope root/1: 1 variable, 8 B
            h: i64[]  8 B
        True
    """

    def __init__(self) -> None:
        self._variables: dict[str, Variable] | None = {}  # None once closed
        self._parent: Scope | None = None
        self._children: dict[int, weakref.ref[Scope]] = {}
        self._made = 0  # children ever made
        self._number = 0  # this scope's place among those of its parent
        self._path = "root"
        # Re-entrant: dropping a value may run a finalizer of the user's that comes back here.
        self._lock = threading.RLock()
        self.turn = threading.RLock()

    def var(self, name: str) -> Variable:
        """The scope's own variable of this name; a new one shadows a parent's.

        Raises:
            InvalidNameError: No variable can have this name.
        """
        return self._own().get(text_of(name)) or self._make(name, may_exist=True)

    def new_var(self, name: str) -> Variable:
        """A new variable of this scope; a name is any text without control characters.

        Raises:
            DuplicateNameError: The name exists in this very scope.
            InvalidNameError: No variable can have this name.
        """
        return self._make(name, may_exist=False)

    def find_var(self, name: str) -> Variable | None:
        """The variable of this name, here or in the nearest ancestor that has it."""
        text_of(name)
        scope: Scope | None = self
        while scope is not None:
            parent = scope._parent  # read first, for `_destroy` takes it last
            found = scope._own().get(name)
            if found is not None:
                return found
            scope = parent
        return None

    def find_local_var(self, name: str) -> Variable | None:
        """The variable of this name in this very scope, or `None`."""
        return self._own().get(text_of(name))

    def get_var(self, name: str) -> Variable:
        """The variable of this name, here or in the nearest ancestor that has it.

        Raises:
            UnknownNameError: There is none; the error names those that are nearest.
        """
        found = self.find_var(name)
        if found is not None:
            return found
        raise unknown(name, f"scope {self._path} and its ancestors", self)

    def update(self, values: Mapping[str, object], *, prefix: str = "") -> None:
        """Set several variables, each where a look-up finds it, or here: all of them or none.

        Args:
            values: Arrays by name.
            prefix: What the names begin with here, as `"encoder/"` for the parameters of a
                program that is called so.

        Raises:
            DTypeError: A value is no array.
            InvalidNameError: No variable can have such a name.
        """
        for name in values:
            check_name(name)
        if text_of(prefix):
            return self.update({prefix + name: value for name, value in values.items()})
        raws = [stored(value, f"variable `{name}`") for name, value in values.items()]
        with self.turn:
            self.put_all(values.keys(), raws)

    def erase(self, name: str) -> bool:
        """Destroy the variable of this name in this very scope; whether there was one."""
        with self._lock:
            variable = self._own().pop(text_of(name), None)
        if variable is not None:
            variable._end(_ERASED)
        return variable is not None

    def names(self) -> list[str]:
        """The names in this very scope, sorted."""
        with self._lock:
            return sorted(self._own())

    # ---- as a mapping ------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        return self.get_var(name).value

    def __setitem__(self, name: str, value: object) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        if not self.erase(name):
            raise unknown(name, f"scope {self._path}", self.names())

    def __contains__(self, name: str) -> bool:
        return self.find_var(name) is not None

    def __iter__(self) -> Iterator[str]:
        known, scope = set[str](), self
        while scope is not None:
            known.update(scope.names())
            scope = scope.parent
        return iter(sorted(known))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def keys(self) -> KeysView[str]:
        """The names that a look-up finds, sorted."""
        return dict.fromkeys(self).keys()

    def values(self) -> ValuesView[Any]:
        """A copy of each value, in the order of `keys`."""
        return dict(self).values()

    def items(self) -> ItemsView[str, Any]:
        """Names and copies of their values, in the order of `keys`."""
        return dict(self).items()

    def get(self, name: str, default: Any = None) -> Any:
        """A copy of the value of this name; `default` where there is no such variable."""
        found = self.find_var(name)
        return default if found is None else found.value

    # ---- values by name ----------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "") -> dict[str, Any]:
        """A copy of each value of this very scope, by name: parameters, and all other states.

        They are as they were at one moment, between two runs. Variables without a value are
        left out. `br.save_parameters` writes the same to a file.

        Args:
            prefix: Only the names that begin so, without it: `"encoder/"`.

        Raises:
            DTypeError: A variable holds a list, not an array.
        """
        with self.turn:
            held = self._held(prefix)
            return {name.removeprefix(prefix): copied(array_in(name, held)) for name in held}

    def load_state_dict(
        self, values: Mapping[str, object], *, strict: bool = True, prefix: str = ""
    ) -> Loaded:
        """Set the values of this very scope: all of them, or where one does not fit, none.

        Args:
            values: What `Variable.set` takes, by name; shapes and dtypes must be those here.
            strict: Whether just the variables that have a value here must be given; else those
                that are on both sides are set, and which are not is returned.
            prefix: What the names begin with here, as in `state_dict`.

        Raises:
            UnknownNameError: One is missing or too much, and `strict`.
            ShapeError: A value has another shape.
            DTypeError: A value has another dtype, or is no array.

        Example:
            >>> from braces.scope import Scope
            >>> scope = Scope()
            >>> scope.update({"net/w": [1.0], "net/b": [2.0]})
            >>> scope.load_state_dict({"w": [3.0], "b": [4.0]}, prefix="net/")
            Loaded(names=('net/b', 'net/w'), missing=(), extra=())
        """
        raws = {
            text_of(prefix) + text_of(name): stored(value, f"variable `{name}`")
            for name, value in values.items()
        }
        with self.turn:
            loaded = fitting(self._held(prefix), raws, strict)
            self.put_all(loaded.names, [raws[name] for name in loaded.names])
        return loaded

    def _held(self, prefix: str) -> dict[str, Any]:
        """What is held under the names in this very scope that begin so, by name."""
        names = [name for name in self.names() if name.startswith(text_of(prefix))]
        raws = zip(names, self.raws(names), strict=True)
        return {name: raw for name, raw in raws if raw is not None}

    # ---- the tree ----------------------------------------------------------------------------

    @property
    def parent(self) -> Scope | None:
        """The scope that this one was made by; `None` for a root."""
        parent = self._parent
        self._own()
        return parent

    @property
    def children(self) -> tuple[Scope, ...]:
        """The open scopes made by this one that somebody still holds, oldest first."""
        self._own()
        return tuple(self._living())

    def raws(self, names: Collection[str]) -> list[Any]:
        """The executor's door: the values of these names, not copied; `None` where none is.

        One call for all of them, and none of Python for each: a run reads every weight.
        """
        own = self._variables
        if own is None:
            own = self._own()
        try:
            return list(map(_raw_of, map(own.__getitem__, names)))
        except KeyError:  # one is an ancestor's, or not there
            found = [self.find_var(name) for name in names]
            return [None if variable is None else variable._raw for variable in found]

    def put_all(self, names: Collection[str], raws: Sequence[Any]) -> None:
        """The executor's door: take over values, each where a look-up finds it, or here."""
        own = self._variables
        if own is None:
            own = self._own()
        try:
            found = list(map(own.__getitem__, names))
        except KeyError:
            found = [self.find_var(name) or self.var(name) for name in names]
        for variable, raw in zip(found, raws, strict=True):
            variable._raw = raw
            if variable._ended is not None:  # looked at last, as `put` does
                variable.put(raw)

    @property
    def closed(self) -> bool:
        """Whether the scope was closed; the one question that a closed scope answers."""
        return self._variables is None

    def new_scope(self) -> Scope:
        """A child of this scope. It keeps this scope alive, not the other way round."""
        child = Scope()
        with self._lock:
            self._own()
            child._number = self._made = self._made + 1
            path = f"{self._path}/{self._made}"
            child._path = path if len(path) < 50 else f"…{path[-48:]}"
            child._parent, child.turn = self, self.turn
            self._children[child._number] = weakref.ref(child)
        return child

    def close(self) -> None:
        """Destroy the variables and the children; again is fine."""
        self._destroy(_CLOSED)

    def __enter__(self) -> Scope:
        self._own()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._destroy(_DROPPED)

    def __reduce__(self) -> NoReturn:
        what = f"Scope {self._path} owns its variables and cannot be copied or pickled."
        raise OwnershipError(what, fix="Make another scope, and `set` its variables.")

    def _own(self) -> dict[str, Variable]:
        variables = self._variables
        if variables is None:
            raise closed(self._path)
        return variables

    def _make(self, name: str, *, may_exist: bool) -> Variable:
        check_name(name)
        with self._lock:
            variables = self._own()
            found = variables.get(name)
            if found is None:
                found = variables[name] = Variable._of(name, self._path, self.turn)
            elif not may_exist:
                raise duplicate(name, self._path, found._text())
            return found

    def _destroy(self, ended: tuple[str, str]) -> None:
        """End this scope and all below it; a loop, for chains of scopes can be long."""
        waiting = [self]
        while waiting:
            scope = waiting.pop()
            with scope._lock:
                variables, scope._variables = scope._variables, None
                parent, scope._parent = scope._parent, None
            for variable in (variables or {}).values():
                variable._end(ended)
            if parent is not None:
                # No lock of the parent's: the collector may be here while a thread holds it.
                parent._children.pop(scope._number, None)
            waiting += scope._living()

    def _living(self) -> list[Scope]:
        held = [child() for child in self._children.copy().values()]
        return [child for child in held if child is not None and not child.closed]

    def __str__(self) -> str:
        return "\n".join(
            "  " * level + line for one, level in self._all() for line in lines(*one._shown())
        )

    def __repr__(self) -> str:
        return f"<S{lines(*self._shown())[0][1:]}>"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        if self.closed:
            return whole([row(str(self))], "")
        found = ((*one._shown(), level) for one, level in self._all())
        return whole(pieces(found), "… and more; print(scope) shows all.")

    def _all(self) -> Iterator[tuple[Scope, int]]:
        """This scope and all below it, and how deep they lie."""
        waiting = [(self, 0)]
        while waiting:
            scope, level = waiting.pop()
            yield scope, level
            waiting += [(child, level + 1) for child in reversed(scope._living())]

    def _shown(self) -> tuple[str, dict[str, Any] | None]:
        """The path, and what is held here by name, in their order; `None` once closed."""
        held = self._variables
        if held is None:
            return self._path, None
        return self._path, {name: one._raw for name, one in sorted(held.copy().items())}
