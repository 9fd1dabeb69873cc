"""Front end: builds programs, and nothing else."""
