"""The block of a decoder, and the warning about a step that does not share its parameters.

A step that is not a function of `br.shared` creates parameters in the block of the decoder:

    cell.w        f32[16,96]    training
    greedy/cell.w f32[16,96]    the decoder: never trained

The warning requires that each parameter that the step creates has a counterpart: a parameter of
the same type, whose name differs only in its blocks and in generated numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from braces.builder.builder import current_program
from braces.builder.source_line import warn_user
from braces.dtypes import Type
from braces.frontend.control.block import compose_block
from braces.ir.records import PARAMETER

_NUMBER = re.compile(r"_\d+(?=[./]|$)")


def decoder_block(name: str, build: Callable[[], Any]) -> Any:
    """Run `build` inside a plain block; warn if the step has parameters of its own.

    Args:
        name: The name of the block; a number is appended if it is taken.
        build: Returns variables, possibly nested.
    """
    before = _parameters()
    outputs = compose_block(name, build)
    new = {key: type_ for key, type_ in _parameters().items() if key not in before}
    counterparts = _match(new, before)
    if new and len(counterparts) == len(new):
        _warn(name, new, counterparts)
    return outputs


def _parameters() -> dict[str, Type]:
    infos = current_program().table.vars.values()
    return {info.name: info.type for info in infos if info.kind == PARAMETER}


def _match(new: Mapping[str, Type], before: Mapping[str, Type]) -> dict[str, str]:
    """Return the counterpart of each new parameter that has one; each occurs once."""
    left, matches = dict(before), dict[str, str]()
    for name, type_ in new.items():
        for other, other_type in left.items():
            if type_ == other_type and _is_counterpart(name, other):
                matches[name] = other
                del left[other]
                break
    return matches


def _is_counterpart(name: str, other: str) -> bool:
    """Return whether names end alike, apart from the first blocks and generated numbers."""
    parts, others = (_NUMBER.sub("", text).split("/") for text in (name, other))
    common = max(min(len(parts) - 1, len(others)), 1)
    return parts[-common:] == others[-common:]


def _warn(name: str, new: Mapping[str, Type], counterparts: Mapping[str, str]) -> None:
    own, other = next(iter(counterparts.items()))
    count = f"{len(new)} parameter" + ("s" if len(new) != 1 else "")
    warn_user(
        f"the step of `{name}` creates {count} and does not use the existing ones.\n"
        f"  given: {own}: {new[own]}   {other}: {new[own]}\n"
        "  Decorate the step with @br.shared, and call it in training and in all decoders."
    )
