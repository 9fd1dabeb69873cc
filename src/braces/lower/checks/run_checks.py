"""What operators tell a run beside their outputs: sizes, and values that are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.define.core.check_code import max_code
from braces.define.core.kernel_call import ask
from braces.define.decorator import Attrs, OpDef
from braces.define.definition import Values
from braces.lazy import jnp


def told_sizes(definition: OpDef, values: Values, attrs: Attrs) -> Mapping[str, Any]:
    """The sizes that only values tell, by the names of dimensions."""
    assert definition.learn_rule is not None
    rule, arguments = definition.learn_rule, definition.arrange(values)
    return ask(definition.type, "learned", rule, arguments, attrs, _read_sizes)


def _read_sizes(found: Mapping[object, Any]) -> Mapping[str, Any]:
    return {_named(name): _whole(size) for name, size in found.items()}


def _named(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _whole(size: Any) -> Any:
    array = jnp.asarray(size)
    if array.shape or array.dtype.kind not in "iu":
        raise TypeError
    return size


def told_offence(definition: OpDef, values: Values, attrs: Mapping[str, Any]) -> Any:
    """The code that the check of an operator gives: 0, or a failure; see `check_code`."""
    assert definition.check is not None
    rule, arguments = definition.check.kernel, definition.arrange(values)
    return ask(definition.type, "checked", rule, arguments, attrs, _read_offence)


def _read_offence(found: Any) -> Any:
    if found is False:
        return 0
    if jnp.asarray(found).dtype.kind not in "biu":
        raise TypeError
    return max_code(found)
