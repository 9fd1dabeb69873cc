"""Weights of imported models: variables of a program, and their values."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeAlias

import numpy as np

from braces.exchange.common.model.names import unused_name
from braces.extend.building import Builder, Var, var_of
from braces.extend.programs import PARAMETER
from braces.extend.types import TensorType

Array: TypeAlias = "np.ndarray[Any, Any]"
"""The value of a weight."""
UPDATES = "braces.updates"
"""The model metadata key that maps an output to the input whose next value it is."""
LARGEST_LITERAL = 1024
"""Larger constants become states of the program rather than literals in its text."""


def add_persistable(
    program: Builder,
    values: MutableMapping[str, Array],
    name: str,
    array: Array,
    kind: str,
    *,
    frozen: bool = False,
) -> Var:
    """Create a parameter or state with this name or a similar one; its value joins `values`."""
    free_name = unused_name(program.table, name)
    type_ = TensorType(array.dtype, array.shape)
    program.table.new_var(free_name, type_, kind, trainable=kind == PARAMETER and not frozen)
    values[free_name] = array
    return var_of(program, program.table, free_name)
