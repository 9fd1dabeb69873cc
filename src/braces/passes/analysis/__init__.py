"""Cost, memory, report."""
