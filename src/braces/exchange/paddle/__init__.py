"""Inference programs of Paddle as ours: `files` finds them, `reader` walks, `rules` builds."""
