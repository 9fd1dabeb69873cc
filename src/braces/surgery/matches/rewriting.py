"""Rewriting of programs by patterns and by rules: `prog.rewrite`.

Where a place has been differentiated, the forward part of the program is rewritten, and the
recorded calls are repeated. The result is verified.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_call
from braces.builder.user_functions import located
from braces.ir.records import ProgramDef
from braces.passes.core.initial_values import separate_startup, transform
from braces.passes.core.rewrite import rewrite as walk
from braces.passes.probing.derived_places import DerivedPlaces
from braces.passes.verifier.program import verify
from braces.surgery.derivations.forward_part import (
    ForwardPart,
    check_derivations,
    forward_part,
)
from braces.surgery.derivations.refusals import DifferentiatedError, NotRepeatableError
from braces.surgery.derivations.repeated_calls import repeat_calls
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.taken_part import require_whole, taken_part
from braces.surgery.matches.matching import Match
from braces.surgery.matches.pattern import Pattern
from braces.surgery.matches.rewriting_rules import (
    Rewriting,
    RewritingByPattern,
    RewritingByRule,
)

P = TypeVar("P", bound=Builder)


@checked_call
def pattern(
    function: Callable[..., Any] | None = None,
    *,
    where: Callable[[Match], Any] | None = None,
) -> Any:
    """Decorate a function of wildcards as a pattern of `prog.rewrite`, with a condition.

    Its positional parameters match any variable, or those of an annotated type: `"f32[b,8]"`,
    in which a symbol is any size, or `"f32[...]"`. Its keyword-only parameters match any value
    of an attribute. Parameters with defaults keep these.

    Args:
        function: The function; it returns a variable, or a tuple of variables.
        where: Condition on a match: `match["w"]` is the declaration of the variable that `w`
            matches, with `name`, `type`, `shape`, `dtype` and `persistable`, or the value of an
            attribute. `match.path` is the path of its last operator.

    Raises:
        ProgramError: If `function` is not a function, or has a variable number of parameters.

    Example:
        >>> import braces as br
        >>> @br.pattern(where=lambda match: match["w"].name.startswith("a."))
        ... def linear(x, w):
        ...     return x @ w
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["n", 4])
        ...     y = br.fc(br.fc(x, 4, name="a"), 4, name="b")
        >>> new = prog.rewrite(linear, lambda x, w: (x @ w) * 2.0)
        >>> print(new.report)
        1 match of linear
          matmul_0 [...]
        near misses
          matmul_1: the condition `where` is false (1 of 1 operators agree) [...]
    """
    return partial(Pattern, where=where) if function is None else Pattern(function, where)


def rewrite(program: P, before: Any, after: Any = None, *, exact: bool = False) -> P:
    """Rewrite a program by a pattern or a rule; see `Program.rewrite`."""
    rewriting = partial(_rewriting, before, after)
    part, reason = _forward_part(program, exact)
    derived = DerivedPlaces() if exact else DerivedPlaces.of(program)
    try:
        first = rewriting(program, derived)
        first.built = frozenset() if part is None else part.built
        return _verified(_rewritten(program, first), first)
    except DifferentiatedError as error:
        if part is None:
            raise error.because(reason) from None
    first = rewriting(part.program, _forward_places(part))
    forward = _verified(_rewritten(part.program, first), first)
    with located(f"{first.name}, while the rewritten program is differentiated again"):
        new = repeat_calls(part, forward, first.renamed)
        verify(new)
    cast("Any", new).report = cast("Any", forward).report
    return new


def rewrite_in_transaction(
    program: P, before: Any, after: Any = None, *, exact: bool = False
) -> EditResult[P]:
    """Rewrite a program as one of several edits; see `Transaction.rewrite`."""
    part = taken_part(program)
    if exact:
        derived = DerivedPlaces()
    else:
        derived = DerivedPlaces.of(program) if part is None else _forward_places(part)
    rewriting = _rewriting(before, after, program, derived)
    whole = _forward_part(program, exact)[0] if part is None else None
    rewriting.built = frozenset() if whole is None else whole.built
    if exact:
        require_whole(program, f"rewrite {rewriting.name}")
    new = _rewritten(program, rewriting)
    label = f"rewrite {rewriting.name}"
    return EditResult(new, label, readers=rewriting.renamed, report=rewriting.report())


def _rewriting(before: Any, after: Any, program: Builder, derived: DerivedPlaces) -> Rewriting:
    if after is None:
        return RewritingByRule(program, before, derived)
    return RewritingByPattern(program, before, after, derived)


def _forward_places(part: ForwardPart[Any]) -> DerivedPlaces:
    """Return the differentiated places of a forward part."""
    return DerivedPlaces.of_definition(part.program.definition, (), part.outside)


def _forward_part(program: P, exact: bool) -> tuple[ForwardPart[P] | None, str]:
    """Return the forward part of a differentiated program, or the reason why there is none."""
    if exact:
        return None, ""
    try:
        return forward_part(program), ""
    except NotRepeatableError as reason:
        return None, str(reason)


def _rewritten(program: P, rewriting: Rewriting) -> P:
    """Return the result of a rewriting in place."""

    def change(definition: ProgramDef) -> ProgramDef:
        return check_derivations(program, rewriting.finished(walk(definition, rewriting.visit)))

    new = transform(program, change)
    separate_startup(new, program)
    return new


def _verified(new: P, rewriting: Rewriting) -> P:
    """Return a rewritten program after verification, with the report."""
    with located(rewriting.name):
        verify(new)
    cast("Any", new).report = rewriting.report()
    return new
