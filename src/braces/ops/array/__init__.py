"""Array manipulation (creation, reshape, concat, pad)."""
