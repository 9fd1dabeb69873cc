"""Data sets as batches: order, columns, buckets, streams, workers."""
