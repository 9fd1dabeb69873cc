"""Text form of programs: printer and parser."""
