"""Tracing JIT of the interpreter: hot runs of small kernels become one compiled call.

Dispatching a compiled kernel takes far longer than computing a few numbers, and the interpreter
dispatches one kernel per operator. A `HotTrace` is a sequence of adjacent small kernels of one
block. It counts its runs for each key, which is the tuple of sizes that the kernels depend on:

    COLD      runs <= target.hot: kernels are dispatched one by one
      |       runs > target.hot and every size is known
    HOT       kernels are dispatched one by one a last time, then fused
      |
      +--> COMPILED   one call for each piece; an entry evicted at `MAX_SIZE_SETS` is COLD again
      +--> REFUSED    fusion failed: kernels stay one by one

`FusionTable` is this state machine. A second one is for the block of a loop that is one trace:
`run_between` fuses it with the functions of the construct before and after it.

In a fused call each kernel is a separate computation (`Kernel.inner`), compiled with the
options that it has alone, so the results have the same bits. Values without later readers are
not returned.

Fusion is an optimization only. If a check fails or anything is wrong in a COMPILED call, the
trace is left and the same operators run one by one from the same values; they raise the error.
A listener or profiler that observes single operators disables traces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby, islice
from typing import Any, Generic, Literal, TypeAlias, TypeVar, final

from braces.define.core.kernel_call import is_out_of_memory, reraise_foreign
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Body
from braces.ir.walk import dimensions
from braces.lazy import jax, jnp
from braces.lower.cache.persistent_cache import get_persistent_cache
from braces.lower.compiler_options import compiler_options
from braces.lower.interpret.kernels import (
    MAX_CONSTANT_ELEMENTS,
    MAX_SIZE_SETS,
    Kernel,
    SpecializedKernel,
    isolate_computation,
)
from braces.lower.xla.concrete_attributes import Sizes
from braces.ops.control.core.block_op import BoundCall
from braces.target import MAX_CODEGEN_PARTS, Target

Env: TypeAlias = dict[str, Any]
Constants: TypeAlias = dict[SpecializedKernel, Sequence[Any]]
SpecializedPair: TypeAlias = tuple[Kernel, SpecializedKernel]
"""An operator, and its specialization for the sizes of a run."""
FusedFunction: TypeAlias = Callable[..., tuple[Any, list[Any]]]
Key: TypeAlias = tuple[Any, ...]
"""The properties of a run that fused code depends on; sizes that are unknown are `None`."""
Code = TypeVar("Code")

MAX_PIECE_OPS = MAX_CODEGEN_PARTS // 8
"""Operators of a piece: XLA compiles a computation in at most `MAX_CODEGEN_PARTS` parts."""
MAX_COUNTED_KEYS = 1024


@dataclass(frozen=True, eq=False, slots=True)
class FusedKernel:
    """Adjacent operators of a trace, fused for one set of sizes.

    Attributes:
        constants: The results of its operators without inputs, if they are read later.
        leading: The results of operators without inputs that the other operators read.
        reads: The names of all other inputs of these operators.
        binds: The names of their results that are read later.
        function: Maps all inputs to the failure code of the checks (`None` without checks) and
            the results; `None` if there are no such operators.
        call: The compiled `function`.
    """

    constants: Env
    leading: tuple[Any, ...]
    reads: tuple[str, ...]
    binds: tuple[str, ...]
    function: FusedFunction | None
    call: FusedFunction | None

    def run(self, env: Env) -> bool:
        """Compute the piece and add its results to `env`; return `False` if a check failed."""
        if self.constants:
            env |= self.constants
        if self.call is not None:
            wrong, results = self.call(*self.leading, *[env[name] for name in self.reads])
            if wrong is not None and wrong.item():
                return False
            env.update(zip(self.binds, results, strict=True))
        return True


class TraceState(Enum):
    """State of a trace for a key; it is COMPILED where its table has code."""

    COLD = auto()
    HOT = auto()
    REFUSED = auto()


@final
class FusionTable(Generic[Code]):
    """Fused code of a trace, and its state for each key.

    Attributes:
        code: The code of COMPILED keys.
    """

    def __init__(self, target: Target) -> None:
        self._hot, self._runs = target.hot, dict[Key, int]()
        self.code: dict[Key, Code | Literal[TraceState.REFUSED]] = {}

    def advance(self, key: Key) -> Code | TraceState:
        """Count a run; return the code if it is COMPILED, else the state."""
        code = self.code.get(key)
        if code is not None:
            return code
        if len(self._runs) >= MAX_COUNTED_KEYS:
            self._runs.clear()
        runs = self._runs[key] = self._runs.get(key, 0) + 1
        return TraceState.HOT if runs > self._hot and None not in key else TraceState.COLD

    def fuse(self, key: Key, fuse: Callable[[], Code]) -> Code | TraceState:
        """Enter the code of a HOT key; if fusion fails, the key is REFUSED.

        A full table evicts its oldest entry, whose count restarts.
        """
        if len(self.code) >= MAX_SIZE_SETS:
            oldest = next(iter(self.code))
            self.code.pop(oldest, None)
            self._runs.pop(oldest, None)
        try:
            code = fuse()
        except Exception as error:
            _reraise_unrelated(error)
            code = TraceState.REFUSED
        self.code[key] = code
        return code


Pieces: TypeAlias = tuple[Kernel | FusedKernel, ...]


@final
class HotTrace:
    """Hot trace: kernels that follow one another in a block.

    Args:
        kernels: All of them, in order.
        types: The types of all values that they read and bind.
        wanted: The names that are read after them.
        target: The target of compilation.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        types: Mapping[str, Type],
        wanted: Collection[str],
        target: Target,
    ) -> None:
        self._kernels, self._wanted, self._target = kernels, wanted, target
        shapes = tuple(type_.shape for type_ in types.values() if isinstance(type_, TensorType))
        named = {name for kernel in kernels for name in kernel.names}
        self._names = tuple(sorted(named | set(dimensions(shapes))))
        self._pieces = FusionTable[Pieces](target)
        self._regions = FusionTable[FusedRegion](target)

    def run(self, env: Env, sizes: Sizes, constants: Constants) -> bool:
        """Run the trace if it is hot; `env` gains the results that are read later.

        Args:
            env: The values of visible variables.
            sizes: The dimensions of the run.
            constants: The results of small operators without inputs in this run.

        Returns:
            `True` if the kernels ran. On `False` they are still to be run one by one.
        """
        key = tuple(map(sizes.get, self._names))
        pieces = self._pieces.advance(key)
        try:
            if type(pieces) is tuple:
                return _run_pieces(pieces, env, sizes, constants)
            if pieces is TraceState.HOT:
                for kernel in self._kernels:
                    kernel.run(env, sizes, constants)
                self._pieces.fuse(key, lambda: self._fuse_pieces(env, sizes))
                return True
        except Exception as error:
            _reraise_unrelated(error)
        return False

    def run_between(
        self, body: Body, env: Env, sizes: Sizes, before: BoundCall, after: BoundCall
    ) -> list[Any] | None:
        """Run a block that is one trace, together with the functions before and after it.

        Args:
            body: The block.
            env: The values of variables that are visible outside.
            sizes: The dimensions of the run.
            before: Computes the arguments of the block.
            after: Takes the results of the block, then its own values.

        Returns:
            The results of the last function; `None` if everything is still to be run one by
            one.
        """
        key = tuple(map(sizes.get, self._names))
        pieces = self._pieces.code.get(key)
        if type(pieces) is not tuple:
            return None
        (first, before_values), (last, after_values) = before, after
        values = (*before_values, *after_values)
        key = (*key, first, last, *[value.shape for value in values])
        region = self._regions.advance(key)
        if region is TraceState.HOT:
            region = self._regions.fuse(
                key, lambda: _fuse_region(pieces, body, env, before, after, self._target)
            )
        try:
            return region.run(env, values) if type(region) is FusedRegion else None
        except Exception as error:
            _reraise_unrelated(error)
        return None

    def _fuse_pieces(self, env: Env, sizes: Sizes) -> Pieces:
        """Fuse all kernels into pieces."""
        ops = [(k, k.specialize([env[n] for n in k.reads], sizes)) for k in self._kernels]
        read_later, pieces = set(self._wanted), list[Kernel | FusedKernel]()
        for piece in reversed([*_split_into_pieces(ops, env)]):
            pieces.append(_fuse_piece(piece, read_later, env, self._target))
            read_later.update(name for kernel, _ in piece for name in kernel.reads)
        return tuple(reversed(pieces))


def _reraise_unrelated(error: Exception) -> None:
    """Raise errors of the whole program; ignore those that single operators would raise."""
    if not isinstance(error, BracesError) and not is_out_of_memory(error):
        reraise_foreign(error)


def _run_pieces(pieces: Pieces, env: Env, sizes: Sizes, constants: Constants) -> bool:
    for piece in pieces:
        if type(piece) is Kernel:
            piece.run(env, sizes, constants)
        elif not piece.run(env):
            return False
    return True


def _split_into_pieces(
    ops: Sequence[SpecializedPair], env: Env
) -> Iterator[Sequence[SpecializedPair]]:
    """Split operators into pieces: adjacent small ones, or one that is not small."""
    for small, part in groupby(ops, lambda op: _is_small(*op, env)):
        group, most = tuple(part), MAX_PIECE_OPS if small else 1
        yield from (group[k : k + most] for k in range(0, len(group), most))


def _is_small(kernel: Kernel, ready: SpecializedKernel, env: Env) -> bool:
    if not kernel.constant:
        return ready.quick
    return sum(env[name].size for name in kernel.binds) <= MAX_CONSTANT_ELEMENTS


def _fuse_piece(
    ops: Sequence[SpecializedPair], wanted: Collection[str], env: Env, target: Target
) -> Kernel | FusedKernel:
    """Fuse a piece; a single operator is returned as it is."""
    if len(ops) == 1:
        return ops[0][0]
    computing = [op for op in ops if not op[0].constant]
    constant_values = {
        name: env[name] for kernel, _ in ops if kernel.constant for name in kernel.binds
    }
    bound = {name: None for kernel, _ in computing for name in kernel.binds}
    read = dict.fromkeys(name for kernel, _ in computing for name in kernel.reads)
    leading = [name for name in read if name in constant_values]
    reads = [name for name in read if name not in constant_values and name not in bound]
    binds = [name for name in bound if name in wanted]
    function = call = None
    if computing:
        input_names = (*leading, *reads)
        function = _build_function(computing, input_names, binds)
        call = _compile_function(function, [env[name] for name in input_names], target)
    constants = {name: value for name, value in constant_values.items() if name in wanted}
    values = tuple(env[name] for name in leading)
    return FusedKernel(constants, values, tuple(reads), tuple(binds), function, call)


def _build_function(
    ops: Sequence[SpecializedPair], reads: Sequence[str], binds: Sequence[str]
) -> FusedFunction:
    steps = [(kernel, *kernel.inner(ready)) for kernel, ready in ops]

    def together(*arguments: Any) -> tuple[Any, list[Any]]:
        values, codes = dict(zip(reads, arguments, strict=True)), list[Any]()
        for kernel, run, check in steps:
            inputs = [values[name] for name in kernel.reads]
            if check is not None:
                codes.append(check(*inputs))
            values.update(zip(kernel.binds, run(*inputs), strict=True))
        wrong = jnp.max(jnp.stack(codes)) if codes else None
        return wrong, [values[name] for name in binds]

    return together


def _compile_function(
    function: FusedFunction, inputs: Sequence[Any], target: Target
) -> FusedFunction:
    call = jax.jit(function, compiler_options=compiler_options(target.quickly))
    if call.trace(*inputs).jaxpr.effects:
        raise TypeError("operators with side effects are not fused")
    with get_persistent_cache().keeping():
        call(*inputs)
    return call


# ---- blocks fused with the functions around them ---------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class FusedRegion:
    """A block of one piece, fused with the function before it and the function after it.

    Attributes:
        leading: The results of operators without inputs.
        captures: The names of outer variables that the block reads.
        call: Maps `leading`, `captures` and the values of both functions to the failure code of
            the checks and the results of the last function.
    """

    leading: tuple[Any, ...]
    captures: tuple[str, ...]
    call: FusedFunction

    def run(self, env: Env, values: Sequence[Any]) -> list[Any] | None:
        """Return the results of the last function; `None` if a check failed."""
        outer = [env[name] for name in self.captures]
        wrong, results = self.call(*self.leading, *outer, *values)
        return None if wrong is not None and wrong.item() else results


def _fuse_region(
    pieces: Pieces, body: Body, env: Env, before: BoundCall, after: BoundCall, target: Target
) -> FusedRegion:
    """Fuse a block of one piece with the functions around it."""
    piece, *others = pieces
    if others or type(piece) is not FusedKernel or piece.function is None:
        raise TypeError("a block of several pieces, or without computation, is not fused")
    function = piece.function
    (first, before_values), (last, after_values) = before, after
    _refuse_large(before_values, target)
    names, values = (*piece.constants,), (*piece.constants.values(),)
    inside = {*body.params, *piece.binds, *names}
    captures = tuple(dict.fromkeys(n for n in (*piece.reads, *body.results) if n not in inside))
    begin, end = (isolate_computation(_return_function, each) for each in (first, last))
    counts = len(piece.leading), len(values), len(captures), len(before_values)

    def together(*every: Any) -> tuple[Any, list[Any]]:
        arguments = iter(every)
        leading, constants, outer, before_inputs = (
            tuple(islice(arguments, count)) for count in counts
        )
        known = dict(zip((*names, *captures), (*constants, *outer), strict=True))
        known.update(zip(body.params, begin(*before_inputs), strict=True))
        wrong, piece_results = function(*leading, *(known[name] for name in piece.reads))
        known.update(zip(piece.binds, piece_results, strict=True))
        results = (*(known[name] for name in body.results), *arguments)
        _refuse_large(results, target)
        return wrong, end(*results)

    leading = (*piece.leading, *values)
    inputs = [*leading, *(env[name] for name in captures), *before_values, *after_values]
    return FusedRegion(leading, captures, _compile_function(together, inputs, target))


def _refuse_large(values: Iterable[Any], target: Target) -> None:
    """Refuse large values, whose kernels alone are compiled with other options."""
    if sum(value.size for value in values) > target.small:
        raise TypeError("operators with large operands are not fused")


def _return_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
