"""Scopes: variables by name, their lifetime and ownership."""

# Only a scope accesses private attributes of its variables.
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

from braces.hints.objects import Hinted
from braces.notebook import join_pieces, text_row
from braces.scope.html_view import render_lines, render_pieces
from braces.scope.names import (
    check_name,
    closed_scope_error,
    duplicate_name_error,
    text_of,
    unknown_name_error,
)
from braces.scope.release import release
from braces.scope.state_matching import Loaded, array_in, match_states
from braces.scope.values import convert_value, copy_value
from braces.scope.variable import OwnershipError, Variable

# Reasons for the end of a variable, with the fix for the error message.
_CLOSED = (
    "its scope was closed",
    "Read `value` before the scope closes, or fetch the variable.",
)
_DROPPED = (
    "its scope was garbage-collected",
    "Keep a reference to the scope while its variables are in use.",
)
_ERASED = ("it was erased", "Look up the name again: `scope.find_var(name)`.")
_raw_of = attrgetter("_raw")


@final
class Scope(Hinted):
    """Variables by name, with a parent scope in which look-ups continue.

    As a mapping, it has a copy of each value by name: `scope["w"]`, `in`, `len`, iteration,
    `keys`, `values`, `items` and `get` include the variables of ancestors. `scope["w"] = array`
    sets as `update` does, `del` erases in this scope only. To change a part of a value, set it
    again, as `scope["w"] *= 2.0` does. A scope is true even if it is empty.

    Scopes are thread-safe: threads may share one for look-ups, inserts and runs. Runs with
    updates are serialized in all scopes of one tree. For parallel updates, give each thread its
    own tree.

    Attributes:
        turn: For the executor: the lock of runs with updates, shared by all scopes of a tree.

    Raises:
        ScopeClosedError: If a closed scope is used; a second `close` is allowed.

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

    _internal = ("put_all", "raws", "turn")

    def __init__(self) -> None:
        self._variables: dict[str, Variable] | None = {}  # None once closed
        self._parent: Scope | None = None
        self._children: dict[int, weakref.ref[Scope]] = {}
        self._made = 0  # number of children created so far
        self._number = 0  # key of this scope in `_children` of its parent
        self._path = "root"
        # Re-entrant: dropping a value may run a user's finalizer that calls this scope.
        self._lock = threading.RLock()
        self.turn = threading.RLock()

    def var(self, name: str) -> Variable:
        """Get or create the variable of this name in this scope; it shadows a parent's.

        Raises:
            InvalidNameError: If the name is not valid for a variable.
        """
        return self._own().get(text_of(name)) or self._make(name, may_exist=True)

    def new_var(self, name: str) -> Variable:
        """Create a variable in this scope; a name is any string without control characters.

        Raises:
            DuplicateNameError: If the name exists in this scope.
            InvalidNameError: If the name is not valid for a variable.
        """
        return self._make(name, may_exist=False)

    def find_var(self, name: str) -> Variable | None:
        """Return the variable of this name, from here or the nearest ancestor, or `None`."""
        text_of(name)
        scope: Scope | None = self
        while scope is not None:
            parent = scope._parent  # read first, as `_destroy` clears it last
            variable = scope._own().get(name)
            if variable is not None:
                return variable
            scope = parent
        return None

    def find_local_var(self, name: str) -> Variable | None:
        """Return the variable of this name in this scope, without its ancestors, or `None`."""
        return self._own().get(text_of(name))

    def get_var(self, name: str) -> Variable:
        """Return the variable of this name, from here or the nearest ancestor.

        Raises:
            UnknownNameError: If the variable does not exist; the error suggests similar names.
        """
        variable = self.find_var(name)
        if variable is not None:
            return variable
        raise unknown_name_error(name, f"scope {self._path} and its ancestors", self)

    def update(self, values: Mapping[str, object], *, prefix: str = "") -> None:
        """Set several variables atomically, each in the scope of its look-up, or here.

        Args:
            values: Arrays by name.
            prefix: Prefix of the names in this scope, as `"encoder/"` for the parameters of a
                program called under this name.

        Raises:
            DTypeError: If a value is not an array.
            InvalidNameError: If a name is not valid for a variable.
        """
        for name in values:
            check_name(name)
        if text_of(prefix):
            return self.update({prefix + name: value for name, value in values.items()})
        raws = [convert_value(value, f"variable `{name}`") for name, value in values.items()]
        with self.turn:
            self.put_all(values.keys(), raws)

    def erase(self, name: str) -> bool:
        """Destroy the variable of this name in this scope; return whether there was one."""
        with self._lock:
            variable = self._own().pop(text_of(name), None)
        if variable is not None:
            variable._end(_ERASED)
        return variable is not None

    def names(self) -> list[str]:
        """Return the names in this scope, without its ancestors, sorted."""
        with self._lock:
            return sorted(self._own())

    # ---- as a mapping ------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        return self.get_var(name).value

    def __setitem__(self, name: str, value: object) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        if not self.erase(name):
            raise unknown_name_error(name, f"scope {self._path}", self.names())

    def __contains__(self, name: str) -> bool:
        return self.find_var(name) is not None

    def __iter__(self) -> Iterator[str]:
        visible, scope = set[str](), self
        while scope is not None:
            visible.update(scope.names())
            scope = scope.parent
        return iter(sorted(visible))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def keys(self) -> KeysView[str]:
        """Return the names in this scope and its ancestors, sorted."""
        return dict.fromkeys(self).keys()

    def values(self) -> ValuesView[Any]:
        """Return a copy of each value, in the order of `keys`."""
        return dict(self).values()

    def items(self) -> ItemsView[str, Any]:
        """Return names and copies of their values, in the order of `keys`."""
        return dict(self).items()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a copy of the value of this name, or `default` if there is none."""
        variable = self.find_var(name)
        return default if variable is None else variable.value

    # ---- values by name ----------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "") -> dict[str, Any]:
        """Return a copy of each value of this scope by name: parameters and all other states.

        The copy is a consistent snapshot between two runs. Variables without a value are
        omitted. `br.save_parameters` writes the same to a file.

        Args:
            prefix: Include only names with this prefix, and remove it: `"encoder/"`.

        Raises:
            DTypeError: If a variable holds a list, not an array.
        """
        with self.turn:
            values = self._values_with_prefix(prefix)
            return {
                name.removeprefix(prefix): copy_value(array_in(name, values)) for name in values
            }

    def load_state_dict(
        self, values: Mapping[str, object], *, strict: bool = True, prefix: str = ""
    ) -> Loaded:
        """Set the values of this scope atomically: all of them, or none if one does not fit.

        Args:
            values: Values as for `Variable.set`, by name; shapes and dtypes must match.
            strict: Whether the names must be exactly those with a value here. Otherwise the
                common names are set, and the result lists the others.
            prefix: Prefix of the names in this scope, as in `state_dict`.

        Raises:
            UnknownNameError: If a name is missing or extra, and `strict` is set.
            ShapeError: If the shape of a value differs.
            DTypeError: If the dtype of a value differs, or a value is not an array.

        Example:
            >>> from braces.scope import Scope
            >>> scope = Scope()
            >>> scope.update({"net/w": [1.0], "net/b": [2.0]})
            >>> scope.load_state_dict({"w": [3.0], "b": [4.0]}, prefix="net/")
            Loaded(names=('net/b', 'net/w'), missing=(), extra=())
        """
        raws = {
            text_of(prefix) + text_of(name): convert_value(value, f"variable `{name}`")
            for name, value in values.items()
        }
        with self.turn:
            loaded = match_states(self._values_with_prefix(prefix), raws, strict)
            self.put_all(loaded.names, [raws[name] for name in loaded.names])
        return loaded

    def _values_with_prefix(self, prefix: str) -> dict[str, Any]:
        """Return the values in this scope whose names have the prefix, by name."""
        names = [name for name in self.names() if name.startswith(text_of(prefix))]
        raws = zip(names, self.raws(names), strict=True)
        return {name: raw for name, raw in raws if raw is not None}

    # ---- the tree ----------------------------------------------------------------------------

    @property
    def parent(self) -> Scope | None:
        """The scope that created this one; `None` for a root."""
        parent = self._parent
        self._own()
        return parent

    @property
    def children(self) -> tuple[Scope, ...]:
        """The open child scopes that are still referenced, oldest first."""
        self._own()
        return tuple(self._living())

    def raws(self, names: Collection[str]) -> list[Any]:
        """For the executor: return the values of these names, not copied; `None` if not set.

        A run reads every weight, so the fast path has no Python call per name.
        """
        own = self._variables
        if own is None:
            own = self._own()
        try:
            return list(map(_raw_of, map(own.__getitem__, names)))
        except KeyError:  # a name is in an ancestor, or unknown
            variables = [self.find_var(name) for name in names]
            return [None if variable is None else variable._raw for variable in variables]

    def put_all(self, names: Collection[str], raws: Sequence[Any]) -> None:
        """For the executor: store values uncopied, in the scope of the look-up, or here."""
        own = self._variables
        if own is None:
            own = self._own()
        try:
            variables = list(map(own.__getitem__, names))
        except KeyError:
            variables = [self.find_var(name) or self.var(name) for name in names]
        for variable, raw in zip(variables, raws, strict=True):
            variable._raw = raw
            if variable._ended is not None:  # checked last, as in `put`
                variable.put(raw)

    @property
    def closed(self) -> bool:
        """True if the scope was closed; the only attribute that a closed scope has."""
        return self._variables is None

    def new_scope(self) -> Scope:
        """Create a child of this scope. The child keeps this scope alive, not vice versa."""
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
        """Destroy the variables and the children; idempotent."""
        self._destroy(_CLOSED)

    def __enter__(self) -> Scope:
        self._own()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if "turn" in vars(self):  # a call with invalid arguments leaves no attributes
            self._destroy(_DROPPED)

    def __reduce__(self) -> NoReturn:
        message = f"scope {self._path} cannot be copied or pickled."
        raise OwnershipError(message, fix="Create another scope, and `set` its variables.")

    def _own(self) -> dict[str, Variable]:
        variables = self._variables
        if variables is None:
            raise closed_scope_error(self._path)
        return variables

    def _make(self, name: str, *, may_exist: bool) -> Variable:
        check_name(name)
        with self._lock:
            variables = self._own()
            variable = variables.get(name)
            if variable is None:
                variable = variables[name] = Variable._of(name, self._path, self.turn)
            elif not may_exist:
                raise duplicate_name_error(name, self._path, variable._text())
            return variable

    def _destroy(self, ended: tuple[str, str]) -> None:
        """Destroy this scope and its descendants; iterative, as the tree can be deep."""
        waiting, parents = [self], list[Scope | None]()
        while waiting:
            scope = waiting.pop()
            parents.append(scope._detach(ended))
            waiting += scope._living()
        release(parents)

    def _detach(self, ended: tuple[str, str]) -> Scope | None:
        """Destroy the variables, leave the tree, and return the parent."""
        with self._lock:
            variables, self._variables = self._variables, None
            parent, self._parent = self._parent, None
        for variable in (variables or {}).values():
            variable._end(ended)
        if parent is not None:
            # Not under the parent's lock: the garbage collector may call this while a
            # thread holds it.
            parent._children.pop(self._number, None)
        return parent

    def _living(self) -> list[Scope]:
        children = [child() for child in self._children.copy().values()]
        return [child for child in children if child is not None and not child.closed]

    def __str__(self) -> str:
        return "\n".join(
            "  " * level + line
            for scope, level in self._all()
            for line in render_lines(*scope._display_values())
        )

    def __repr__(self) -> str:
        return f"<S{render_lines(*self._display_values())[0][1:]}>"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        if self.closed:
            return join_pieces([text_row(str(self))], "")
        shown = ((*scope._display_values(), level) for scope, level in self._all())
        return join_pieces(render_pieces(shown), "… and more; print(scope) shows all.")

    def _all(self) -> Iterator[tuple[Scope, int]]:
        """Iterate over this scope and its descendants, each with its depth."""
        waiting = [(self, 0)]
        while waiting:
            scope, level = waiting.pop()
            yield scope, level
            waiting += [(child, level + 1) for child in reversed(scope._living())]

    def _display_values(self) -> tuple[str, dict[str, Any] | None]:
        """Return the path, and the values by name, sorted; `None` if the scope is closed."""
        variables = self._variables
        if variables is None:
            return self._path, None
        return self._path, {
            name: variable._raw for name, variable in sorted(variables.copy().items())
        }
