"""Files: atomic writes and bounded reads."""
