"""Import and export of programs of other systems."""
