"""Scopes: storage for the values of a running program.

A `Scope` maps names to `Variable`s, which it creates and destroys. A look-up continues in the
parent scope. A scope holds no operators and runs nothing.

    root ── w, b                           scope.find_var("w") in root/2 gives root's `w`;
     ├─ root/1 ── h                        scope.var("w") in root/2 makes one that shadows it
     └─ root/2 ── h, w

A child holds a reference to its parent. A parent has only weak references to its children, and
a handle (`Variable`) has none to its scope. A scope without references is destroyed as by
`close`; a handle that outlives its scope raises, and never shows a stale value.
"""

from braces.scope.names import InvalidNameError
from braces.scope.scope import Scope
from braces.scope.state_matching import Loaded
from braces.scope.variable import OwnershipError, Variable

__all__ = ["InvalidNameError", "Loaded", "OwnershipError", "Scope", "Variable"]
