"""The partitioned branch over the batch axis."""
