"""Optimizers in files: the calls that create them, as attributes.

    chain(clip_by_global_norm(1.0), adam(cosine_decay_schedule(0.1, 100)))

    ("call", "chain", (("call", "clip_by_global_norm", (1.0,), ()), ("call", "adam", …)), ())

Numbers, texts, variables and calls of `br.optimizer` have a stored form. Functions, such as
masks, and transformations of optax have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from braces.builder.var import Var
from braces.frontend.optimizer.core.recorded_call import RECORDED, RecordedCall
from braces.ir.records import Attr

MOST_DEPTH = 12
"""Depth of nested calls that are stored."""


def stored_call(optimizer: RecordedCall) -> Attr:
    """Return the stored form of an optimizer; a text that describes it if it has none.

    Example:
        >>> import braces as br
        >>> stored_call(br.optimizer.sgd(0.1))
        ('call', 'sgd', (0.1,), ())
        >>> stored_call(br.optimizer.sgd(lambda count: 0.1 / count))
        'sgd(<function>)'
    """
    try:
        return _stored(optimizer, 0)
    except TypeError:
        return described(optimizer)


def _stored(value: Any, depth: int) -> Attr:
    if depth > MOST_DEPTH:
        raise TypeError
    if isinstance(value, Var):
        return ("var", value.name)
    if isinstance(value, RecordedCall):
        function, args, kwargs = _call_of(value)
        name = function.__name__
        if RECORDED.get(name) is not function:
            raise TypeError
        pairs = tuple((key, _stored(each, depth + 1)) for key, each in kwargs.items())
        return ("call", name, tuple(_stored(each, depth + 1) for each in args), pairs)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return ("dict", tuple((_text(k), _stored(v, depth + 1)) for k, v in items))
    if isinstance(value, tuple | list):
        items = cast("list[Any]", value)
        return ("list", tuple(_stored(each, depth + 1) for each in items))
    plain: Any = cast("Any", value).item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise TypeError


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError
    return key


def _call_of(value: RecordedCall) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    call = vars(value).get("_call")
    if call is None:
        raise TypeError
    return call


def described(value: Any) -> str:
    """Return a short text of an optimizer, for messages."""
    if isinstance(value, RecordedCall) and vars(value).get("_call") is not None:
        function, args, kwargs = _call_of(value)
        arguments = [*map(described, args), *(f"{k}={described(v)}" for k, v in kwargs.items())]
        return f"{function.__name__}({', '.join(arguments)})"[:200]
    if isinstance(value, Var):
        return value.name
    return "<function>" if callable(value) else f"{value!r:.40}"
