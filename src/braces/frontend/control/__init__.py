"""`with` constructs and blocks."""
