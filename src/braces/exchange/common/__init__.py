"""Exchange/common."""
