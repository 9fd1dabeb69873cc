"""Cost model, peak memory and the report of passes."""
