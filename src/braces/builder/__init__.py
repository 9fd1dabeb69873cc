"""Programs being written: the tables of their blocks, variables, and appending operators."""
