"""Plans: programs after passes, for one set of fetches."""
