"""Conversion rules of users: functions from the inputs of a node to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from braces.errors import BracesError, ProgramError
from braces.exchange.common.values.constants import Value
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend.building import Var

UserRule: TypeAlias = "Callable[..., Any]"
"""A function of variables, with the attributes of the node as keywords."""


def read_rules(rules: Mapping[str, UserRule] | None) -> dict[str, Rule]:
    """Return functions of users as rules, by operator.

    Raises:
        ProgramError: If `rules` is not a dict of functions.
    """
    if rules is None:
        return {}
    if not isinstance(cast("Any", rules), Mapping) or not all(map(callable, rules.values())):
        raise ProgramError(
            f"expected a dict of functions for `rules`, got {rules!r:.80}.",
            fix='Pass rules={"my.domain.Scale": lambda x, *, by: x * by}.',
        )
    return {operator: _as_rule(function) for operator, function in rules.items()}


def _as_rule(function: UserRule) -> Rule:
    def rule(node: OnnxNode) -> Value | tuple[Value, ...]:
        returned = _called(function, node)
        single = not isinstance(returned, tuple)
        results = (returned,) if single else cast("tuple[Any, ...]", returned)
        if not all(isinstance(result, Var) for result in results):
            node.refuse(
                f"the rule returned {returned!r:.60}; expected a variable, or a tuple of them"
            )
        return returned if single else results

    return rule


def _called(function: UserRule, node: OnnxNode) -> Any:
    inputs = [node.maybe(at) for at in range(node.count)]
    try:
        return function(*inputs, **node.attrs)
    except BracesError:
        raise
    except Exception as error:
        raise ProgramError(
            f"the rule of {node.type} raised {type(error).__name__}: {error}",
            fix="A rule has the inputs as positional parameters, and the attributes as "
            "keyword-only parameters.",
        ) from error
