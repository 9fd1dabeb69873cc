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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias, final

from braces.define.calling import exhausted, raise_foreign
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.walk import dimensions
from braces.lazy import jax, jnp
from braces.lower.attributes import Sizes
from braces.lower.keeping import the_keeper
from braces.lower.kernels import LARGEST_CONSTANT, MOST_SIZES, Kernel, Ready
from braces.target import MOST_PARTS, Target

Env: TypeAlias = dict[str, Any]
Constants: TypeAlias = dict[Ready, Sequence[Any]]
Found: TypeAlias = tuple[Kernel, Ready]
"""An operator, and what it is for the sizes of a run."""
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
        call: From all that they read to what they give, after what their checks tell, if there
            are any; `None` where there are no others.
    """

    constants: Env
    leading: tuple[Any, ...]
    reads: tuple[str, ...]
    binds: tuple[str, ...]
    call: Callable[..., tuple[Any, Sequence[Any]]] | None

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
        self._runs: dict[Key, int] = {}
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
                self._make_room()
                self._pieces[key] = self._made(env, sizes)
                return True
        except Exception as error:
            _pass_on(error)
        return False

    def _is_hot(self, key: Key) -> bool:
        """Whether they have run often for these sizes, with this run."""
        if len(self._runs) >= MOST_COUNTED:
            self._runs.clear()
        runs = self._runs[key] = self._runs.get(key, 0) + 1
        return runs > self._target.hot and None not in key

    def _make_room(self) -> None:
        """Forget the oldest sizes; they become hot again like others."""
        if len(self._pieces) >= MOST_SIZES:
            oldest = next(iter(self._pieces))
            self._pieces.pop(oldest, None)
            self._runs.pop(oldest, None)

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
    call = None
    if computing:
        call = _compiled(computing, (*leading, *reads), binds, env, target)
    kept = {name: value for name, value in known.items() if name in wanted}
    return Piece(kept, tuple(env[n] for n in leading), tuple(reads), tuple(binds), call)


def _compiled(
    found: Sequence[Found], reads: Sequence[str], binds: Sequence[str], env: Env, target: Target
) -> Callable[..., tuple[Any, Sequence[Any]]]:
    steps = [(kernel, *kernel.inner(ready)) for kernel, ready in found]

    def together(*given: Any) -> tuple[Any, Sequence[Any]]:
        values, told = dict(zip(reads, given, strict=True)), list[Any]()
        for kernel, run, check in steps:
            inputs = [values[name] for name in kernel.reads]
            if check is not None:
                told.append(check(*inputs))
            values.update(zip(kernel.binds, run(*inputs), strict=True))
        wrong = jnp.max(jnp.stack(told)) if told else None
        return wrong, [values[name] for name in binds]

    call = jax.jit(together, compiler_options=dict(target.quickly))
    inputs = [env[name] for name in reads]
    if call.trace(*inputs).jaxpr.effects:
        raise TypeError("What prints or writes does so where it stands.")
    with the_keeper().keeping():
        call(*inputs)
    return call
