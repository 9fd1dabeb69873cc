"""Rules of control flow and sequences."""
