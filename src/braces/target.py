"""Machine-dependent parameters: the constants and capabilities of each target, in one table.

Programs, saved or not, are target-independent. The target is chosen at compile time, and passes
of a run read it (`braces.passes.core.context`); results are the same on each. Algorithms of
operators that differ between machines are tables by platform too
(`braces.ops.conv_pool.cpu_algorithms`); JAX selects them at compile time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

XlaOptions: TypeAlias = tuple[tuple[str, bool | int], ...]
"""Options of XLA, by name."""


@dataclass(frozen=True)
class Target:
    """A kind of machine, as far as it affects compilation.

    Attributes:
        shares: The fractions of all rows for which a case of a masked branch is compiled, too.
            Each is a loop of one iteration or none: a jump on a CPU, elsewhere a number that
            has to be waited for.
        asks: Whether loops are interruptible; see `braces.lower.xla.interruptible_loops`.
        together: Whether several devices compute one run, each with shards along some axes. A
            sharded axis can be the first of the axes that are merged into one, but not a later
            one.
        small: The largest number of elements that a kernel reads to be compiled quickly for
            interpretation.
        quickly: The XLA options for such kernels.
        hot: The number of runs after which adjacent kernels of this kind are compiled into one
            call; 0 for never. See `braces.lower.interpret.hot_traces`.
        little: A case of a masked branch that computes no more elements for all rows is
            compiled for all rows only: compiling it for fewer takes longer than computing.
        drawn: Random arrays of at most this many elements are drawn in pieces, many arrays in
            one loop: that takes no longer than compiling one more draw.
        stacked_bytes: The largest result that passes compute for all iterations of a loop at
            once; above it, they strip-mine the loop.
        few_trips: Below this trip count, passes do not concatenate or transpose loop invariants
            before a loop: that takes as long as some matmuls.
        joined_bytes: Larger weights are not concatenated for the matmuls of an iteration:
            separate pieces have better cache locality.
        drawn_bytes: Random operators that draw more bytes per iteration are not moved out of a
            loop for that alone: keys take little of its time, and the numbers are in the cache
            at their use.
        folded_bytes: Operators that read more bytes per iteration are accumulated iteration by
            iteration, as weight gradients of convolutions; smaller ones are reduced over the
            batches of all iterations at once.
    """

    shares: tuple[int, ...]
    asks: bool
    together: bool = False
    small: int = 0
    quickly: XlaOptions = ()
    hot: int = 0
    little: int = 2**15
    drawn: int = 2**22
    stacked_bytes: int = 2**30
    few_trips: int = 16
    joined_bytes: int = 2**18
    drawn_bytes: int = 2**16
    folded_bytes: int = 2**13

    def capacities(self, rows: int) -> list[int]:
        """Return the row counts below `rows` that a case is compiled for, ascending."""
        return [-(-rows // share) for share in self.shares]


OTHER = Target(shares=(16, 4), asks=False)
"""The default target, without measured constants."""

ROUNDED: XlaOptions = (("xla_allow_excess_precision", False),)
"""XLA rounds every 16-bit result, even if the next operator widens it again.

By default it omits the rounding of a bfloat16 matmul that is then cast to float32, and of all
but the last operator of a fusion. Compiled runs would then differ from interpreted ones, which
compile each operator alone. The option is part of the key of the persistent cache.
"""

MAX_CODEGEN_PARTS = 512
QUICKLY: XlaOptions = (
    ("xla_backend_optimization_level", 0),
    ("xla_llvm_disable_expensive_passes", True),
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", MAX_CODEGEN_PARTS),
)
"""Options that halve the compile time of a small kernel for a CPU; see docs/decisions, 0026.

They pay because interpretation uses many kernels that mostly run a few times, on few elements.
Each loop of XLA is compiled as a separate part: compiled together with others it may become
other code, and give other bits (a loop with `exp` makes LLVM optimize all of them).
"""

HOT_RUNS = 128
"""Compiling an operator in a fused call takes about as long as this many dispatches of it."""

CPU = Target(
    shares=(64, 32, 16, 8, 4, 2),
    asks=True,
    small=4096,
    quickly=QUICKLY,
    hot=HOT_RUNS,
)

TARGETS = {"cpu": CPU}
"""Targets by the platform of a JAX device; all others are `OTHER`."""


def target_of(platform: str) -> Target:
    """Return the target of a platform."""
    return TARGETS.get(platform, OTHER)
