"""Rules of the rewriting walk for patterns, and for rules of users.

A pattern becomes a rule of the walk, which visits each operator once, inside out. Where an
operator is the last one of a match, the replacement is built before it and takes over the names
of its outputs. Inner operators of matches are removed at the end if nothing reads them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from braces.builder.builder import Builder
from braces.builder.user_functions import calling, function_text, located, signature_of
from braces.builder.var import Var, expose
from braces.errors import DuplicateNameError, ProgramError
from braces.frontend.core.pytree import tree_leaves
from braces.ir.places import Place
from braces.ir.plain_blocks.inlining import InlinedBlock
from braces.ir.records import Op, ProgramDef
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.passes.probing.derived_places import DerivedPlaces
from braces.surgery.derivations.refusals import DifferentiatedError
from braces.surgery.matches.graph_search import unmatched_readers
from braces.surgery.matches.match_report import MatchedPlace, RewriteReport
from braces.surgery.matches.matching import Match, Matcher
from braces.surgery.matches.pattern import Pattern
from braces.surgery.matches.sweep import sweep
from braces.surgery.row_draws import complete_rows
from braces.surgery.substitution import substitute, type_error

Rule = Callable[[Op, InsertionPoint], Any]
_NAMES_OF_MATCHES = (
    "Derive the name from the match, as match['w'].name + '.a'; br.get_variable shares one "
    "variable between matches."
)


class Rewriting:
    """One rewriting of a program, by a rule of the walk.

    Attributes:
        name: The name of the pattern or of the rule, for messages.
        function: The replacement or the rule of the user.
        program: The program.
        derived: Operators whose values a derivative relies on.
        matches: The places that were rewritten.
        built: Names of the operators of the main block that repeated calls build; these, and
            the operators in them, are not rewritten.
        unread: Names of operators that may be unread now, by the path of their block.
        renamed: New names of outputs of the main block.
    """

    name = ""
    function: Callable[..., Any]

    def __init__(self, program: Builder, derived: DerivedPlaces) -> None:
        self.program = program
        self.derived = derived
        self.matches: list[MatchedPlace] = []
        self.built: frozenset[str] = frozenset()
        self.unread: dict[str, set[str]] = {}
        self.renamed: dict[str, str] = {}
        self._read: dict[str, set[str]] = {}
        self._changed: set[str] = set()

    def visit(self, op: Op, place: InsertionPoint) -> Replacement:
        """Apply the rule to an operator; new operators in row-wise branches see their rows."""
        count = len(self.matches)
        replacement = self.rule(op, place)
        if len(self.matches) > count:
            self._changed.add(place.path)
        if not isinstance(replacement, Op) or not self._has_changed_inside(op, place):
            return replacement
        with located(self.name):
            return complete_rows(replacement, place)

    def _has_changed_inside(self, op: Op, place: InsertionPoint) -> bool:
        """Return whether a block of an operator changed; then its own block has changed."""
        path = place.where(op) if op.bodies() else ""
        changed = any(f"{path}/{label}" in self._changed for label in op.bodies())
        if changed:
            self._changed.add(place.path)
        return changed

    def rule(self, op: Op, place: InsertionPoint) -> Replacement:
        """Return the replacement of an operator; a rule of the walk."""
        raise NotImplementedError

    def is_built(self, op: Op, place: InsertionPoint) -> bool:
        """Return whether a call of `gradients`, `jvp` or `minimize` builds an operator."""
        if not self.built:
            return False
        while place.outer is not None and place.owner is not None:
            op, place = place.owner, place.outer
        return op.name in self.built

    def report(self) -> RewriteReport:
        """Return the report."""
        return RewriteReport(self.name, tuple(self.matches))

    def finished(self, definition: ProgramDef) -> ProgramDef:
        """Return the rewritten program without the inner operators that nothing reads."""
        if not any(self.unread.values()):
            return definition
        main = sweep(definition.main, "", self.unread, set(definition.updates.values()))
        return definition.with_(main=main)

    def is_read(self, name: str, place: InsertionPoint) -> bool:
        """Return whether an operator, a result or an update reads a variable of a block."""
        if place.path not in self._read:
            names = {read for op in place.body.ops for read in op.reads()}
            updates = () if place.outer is not None else self.program.updates.values()
            self._read[place.path] = names.union(place.body.results, updates)
        return name in self._read[place.path]

    def refuse_derived(self, ops: Sequence[Op], path: str, place: InsertionPoint) -> None:
        """Raise an error if a derivative relies on the values of an operator."""
        reasons = (self.derived.reason(op, place) for op in ops)
        kind, name = next((reason for reason in reasons if reason is not None), ("", ""))
        if kind == "custom":
            raise ProgramError(
                f"the rewriting would invalidate the user-written gradient `{name}`.",
                at=f"{self.name}, at `{path}`",
                fix="Exclude the place by br.pattern(where=...), or pass exact=True if the "
                "replacement computes the same values.",
            )
        if kind:
            raise DifferentiatedError(
                f"`{path}` is already differentiated; its gradient would remain that of the "
                "old values.",
                at=f"{self.name}, at `{path}`",
                given=f"the derivative of `{name}`" if name else None,
                fix="Rewrite br.prune(prog, [loss]) and differentiate the new program, or pass "
                "exact=True if the replacement computes the same values.",
            )

    def substitute(
        self, old_names: Sequence[str], values: Sequence[Var], place: InsertionPoint, path: str
    ) -> None:
        """Give new values the names of the outputs that they replace.

        Values that were not built for this place pass through an identity.
        """
        for old, value in zip(old_names, values, strict=True):
            self._check_type(old, value, place, path)
        substitute(place, old_names, values)

    def _check_type(self, old: str, value: Var, place: InsertionPoint, path: str) -> None:
        before = place.body.vars[old].type.map_sizes(place.table.unifier.resolve)
        if value.type != before:
            label = f"{self.name}, at `{path}`, in {function_text(self.function)}"
            raise type_error(old, before, value, label, "; br.cast converts a dtype.")


class RewritingByPattern(Rewriting):
    """Rewriting by a pattern and a function of its wildcards."""

    def __init__(
        self, program: Builder, before: Any, after: Any, derived: DerivedPlaces
    ) -> None:
        self.pattern = before if isinstance(before, Pattern) else Pattern(before)
        self.name = f"`{self.pattern.__name__}`"
        self.matcher = Matcher(self.pattern)
        self.function = after
        self.keywords = _keywords(self.pattern, after)
        super().__init__(program, derived)

    def report(self) -> RewriteReport:
        """Return the report, with near misses."""
        paths = {match.path for match in self.matches}
        near = self.matcher.near.best(paths)
        return RewriteReport(self.pattern.__name__, tuple(self.matches), near)

    def rule(self, op: Op, place: InsertionPoint) -> Replacement:
        """Return the replacement where an operator is the last one of a match."""
        match = self.matcher.match(op, place, lambda found: self._refused(found, place))
        if match is None:
            return op
        self.refuse_derived(list(match.ops.values()), match.path, place)
        renamed = self._retire(match, place)
        values = self._replacement(match, place, renamed)
        self.substitute(match.outputs, values, place, match.path)
        own = {each.name for each in match.ops.values() if each is not op}
        bound = set(renamed.values())
        retired = (place.maker(name) for name in bound)
        own |= {each.name for each in retired if each is not None}
        self.unread.setdefault(place.path, set()).update(own - {op.name})
        self.matches.append(MatchedPlace(match.path, op.source))
        return {}

    def _refused(self, match: Match, place: InsertionPoint) -> str | None:
        """Return the reason for which a match cannot be replaced."""
        built = next((op for op in match.ops.values() if self.is_built(op, place)), None)
        if built is not None:
            return f"`{built.name}` belongs to a derivative or a step of an optimizer"
        outputs = set(match.outputs)
        if len(outputs) < len(set(match.graph.outputs)):
            return "two outputs of the pattern are one variable"
        for name in match.op.binds():
            if name not in outputs and self.is_read(name, place):
                return f"`{name}` is read, too, and is no output of the pattern"
        for name in outputs - set(match.op.binds()):
            maker = place.maker(name)
            if maker is None or name not in place.table.vars:
                return f"`{name}` is in a block around it; matches do not cross blocks"
            ops = (each.name for each in match.ops.values())
            reader = unmatched_readers(ops, place.readers(name))
            if reader is not None:
                return f"`{name}` is read by `{reader.name}` before `{match.op.name}`"
        return None

    def _retire(self, match: Match, place: InsertionPoint) -> dict[str, str]:
        """Free the names of outputs of earlier operators; return their new names."""
        earlier = [name for name in match.outputs if name not in {*match.op.binds()}]
        return {name: place.retire(name) for name in dict.fromkeys(earlier)}

    def _replacement(
        self, match: Match, place: InsertionPoint, renamed: Mapping[str, str]
    ) -> list[Var]:
        """Build the replacement, and return its values."""
        names = [match.vars[name] for name in self.pattern.wildcards]
        values = {"match": match} | dict(match.attributes)
        keywords = {key: values[key] for key in self.keywords}
        try:
            with place.building():
                variables = [place.var(renamed.get(name, name)) for name in names]
                where = f"match {len(self.matches) + 1} of {self.name}, at `{match.path}`"
                with calling(self.function, where):
                    return self._values(self.function(*variables, **keywords), match)
        except DuplicateNameError as error:
            if self.matches:
                error.fix = _NAMES_OF_MATCHES
            raise

    def _values(self, result: Any, match: Match) -> list[Var]:
        values, count = tree_leaves(result), len(match.outputs)
        wrong = next((value for value in values if not isinstance(value, Var)), None)
        if wrong is not None or len(values) != count:
            raise ProgramError(
                f"expected {count} variable{'s' * (count != 1)} from the replacement, got "
                f"{result!r:.80}.",
                fix="Return a variable for each output of the pattern; br.full_like(x, 0.0) "
                "returns a constant of a type.",
            )
        return [expose(cast("Var", value).read()) for value in values]


def _keywords(before: Pattern, after: Any) -> list[str]:
    """Return the keywords that the replacement takes: `match`, and attribute wildcards.

    A replacement with `**kwargs` takes all attribute wildcards.

    Raises:
        ProgramError: If the replacement does not take the variables of the pattern.
    """
    if not callable(after):
        raise ProgramError(
            f"expected a function as the replacement, got {after!r:.80}.",
            fix="Pass a function of the variables of the pattern: lambda x: br.relu(x).",
        )
    signature = signature_of(after, "a replacement")
    known = {"match", *before.attributes}
    parameters = signature.parameters.values()
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name in known]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        keywords = list(dict.fromkeys([*keywords, *before.attributes]))
    try:
        signature.bind(*before.wildcards, **dict.fromkeys(keywords))
    except TypeError as error:
        raise ProgramError(
            f"the replacement does not take the variables of the pattern: {error}.",
            given=f"pattern: ({', '.join(before.wildcards)})   replacement: {signature}",
            fix="Give it the same positional parameters; `match` and attributes are "
            "keyword-only.",
        ) from None
    return keywords


class RewritingByRule(Rewriting):
    """Rewriting by a rule for single operators."""

    def __init__(self, program: Builder, rule: Any, derived: DerivedPlaces) -> None:
        if not callable(rule) or isinstance(rule, Pattern) or not _takes(rule, 2):
            raise ProgramError(
                f"expected a rule, got {rule!r:.80}.",
                fix="Pass a function of an operator and its place, or a pattern and its "
                "replacement: prog.rewrite(before, after).",
            )
        self.function = cast("Rule", rule)
        self._removed: dict[str, tuple[str, str]] = {}
        self.name = f"`{getattr(rule, '__name__', type(rule).__name__)}`"
        super().__init__(program, derived)

    def rule(self, op: Op, place: InsertionPoint) -> Replacement:
        """Return the replacement that the rule of the user gives."""
        if self.is_built(op, place):
            return op
        with calling(self.function, f"`{place.where(op)}`"):
            change = self.function(op, place)
        if change is op:
            return op
        path = place.where(op)
        self.refuse_derived([op], path, place)
        self.matches.append(MatchedPlace(path, op.source))
        if change is None:
            self._removed |= dict.fromkeys(op.binds(), (path, op.type))
        if isinstance(change, Op | InlinedBlock) or change is None:
            return change
        if isinstance(change, Mapping):
            return self._renamed(cast("Mapping[str, str]", change), place, path)
        values = [value for value in tree_leaves(change) if isinstance(value, Var)]
        names = [*op.binds()]
        if len(values) != len(names) or len(values) != len(tree_leaves(change)):
            raise ProgramError(
                f"expected a replacement of `{op.name}`, got {change!r:.80}.",
                at=f"`{path}`, in {function_text(self.function)}",
                given=f"outputs: {', '.join(names)}",
                fix="Return the operator to leave it as it is, a variable for each of its "
                "outputs, an operator, or a mapping from old to new names.",
            )
        self.substitute(names, [value.read() for value in values], place, path)
        return {}

    def finished(self, definition: ProgramDef) -> ProgramDef:
        """Return the rewritten program, in which nothing reads a removed operator."""
        if self._removed:
            self._refuse_readers(Place.main(definition))
        return super().finished(definition)

    def _refuse_readers(self, main: Place) -> None:
        """Raise an error if the rule has removed an operator that is read.

        Raises:
            ProgramError: If there is a reader; the message names both.
        """
        for place, names, reason in _reads(main, self.program.updates):
            for name in names:
                path, type_ = self._removed.get(name, ("", ""))
                if path and place.binder(name) is None:
                    raise ProgramError(
                        f"the rule removed `{path}` ({type_}), but {reason}.",
                        at=f"`{path}`, in {function_text(self.function)}",
                        fix="Return another variable for it, or remove its readers too.",
                    )

    def _renamed(
        self, names: Mapping[str, str], place: InsertionPoint, path: str
    ) -> Mapping[str, str]:
        """Keep the names of outputs whose new values the rule has built for them alone."""
        wrong = next((each for each in names.items() if not _are_names(*each)), None)
        if wrong is not None:
            raise ProgramError(
                f"expected a mapping from old to new names from the rule, got {names!r:.80}.",
                at=f"`{path}`, in {function_text(self.function)}",
                fix="Return the name of a new variable for each output.",
            )
        for old, new in names.items():
            self._check_type(old, place.var(new), place, path)
        alone = [new for new in names.values() if [*names.values()].count(new) == 1]
        built = {old: new for old, new in names.items() if new in alone and place.is_built(new)}
        place.keep_names({new: old for old, new in built.items()})
        merged = {old: new for old, new in names.items() if old not in built}
        if place.outer is None:
            self.renamed |= merged
        return merged


def _are_names(old: object, new: object) -> bool:
    return isinstance(old, str) and isinstance(new, str)


def _reads(
    main: Place, updates: Mapping[str, str]
) -> Iterator[tuple[Place, Iterable[str], str]]:
    """Yield blocks, inner ones first, with variables that are read there and their reader."""
    for place in reversed(list(main.walk())):
        for op in place.body.ops:
            yield place, op.reads(), f"`{place.path_of(op.name)}` ({op.type}) reads it"
        what = f"the block `{place.path}`" if place.path else "the program"
        yield place, place.body.results, f"it is a result of {what}"
    for name, value in updates.items():
        yield main, (value,), f"it is the next value of `{name}`"


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True
