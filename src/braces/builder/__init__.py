"""Program construction: symbol tables of blocks, variables, and appending operators."""
