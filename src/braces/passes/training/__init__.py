"""Train/test forms."""
