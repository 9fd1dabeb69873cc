"""All passes that need no further word, by name, and those that an executor has by itself."""

from __future__ import annotations

from collections.abc import Callable

from braces.passes.batch import BATCH
from braces.passes.chunk import CHUNK
from braces.passes.defer import DEFER
from braces.passes.delay import DELAY
from braces.passes.differentiate import gradients_of, jvp_of
from braces.passes.drop_gradients import DROP_GRADIENTS
from braces.passes.eliminate import ELIMINATE
from braces.passes.for_test import FOR_TEST
from braces.passes.hoist import HOIST
from braces.passes.inline import INLINE, OPEN_STEPS
from braces.passes.layout import LAYOUT
from braces.passes.lengths import lengths
from braces.passes.mask_rows import MASK_ROWS
from braces.passes.merge import MERGE
from braces.passes.mixed_precision import mixed_precision
from braces.passes.pipeline import Pass, Passes
from braces.passes.prune import PRUNE
from braces.passes.recompute import RECOMPUTE
from braces.passes.round_rows import ROUND_ROWS
from braces.passes.segments import segments
from braces.passes.separate import SEPARATE
from braces.passes.share import SHARE
from braces.passes.simplify import SIMPLIFY
from braces.passes.split import SPLIT
from braces.passes.verify import verified

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
