"""Scopes: where the values of a running program live.

A `Scope` maps names to `Variable`s, which it makes and destroys, and looks in its parent for
what it has not got itself. It holds no operators and runs nothing.

    root ── w, b                           scope.find_var("w") in root/2 gives root's `w`;
     ├─ root/1 ── h                        scope.var("w") in root/2 makes one that shadows it
     └─ root/2 ── h, w

A child keeps its parent alive, a parent does not keep its children, and a handle keeps nothing.
A scope that nobody holds any more is destroyed as by `close`; a handle that outlives its scope
raises, and never shows an old value.
"""

from braces.scope.names import InvalidNameError
from braces.scope.scope import Scope
from braces.scope.state_matching import Loaded
from braces.scope.variable import OwnershipError, Variable

__all__ = ["InvalidNameError", "Loaded", "OwnershipError", "Scope", "Variable"]
