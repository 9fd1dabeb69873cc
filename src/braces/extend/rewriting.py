"""Rewriting programs: passes, the rewriting walk, and derivatives as programs.

A pass is a function from program to program. `rewrite` visits every operator of every block,
innermost first, and replaces those for which a rule returns a replacement. MLIR:
`RewritePattern`; torch.fx: `replace_pattern`.
"""

from braces.passes.autodiff.reverse_mode import gradients as gradients
from braces.passes.cleanup.dead_code import data_dependent_size as data_dependent_size
from braces.passes.cleanup.loop_invariant_code_motion import LICM as LICM
from braces.passes.core.pipeline import Pass as Pass, note as note
from braces.passes.core.rewrite import (
    InsertionPoint as InsertionPoint,
    Replacement as Replacement,
)
from braces.passes.training.inference_mode import (
    to_inference_mode as to_inference_mode,
    without_other_counts as without_other_counts,
)
from braces.surgery.row_draws import rewrite as rewrite
