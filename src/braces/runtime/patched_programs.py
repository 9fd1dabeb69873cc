"""Patched programs of an executor: built once for each set of places, evicted by last use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from braces.builder.builder import Builder
from braces.errors import ProgramError
from braces.ir.paths import find_path
from braces.ir.plain_blocks.escaping_values import with_exported
from braces.ir.records import Body, Derivation, ProgramDef
from braces.ir.walk import ancestors
from braces.passes.cleanup.dead_code import eliminate_dead_code
from braces.passes.probing.derived_places import DerivedPlaces
from braces.passes.probing.inner_gradient import InnerGradient
from braces.passes.probing.patched_place import PatchedPlace
from braces.passes.probing.patching import FedNames, Replacing, build_patched
from braces.runtime.inputs.patches import read_patches, sizes_of_feed

P = TypeVar("P", bound=Builder)
MAX_PATCHED = 64
"""The number of patched programs that are kept for each program."""


class PatchedPrograms:
    """Cache of patched programs.

    The values and iterations of patches are data of these programs, so a sweep over them builds
    and compiles once.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Builder, _Known] = WeakKeyDictionary()

    def find(
        self, program: Builder, feed: Any, patch: Any, fetches: tuple[str, ...]
    ) -> tuple[Builder, Any]:
        """Return the patched program, and the feed with the data of the patches.

        Raises:
            BracesError: If a patch is invalid, or its place was differentiated.
        """
        known = self._known.get(program)
        if known is None or known.version != program.version:
            known = self._known[program] = _Known(program.version)
        sizes = sizes_of_feed(program.definition, feed)
        requests = read_patches(program.definition, patch, sizes, known.places)
        if not requests:
            return program, feed
        entry = known.find_or_build(program, [request.replacing for request in requests])
        if fetches not in entry.checked:
            places = [request.replacing.place for request in requests]
            check_underived(program, places, fetches)
            entry.checked.add(fetches)
        feed = dict(feed or {})
        for request, names in zip(requests, entry.names, strict=True):
            feed |= request.fed(names)
        return entry.program, feed


@dataclass(frozen=True)
class _Built:
    """A patched program.

    Attributes:
        patches: The replacements; a key may have the identity of a function of theirs.
        program: The program.
        names: The data of each patch.
        checked: The fetches with which no derivative of a patched value is computed.
    """

    patches: Sequence[Replacing]
    program: Builder
    names: list[FedNames]
    checked: set[tuple[str, ...]] = field(default_factory=set["tuple[str, ...]"])


@dataclass(frozen=True)
class _Known:
    """The places and the patched programs of one version of a program."""

    version: tuple[int, int]
    places: dict[str, PatchedPlace] = field(default_factory=dict[str, PatchedPlace])
    programs: dict[Any, _Built] = field(default_factory=dict[Any, _Built])

    def find_or_build(self, program: Builder, patches: Sequence[Replacing]) -> _Built:
        """Return the program with these patches; build it on a cache miss."""
        key = tuple(patch.key for patch in patches)
        entry = self.programs.pop(key, None)
        if entry is None:
            entry = _Built(patches, *build_patched(program, patches))
        self.programs[key] = entry
        if len(self.programs) > MAX_PATCHED:
            self.programs.pop(next(iter(self.programs)), None)
        return entry


@dataclass(frozen=True)
class Patched(Generic[P]):
    """A program in which inner values are replaced.

    Attributes:
        program: The program; it declares the values and the iterations as data.
        feed: The arrays of the patches, by the names of these data.
    """

    program: P
    feed: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Patched program: feed {', '.join(self.feed) or 'nothing'}>"


def patch_program(program: P, patches: Any) -> Patched[P]:
    """Return a program in which inner values are replaced; see `Program.patch`."""
    requests = read_patches(program.definition, patches, {}, {})
    _refuse_derived(
        DerivedPlaces.of(program), [request.replacing.place for request in requests]
    )
    patched, names = build_patched(program, [request.replacing for request in requests])
    feed = dict[str, Any]()
    for request, fed in zip(requests, names, strict=True):
        feed |= request.fed(fed)
    return Patched(patched, feed)


def check_underived(
    program: Builder, places: Iterable[PatchedPlace], fetches: Sequence[str]
) -> None:
    """Refuse places whose derivative the run computes: it would be that of the old value.

    Raises:
        ProgramError: If a place was differentiated, and the run needs the derivative.
    """
    definition = program.definition
    main = with_exported(definition.main, fetches)
    groups = [_outputs(definition.with_(main=main), fetch) for fetch in fetches]
    results = main.results if definition.updates else ()
    names = dict.fromkeys(name for group in (*groups, results) for name in group)
    alive = eliminate_dead_code(definition.with_(main=main.with_(results=tuple(names))))
    groups += [(name,) for name in alive.updates.values()]
    built = (each for each in definition.derivations if each.remains_in(definition))
    needed = [each for each in built if _is_needed(main, each, groups)]
    derived = DerivedPlaces.of_definition(alive, needed)
    _refuse_derived(DerivedPlaces(derived.main), places)


def _refuse_derived(derived: DerivedPlaces, places: Iterable[PatchedPlace]) -> None:
    """Refuse places that were differentiated, or have a user-written gradient."""
    for place in places:
        op = place.block.chain[0][0] if place.block.chain else place.anchor
        if op in derived.main:
            raise ProgramError(
                f"cannot patch `{place.path}`: it is already differentiated, and its gradient "
                "would remain that of the old value.",
                at=place.at,
                given=f"the derivative of `{derived.main[op]}`" if derived.main[op] else None,
                fix="Run exe.evaluate(prog, ..., patch=...), which computes no gradients, or "
                "patch before differentiation: prog.patch(...), then minimize.",
            )
        custom = next((at for at in _paths(place) if at in derived.custom), None)
        if custom is not None:
            raise ProgramError(
                f"cannot patch `{place.path}`: the user-written gradient "
                f"`{derived.custom[custom]}` would remain that of the old value.",
                at=place.at,
                fix="Patch it in a run, exe.run(prog, ..., patch=...), or patch the value with "
                "the gradient.",
            )


def _paths(place: PatchedPlace) -> Iterator[str]:
    """Yield the paths of the operator of a place, and of the constructs around."""
    yield place.block.path_of(place.anchor)
    yield from (outer.path_of(owner.name) for outer, owner, _ in place.block.around())


def _outputs(program: ProgramDef, fetch: str) -> tuple[str, ...]:
    """Return the variables of the main block of which a run computes some for a fetch."""
    if isinstance(fetch, InnerGradient):  # it is built from the patched program
        return (fetch.loss,)
    if fetch in program.main.vars:
        return (fetch,)
    located = find_path(program, fetch)
    if located is None or not located.place.chain:
        return ()
    owner = located.place.chain[0][0]
    return next(tuple(op.binds()) for op in program.main.ops if op.name == owner)


def _is_needed(main: Body, derivative: Derivation, groups: Iterable[tuple[str, ...]]) -> bool:
    """Return whether a run may need a derivative: more is computed than its targets."""
    before = ancestors(main.ops, derivative.targets)
    return any(before.isdisjoint(group) for group in groups)
