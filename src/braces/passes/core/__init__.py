"""Pass, rewriting walk, context."""
