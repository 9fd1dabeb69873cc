"""Where the time of runs goes: by operator, type, block and line, in both modes."""
