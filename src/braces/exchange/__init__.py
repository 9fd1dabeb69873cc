"""Programs of other systems, read and written."""
