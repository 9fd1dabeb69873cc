"""Statistics of an executor, and listeners to compilation."""
