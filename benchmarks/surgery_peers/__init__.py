"""Search, rewriting and probes in other systems, entry by entry."""
