"""Plans: programs as passes prepare them for one set of fetches."""
