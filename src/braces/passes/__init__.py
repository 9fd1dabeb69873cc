"""Passes: from program to program, one a file; no pass names an operator type.

    exe = br.Executor(passes=(*br.passes.default, mine))
    exe = br.Executor(passes=br.passes.default.without("batch"))
    mine = br.passes.Pass("mine", function)      # from ProgramDef to ProgramDef
    small = br.passes.eliminate(prog)            # a new program
    exe = br.Executor(passes=(*br.passes.default, br.passes.mixed_precision("bfloat16")))
    cut = br.passes.segments(16)(prog)           # some are made with what they need to know
    sloped = br.passes.gradients("loss", ["w", "b"])(prog)   # gives w_grad and b_grad as well
    print(prog.explain())                        # what each pass did, or why not

Attributes:
    default: What an executor runs by itself.
"""

from braces.passes.autodiff.checkpoint import segments
from braces.passes.autodiff.passes import gradients, jvp
from braces.passes.core.pipeline import Pass, note
from braces.passes.registry import (
    BATCH as batch,
    CHUNK as chunk,
    DEFAULT as default,
    DEFER as defer,
    DELAY as delay,
    DROP_GRADIENTS as drop_gradients,
    ELIMINATE as eliminate,
    FOR_TEST as for_test,
    HOIST as hoist,
    INLINE as inline,
    LAYOUT as layout,
    MASK_ROWS as mask_rows,
    MERGE as merge,
    OPEN_STEPS as open_steps,
    PRUNE as prune,
    RECOMPUTE as recompute,
    ROUND_ROWS as round_rows,
    SEPARATE as separate,
    SHARE as share,
    SIMPLIFY as simplify,
    SPLIT as split,
    VERIFY as verify,
)
from braces.passes.rows.ragged_steps import lengths
from braces.passes.training.mixed_precision import mixed_precision

__all__ = [
    "Pass",
    "batch",
    "chunk",
    "default",
    "defer",
    "delay",
    "drop_gradients",
    "eliminate",
    "for_test",
    "gradients",
    "hoist",
    "inline",
    "jvp",
    "layout",
    "lengths",
    "mask_rows",
    "merge",
    "mixed_precision",
    "note",
    "open_steps",
    "prune",
    "recompute",
    "round_rows",
    "segments",
    "separate",
    "share",
    "simplify",
    "split",
    "verify",
]


def __dir__() -> list[str]:
    return __all__
