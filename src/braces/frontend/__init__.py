"""What users write; builds programs and nothing else."""
