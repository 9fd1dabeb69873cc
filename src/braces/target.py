"""What depends on the machine: the numbers and abilities of each, in one table.

No program knows any of it, saved or not. Code is made for a target, passes of a run are told of
it (`braces.passes.core.context`), and the same program gives the same on each. The ways in
which operators compute, where a machine has its own, are tables by platform too
(`braces.ops.conv_pool.cpu_algorithms`); JAX looks them up when it makes the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

XlaOptions: TypeAlias = tuple[tuple[str, bool | int], ...]
"""What XLA is told, by name."""


@dataclass(frozen=True)
class Target:
    """A kind of machine, as far as it decides how code is made.

    Attributes:
        shares: A case of a row-wise branch is compiled for these parts of all rows, too. Each
            is a loop of one trip or none: a jump on a CPU, elsewhere a number that has to be
            waited for.
        asks: Whether loops can ask in between whether to go on; see
        `braces.lower.xla.interruptible_loops`. together: Whether several devices compute one
        run, each what it has of some axes. An
            axis of which devices have parts can lead those that become one with it, not follow.
        host_memory: Whether what a run takes is memory of the host, which tells what it has.
        small: Kernels that read up to so many numbers are compiled quickly to be interpreted.
        quickly: What XLA is told then.
        hot: Such kernels that stand in a row are dispatched together, in code that is made when
            they have run so often; 0 for never. See `braces.lower.interpret.hot_traces`.
        little: A case of a row-wise branch that makes no more numbers for all rows is compiled
            for these alone: to compile it for fewer takes longer than they are computed.
        drawn: Arrays of no more random numbers are drawn piece by piece, many in one loop: that
            takes no longer than to compile a draw more.
        stacked_bytes: What passes compute for all trips of a loop at once takes no more; where
            it would, they do so for some of the trips at a time.
        few_trips: For fewer trips it does not pay to put together or to transpose before a loop
            what each of them reads: that takes as long as some products.
        joined_bytes: Larger weights are not put together for the products of a trip: in pieces
            they stay nearer to where it is computed.
        drawn_bytes: What draws more in a trip of a loop does not leave it for that alone: keys
            take little of its time, and its numbers are in the cache where they are used.
        folded_bytes: What reads more in a trip is added up trip by trip, as the derivatives of
            the weights of convolutions; less, over the batches of all trips at once.
    """

    shares: tuple[int, ...]
    asks: bool
    host_memory: bool
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
        """Numbers of rows below all, from few to many, that a case is compiled for."""
        return [-(-rows // share) for share in self.shares]


OTHER = Target(shares=(16, 4), asks=False, host_memory=False)
"""A machine that no number was measured on."""

ROUNDED: XlaOptions = (("xla_allow_excess_precision", False),)
"""XLA rounds every 16-bit result, also where the next operator makes it wide again.

By itself it leaves out the rounding of a product in bfloat16 that is then cast to float32, and
of all but the last of the operators that it computes in one loop. Compiled runs would then
differ from interpreted ones, where each operator stands alone. It is part of the key under
which compiled code is kept.
"""

MOST_PARTS = 512
QUICKLY: XlaOptions = (
    ("xla_backend_optimization_level", 0),
    ("xla_llvm_disable_expensive_passes", True),
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", MOST_PARTS),
)
"""Compiling a kernel for a CPU takes XLA 30 ms, and half of that with these.

A few thousand numbers take microseconds either way. What is interpreted is many kernels that
mostly run a few times. Each loop that XLA makes is a part of its own: compiled beside others it
may become other code, and give other bits (one that takes `exp` has LLVM optimise all of them).
"""

HOT = 128
"""To compile an operator among others takes as long as some 150 dispatches of it alone."""

CPU = Target(
    shares=(64, 32, 16, 8, 4, 2),
    asks=True,
    host_memory=True,
    small=4096,
    quickly=QUICKLY,
    hot=HOT,
)

TARGETS = {"cpu": CPU}
"""Machines by the platform that JAX says of a device; any other is `OTHER`."""


def target_of(platform: str) -> Target:
    """What code is made for on a platform."""
    return TARGETS.get(platform, OTHER)
