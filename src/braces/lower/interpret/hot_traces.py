"""Operators in a row that run again and again, dispatched together with the same bits.

A call of compiled code takes far longer than a few numbers take to be computed, and what is
interpreted is many such calls. So kernels that follow one another in a block, read little, and
have run often become one function of JAX: each is a computation of its own in it
(`Kernel.inner`), compiled with the options that it has alone, and gives the same bits. What
nobody reads afterwards is not given back.

It is a shortcut and nothing else. Where anything is wrong, a check that fails above all, the
same operators run one by one from the same values, and tell it as they always do. Whoever looks
at single operators, a listener or the profiler, has them run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, TypeAlias, final

from braces.define.core.kernel_call import exhausted, raise_foreign
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Body
from braces.ir.walk import dimensions
from braces.lazy import jax, jnp
from braces.lower.cache.persistent_cache import the_keeper
from braces.lower.interpret.kernels import LARGEST_CONSTANT, MOST_SIZES, Kernel, Ready, apart
from braces.lower.xla.concrete_attributes import Sizes
from braces.ops.control.core.block_op import Call
from braces.target import MOST_PARTS, ROUNDED, Target

Env: TypeAlias = dict[str, Any]
Constants: TypeAlias = dict[Ready, Sequence[Any]]
Found: TypeAlias = tuple[Kernel, Ready]
"""An operator, and what it is for the sizes of a run."""
Together: TypeAlias = Callable[..., tuple[Any, list[Any]]]
Key: TypeAlias = tuple[int | None, ...]
"""The sizes of a run that a bundle depends on."""

LONGEST = MOST_PARTS // 8
"""More operators are several pieces, for XLA can make so many parts of one and no more."""
MOST_COUNTED = 1024


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """Some operators of a bundle in a row, for one set of sizes.

    Attributes:
        constants: What those of them give that read nothing, as far as it is read later.
        leading: What those give that the others read.
        reads: The names of what else the others read.
        binds: The names of what they give that is read later.
        function: From all that they read to what they give, after what their checks tell, if
            there are any; `None` where there are no others.
        call: The same, compiled.
    """

    constants: Env
    leading: tuple[Any, ...]
    reads: tuple[str, ...]
    binds: tuple[str, ...]
    function: Together | None
    call: Together | None

    def run(self, env: Env) -> bool:
        """Compute; `env` gains what is read later. Whether no check told that it is wrong."""
        if self.constants:
            env |= self.constants
        if self.call is not None:
            wrong, results = self.call(*self.leading, *[env[name] for name in self.reads])
            if wrong is not None and wrong.item():
                return False
            env.update(zip(self.binds, results, strict=True))
        return True


@final
class Bundle:
    """Kernels that follow one another in a block.

    Args:
        kernels: All of them, in order.
        types: The types of all that they read and bind.
        wanted: The names that are read after them.
        target: What code is made for.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        types: Mapping[str, Type],
        wanted: Collection[str],
        target: Target,
    ) -> None:
        self._kernels, self._wanted, self._target = kernels, wanted, target
        shapes = tuple(one.shape for one in types.values() if isinstance(one, TensorType))
        named = {name for kernel in kernels for name in kernel.names}
        self._names = tuple(sorted(named | set(dimensions(shapes))))
        self._runs: dict[Any, int] = {}
        self._betweens: dict[Any, Between | None] = {}
        self._pieces: dict[Key, tuple[Kernel | Piece, ...]] = {}

    def run(self, env: Env, sizes: Sizes, constants: Constants) -> bool:
        """Compute all at once, where they have run often; `env` gains what is read later.

        Args:
            env: The values of visible variables.
            sizes: The dimensions of the run.
            constants: What small operators that read nothing gave in this run.

        Returns:
            Whether that is done. Where not, they are still to be run one by one.
        """
        key = tuple(map(sizes.get, self._names))
        pieces = self._pieces.get(key)
        try:
            if pieces:
                return _run_all(pieces, env, sizes, constants)
            if pieces is None and self._is_hot(key):
                for kernel in self._kernels:
                    kernel.run(env, sizes, constants)
                _make_room(self._pieces, self._runs)
                self._pieces[key] = self._made(env, sizes)
                return True
        except Exception as error:
            _pass_on(error)
        return False

    def run_between(
        self, body: Body, env: Env, sizes: Sizes, before: Call, after: Call
    ) -> list[Any] | None:
        """Run a block that has no other operators, and what is computed around it, at once.

        Args:
            body: The block.
            env: The values of variables that are visible outside.
            sizes: The dimensions of the run.
            before: Gives the arguments of the block.
            after: Is called with the results of the block, and then its own values.

        Returns:
            What the last function gives; `None` where all is still to be run one by one.
        """
        inner = tuple(map(sizes.get, self._names))
        pieces = self._pieces.get(inner)
        if not pieces:
            return None
        (first, given), (last, more) = before, after
        key = (*inner, first, last, *[value.shape for value in (*given, *more)])
        try:
            if key not in self._betweens:
                if not self._is_hot(key):
                    return None
                _make_room(self._betweens, self._runs)
                self._betweens[key] = _between(pieces, body, env, before, after, self._target)
            made = self._betweens[key]
            return None if made is None else made.run(env, (*given, *more))
        except Exception as error:
            _pass_on(error)
        return None

    def _is_hot(self, key: tuple[Any, ...]) -> bool:
        """Whether they have run often for these sizes, with this run."""
        if len(self._runs) >= MOST_COUNTED:
            self._runs.clear()
        runs = self._runs[key] = self._runs.get(key, 0) + 1
        return runs > self._target.hot and None not in key

    def _made(self, env: Env, sizes: Sizes) -> tuple[Kernel | Piece, ...]:
        """All of them in pieces; none where that fails, and they stay as they are."""
        found = [(one, one.found([env[n] for n in one.reads], sizes)) for one in self._kernels]
        read_later, made = set(self._wanted), list[Kernel | Piece]()
        try:
            for piece in reversed([*_cut(found, env)]):
                made.append(_together(piece, read_later, env, self._target))
                read_later.update(name for kernel, _ in piece for name in kernel.reads)
        except Exception as error:
            _pass_on(error)
            made.clear()
        return tuple(reversed(made))


def _make_room(made: dict[Any, Any], runs: dict[Any, int]) -> None:
    """Forget what was made first where there is much; it becomes hot again like all else."""
    if len(made) >= MOST_SIZES:
        oldest = next(iter(made))
        made.pop(oldest, None)
        runs.pop(oldest, None)


def _pass_on(error: Exception) -> None:
    """Raise what interrupts the whole program; errors of operators these tell themselves."""
    if not isinstance(error, BracesError) and not exhausted(error):
        raise_foreign(error)


def _run_all(
    pieces: Sequence[Kernel | Piece], env: Env, sizes: Sizes, constants: Constants
) -> bool:
    for piece in pieces:
        if type(piece) is Kernel:
            piece.run(env, sizes, constants)
        elif not piece.run(env):
            return False
    return True


def _cut(found: Sequence[Found], env: Env) -> Iterator[Sequence[Found]]:
    """Pieces in order: small operators that follow one another, or one that is not small."""
    for small, piece in groupby(found, lambda one: _is_small(*one, env)):
        whole, most = tuple(piece), LONGEST if small else 1
        yield from (whole[k : k + most] for k in range(0, len(whole), most))


def _is_small(kernel: Kernel, ready: Ready, env: Env) -> bool:
    if not kernel.constant:
        return ready.quick
    return sum(env[name].size for name in kernel.binds) <= LARGEST_CONSTANT


def _together(
    found: Sequence[Found], wanted: Collection[str], env: Env, target: Target
) -> Kernel | Piece:
    """A piece as it runs; as the first operator alone where it has no other."""
    if len(found) == 1:
        return found[0][0]
    computing = [one for one in found if not one[0].constant]
    known = {name: env[name] for kernel, _ in found if kernel.constant for name in kernel.binds}
    bound = {name: None for kernel, _ in computing for name in kernel.binds}
    read = dict.fromkeys(name for kernel, _ in computing for name in kernel.reads)
    leading = [name for name in read if name in known]
    reads = [name for name in read if name not in known and name not in bound]
    binds = [name for name in bound if name in wanted]
    function = call = None
    if computing:
        given = (*leading, *reads)
        function = _function(computing, given, binds)
        call = _compiled(function, [env[name] for name in given], target)
    kept = {name: value for name, value in known.items() if name in wanted}
    values = tuple(env[name] for name in leading)
    return Piece(kept, values, tuple(reads), tuple(binds), function, call)


def _function(found: Sequence[Found], reads: Sequence[str], binds: Sequence[str]) -> Together:
    steps = [(kernel, *kernel.inner(ready)) for kernel, ready in found]

    def together(*given: Any) -> tuple[Any, list[Any]]:
        values, told = dict(zip(reads, given, strict=True)), list[Any]()
        for kernel, run, check in steps:
            inputs = [values[name] for name in kernel.reads]
            if check is not None:
                told.append(check(*inputs))
            values.update(zip(kernel.binds, run(*inputs), strict=True))
        wrong = jnp.max(jnp.stack(told)) if told else None
        return wrong, [values[name] for name in binds]

    return together


def _compiled(function: Together, inputs: Sequence[Any], target: Target) -> Together:
    call = jax.jit(function, compiler_options=dict((*ROUNDED, *target.quickly)))
    if call.trace(*inputs).jaxpr.effects:
        raise TypeError("What prints or writes does so where it stands.")
    with the_keeper().keeping():
        call(*inputs)
    return call


# ---- between functions of constructs ---------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Between:
    """A block that is one piece, with a function before it and one after it.

    Attributes:
        leading: What operators that read nothing give.
        captures: The names of what the block reads from outside.
        call: From those, and the values of both functions, to what the last one gives, after
            what checks tell.
    """

    leading: tuple[Any, ...]
    captures: tuple[str, ...]
    call: Together

    def run(self, env: Env, values: Sequence[Any]) -> list[Any] | None:
        """What the last function gives; `None` where a check told that something is wrong."""
        outer = [env[name] for name in self.captures]
        wrong, results = self.call(*self.leading, *outer, *values)
        return None if wrong is not None and wrong.item() else results


def _between(
    pieces: Sequence[Kernel | Piece],
    body: Body,
    env: Env,
    before: Call,
    after: Call,
    target: Target,
) -> Between | None:
    """A block between two functions, where it is one piece; `None` where that fails."""
    (piece, *others) = pieces
    if others or type(piece) is not Piece or piece.function is None:
        return None
    try:
        return _around(piece, piece.function, body, env, before, after, target)
    except Exception as error:
        _pass_on(error)
        return None


def _around(
    piece: Piece,
    function: Together,
    body: Body,
    env: Env,
    before: Call,
    after: Call,
    target: Target,
) -> Between:
    (first, given), (last, more) = before, after
    _refuse_large(given, target)
    names, values = (*piece.constants,), (*piece.constants.values(),)
    inside = {*body.params, *piece.binds, *names}
    captures = tuple(dict.fromkeys(n for n in (*piece.reads, *body.results) if n not in inside))
    begin, end = apart(_as_it_is, first), apart(_as_it_is, last)
    counts = len(piece.leading), len(values), len(captures), len(given)

    def together(*every: Any) -> tuple[Any, list[Any]]:
        rest = iter(every)
        leading, constants, outer, seen = (tuple(islice(rest, count)) for count in counts)
        known = dict(zip((*names, *captures), (*constants, *outer), strict=True))
        known.update(zip(body.params, begin(*seen), strict=True))
        wrong, found = function(*leading, *(known[name] for name in piece.reads))
        known.update(zip(piece.binds, found, strict=True))
        results = (*(known[name] for name in body.results), *rest)
        _refuse_large(results, target)
        return wrong, end(*results)

    leading = (*piece.leading, *values)
    inputs = [*leading, *(env[name] for name in captures), *given, *more]
    return Between(leading, captures, _compiled(together, inputs, target))


def _refuse_large(values: Iterable[Any], target: Target) -> None:
    """Leave alone what is compiled with other options where it is alone."""
    if sum(value.size for value in values) > target.small:
        raise TypeError("What is large is compiled as it is alone.")


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
