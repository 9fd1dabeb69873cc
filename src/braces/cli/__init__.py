"""The command line: one small module for each command, all of them in the table of `main`."""
