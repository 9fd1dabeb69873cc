"""Profiler: time of runs by operator, type, block and line, in both modes."""
