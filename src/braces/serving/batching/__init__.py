"""Dynamic batching: requests joined along the batch axis into few sizes."""
