"""Import inference programs of Paddle: `files` finds them, `reader` walks, `rules` builds."""
