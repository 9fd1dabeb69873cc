"""Passes: from program to program, one a file; no pass names an operator type."""
