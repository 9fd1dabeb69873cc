"""State, step, minimize."""
