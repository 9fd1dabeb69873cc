"""All passes that need no further word, by name, and those that an executor has by itself."""

from __future__ import annotations

from collections.abc import Callable

from braces.passes.autodiff.checkpoint import segments
from braces.passes.autodiff.drop_custom_gradients import DROP_GRADIENTS
from braces.passes.autodiff.passes import gradients_of, jvp_of
from braces.passes.cleanup.algebraic_simplify import SIMPLIFY
from braces.passes.cleanup.cse import SHARE
from braces.passes.cleanup.dead_code import ELIMINATE
from braces.passes.cleanup.inline import INLINE, OPEN_STEPS
from braces.passes.cleanup.loop_invariant_code_motion import HOIST
from braces.passes.cleanup.prune import PRUNE
from braces.passes.core.pipeline import Pass, Passes
from braces.passes.loops.pretranspose import LAYOUT
from braces.passes.loops.rematerialize import RECOMPUTE
from braces.passes.loops.remove_delay_memories import DELAY
from braces.passes.loops.strip_mine import CHUNK
from braces.passes.loops.vectorize_after import DEFER
from braces.passes.loops.vectorize_before import BATCH
from braces.passes.matmul.fuse import MERGE
from braces.passes.matmul.split_concatenated import SEPARATE
from braces.passes.rows.fission import SPLIT
from braces.passes.rows.mask_padding import MASK_ROWS
from braces.passes.rows.pad_row_count import ROUND_ROWS
from braces.passes.rows.ragged_steps import lengths
from braces.passes.training.inference_mode import FOR_TEST
from braces.passes.training.mixed_precision import mixed_precision
from braces.passes.verify.program import verified

VERIFY = Pass("verify", verified, "Refuse a program that is not well formed.", trusted=True)

PASSES = {
    one.name: one
    for one in (
        BATCH,
        CHUNK,
        DEFER,
        DELAY,
        DROP_GRADIENTS,
        ELIMINATE,
        FOR_TEST,
        HOIST,
        INLINE,
        LAYOUT,
        MASK_ROWS,
        MERGE,
        OPEN_STEPS,
        PRUNE,
        RECOMPUTE,
        ROUND_ROWS,
        SEPARATE,
        SHARE,
        SIMPLIFY,
        SPLIT,
        VERIFY,
    )
}

DEFAULT = Passes(
    (
        OPEN_STEPS,
        SEPARATE,
        MERGE,
        SPLIT,
        DELAY,
        RECOMPUTE,
        CHUNK,
        BATCH,
        DEFER,
        DELAY,
        LAYOUT,
        ELIMINATE,
    )
)

MAKERS: dict[str, Callable[..., Pass]] = {
    "gradients": gradients_of,
    "jvp": jvp_of,
    "lengths": lengths,
    "mixed_precision": mixed_precision,
    "segments": segments,
}
"""What makes passes that need words, by name."""

WORDS = {
    "gradients": "TARGET,INPUT,...",
    "jvp": "TARGET,INPUT,TANGENT,...",
    "lengths": "LENGTHS,LOOP,...",
    "mixed_precision": "DTYPE",
    "segments": "TRIPS,LOOP,...",
}
"""The words that each needs, as in `segments:16`."""
