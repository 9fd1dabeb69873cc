"""The one door by which a lower layer calls an upper one: by name, when it is called.

`Program` and `Block` offer to run, draw and prune themselves, though the code that does so lies
above them. Each such method goes through this table and nothing else does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

ENTRIES = {
    "admit": "braces.passes.admit:admit",
    "var_of": "braces.ops.build:var_of",
    "no_attribute": "braces.frontend.spelling:no_attribute",
    "no_member": "braces.frontend.habits:no_member",
    "call_function": "braces.frontend.numpy_calls:call_function",
    "call_ufunc": "braces.frontend.numpy_calls:call_ufunc",
    "op_modules": "braces.passes.admit:op_modules",
    "op_versions": "braces.passes.admit:op_versions",
    "run_block": "braces.executor.block:run_block",
    "eval_block": "braces.executor.block:eval_block",
    "infer_block": "braces.executor.block:infer_block",
    "explain": "braces.passes.explain:explain",
    "for_test": "braces.passes.for_test:for_test",
    "program_html": "braces.viewer.html:program_html",
    "program_dot": "braces.viewer.dot:program_dot",
}


def call(entry: str, *args: Any, **kwargs: Any) -> Any:
    """Call the function of an upper layer that this entry names."""
    module, _, function = ENTRIES[entry].partition(":")
    return getattr(importlib.import_module(module), function)(*args, **kwargs)


class Hinted:
    """What says what to type in place of an attribute that it does not have."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a checker is to tell a wrong name before it runs

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise call("no_member", type(self).__name__, name, dir(type(self)))
