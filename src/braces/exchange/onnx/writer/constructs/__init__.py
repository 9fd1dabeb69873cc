"""Export of loops, branches, functions and sequences."""
