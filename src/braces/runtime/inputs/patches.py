"""Patches of a run: values as arrays of the declared types, and checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.builder.var import Var
from braces.dims import substitute
from braces.dtypes import TensorType
from braces.errors import FeedError, ProgramError
from braces.ir.paths import current_path
from braces.ir.places import Place
from braces.ir.records import DATA, ProgramDef, VarInfo
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.passes.probing.patch_value import NONE, Patch, as_patch
from braces.passes.probing.patched_place import PatchedPlace
from braces.passes.probing.patching import FedNames, Replacing
from braces.runtime.inputs.feeds import convert_feed, describe_array


@dataclass(frozen=True)
class RequestedPatch:
    """A patch of a run.

    Attributes:
        replacing: The replacement.
        value: The array; `None` for a function.
        trips: The iterations, one per row; `None` for all.
    """

    replacing: Replacing
    value: Any
    trips: np.ndarray[Any, Any] | None

    def fed(self, names: FedNames) -> dict[str, Any]:
        """Return the feeds of the patch."""
        items = {names.value: self.value, names.trips: self.trips}
        return {name: value for name, value in items.items() if name}


def read_patches(
    program: ProgramDef, patches: Any, sizes: Sizes, places: dict[str, PatchedPlace]
) -> list[RequestedPatch]:
    """Return the patches of a run, in the order of the program's paths.

    Args:
        program: The program.
        patches: Paths, handles or variables, with values, functions or patches.
        sizes: The named dimensions that are known; patches bind others.
        places: Cache of the places of the program, by path.

    Raises:
        UnknownNameError: If a path does not exist.
        FeedError: If a value is not an array of the dtype and shape of the place.
        ProgramError: If a place or the iterations are invalid.
    """
    if not isinstance(patches, Mapping):
        raise ProgramError(
            f"expected a dict for patch, got {patches!r:.80}.",
            fix='Pass patch={"loop_0/body/act": value}.',
        )
    requests = list[RequestedPatch]()
    for key, value in patches.items():
        path = _path(program, key)
        if path not in places:
            places[path] = PatchedPlace.of(program, path)
        requests.append(_request(places[path], as_patch(value), sizes))
    paths = [request.replacing.place.path for request in requests]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise ProgramError(
            f"`{twice}` is patched twice.",
            given=", ".join(f"{key!r:.60}" for key in patches),
            fix="Pass one patch for each value.",
        )
    return requests


def _path(program: ProgramDef, key: Any) -> str:
    """Return the path of a variable, from a path, a handle or a variable."""
    if isinstance(key, str):
        return key
    path = getattr(key, "path", None)
    if isinstance(path, str):
        return current_path(program, key)
    if not isinstance(key, Var | VarInfo):
        raise ProgramError(
            f"expected the path of a value to patch, got {key!r:.60}.",
            fix='Pass patch={"loop_0/body/act": value}.',
        )
    blocks = Place.main(program).walk()
    paths = (block.path_of(key.name) for block in blocks if key.name in block.body.vars)
    return next(paths, key.name)


def _request(place: PatchedPlace, patch: Patch, sizes: Sizes) -> RequestedPatch:
    places = patch.places(place.path, place.loops)
    count = None if places is None else _padded_count(len(places))
    function = patch.function
    if function is None:
        value = _convert(place, patch.value)
        layout = place.layout(np.shape(value))
        _check_shape(place, layout.type, value, sizes)
    else:
        value = layout = None
    if places is not None:
        _check_range(place, places, sizes)
    rows = None if places is None or count is None else _rows(places, count, place.loops)
    return RequestedPatch(Replacing(place, layout, function, count), value, rows)


def _padded_count(count: int) -> int:
    """Return the next power of two, so that few numbers of iterations are compiled."""
    return 1 << max(count - 1, 0).bit_length()


def _rows(places: Sequence[tuple[int, ...]], count: int, loops: int) -> Any:
    rows = np.full((count, loops), NONE, "int64")
    for row, place in zip(rows, places, strict=False):
        row[:] = place
    return rows


def _convert(place: PatchedPlace, value: Any) -> Any:
    """Return a value as an array of the dtype of the place."""
    try:
        return convert_feed(VarInfo(place.path, place.type, DATA), value)
    except FeedError as error:
        what = error.what.replace("feed", "patch", 1)
        raise FeedError(what, at=place.at, given=error.given, fix=error.fix) from None


def _check_shape(place: PatchedPlace, type_: TensorType, value: Any, sizes: Sizes) -> None:
    conflict = bind_sizes(type_, np.shape(value), sizes)
    if conflict is not None:
        raise place.wrong_shape(describe_array(value), f": {conflict}")


def _check_range(
    place: PatchedPlace,
    places: Iterable[tuple[int, ...]],
    sizes: Sizes,
) -> None:
    """Refuse iterations that counted loops do not have."""
    counts = [None if size is None else substitute(size, sizes) for size in place.trips]
    for numbers in places:
        for number, count in zip(numbers, counts, strict=True):
            if isinstance(count, int) and number >= count:
                raise ProgramError(
                    f"iteration {number} of the patch of `{place.path}` is out of range for "
                    f"{count} iterations.",
                    at=place.at,
                    given=f"trips: {', '.join(map(str, places))}",
                    fix="Iterations count from 0.",
                )


def sizes_of_feed(program: ProgramDef, feed: Any) -> Sizes:
    """Return the named dimensions of the feeds; the run checks them."""
    sizes: Sizes = {}
    for key, value in (feed or {}).items() if isinstance(feed, Mapping) else ():
        info = program.main.vars.get(getattr(key, "name", key))
        if info is not None and info.kind == DATA and isinstance(info.type, TensorType):
            bind_sizes(info.type, np.shape(value), sizes)
    return sizes
