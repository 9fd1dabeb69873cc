"""Graph being written."""
