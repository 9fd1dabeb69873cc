"""The page of the debugger, live and as a file."""
