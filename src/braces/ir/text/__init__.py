"""The text form of programs: printer and parser."""
