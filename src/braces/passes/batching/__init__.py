"""One operator over all trips (a batching rule, as in `vmap`)."""
