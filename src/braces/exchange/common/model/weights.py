"""Weights of models: variables of a program, and what they hold."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeAlias

import numpy as np

from braces.builder.builder import Builder
from braces.builder.var import Var, var_of
from braces.dtypes import TensorType
from braces.exchange.common.model.names import free
from braces.ir.records import PARAMETER

Array: TypeAlias = "np.ndarray[Any, Any]"
"""What a weight holds."""
UPDATES = "braces.updates"
"""The entry of a model's metadata that says which output is the next value of which input."""
LITTLE = 1024
"""Constants of more numbers than this are states of the program, not part of its text."""


def persistable(
    program: Builder,
    values: MutableMapping[str, Array],
    name: str,
    array: Array,
    kind: str,
    *,
    frozen: bool = False,
) -> Var:
    """A parameter or state of a program, of a name like this; `values` gains what it holds."""
    called = free(program.table, name)
    type_ = TensorType(array.dtype, array.shape)
    program.table.new_var(called, type_, kind, trainable=kind == PARAMETER and not frozen)
    values[called] = array
    return var_of(program, program.table, called)
