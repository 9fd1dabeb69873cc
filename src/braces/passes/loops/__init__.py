"""Loop transformations: vectorization, strip mining, rematerialization."""
