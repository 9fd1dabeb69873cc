"""Construction of operators with blocks, and their forward mode."""
