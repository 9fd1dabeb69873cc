"""Padding of feeds: named dimensions rounded up to multiples, so that few sizes are compiled.

    x: f32[batch,t]   lengths: i64[batch]          pad={"t": 16}

A feed with `t` = 21 gets zeros at the end of that axis, up to 32. Derived sizes, as an axis of
size `t + 1`, grow by the same amount; `lengths` has no such axis and stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.define.axes.axis_map import shape_of
from braces.dims import Dim, Size, substitute
from braces.errors import FeedError, ProgramError, UnknownNameError, suggest
from braces.ir.records import VarInfo
from braces.ir.walk import dimensions
from braces.lower.xla.concrete_attributes import Sizes
from braces.runtime.inputs.feeds import check_names, check_shape, convert_feed


@dataclass(frozen=True)
class Padding:
    """Multiples by the names of padded dimensions.

    Attributes:
        data: The data of the program.
        multiples: By name.
        argument: The name of the argument, for messages.
    """

    data: Mapping[str, VarInfo]
    multiples: Mapping[str, int]
    argument: str = "pad"

    @staticmethod
    def of(data: Mapping[str, VarInfo], pad: Any, argument: str = "pad") -> Padding:
        """Return the padding that a user requests.

        Raises:
            ProgramError: If `pad` is not a dict, or a multiple is not a positive integer.
            UnknownNameError: If no data has a dimension of this name.
        """
        if pad is not None and not isinstance(pad, Mapping):
            raise ProgramError(
                f"expected a dict for {argument}, got {pad!r:.80}.",
                fix=f'Write {argument}={{"t": 16}}.',
            )
        multiples = dict[str, int]((str(name), number) for name, number in (pad or {}).items())
        known = set[str]().union(*(dimensions(shape_of(info.type)) for info in data.values()))
        for name, number in multiples.items():
            if name not in known:
                raise UnknownNameError(
                    f"unknown dimension `{name}` in {argument}.",
                    fix=suggest(name, known),
                )
            if type(number) is not int or number < 1:
                raise ProgramError(
                    f"invalid multiple in {argument}={{{name!r}: {number!r:.80}}}.",
                    fix="Use an integer of at least 1.",
                )
        return Padding(data, multiples, argument)

    def pad(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return a feed with zeros at the ends of axes.

        Raises:
            FeedError: If a shape differs from the declared one, or no data has a padded
                dimension.
        """
        if not self.multiples:
            return dict(feed)
        sizes = Sizes()
        for name, array in feed.items():
            check_shape(self.data[name], array, sizes)
        missing = [name for name in self.multiples if name not in sizes]
        if missing:
            raise FeedError(
                f"the size `{missing[0]}` of {self.argument} is unknown: no feed has this "
                "dimension.",
                given=f"fed: {', '.join(feed) or 'nothing'}",
                fix=f"Feed data with this dimension, or remove {missing[0]!r} from "
                f"{self.argument}=.",
            )
        rounded = {
            n: -(-sizes[n] // multiple) * multiple for n, multiple in self.multiples.items()
        }
        return {
            name: self._padded(name, array, sizes | rounded) for name, array in feed.items()
        }

    def pad_values(self, feed: Mapping[Any, Any]) -> dict[str, Any]:
        """Return fed values as padded arrays of the declared dtypes.

        Raises:
            FeedError: If data is unknown or has another type, or as for `pad`.
        """
        named = {getattr(key, "name", key): value for key, value in feed.items()}
        check_names(named, {}, self.data, dict)
        return self.pad({n: convert_feed(self.data[n], value) for n, value in named.items()})

    def _padded(self, name: str, array: Any, sizes: Mapping[str, int]) -> Any:
        """Return one array, with zeros up to these sizes."""
        shape = shape_of(self.data[name].type)
        widths = [
            (0, _resolve_size(size, sizes, now) - now)
            for size, now in zip(shape, array.shape, strict=True)
        ]
        return np.pad(np.asarray(array), widths) if any(more for _, more in widths) else array


def _resolve_size(size: Size, sizes: Mapping[str, int], now: int) -> int:
    """Return a size as a number; unnamed dimensions stay unchanged."""
    number = substitute(size, sizes) if isinstance(size, Dim) else size
    return number if isinstance(number, int) else now
