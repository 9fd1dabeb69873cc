"""Programs that were differentiated: their forward part, and the calls repeated on it."""
