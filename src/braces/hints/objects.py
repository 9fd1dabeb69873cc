"""Errors for missing attributes of the objects that users hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from braces.errors import did_you_mean

NO_HINTS: Mapping[str, str] = {}


def no_member(
    kind: type, name: str, known: Iterable[str], others: Mapping[str, str] = NO_HINTS
) -> AttributeError:
    """Return the error for a missing attribute, with a hint of its class or `others`.

    The message names the public class that has a table, as `Batches` for its subclasses.
    """
    from braces.hints.table_files import objects  # on an error only

    names = (base.__name__ for base in kind.__mro__)
    public = next((each for each in names if each in objects()), kind.__name__)
    hint = objects().get(public, NO_HINTS).get(name.lower()) or others.get(name)
    near = did_you_mean(
        name, (candidate for candidate in known if not candidate.startswith("_"))
    )
    fix = f"Use {hint}." if hint else near or "See help() of it."
    return AttributeError(f"{public} has no attribute `{name}`. {fix}", name=name)


class Hinted:
    """Base class whose error for a missing attribute has a hint."""

    __slots__ = ()
    _internal: ClassVar[Collection[str]] = ()
    """Names that Braces itself uses, which completion does not offer."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._internal]

    @staticmethod
    def _attribute_hints() -> Mapping[str, str]:
        """Return hints for attributes beyond those of the table."""
        return NO_HINTS

    if not TYPE_CHECKING:  # type checkers must report wrong names themselves

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            kind = type(self)
            raise no_member(kind, name, dir(self), kind._attribute_hints())
