"""The growth of the cost of a recurrent training step with iterations, rows and nesting."""
