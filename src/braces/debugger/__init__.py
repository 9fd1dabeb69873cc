"""Debugger of programs: recorded runs, stepping, breakpoints, slices, and their page."""
