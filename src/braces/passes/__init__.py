"""Passes: functions from program to program, one per file; no pass names an operator type.

    exe = br.Executor(passes=(*br.passes.default, mine))
    exe = br.Executor(passes=br.passes.default.without("vectorize_before"))
    mine = br.passes.Pass("mine", function)      # from ProgramDef to ProgramDef
    small = br.passes.dce(prog)                  # a new program
    exe = br.Executor(passes=(*br.passes.default, br.passes.mixed_precision("bfloat16")))
    cut = br.passes.checkpoint(16)(prog)           # some passes take arguments
    sloped = br.passes.gradients("loss", ["w", "b"])(prog)   # gives w_grad and b_grad as well
    print(prog.explain())                        # changes, and missed optimizations

Attributes:
    default: The passes of an executor that was given none.
"""

from braces.passes.autodiff.checkpoint import checkpoint
from braces.passes.autodiff.passes import gradients, jvp
from braces.passes.core.pipeline import Pass, note
from braces.passes.registry import (
    CANONICALIZE as canonicalize,
    CSE as cse,
    DCE as dce,
    DEFAULT as default,
    DROP_CUSTOM_GRADIENTS as drop_custom_gradients,
    FISSION as fission,
    FOR_TEST as for_test,
    FUSE_MATMULS as fuse_matmuls,
    INLINE as inline,
    INLINE_IN_LOOPS as inline_in_loops,
    LICM as licm,
    MASK_PADDING as mask_padding,
    PAD_ROW_COUNT as pad_row_count,
    PRETRANSPOSE as pretranspose,
    PRUNE as prune,
    REMATERIALIZE as rematerialize,
    REMOVE_DELAY_MEMORIES as remove_delay_memories,
    SPLIT_CONCAT_MATMUL as split_concat_matmul,
    STRIP_MINE as strip_mine,
    VECTORIZE_AFTER as vectorize_after,
    VECTORIZE_BEFORE as vectorize_before,
    VERIFY as verify,
)
from braces.passes.rows.ragged_steps import ragged_steps
from braces.passes.training.mixed_precision import mixed_precision

__all__ = [
    "Pass",
    "canonicalize",
    "checkpoint",
    "cse",
    "dce",
    "default",
    "drop_custom_gradients",
    "fission",
    "for_test",
    "fuse_matmuls",
    "gradients",
    "inline",
    "inline_in_loops",
    "jvp",
    "licm",
    "mask_padding",
    "mixed_precision",
    "note",
    "pad_row_count",
    "pretranspose",
    "prune",
    "ragged_steps",
    "rematerialize",
    "remove_delay_memories",
    "split_concat_matmul",
    "strip_mine",
    "vectorize_after",
    "vectorize_before",
    "verify",
]


def __dir__() -> list[str]:
    return __all__
