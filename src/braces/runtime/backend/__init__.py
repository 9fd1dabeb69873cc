"""Back ends of an executor: compiled and interpreted runs."""
