"""Registry of passes and pass factories by name, and the default passes."""

from __future__ import annotations

from collections.abc import Callable

from braces.passes.autodiff.checkpoint import checkpoint
from braces.passes.autodiff.drop_custom_gradients import DROP_CUSTOM_GRADIENTS
from braces.passes.autodiff.passes import gradients_of, jvp_of
from braces.passes.cleanup.algebraic_simplify import CANONICALIZE
from braces.passes.cleanup.cse import CSE
from braces.passes.cleanup.dead_code import DCE
from braces.passes.cleanup.inline import INLINE, INLINE_IN_LOOPS
from braces.passes.cleanup.loop_invariant_code_motion import LICM
from braces.passes.cleanup.prune import PRUNE
from braces.passes.core.pipeline import Pass, Passes
from braces.passes.loops.pretranspose import PRETRANSPOSE
from braces.passes.loops.rematerialize import REMATERIALIZE
from braces.passes.loops.remove_delay_memories import REMOVE_DELAY_MEMORIES
from braces.passes.loops.strip_mine import STRIP_MINE
from braces.passes.loops.vectorize_after import VECTORIZE_AFTER
from braces.passes.loops.vectorize_before import VECTORIZE_BEFORE
from braces.passes.matmul.fuse import FUSE_MATMULS
from braces.passes.matmul.split_concatenated import SPLIT_CONCAT_MATMUL
from braces.passes.rows.fission import FISSION
from braces.passes.rows.mask_padding import MASK_PADDING
from braces.passes.rows.pad_row_count import PAD_ROW_COUNT
from braces.passes.rows.ragged_steps import ragged_steps
from braces.passes.training.inference_mode import FOR_TEST
from braces.passes.training.mixed_precision import mixed_precision
from braces.passes.verifier.program import verified

VERIFY = Pass("verify", verified, "Verify that the program is well formed.", trusted=True)

PASSES = {
    pass_.name: pass_
    for pass_ in (
        VECTORIZE_BEFORE,
        STRIP_MINE,
        VECTORIZE_AFTER,
        REMOVE_DELAY_MEMORIES,
        DROP_CUSTOM_GRADIENTS,
        DCE,
        FOR_TEST,
        LICM,
        INLINE,
        PRETRANSPOSE,
        MASK_PADDING,
        FUSE_MATMULS,
        INLINE_IN_LOOPS,
        PRUNE,
        REMATERIALIZE,
        PAD_ROW_COUNT,
        SPLIT_CONCAT_MATMUL,
        CSE,
        CANONICALIZE,
        FISSION,
        VERIFY,
    )
}

DEFAULT = Passes(
    (
        INLINE_IN_LOOPS,
        SPLIT_CONCAT_MATMUL,
        FUSE_MATMULS,
        FISSION,
        REMOVE_DELAY_MEMORIES,
        REMATERIALIZE,
        STRIP_MINE,
        VECTORIZE_BEFORE,
        VECTORIZE_AFTER,
        REMOVE_DELAY_MEMORIES,
        PRETRANSPOSE,
        DCE,
    )
)

MAKERS: dict[str, Callable[..., Pass]] = {
    "gradients": gradients_of,
    "jvp": jvp_of,
    "ragged_steps": ragged_steps,
    "mixed_precision": mixed_precision,
    "checkpoint": checkpoint,
}
"""Factories of the passes that take arguments, by name."""

WORDS = {
    "gradients": "TARGET,INPUT,...",
    "jvp": "TARGET,INPUT,TANGENT,...",
    "ragged_steps": "LENGTHS,LOOP,...",
    "mixed_precision": "DTYPE",
    "checkpoint": "TRIPS,LOOP,...",
}
"""The arguments of each factory on the command line, as in `checkpoint:16`."""
